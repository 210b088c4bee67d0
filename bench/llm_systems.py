# SPDX-License-Identifier: Apache-2.0
"""Language models with random weights for llm.py, and how each system loads and runs them.

A system has `prepare(work, shape, kind)`, which makes its files once and returns their path, and `run(path, threads, ids, new)`, which
returns [ms from the file to the first token, ms of the prompt, ms of a new token]. Imports do not count. `FIT` says which weights it has.
"""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import time

# architecture, layers, width, heads, heads of keys, dim of heads, width of feed-forward, vocabulary
SHAPES = {"135M": ("llama", 30, 576, 9, 3, 64, 1536, 49152), "0.5B": ("qwen2", 24, 896, 14, 2, 64, 4864, 151936)}
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}
LONGEST = 8192


def prompt(count, shape):
    return random.Random(1).choices(range(SHAPES[shape][-1]), k=count)


def gguf(work, shape, kind):
    import container
    import numpy as np
    path = work / f"{shape}-{kind}.gguf"
    if path.exists():
        return path
    arch, layers, width, heads, key_heads, dim, inner, words = SHAPES[shape]
    rng, tensors = np.random.default_rng(0), {}

    def put(name, sizes, mean=0.0):
        scale = 0.3 if len(sizes) == 1 else sizes[-1] ** -0.5
        tensors[name] = container.tensor(rng, 0 if len(sizes) == 1 else TYPES[kind], sizes, scale, mean)[0]

    put("token_embd.weight", (words, width))
    put("output_norm.weight", (width,), 1.0)
    for i in range(layers):
        block = f"blk.{i}."
        for name in ("attn_norm", "ffn_norm"):
            put(f"{block}{name}.weight", (width,), 1.0)
        for name, rows, columns in (("attn_q", heads * dim, width), ("attn_k", key_heads * dim, width),
                                    ("attn_v", key_heads * dim, width), ("attn_output", width, heads * dim),
                                    ("ffn_gate", inner, width), ("ffn_up", inner, width), ("ffn_down", width, inner)):
            put(f"{block}{name}.weight", (rows, columns))
            if arch == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                put(f"{block}{name}.bias", (rows,))
    values = {"context_length": LONGEST, "embedding_length": width, "block_count": layers, "feed_forward_length": inner,
              "attention.head_count": heads, "attention.head_count_kv": key_heads, "attention.layer_norm_rms_epsilon": 1e-5,
              "rope.dimension_count": dim, "rope.freq_base": 10000.0, "vocab_size": words}
    fields = {"general.architecture": arch, "tokenizer.ggml.model": "none", **{f"{arch}.{k}": v for k, v in values.items()}}
    path.write_bytes(container.container(fields, tensors))
    return path


def folder(work, shape):
    """A Hugging Face folder with a tokenizer that has no merges."""
    path = work / shape
    if path.exists():
        return path
    import tokenizers
    import transformers
    arch, layers, width, heads, key_heads, dim, inner, words = SHAPES[shape]
    kinds = {"llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
             "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM)}
    config, module = kinds[arch]
    module(config(vocab_size=words, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                  num_key_value_heads=key_heads, head_dim=dim, max_position_embeddings=LONGEST, tie_word_embeddings=True,
                  bos_token_id=words - 2, eos_token_id=words - 1)).save_pretrained(path)
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: i for i, word in enumerate(letters + [f"<{i}>" for i in range(len(letters), words)])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=f"<{words - 2}>",
                                         eos_token=f"<{words - 1}>").save_pretrained(path)
    return path


def made(path, command):
    """Runs the command that makes the path, unless it exists, and leaves nothing if it fails."""
    if not path.exists():
        try:
            subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            shutil.rmtree(path, ignore_errors=True)
            sys.exit(f"{error}\n{error.stderr}")
    return path


def milliseconds(since):
    return (time.perf_counter() - since) * 1e3


def timed(load, read, step, ids, new):
    begin = time.perf_counter()
    model = load()
    middle = time.perf_counter()
    read(model, ids)
    first, prompt_ms = milliseconds(begin), milliseconds(middle)
    begin = time.perf_counter()
    for _ in range(new):
        step(model)
    return [first, prompt_ms, milliseconds(begin) / max(1, new)]


class LlamaCpp:
    module, fit = "llama_cpp", list(TYPES)
    prepare = staticmethod(gguf)

    @staticmethod
    def run(path, threads, ids, new):
        import llama_cpp
        return timed(lambda: llama_cpp.Llama(str(path), n_ctx=len(ids) + new + 8, n_batch=512, n_threads=threads,
                                             n_threads_batch=threads, verbose=False),
                     lambda model, ids: model.eval(ids), lambda model: model.eval(ids[:1]), ids, new)


class OnnxRuntime:
    module, fit = "onnxruntime_genai", {"F32": ["fp32"], "Q4_0": ["int4", "--extra_options", "int4_block_size=32",
                                                                  "int4_accuracy_level=4"]}

    @classmethod
    def prepare(cls, work, shape, kind):
        return made(work / f"{shape}-{kind}.onnx", [sys.executable, "-m", "onnxruntime_genai.models.builder", "-m", shape, "-i",
                                                    folder(work, shape), "-o", work / f"{shape}-{kind}.onnx", "-e", "cpu", "-p",
                                                    *cls.fit[kind]])

    @staticmethod
    def run(path, threads, ids, new):
        import onnxruntime_genai as genai

        def load():
            config = genai.Config(str(path))
            config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
            model = genai.Model(config)
            parameters = genai.GeneratorParams(model)
            parameters.set_search_options(max_length=len(ids) + new + 2, min_length=len(ids) + new + 2, do_sample=False)
            return genai.Generator(model, parameters)

        def read(model, ids):
            model.append_tokens(ids)
            model.generate_next_token()
        return timed(load, read, lambda model: model.generate_next_token(), ids, new)


class OpenVino:
    module, fit = "openvino_genai", {"F32": ["fp32"], "F16": ["fp16"], "Q8_0": ["int8"],
                                     "Q4_0": ["int4", "--group-size", "32", "--sym", "--ratio", "1.0"]}

    @classmethod
    def prepare(cls, work, shape, kind):
        program = pathlib.Path(sys.executable).with_name("optimum-cli")
        return made(work / f"{shape}-{kind}.ov", [program, "export", "openvino", "--model", folder(work, shape), "--task",
                                                  "text-generation-with-past", "--weight-format", *cls.fit[kind],
                                                  work / f"{shape}-{kind}.ov"])

    @staticmethod
    def run(path, threads, ids, new):
        import numpy as np
        import openvino
        import openvino_genai as genai
        begin = time.perf_counter()
        pipe = genai.LLMPipeline(str(path), "CPU", INFERENCE_NUM_THREADS=threads, INFERENCE_PRECISION_HINT="f32",
                                 ATTENTION_BACKEND="SDPA")
        loaded = milliseconds(begin)
        config = genai.GenerationConfig(max_new_tokens=new + 1, ignore_eos=True, do_sample=False, apply_chat_template=False)
        times = pipe.generate(openvino.Tensor(np.array([ids], np.int64)), config).perf_metrics
        first = times.get_ttft().mean
        return [loaded + first, first, times.get_tpot().mean]


class PyTorch:
    module, fit = "torch", ["F32"]

    @staticmethod
    def prepare(work, shape, _):
        return folder(work, shape)

    @staticmethod
    def run(path, threads, ids, new):
        import torch
        import transformers
        torch.set_num_threads(threads)
        state = {}

        def step(model, ids=None):
            with torch.inference_mode():
                result = model(torch.tensor([ids or [state["token"]]]), past_key_values=state.get("past"), use_cache=True,
                               logits_to_keep=1)
            state.update(past=result.past_key_values, token=int(result.logits[0, -1].argmax()))
        return timed(lambda: transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32), step, step, ids, new)


PEERS = {"llama.cpp": LlamaCpp, "ONNX Runtime GenAI": OnnxRuntime, "OpenVINO GenAI": OpenVino, "PyTorch": PyTorch}
