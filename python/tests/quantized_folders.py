# SPDX-License-Identifier: Apache-2.0
"""Writes folders of quantized language models, number by number from the definitions of their formats, and the same
models with the numbers that the formats stand for."""

import json

import numpy as np
import torch
from safetensors.torch import load_file, save_file


def bits_of(numbers, bits):
    """Words of 32 bits; the numbers follow each other along dim 0, lowest bits first."""
    count, columns = numbers.shape
    words = [[0] * columns for _ in range(-(-count * bits // 32))]
    for c in range(columns):
        stream = 0
        for i in range(count):
            stream |= int(numbers[i, c]) << (bits * i)
        for w in range(len(words)):
            words[w][c] = stream >> (32 * w) & 0xFFFFFFFF
    return torch.from_numpy(np.array(words, np.uint32).reshape(len(words), columns).view(np.int32))


def random_scales(draws, shape, dtype, bits=4):
    """Weights have the same range for all numbers of bits."""
    return torch.from_numpy(draws.uniform(0.32, 0.96, shape) / 2**bits).to(dtype)


def gptq(draws, name, out, inputs, bits=4, group=32, sym=False, act_order=False, v2=False, dtype=torch.float16):
    size = inputs if group == -1 else group
    groups = -(-inputs // size)
    q = draws.integers(0, 2**bits, (inputs, out))
    # The first version cannot express zeros of 0.
    z = np.full((groups, out), 2 ** (bits - 1)) if sym else draws.integers(0 if v2 else 1, 2**bits, (groups, out))
    s = random_scales(draws, (groups, out), dtype, bits)
    g = np.arange(inputs) // size
    if act_order:
        g = draws.permutation(g)
    tensors = {
        f"{name}.qweight": bits_of(q, bits), f"{name}.qzeros": bits_of((z if v2 else z - 1).T, bits).T.contiguous(),
        f"{name}.scales": s, f"{name}.g_idx": torch.from_numpy(g.astype(np.int32)),
    }  # fmt: skip
    return tensors, ((q - z[g]) * s.double().numpy()[g]).T


def awq(draws, name, out, inputs, group=32, dtype=torch.float16):
    size = inputs if group == -1 else group
    groups = -(-inputs // size)
    q, z = draws.integers(0, 16, (inputs, out)), draws.integers(0, 16, (groups, out))
    s = random_scales(draws, (groups, out), dtype)

    def words(numbers):
        made = np.zeros((len(numbers), out // 8), np.uint32)
        for r in range(len(numbers)):
            for w in range(out // 8):
                for at, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
                    made[r, w] |= np.uint32(int(numbers[r, 8 * w + column]) << (4 * at))
        return torch.from_numpy(made.view(np.int32))

    tensors = {f"{name}.qweight": words(q), f"{name}.qzeros": words(z), f"{name}.scales": s}
    g = np.arange(inputs) // size
    return tensors, ((q - z[g]) * s.double().numpy()[g]).T


def compressed(draws, name, out, inputs, bits=4, strategy="group", group=32, symmetric=True, act_order=False, dtype=torch.bfloat16):
    size = group if strategy == "group" else inputs
    groups, rows = inputs // size, 1 if strategy == "tensor" else out
    half = 2 ** (bits - 1)
    q = draws.integers(-half, half, (out, inputs))
    z = np.zeros((rows, groups), np.int64) if symmetric else draws.integers(-half, half, (rows, groups))
    s = random_scales(draws, (rows, groups), dtype, bits)
    tensors = {
        f"{name}.weight_packed": bits_of((q + half).T, bits).T.contiguous(), f"{name}.weight_scale": s if strategy != "tensor" else s[0],
        f"{name}.weight_shape": torch.tensor([out, inputs]),
    }  # fmt: skip
    if not symmetric:
        tensors[f"{name}.weight_zero_point"] = torch.from_numpy(z[0].astype(np.int8)) if strategy == "tensor" else bits_of(z + half, bits)
    g = np.arange(inputs) // size
    if act_order:
        g = draws.permutation(g)
        tensors[f"{name}.weight_g_idx"] = torch.from_numpy(g.astype(np.int32))
    return tensors, (q - z[:, g]) * s.double().numpy()[:, g]


def compressed_settings(bits=4, strategy="group", group=32, symmetric=True, act_order=False):
    weights = {"num_bits": bits, "type": "int", "strategy": strategy, "symmetric": symmetric, "dynamic": False, "actorder": "group" if act_order else None,
               "group_size": group if strategy == "group" else None, "block_structure": None, "observer": "minmax"}  # fmt: skip
    group_0 = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": group_0}, "ignore": ["lm_head"],
            "kv_cache_scheme": None, "quantization_status": "compressed"}  # fmt: skip


def torchao_int4(draws, name, out, inputs, group=32, dtype=torch.bfloat16):
    """Int4Tensor: two neighbors per byte, signed; floats as zeros."""
    groups = inputs // group
    q = draws.integers(-8, 8, (out, inputs))
    s, z = random_scales(draws, (groups, out), dtype), torch.from_numpy(draws.normal(size=(groups, out)) * 0.05).to(dtype)
    tensors = {
        f"{name}._weight_qdata": torch.from_numpy(((q[:, ::2] % 16) + (q[:, 1::2] % 16) * 16).astype(np.uint8).view(np.int8)),
        f"{name}._weight_scale": s, f"{name}._weight_zero_point": z,
    }  # fmt: skip
    g = np.arange(inputs) // group
    told = {"_type": "Int4Tensor", "_data": {"block_size": [1, group], "shape": [out, inputs], "activation_dtype": {"_type": "torch.dtype", "_data": "bfloat16"}}}
    return tensors, q * s.double().numpy().T[:, g] + z.double().numpy().T[:, g], told


def quantize_folder(plain, folder, settings, pack, bias_of_all=False):
    """Replaces the linear layers of the model ``plain`` by what ``pack(name, out, inputs)`` returns, writes the folder and
    leaves the dequantized weights in ``plain``."""
    plain.save_pretrained(folder)
    tensors, header = load_file(folder / "model.safetensors"), {"format": "pt"}
    for name, layer in plain.named_modules():
        if name == "lm_head" or not (isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"):
            continue
        is_turned = type(layer).__name__ == "Conv1D"
        out, inputs = layer.weight.T.shape if is_turned else layer.weight.shape
        made, wide, *told = pack(name, out, inputs)
        del tensors[f"{name}.weight"]
        tensors |= made
        if bias_of_all and layer.bias is None:
            tensors[f"{name}.bias"] = torch.zeros(out, dtype=torch.float16)
        if told:
            header[f"{name}.weight"] = json.dumps(told[0])
        wide = torch.from_numpy(wide).float()
        with torch.no_grad():
            layer.weight.copy_(wide.T if is_turned else wide)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors", header)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    return folder
