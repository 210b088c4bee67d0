# SPDX-License-Identifier: Apache-2.0
"""Decoders of transformers with caches, exported to .pt2 and converted without options: hg-generate gives the tokens of generate().

  python3 tests/converter/exported_caches.py build/bin FOLDER [NAME]

The forms are those that transformers writes: DynamicCache as a pytree node, and DynamicCache and StaticCache of its
DynamoExporter, with full attention and with a sliding window. Modules for ExecuTorch keep a StaticCache in buffers or
constants, which become states of the file: runs one after another give the same tokens. Skipped without transformers.
"""
import json
import subprocess
import sys
import warnings
from pathlib import Path

try:
    import numpy as np
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
    from transformers.cache_utils import DynamicCache, StaticCache
    from transformers.exporters.exporter_dynamo import DynamoConfig, DynamoExporter
    from transformers.integrations import executorch
except ImportError:
    print("no Python with torch and the exporters of transformers")
    sys.exit(77)
warnings.simplefilter("ignore")

WORDS, WINDOW, CAPACITY, STEPS = 96, 12, 64, 16
SIZES = {"vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.3}  # fmt: skip
AUTO = torch.export.Dim.AUTO


def random_ids(*shape):
    return torch.randint(1, WORDS, shape)


def with_past(model, cache, batch, length):
    with torch.no_grad():
        model(random_ids(batch, length), cache=cache, use_cache=True)
    return cache


def dynamic_inputs(model, past=5):
    return {"input_ids": random_ids(2, 3), "attention_mask": torch.ones(2, past + 3, dtype=torch.long),
            "cache": with_past(model, DynamicCache(config=model.config), 2, past)}  # fmt: skip


def pytree(model):
    """DynamicCache as registered for torch.export: lists of keys and values."""
    executorch.register_dynamic_cache_export_support()
    layers = [{0: AUTO, 2: AUTO}] * model.config.num_hidden_layers
    shapes = {"input_ids": {0: AUTO, 1: AUTO}, "attention_mask": {0: AUTO, 1: AUTO}, "cache": [layers, layers]}
    return torch.export.export(model, (), dynamic_inputs(model), dynamic_shapes=shapes, strict=False)


def exported(model, inputs, dynamic):
    # The exporter registers caches as its own pytree nodes, in the place of those of pytree().
    if DynamicCache in torch.utils._pytree.SUPPORTED_NODES:
        torch.utils._pytree._deregister_pytree_node(DynamicCache)
    made = DynamoExporter().export(model, inputs, config=DynamoConfig(dynamic=dynamic))
    return getattr(made, "exported_program", None) or getattr(made, "program", made)


def positions(model):
    inputs = dynamic_inputs(model)
    return exported(model, inputs | {"position_ids": torch.arange(5, 8).repeat(2, 1)}, True)


def static(model):
    cache = with_past(model, StaticCache(config=model.config, max_cache_len=CAPACITY), 1, 5)
    return exported(model, {"input_ids": random_ids(1, 1), "cache": cache}, False)


def for_executorch(model, **options):
    model.generation_config.cache_implementation = "static"
    model.generation_config.cache_config = {"batch_size": 1, "max_cache_len": CAPACITY}
    program = executorch.convert_and_export_with_cache(model, **options)
    model.generation_config.cache_implementation = model.generation_config.cache_config = None
    return program


# The model, its export, and prompts that run together.
LLAMA, MISTRAL = (LlamaConfig, LlamaForCausalLM, {}), (MistralConfig, MistralForCausalLM, {"sliding_window": WINDOW})
CASES = {
    "pytree": (LLAMA, pytree, 1),
    "dynamic": (LLAMA, lambda model: exported(model, dynamic_inputs(model), True), 1),
    "positions": (LLAMA, positions, 3),
    "window": (MISTRAL, lambda model: exported(model, dynamic_inputs(model), True), 1),
    "window_positions": (MISTRAL, positions, 3),
    "static": (LLAMA, static, 1),
}  # fmt: skip
STATES = {"buffers": (LLAMA, for_executorch), "constants": (LLAMA, lambda model: for_executorch(model, strict=False))}
FIXED = {"fixed_window": (MISTRAL, lambda model: pytree(model))}


def wanted(model, ids):
    with torch.no_grad():
        answer = model.generate(torch.tensor([ids]), max_new_tokens=STEPS, do_sample=False, eos_token_id=None, pad_token_id=0)
    return answer[0, len(ids):].tolist()


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def prepare(bin, folder, name, family, export):
    """The module and its converted file, and what is wrong with them."""
    config, module, more = family
    torch.manual_seed(len(name))
    model = module(config(**SIZES, **more)).eval()
    with torch.no_grad():
        torch.export.save(export(model), folder / f"{name}.pt2")
    file = folder / f"{name}.hgm"
    file.unlink(missing_ok=True)
    done = run(bin / "hg-convert", folder / f"{name}.pt2", "-o", file)
    return model, file, "" if done.returncode == 0 else f"hg-convert says {done.stderr[-400:]}", done.stderr


def trouble_of(bin, folder, name, family, export, together):
    model, file, trouble, _ = prepare(bin, folder, name, family, export)
    if trouble:
        return trouble
    prompts = [random_ids(length).tolist() for length in (1, 7, 40)]
    for group in [[each] for each in prompts] + ([prompts] if together > 1 else []):
        ids = [part for each in group for part in ("--ids", ",".join(map(str, each)))]
        done = run(bin / "hg-generate", file, *ids, "--max-tokens", STEPS)
        got = [[int(id) for id in line.split(",")] for line in done.stdout.split()]
        if got != [wanted(model, each) for each in group]:
            return f"prompts of {[len(each) for each in group]}: {got} {done.stderr[-300:]}, not {[wanted(model, each) for each in group]}"
    if name == "static":  # more tokens than the cache has room for
        done = run(bin / "hg-generate", file, "--ids", "5", "--max-tokens", CAPACITY + 8)
        if f"'past_key_values.0.key' is f32[1, 2, {CAPACITY}, 8] and cannot grow" not in done.stderr:
            return f"more tokens than the cache holds: {done.returncode} {done.stderr[-300:]}"
    return ""


def trouble_of_fixed(bin, folder, name, family, export):
    """An export whose cache has one length is no decoder."""
    _, file, trouble, said = prepare(bin, folder, name, family, export)
    if "no run can continue from another number of tokens" not in said:
        return f"hg-convert does not say that the length is fixed: {said[-300:]}"
    if not trouble and run(bin / "hg-generate", file, "--ids", "5,6", "--max-tokens", 3).returncode == 0:
        return "hg-generate accepts it"
    return ""


def trouble_of_states(bin, folder, name, family, export):
    model, file, trouble, _ = prepare(bin, folder, name, family, export)
    if trouble:
        return trouble
    prompt = random_ids(7).tolist()
    want = wanted(model, prompt)
    jobs = []
    for at, id in enumerate(prompt + want[:-1]):
        inputs = {"input_ids": np.array([[id]]), "cache_position": np.array([at])}
        for key, value in inputs.items():
            np.save(folder / f"{key}{at}.npy", value)
        jobs.append({"model": str(file), "stream": "a", "output_dir": str(folder / f"run{at}"),
                     "inputs": [str(folder / f"{key}{at}.npy") for key in inputs]})  # fmt: skip
    (folder / "jobs.json").write_text(json.dumps(jobs))
    done = run(bin / "hg-run", "--batch", folder / "jobs.json")
    if done.returncode != 0:
        return f"hg-run says {done.stdout[-300:]} {done.stderr[-300:]}"
    got = [int(np.load(folder / f"run{at}" / "output_0.npy")[0, -1].argmax()) for at in range(len(prompt) - 1, len(jobs))]
    return "" if got == want else f"{got}, not {want}"


def main():
    bin, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if not (bin / "hg-generate").exists():
        sys.exit(77)
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    failed = 0
    for cases, check in (FIXED, trouble_of_fixed), (STATES, trouble_of_states), (CASES, trouble_of):
        for name, case in cases.items():
            if only and name != only:
                continue
            trouble = check(bin, folder, name, *case)
            failed += bool(trouble)
            print(f"{name}: {trouble or 'equal'}", flush=True)
    sys.exit(failed > 0)


main()
