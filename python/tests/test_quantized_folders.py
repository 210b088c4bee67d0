# SPDX-License-Identifier: Apache-2.0
"""Folders of Hugging Face with packed weights: GPTQ, AWQ, compressed-tensors and torchao. Files keep the levels, sessions
compute with them, and tokens are those of the dequantized model."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import quantized_folders as made_by_hand  # noqa: E402
import test_llm  # noqa: E402

import hologram as hg  # noqa: E402
from hologram.__main__ import main  # noqa: E402


def model(**changes):
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "layer_types": ["full_attention"], "tie_word_embeddings": False}
    return test_llm.small(**{**sizes, "sliding_window": None, "use_sliding_window": False, **changes})


def converted(folder, plain, tmp_path, **given):
    """Converts the folder, and compares 64 tokens with the dequantized model."""
    made = hg.llm.convert(folder, tmp_path / "model.hgm", **given)
    generator = hg.Generator(made, threads=1)
    prompt = np.random.default_rng(0).integers(3, test_llm.WORDS, 11).tolist()
    assert generator.generate(prompt, max_tokens=64).ids == test_llm.greedy(plain, [prompt], 64)[0]
    return made


GPTQ = [
    {"bits": 4, "group": 32},
    {"bits": 4, "group": 32, "act_order": True},
    {"bits": 4, "group": -1, "sym": True},
    {"bits": 4, "group": 128, "v2": True},
    {"bits": 8, "group": 32, "sym": True, "act_order": True},
    {"bits": 8, "group": 64, "v2": True},
    {"bits": 3, "group": 32, "v2": True, "act_order": True},
    {"bits": 2, "group": 16},
    {"bits": 4, "group": 32, "dtype": torch.bfloat16},
    {"bits": 4, "group": 32, "dtype": torch.float32, "v2": True, "act_order": True},
]


@pytest.mark.parametrize("case", GPTQ, ids=str)
def test_gptq(case, tmp_path):
    draws = np.random.default_rng(len(str(case)))
    plain = model()
    settings = {
        "quant_method": "gptq", "bits": case["bits"], "group_size": case["group"], "sym": case.get("sym", False),
        "desc_act": case.get("act_order", False), "checkpoint_format": "gptq_v2" if case.get("v2") else "gptq",
    }  # fmt: skip
    folder = made_by_hand.quantize_folder(
        plain, tmp_path / "folder", settings, lambda *layer: made_by_hand.gptq(draws, *layer, **case), bias_of_all=True
    )
    made = converted(folder, plain, tmp_path)
    assert made.report.logits_error < 1e-4
    expect_packed(made, plain, 8 if case["bits"] == 8 else 4)


def expect_packed(made, plain, bits):
    """The file holds the levels of all quantized layers and no wide weight of them, and so does a session."""
    buffers = made.buffers()
    layers = {name: layer for name, layer in plain.named_modules() if name != "lm_head" and (isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D")}
    assert len(layers) > 0
    for name, layer in layers.items():
        levels = next(array for key, array in buffers.items() if key.endswith(f"{name}.weight"))
        assert levels.dtype == np.int8
        assert levels.nbytes == -(-layer.weight.numel() * bits // 8)
    wide = sum(array.nbytes for name, array in made.parameters().items())
    assert not any(name.removesuffix(".weight") in layers for name in made.parameters())
    elements = sum(layer.weight.numel() for layer in layers.values())
    memory = made.memory(batch=1, time=1, past=8)
    # Scales and offsets in f32 take 2 of 4 bytes per 16 elements at most.
    assert memory.weights_bytes < wide + elements * (bits / 8 + 0.5) + 65536, (memory.weights_bytes, wide, elements)


@pytest.mark.parametrize("group", [32, -1, 128])
def test_awq(group, tmp_path):
    draws = np.random.default_rng(group + 1)
    plain = model()
    settings = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
    folder = made_by_hand.quantize_folder(plain, tmp_path / "folder", settings, lambda *layer: made_by_hand.awq(draws, *layer, group=group))
    made = converted(folder, plain, tmp_path)
    expect_packed(made, plain, 4)


COMPRESSED = [
    {"bits": 4, "group": 32},
    {"bits": 4, "group": 16, "symmetric": False, "act_order": True},
    {"bits": 8, "strategy": "channel", "dtype": torch.float16},
    {"bits": 8, "strategy": "tensor", "symmetric": False},
    {"bits": 4, "strategy": "channel", "symmetric": False, "dtype": torch.float32},
]


@pytest.mark.parametrize("case", COMPRESSED, ids=str)
def test_compressed_tensors(case, tmp_path):
    draws = np.random.default_rng(len(str(case)))
    # Sizes that are no multiple of what a word holds: 66 and 54 outputs and inputs.
    sizes = {"hidden_size": 64, "intermediate_size": 54 if case.get("strategy") else 96}
    plain = model(**sizes)
    settings = made_by_hand.compressed_settings(**{key: value for key, value in case.items() if key != "dtype"})
    folder = made_by_hand.quantize_folder(plain, tmp_path / "folder", settings, lambda *layer: made_by_hand.compressed(draws, *layer, **case))
    made = converted(folder, plain, tmp_path)
    expect_packed(made, plain, case["bits"])


def test_torchao_of_floats_as_zeros(tmp_path):
    draws = np.random.default_rng(5)
    plain = model()
    folder = made_by_hand.quantize_folder(plain, tmp_path / "folder", {"quant_method": "torchao"}, lambda *layer: made_by_hand.torchao_int4(draws, *layer))
    expect_packed(converted(folder, plain, tmp_path), plain, 4)


@pytest.mark.parametrize("bits", [8, 4])
def test_torchao(bits, tmp_path):
    """Folders that torchao writes; its own dequantize() gives the numbers."""
    ao = pytest.importorskip("torchao.quantization")
    plain = model()
    plain.save_pretrained(tmp_path / "plain")
    how = ao.Int8WeightOnlyConfig() if bits == 8 else ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(16), mapping_type=ao.MappingType.ASYMMETRIC)
    small = type(plain).from_pretrained(tmp_path / "plain", quantization_config=transformers.TorchAoConfig(how), dtype=torch.float32)
    small.save_pretrained(tmp_path / "folder")
    with torch.no_grad():
        for layer, low in zip(plain.modules(), small.modules()):
            if isinstance(layer, torch.nn.Linear) and type(low.weight) is not torch.nn.Parameter:
                layer.weight.copy_(low.weight.dequantize())
    expect_packed(converted(tmp_path / "folder", plain, tmp_path), plain, bits)


def test_layers_of_gpt2(tmp_path):
    draws = np.random.default_rng(6)
    torch.manual_seed(0)
    plain = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=test_llm.WORDS, n_embd=32, n_layer=1, n_head=2, n_positions=128, initializer_range=0.3)).eval()
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    folder = made_by_hand.quantize_folder(plain, tmp_path / "folder", settings, lambda *layer: made_by_hand.gptq(draws, *layer, act_order=True))
    expect_packed(converted(folder, plain, tmp_path), plain, 4)


def changed(folder, tmp_path, change):
    """A copy of the folder whose tensors and settings ``change`` has edited."""
    from safetensors.torch import load_file, save_file

    copy = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
    copy.mkdir()
    tensors, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    change(tensors, config["quantization_config"])
    save_file(tensors, copy / "model.safetensors", {"format": "pt"})
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def test_refusals(tmp_path, capsys):
    draws = np.random.default_rng(7)
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    folder = made_by_hand.quantize_folder(model(), tmp_path / "folder", settings, lambda *layer: made_by_hand.gptq(draws, *layer))
    layer = "model.layers.0.mlp.down_proj"

    def cut(name):
        return lambda tensors, _: tensors.update({name: tensors[name][:-1].contiguous()})

    def without(name):
        return lambda tensors, _: tensors.pop(name)

    def other(**given):
        return lambda _, settings: settings.update(given)

    def groups(tensors, _):
        tensors[f"{layer}.g_idx"] = torch.zeros_like(tensors[f"{layer}.g_idx"])

    def zeros(tensors, _):
        tensors[f"{layer}.qzeros"][0, 0] = -1

    cases = [
        (cut(f"{layer}.qweight"), hg.CorruptModelError, rf"the tensor '{layer}.qweight' is \[11, 64\], expected \[12, 64\]"),
        (cut(f"{layer}.scales"), hg.CorruptModelError, rf"the tensor '{layer}.scales' is \[2, 64\], expected \[3, 64\]"),
        (without(f"{layer}.qzeros"), hg.CorruptModelError, f"the checkpoint has no tensor '{layer}.qzeros'"),
        (without("model.norm.weight"), hg.CorruptModelError, "the files lack the tensor 'model.norm.weight'"),
        (without("model.layers.0.self_attn.q_proj.bias"), hg.CorruptModelError, "no tensor 'model.layers.0.self_attn.q_proj.bias'"),
        (lambda tensors, _: tensors.update({f"{layer}.other": torch.ones(1)}), hg.CorruptModelError, f"unknown tensor '{layer}.other'"),
        (groups, hg.UnsupportedError, f"'{layer}.g_idx' has groups of other sizes than group_size 32"),
        (zeros, hg.UnsupportedError, "a zero point of 0, which checkpoint_format 'gptq' cannot express"),
        (other(quant_method="bitsandbytes"), hg.UnsupportedError, "quant_method 'bitsandbytes', which is not supported; gptq, awq"),
        (other(bits=5), hg.UnsupportedError, "bits 5, which is not supported; 2, 3, 4, 8 are"),
        (other(dynamic={"x": {}}), hg.UnsupportedError, "has dynamic, which is not supported"),
        (other(quant_method="awq", version="gemv"), hg.UnsupportedError, "version gemv, which is not supported"),
        (other(quant_method="compressed-tensors", format="int-quantized"), hg.UnsupportedError, "format int-quantized"),
    ]
    for change, kind, message in cases:
        with pytest.raises(kind, match=message):
            hg.llm.convert(changed(folder, tmp_path, change), tmp_path / "x.hgm")
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-100])
    assert main(["llm", str(folder), "-o", f"{tmp_path}/x.hgm"]) == 2
    assert "model.safetensors" in capsys.readouterr().err
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(hg.CorruptModelError, match="the files lack the tensor 'model.layers.0.mlp.down_proj.weight'"):
        hg.llm.convert(folder, tmp_path / "x.hgm")
    assert not (tmp_path / "x.hgm").exists()
