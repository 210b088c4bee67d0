#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language models of transformers with small random weights: hg-generate on the converted file gives the greedy tokens of generate().

For each architecture, 64 tokens are compared for prompts of 1, 7 and 40 tokens, alone and three together with padding on
the left. Encoders read these prompts, padded on the right, or random features. TYPE:images is a whole model with an image in
each prompt, and TYPE:text the same model, or one that reads sounds, converted with text_only. TYPE#SEED is a decoder with a random configuration. The
architectures are those of CASES, the model types given as arguments, or with --all every one that this version of transformers has. --random N adds N
random configurations of each decoder of RANDOM.
Prints a row per architecture; fails if one of CASES fails."""

import argparse
import copy
import inspect
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time

from decoder_configs import drawn_of
from decoder_models import WORDS, model_of

LENGTHS, STEPS, START = (1, 7, 40), 64, 3  # START: the id that begins answers of encoder-decoders

LONG = {"frames": 131, "samples": 5003}  # of sounds of any length

FRAME = {"moonshine_streaming": 80}  # samples of a frame, if the encoder reads only whole ones

ENCODER = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48, "forced_eos_token_id": None,
}  # fmt: skip

MLA = {"head_dim": 4, "num_key_value_heads": 4}

MROPE = {"text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}}}

WHOLE_MROPE = {"text_config": {"rope_parameters": {**MROPE["text_config"]["rope_parameters"], "partial_rotary_factor": 1.0}}}

OMNI = {"vision_start_token_id": 180, "audio_start_token_id": 181, "vision_end_token_id": 182, "audio_end_token_id": 183, "position_id_per_seconds": 25}

VQ = {"embed_dim": 8, "base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1, "latent_channels": 8}

EMU = {
    "vocabulary_map": {"<image>": 200, "<|extra_200|>": 199, "<|visual token 000000|>": 150, "<|visual token 000001|>": 151}, "vq_config": {"codebook_size": 16, **VQ},
}  # fmt: skip

INKLING = {
    "num_hidden_layers": 4, "layer_types": ["hybrid_sliding", "hybrid"] * 2, "unpadded_vocab_size": 200, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2,
    "swa_head_dim": 8, "sliding_window_size": 16, "d_rel": 4, "rel_extent": 16,
}  # fmt: skip

# Decoders for random configurations.
RANDOM = (
    "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi", "phi3", "gpt2", "gpt_neox", "gptj", "falcon", "mpt", "bloom", "opt", "stablelm", "starcoder2",
    "olmo", "olmo2", "cohere", "cohere2", "granite", "glm4", "smollm3", "mixtral", "qwen2_moe", "gpt_oss", "deepseek_v3", "mamba", "mamba2", "t5", "bart",
)  # fmt: skip

# Parts of models whose own generate() reads images.
TEXT_PARTS = {"blip-2:text": "language_model", "instructblip:text": "language_model", "kosmos-2:text": "text_model", "qwen2_5_omni:text": "thinker"}

# Model types, and what else their configurations need.
CASES = {
    "llama": {}, "qwen2": {}, "qwen3": {}, "mistral": {}, "gemma": {}, "gemma2": {}, "gemma3_text": {}, "phi": {}, "phi3": {},
    "gpt2": {}, "gpt_neo": {"attention_types": [[["global", "local", "global"], 1]], "window_size": 16, "num_heads": 4},
    "gpt_neox": {}, "gptj": {"rotary_dim": 4}, "opt": {}, "falcon": {"new_decoder_architecture": False}, "bloom": {}, "mpt": {},
    "starcoder2": {}, "olmo": {}, "olmo2": {}, "smollm3": {}, "mixtral": {}, "qwen2_moe": {}, "qwen3_moe": {}, "deepseek_v2": {"head_dim": 4, "num_key_value_heads": 4, "num_experts_per_tok": 2},
    "deepseek_v3": {"head_dim": 4, "num_key_value_heads": 4}, "granite": {}, "granitemoe": {}, "cohere": {}, "cohere2": {}, "stablelm": {}, "glm": {}, "glm4": {}, "codegen": {"rotary_dim": 4},
    "gpt_bigcode": {}, "persimmon": {}, "xglm": {"attention_heads": 4, "num_layers": 2}, "biogpt": {}, "nemotron": {"num_key_value_heads": 2}, "exaone4": {}, "ernie4_5": {}, "helium": {},
    "olmoe": {}, "gpt_oss": {}, "arcee": {}, "seed_oss": {}, "hunyuan_v1_dense": {"head_dim": 8},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2}, "phimoe": {}, "minimax": {"head_dim": 8}, "gemma3n_text": {"activation_sparsity_pattern": [0.5, 0.0, 0.0]},
    "llama4_text": {}, "apertus": {}, "bitnet": {}, "lfm2": {"layer_types": ["conv", "full_attention", "conv"]},
    "mamba": {}, "mamba2": {"num_heads": 4, "head_dim": 16, "n_groups": 1}, "falcon_mamba": {}, "rwkv": {}, "recurrent_gemma": {}, "falcon_h1": {}, "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "xlstm": {"hidden_size": 128, "embedding_dim": 128, "num_heads": 4},
    "qwen3_next": {}, "granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "layer_types": ["mamba", "attention", "mamba"]}, "bamba": {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "attn_layer_indices": [1]},
    "olmo3": {}, "olmo_hybrid": {}, "modernbert-decoder": {}, "ministral3": {}, "vaultgemma": {}, "gemma4_text": {}, "cwm": {}, "diffllama": {}, "doge": {},
    "ernie4_5_moe": {}, "flex_olmo": {}, "glm4_moe": {}, "granitemoeshared": {}, "granite_swa": {}, "granitemoe_swa": {}, "jetmoe": {}, "minimax_m2": {},
    "mimo_v2_flash": {}, "nanochat": {}, "ctrl": {}, "qwen3_5_text": {}, "exaone_moe": {}, "hy_v3": {}, "internlm3": {}, "jais2": {},
    "llama4": {}, "gemma3": {}, "gemma3n": {}, "gemma4": {}, "gemma4_unified": {}, "qwen3_5": {}, "qwen3_5_moe_text": {}, "qwen3_5_moe": {}, "phi4_multimodal": {}, "exaone": {}, "afmoe": {},
    "solar_open": {}, "gpt-sw3": {}, "gpt_neox_japanese": {}, "openai-gpt": {}, "aria_text": {}, "cohere2_moe": {}, "minimax_m3_vl_text": {}, "sarvam_moe": {}, "fuyu": {}, "apertus1p5_text": {},
    "beam": {}, "flint": {}, "got_ocr2": {}, "hy_v4": {}, "hyperclovax": {}, "iquestcoder": {}, "inkling_text": {}, "kolibri1": {}, "laguna": {}, "lara_mini": {}, "lfm3": {}, "mellum": {},
    "moss_transcribe_diarize": {}, "trocr": {}, "seamless_m4t": {}, "seamless_m4t_v2": {}, "pop2piano": {}, "omniasr": {},
    "deepseek_v32": MLA, "minicpm3": MLA, "glm4_moe_lite": MLA, "bailing_hybrid": MLA, "youtu": MLA, "axk1": MLA, "kimi_linear": MLA, "glm_moe_dsa": MLA, "axk2": MLA, "dots3_note_text": MLA, "dots3_note": MLA, "sarvam_mla": MLA, "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv"]},
    "ministral": {"head_dim": 8}, "hunyuan_v1_moe": {"head_dim": 8}, "plbart": ENCODER,
    **dict.fromkeys(("bert", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert", "roberta", "xlm-roberta", "rembert",
                     "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta-xl", "bert-generation"), {"is_decoder": True}),
    "umt5": {}, "zaya": {"num_experts_per_tok": 1}, "qwen2_audio": {}, "voxtral": {}, "granite_speech": {}, "glmasr": {}, "xmod": {"is_decoder": True, "default_language": "en_XX"}, "longt5": {}, "pegasus_x": {}, "mvp": {}, "blenderbot-small": {}, "bigbird_pegasus": {},
    "t5": {"d_kv": 8, "d_ff": 48, "num_heads": 4}, "mt5": {"d_kv": 8, "d_ff": 48, "num_heads": 4}, "bart": ENCODER, "mbart": ENCODER, "marian": {**ENCODER, "decoder_start_token_id": 0},
    "blip:images": {"text_config": {"bos_token_id": START}}, "blip-2:images": {"image_token_index": 200}, "blip-2:text": {}, "instructblip:text": {}, "kosmos-2:text": {"text_config": {"scale_embedding": False}}, "qwen2_5_omni:text": {"enable_audio_output": False, "thinker_config": {**MROPE, **OMNI}},
    "llava:images": {}, "llava:text": {}, "gemma3:images": {}, "gemma3:text": {}, "paligemma:images": {}, "idefics3:images": {}, "smolvlm:images": {},
    "internvl:images": {}, "idefics2:images": {}, "vipllava:images": {"vision_feature_layers": [-1, -2]}, "mllama": {}, "mllama:text": {}, "qwen2_vl:text": MROPE, "qwen2_5_vl:text": MROPE, "qwen3_vl:text": {},
    "switch_transformers": {"d_kv": 8, "d_ff": 48, "num_heads": 4, "num_experts": 4, "num_layers": 2, "num_decoder_layers": 2, "expert_capacity": 64, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    "nllb-moe": {**ENCODER, "num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2, "decoder_start_token_id": 3},
    "fsmt": {**ENCODER, "src_vocab_size": 211, "tgt_vocab_size": 211, "decoder_start_token_id": 3, "langs": ["en", "de"]},
    "prophetnet": {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "decoder_start_token_id": 3},
    "moonshine": {"encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2, "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4, "encoder_num_key_value_heads": 4, "decoder_num_key_value_heads": 4, "decoder_start_token_id": 3},
    "speech_to_text": {**ENCODER, "input_feat_per_channel": 8, "conv_channels": 32, "max_target_positions": 160, "decoder_start_token_id": 3},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2, "num_key_value_heads": 4, "attention_head_dim": 16, "mamba_d_state": 8},
    "hrm_text": {"H_cycles": 2, "L_cycles": 1, "num_layers_per_stack": 1, "num_hidden_layers": 4},
    "inkling2_text": {**INKLING, "n_layers_per_attn_res_block": 2},
    "inkling2_loop_text": {**INKLING, "n_layers_per_attn_res_block": 1, "loop_layer_index_start": 1, "loop_layer_index_end": 3, "loop_num_passes": 2, "loop_gate_rank": 4},
    "cohere_compass_text": {"rope_parameters": {"full_attention": MROPE["text_config"]["rope_parameters"]}}, "moshi": {"sliding_window": 160},
    "nemotron_h": {},
    "zamba2": {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2, "num_key_value_heads": 4, "mamba_d_state": 8, "n_mamba_heads": 4, "chunk_size": 16, "adapter_rank": 4},
    "audioflamingo3": {}, "musicflamingo": {}, "granite_speech_plus": {}, "vibevoice_asr": {}, "fun_asr_nano": {}, "t5gemma2": {}, "canary": {}, "speech-encoder-decoder": {},
    "moonshine_streaming": {"num_key_value_heads": 4, "decoder_start_token_id": 3, "encoder_config": {"sliding_windows": [[4, 2], [4, 0]], "num_hidden_layers": 2, "head_dim": 8}},
    "speecht5": {**ENCODER, "conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4},
    "cosmos3_edge:text": {}, "cosmos3_omni:text": {}, "minimax_m3_vl:text": {}, "exaone4_5:text": {}, "muse_glimmer:text": {}, "video_llama_3:text": {},
    "inkling_mm_model:text": {}, "minicpm_ocr:text": {}, "lfm3_vl:text": {}, "granite_docling:text": {}, "hyperclovax_vision_v2:text": {}, "deepseek_vl_hybrid:text": {},
    "lighton_ocr:text": {}, "llava_next_video:text": {}, "video_llava:text": {}, "qianfan_ocr:text": {}, "step3p7:text": {"text_config": {"sliding_window": 16}},
    "mistral4:text": {"num_key_value_heads": 4}, "mistral_large4:text": {"text_config": MLA},
    "pp_chart2table:text": {}, "qwen3_vl_moe:text": {}, "shieldgemma2:text": {}, "paddleocr_vl:text": MROPE, "qwen2_audio:text": {}, "voxtral:text": {}, "granite_speech:text": {},
    "audioflamingo3:text": {}, "minicpmv4_6:text": {}, "minicpmv4_7:text": {}, "glmasr:text": {}, "unlimited_ocr:text": {"text_config": {"sliding_window": 160}},
    "cohere_compass:text": {"text_config": {"rope_parameters": {"full_attention": MROPE["text_config"]["rope_parameters"]}}}, "glm_ocr:text": WHOLE_MROPE, "glm4v_moe:text": WHOLE_MROPE,
    "qwen2_5_omni_thinker:text": {**MROPE, **OMNI}, "qwen3_omni_moe_thinker:text": OMNI,
    "emu3": EMU, "emu3:text": EMU,
    "chameleon:text": {"vocabulary_map": {"<image>": 200, "IMGIMGBZ": 180, "IMGIMGCZ": 181}, "vq_config": {"num_embeddings": 16, "resolution": 16, **VQ}},
    "glm46v:text": WHOLE_MROPE, "glmga:text": WHOLE_MROPE, "kosmos-2.5:text": {}, "vibevoice": {}, "qwen3_asr": {},
    "hunyuan_vl:text": {"text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "xdrope_section": [1, 1, 1, 1]}, "head_dim": 8}},
    "ernie4_5_vl_moe:text": {"text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}}},
    "gemma4_unified_text": {}, "t5gemma": {}, "paligemma:text": {}, "florence2:text": {}, "aya_vision:text": {}, "mistral3:text": {},
    "llava_next:text": {}, "ovis2:text": {}, "lfm2_vl:text": {}, "gemma4:text": {}, "glm4v:text": MROPE, "got_ocr2:text": {},
    "cohere2_vision:text": {}, "aria:text": {}, "qwen3_5:text": {}, "kimi_k25:text": {"text_config": MLA}, "janus:text": {},
    "deepseek_vl:text": {}, "llava_onevision:text": {},
    "cohere_asr": {"decoder_start_token_id": 3, "encoder_config": {"subsampling_conv_channels": 8}},
    "encoder-decoder": {}, "vision-encoder-decoder": {}, "git:text": {}, "gemma4_unified_assistant": {},
    "longcat_flash": {"num_layers": 2, "zero_expert_num": 2, "expert_ffn_hidden_size": 24, "head_dim": 4, "num_key_value_heads": 4},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0}, "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2}},
    "dory": {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "n_input_layers": 1, "n_output_layers": 1},
    "led": {}, "nemo_speechlm": {}, "aria:images": {"projector_patch_to_query_dict": {"16": 4}},
    **dict.fromkeys(("aya_vision:images", "cohere2_vision:images", "got_ocr2:images", "ovis2:images", "pp_chart2table:images", "qianfan_ocr:images", "video_llava:images"), {}),
    "molmo2:text": {"adapter_config": {"vision_feature_layer": [-1, -2], "text_hidden_size": 32}},
    "deepseek_ocr2:text": {
        "vision_config": {"sam_config": {"downsample_channels": [16, 32]}},
        "text_config": {"mlp_layer_types": ["dense", "sparse", "sparse"], "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    },
    "hy_v4_vl:text": {"text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 0]}}},
    "inkling2:text": {"vision_config": {"text_hidden_size": 32}, "text_config": {**INKLING, "n_layers_per_attn_res_block": 2}},
    "pegasus": ENCODER, "m2m_100": ENCODER, "blenderbot": ENCODER,
    "whisper": {**ENCODER, "max_source_positions": 20, "max_target_positions": 160, "num_mel_bins": 8, "decoder_start_token_id": 3},
}  # fmt: skip


def wanted_of(model, prompts, images=None, source="input_features"):
    """`prompts`: ids of each, or an array of features, which the model reads as its input `source`. Runs a copy of the model, since some
    models keep states or replace their parts."""
    import torch
    from transformers import GenerationConfig, GenerationMixin

    model = copy.deepcopy(model)
    config = GenerationConfig(do_sample=False, max_new_tokens=STEPS, pad_token_id=0, decoder_start_token_id=START)
    if not isinstance(prompts, list):
        given, begin = {source: torch.from_numpy(prompts)}, 1
        given["decoder_input_ids"] = torch.full((len(prompts), 1), START)
    else:
        longest = max(map(len, prompts))
        pads = [[0] * (longest - len(each)) for each in prompts]
        if model.config.is_encoder_decoder:
            rows, masks, begin = [e + p for e, p in zip(prompts, pads)], [[1] * len(e) + p for e, p in zip(prompts, pads)], 1
        else:
            rows, masks, begin = [p + e for e, p in zip(prompts, pads)], [p + [1] * len(e) for e, p in zip(prompts, pads)], longest
        given = {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(masks)}
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.full((len(prompts), 1), START)
    if images is not None:
        given |= arguments_of(model, given["input_ids"], torch.from_numpy(images))
    generate = GenerationMixin.generate
    if images is not None or source == "pixel_values":  # the model itself may pass them to a part of it
        generate = type(model).generate
    if model.config.model_type == "blip":
        given.pop("decoder_input_ids", None)
    with torch.no_grad():
        return generate(model, **given, generation_config=config)[:, begin:].tolist()


def image_token_of(model):
    return next(value for name in ("image_token_id", "image_token_index") if (value := getattr(model.config, name, None)) is not None)


def arguments_of(model, ids, images):
    """The images as the processors of transformers pass them."""
    accepted = inspect.signature(model.forward).parameters
    given = {"pixel_values": images.unsqueeze(1) if "pixel_attention_mask" in accepted else images}
    for name in ("token_type_ids", "mm_token_type_ids"):
        if name in accepted:
            # PaliGemma's are 0 in prompts and 1 in answers, those of other models 1 at images.
            given[name] = (ids == image_token_of(model)).long() * (model.config.model_type != "paligemma")
    return given


def got_of(generate, path, prompts, images=None):
    import numpy as np

    if images is not None:  # hg-generate begins all answers with the same ids
        import hologram

        made = hologram.Generator(path).generate(prompts, encoder_inputs=images, max_tokens=STEPS)
        return [each.ids for each in (made if isinstance(made, list) else [made])]
    if isinstance(prompts, list):
        words = [word for each in prompts for word in ("--ids", ",".join(map(str, each)))]
    else:
        np.save(path + ".npy", prompts)
        words = ["--features", path + ".npy"]
    done = subprocess.run([generate, path, *words, "--max-tokens", str(STEPS), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    made = json.loads(done.stdout)
    return [each["ids"] for each in (made if isinstance(made, list) else [made])]


def check(name, generate, folder):
    """The result for an architecture."""
    import numpy as np

    import hologram.llm
    from transformers import GenerationConfig

    name, _, seed = name.partition("#")
    more = CASES.get(name, {})
    try:
        model = model_of(name, more | drawn_of(name, int(seed)) if seed else more)
        if seed:
            wanted_of(model, [[5, 7, 11]])
    except Exception as error:
        if not seed:
            raise
        return f"left out, since there is no such model ({type(error).__name__})"
    path = os.path.join(folder, "model.hgm")
    model.generation_config = GenerationConfig(decoder_start_token_id=START)  # no stop ids
    made = hologram.llm.convert(copy.deepcopy(model), path, text_only=name.endswith(":text"))
    model = getattr(model, TEXT_PARTS[name]) if name in TEXT_PARTS else model
    model.generation_config = GenerationConfig(decoder_start_token_id=START)
    draws = np.random.default_rng(1)
    prompts = [draws.integers(3, WORDS if ":" not in name else WORDS - 50, length).tolist() for length in LENGTHS]
    has_tokens = name.endswith(":images") and made.encode.outputs[0].name == "cross.image"
    if has_tokens:
        count = made.encode.outputs[0].shape[1]
        prompts = [each[: len(each) // 2] + [image_token_of(model)] * count + each[len(each) // 2 :] for each in prompts]
    groups = [[each] for each in prompts] + [prompts]
    if any("one prompt at a time" in warning for warning in made.report.warnings):
        groups.pop()
    source = made.encode.inputs[0] if hasattr(made, "encode") and not has_tokens else None
    if source is not None and source.dtype == "float32":
        sizes = [size if isinstance(size, int) else LONG[size] // FRAME.get(name, 1) * FRAME.get(name, 1) for size in source.shape[1:]]
        groups = [draws.normal(size=(count, *sizes)).astype(np.float32) for count in (1, 3)]
    for group in groups:
        # RecurrentGemma's convolutions and xLSTM's cells also read the padding, so their rows are compared one by one.
        images = draws.normal(size=(len(group), *made.encode.inputs[0].shape[1:])).astype(np.float32) if has_tokens else None
        wanted = [row for each in group for row in wanted_of(model, [each])] if name in ("recurrent_gemma", "xlstm") else wanted_of(model, group, images, source and source.name)
        got = got_of(generate, path, group, images)
        for i, (a, b) in enumerate(zip(wanted, got)):
            if a != b:
                at = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                raise RuntimeError(f"prompt {i} of {len(group)}: token {at + 1} of {STEPS} differs")
    different = len({token for each in wanted for token in each})
    return f"{different} different tokens, logits to {made.report.logits_error:.1e}" + "".join(f"; {w}" for w in made.report.warnings if "tokenizer" not in w)


def run_alone(name, generate, queue):
    """Runs in its own process, which may crash."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        try:
            queue.put((True, check(name, generate, folder)))
        except Exception as error:
            queue.put((False, f"{type(error).__name__}: {error}"))


def results_of(names, generate, jobs, timeout):
    """Yields (name, whether it is equal, text) of each architecture when it ends."""
    context = multiprocessing.get_context("fork")  # with the packages, which take seconds to import
    waiting, running = list(names), []
    while waiting or running:
        while waiting and len(running) < jobs:
            queue = context.SimpleQueue()
            process = context.Process(target=run_alone, args=(waiting[0], generate, queue))
            process.start()
            running.append((waiting.pop(0), process, queue, time.monotonic() + timeout))
        time.sleep(0.1)
        for each in list(running):
            name, process, queue, end = each
            if process.is_alive() and not queue.empty():
                process.join()
            if process.is_alive() and time.monotonic() < end:
                continue
            running.remove(each)
            if process.is_alive():
                process.kill()
                yield name, False, f"took more than {timeout} s"
            elif queue.empty():
                yield name, False, f"ended with {process.exitcode}"
            else:
                yield name, *queue.get()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--generate", default="build/bin/hg-generate")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, default=300, help="seconds for an architecture")
    args = parser.parse_args()
    try:
        import torch  # noqa: F401
        from transformers.models.auto import modeling_auto as kinds
    except ImportError:
        print("no Python with torch and transformers: the decoders are left out")
        return 77
    import hologram.llm  # noqa: F401

    known = kinds.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, kinds.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, kinds.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES
    every = [name for each in known for name in each] + [f"{name}:{form}" for name in kinds.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES for form in ("images", "text")]
    names = args.types or list(dict.fromkeys(every) if args.all else CASES)
    names += [f"{name}#{seed}" for seed in range(args.random) for name in RANDOM]
    failed = []
    for name, ok, text in results_of(names, args.generate, args.jobs, args.timeout):
        print(f"| {name} | {'equal' if ok else 'FAILED'} | {' '.join(text.split())[:400]} |", flush=True)
        failed += [] if ok else [name]
    print(f"{len(names) - len(failed)} of {len(names)} architectures equal" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if any("#" in name or name in CASES for name in failed) else 0


if __name__ == "__main__":
    sys.exit(main())
