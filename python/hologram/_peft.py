# SPDX-License-Identifier: Apache-2.0
"""Adapters in the files of the package peft: adapter_config.json and adapter_model.safetensors."""

import json
import math
import os
import pathlib
import re
import tempfile

import numpy as np

from . import _core
from .named import as_model

_PREFIX = "base_model.model."
_END = ".lora_A.weight"
_KEY = re.compile(r"(?P<layer>.+)\.lora_(?P<part>[AB])(?:\.default)?\.weight")
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
# Modules of transformers, and their names in files of GGUF.
_GGUF = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip
# Settings that change what an adapter computes, and their values without an effect.
_PLAIN = {
    "use_dora": (False, None), "bias": ("none", None), "modules_to_save": ([], None), "lora_bias": (False, None),
    "trainable_token_indices": ([], {}, None), "use_qalora": (False, None), "alora_invocation_tokens": ([], None),
    "layer_replication": ([], None), "target_parameters": ([], None),
}  # fmt: skip


def _tensors(path):
    """The tensors of a safetensors file by name, as arrays of float32 or float64."""
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError(f"{path}: not a safetensors file")
    try:
        header = json.loads(data[8 : 8 + size])
        header.pop("__metadata__", None)
        entries = [(name, entry["dtype"], [int(n) for n in entry["shape"]], *entry["data_offsets"]) for name, entry in header.items()]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: its header is damaged: {error}") from None
    found = {}
    for name, dtype, shape, begin, end in entries:
        if dtype not in _DTYPES:
            raise ValueError(f"{path}: '{name}' has the dtype {dtype}, expected one of {', '.join(_DTYPES)}")
        kind = np.dtype(_DTYPES[dtype])
        bytes_ = data[8 + size + begin : 8 + size + end] if 0 <= begin <= end else b""
        if min(shape, default=0) < 0 or len(bytes_) != math.prod(shape) * kind.itemsize:
            raise ValueError(f"{path}: '{name}' has {len(bytes_)} bytes, but its shape is {shape}")
        array = np.frombuffer(bytes_, kind).reshape(shape)
        if dtype == "BF16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        found[name] = array.astype(np.float64 if dtype == "F64" else np.float32)
    return found


def _of_layer(patterns, layer, default):
    """The value of the first pattern that matches the layer, as in peft."""
    for pattern, value in (patterns or {}).items():
        if re.match(pattern if pattern.startswith("^") else rf"(.*\.)?({pattern})$", layer):
            return value
    return default


def _name_in_gguf(layer, parameters):
    """hg-convert gives the weights of a GGUF file the order of rows that transformers has."""
    match = re.fullmatch(r"(?:.+\.)?(?:layers|h)\.(\d+)\.(\w+\.\w+)", layer)
    if match and match[2] in _GGUF:
        return f"blk.{match[1]}.{_GGUF[match[2]]}"
    if layer.split(".")[-1] == "lm_head":
        return "output" if "output.weight" in parameters else "token_embd"
    return layer


def _names_in(model, layers):
    """The model's names of these layers, which may begin with those of modules around them."""
    model = as_model(model)
    parameters = set(model.parameters_())
    is_gguf = any(name.startswith("blk.0.") for name in parameters)
    wanted = {layer: _name_in_gguf(layer, parameters) if is_gguf else layer for layer in layers}
    found = _core.take_adapter(_core.add_adapter(model, list(wanted.values()), 1, 1.0, 0)).parameters_()
    known = [name.removesuffix(_END) for name in found if name.endswith(_END)]
    names = {}
    for layer, name in wanted.items():
        fits = [each for each in known if each == name] or [each for each in known if each.endswith(f".{name}")]
        if len(fits) != 1:
            raise ValueError(f"'{layer}' of the adapter could be {' or '.join(map(repr, fits)) or 'no layer'} of the model")
        names[layer] = fits[0]
    return names


def load_peft(path, model=None):
    """The adapter in a folder with ``adapter_config.json`` and ``adapter_model.safetensors``, as the package peft writes them (LoRA).

    ``model`` is the base. Its layers may have longer names than the modules of peft, such as ``model.model.layers.0.mlp.up_proj``,
    or those of GGUF, such as ``blk.0.ffn_up``; the adapter gets them. Without a base, the names stay. Raises ValueError for other methods than plain LoRA, naming the setting or
    the tensor, and for layers that the base does not have.
    """
    folder = pathlib.Path(path)
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    if str(config.get("peft_type", "LORA")).upper() != "LORA":
        raise ValueError(f"{folder}: peft_type is {config['peft_type']!r}, expected 'LORA'")
    for name, plain in _PLAIN.items():
        if config.get(name) not in plain:
            raise ValueError(f"{folder}: {name} is {config[name]!r}, which is not supported")
    for name in ("r", "lora_alpha"):
        if not isinstance(config.get(name), (int, float)) or isinstance(config[name], bool):
            raise ValueError(f"{folder}: adapter_config.json has no number '{name}'")
    layers = {}
    for name, array in _tensors(folder / "adapter_model.safetensors").items():
        match = _KEY.fullmatch(name.removeprefix(_PREFIX))
        if match is None:
            raise ValueError(f"{folder}: '{name}' is not supported, expected {_PREFIX}LAYER.lora_A.weight or .lora_B.weight")
        layers.setdefault(match["layer"], {})[match["part"]] = array
    if not layers:
        raise ValueError(f"{folder}: adapter_model.safetensors has no tensors")
    names = {layer: layer for layer in layers} if model is None else _names_in(model, layers)
    graph = _core.Graph()
    for layer, parts in layers.items():
        if set(parts) != {"A", "B"}:
            raise ValueError(f"{folder}: '{layer}' has no lora_{'B' if 'A' in parts else 'A'}.weight")
        a, b = parts["A"], parts["B"]
        rank = _of_layer(config.get("rank_pattern"), layer, config["r"])
        if a.ndim < 2 or b.ndim != a.ndim or a.shape[0] != rank or b.shape[1] != rank:
            raise ValueError(f"{folder}: '{layer}' has A {list(a.shape)} and B {list(b.shape)}, but the rank is {rank}")
        alpha = _of_layer(config.get("alpha_pattern"), layer, config["lora_alpha"])
        scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
        dtype = np.result_type(a, b)
        graph.parameter(f"{names[layer]}.lora_A.weight", a.astype(dtype))
        graph.parameter(f"{names[layer]}.lora_B.weight", b.astype(dtype))
        graph.buffer(f"{names[layer]}.lora_scale", np.full(rank, scale, dtype))
    return graph.model()


def _written(path, data):
    """Writes a file that appears when it is complete."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _safetensors(arrays):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": f"F{8 * array.itemsize}", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(array.tobytes() for array in arrays.values())


def save_peft(adapter, path, *, base=None, prefix=""):
    """Writes an adapter as ``adapter_config.json`` and ``adapter_model.safetensors`` in a folder, for the package peft.

    ``base`` is the name or folder of the base model for ``base_model_name_or_path``. Modules get the names of layers without
    ``prefix``, with which all must begin: ``"model."`` for files of ``hologram llm``.
    """
    adapter = as_model(adapter)
    states = {**adapter.parameters(), **adapter.buffers()}
    states = {name: np.array(array) for name, array in states.items() if not name.startswith("train/")}
    layers = sorted(name.removesuffix(_END) for name in states if name.endswith(_END))
    if not layers:
        raise ValueError("the model has no adapter")
    for layer in layers:
        if not layer.startswith(prefix):
            raise ValueError(f"the layer '{layer}' does not begin with '{prefix}'")
    arrays, ranks, alphas = {}, {}, {}
    modules = [layer.removeprefix(prefix) for layer in layers]
    for name, layer in zip(layers, modules):
        a, b, scale = states[f"{name}.lora_A.weight"], states[f"{name}.lora_B.weight"], states[f"{name}.lora_scale"]
        ranks[layer] = len(scale)
        if np.all(scale == scale[0]):
            alphas[layer] = float(scale[0]) * len(scale)
        else:  # stacked adapters; peft has one number per layer
            b = b * scale.reshape(1, -1, *[1] * (b.ndim - 2))
            alphas[layer] = float(len(scale))
        arrays[f"{_PREFIX}{layer}.lora_A.weight"], arrays[f"{_PREFIX}{layer}.lora_B.weight"] = a, np.ascontiguousarray(b)
    rank, alpha = ranks[modules[0]], alphas[modules[0]]

    def number(x):
        return int(x) if x == int(x) else x

    def pattern(values, default):
        return {f"^{re.escape(layer)}$": number(x) for layer, x in values.items() if x != default}

    config = {
        "peft_type": "LORA", "task_type": None, "base_model_name_or_path": None if base is None else os.fspath(base),
        "r": rank, "lora_alpha": number(alpha), "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": False,
        "inference_mode": True, "init_lora_weights": True, "modules_to_save": None, "target_modules": modules,
        "rank_pattern": pattern(ranks, rank), "alpha_pattern": pattern(alphas, alpha),
    }  # fmt: skip
    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    _written(folder / "adapter_model.safetensors", _safetensors(arrays))
    _written(folder / "adapter_config.json", (json.dumps(config, indent=2) + "\n").encode())
