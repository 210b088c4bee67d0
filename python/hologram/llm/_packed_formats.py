# SPDX-License-Identifier: Apache-2.0
"""The layouts of quantized linear layers in folders of Hugging Face: GPTQ, AWQ, compressed-tensors and torchao.

A reader returns the matrix as LowBits, in the order of the checkpoint's inputs. It checks the shape of each tensor.
"""

import json
import math

import numpy as np

from .._errors import CorruptModelError, UnsupportedError
from .._low_bits import LowBits

_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the column of each 4 bits of a word, lowest first


def format_of(settings):
    """The reader of a quantization_config. Refuses what it does not read."""
    method = settings.get("quant_method")
    if method not in _READERS:
        known = ", ".join(_READERS)
        raise UnsupportedError(f"quantization_config has quant_method '{method}', which is not supported; {known} are")
    return _READERS[method](settings)


def _choose(settings, key, allowed, default=None):
    value = settings.get(key)
    value = default if value is None else value
    if value not in allowed:
        expected = ", ".join(map(str, allowed))
        raise UnsupportedError(f"quantization_config has {key} {value}, which is not supported; {expected} are")
    return value


def _refuse(settings, *keys):
    for key in keys:
        if settings.get(key):
            raise UnsupportedError(f"quantization_config has {key}, which is not supported")


def _group_size(settings):
    size = settings.get("group_size", -1)
    if not isinstance(size, int) or (size != -1 and size < 1):
        raise UnsupportedError(f"quantization_config has group_size {size}, expected -1 or at least 1")
    return size


def unpacked(words, bits, count):
    """int16 [count, columns]: numbers of ``bits`` bits from int32 [rows, columns], whose bits follow each other along
    the rows, lowest first."""
    words = words.numpy().view(np.uint32)
    blocks = -(-words.shape[0] // bits)  # of 32 numbers
    words = np.pad(words, ((0, blocks * bits - words.shape[0]), (0, 0))).reshape(blocks, bits, -1)
    out = np.empty((blocks, 32, words.shape[2]), np.int16)
    for i in range(32):
        at, shift = divmod(i * bits, 32)
        value = words[:, at] >> np.uint32(shift)
        if shift + bits > 32:
            value = value | words[:, at + 1] << np.uint32(32 - shift)
        out[:, i] = value & np.uint32(2**bits - 1)
    return out.reshape(blocks * 32, -1)[:count]


def _signed(torch, numbers, bits):
    """int8 levels of unsigned ones, and the number of bits that holds them."""
    return torch.from_numpy(np.ascontiguousarray(numbers - 2 ** (bits - 1)).astype(np.int8)), 8 if bits == 8 else 4


def _by_group(torch, name, groups, size):
    """The order of the inputs that makes groups contiguous, or None. ``groups``: the group of each input."""
    groups = groups.to(torch.int64)
    order = torch.argsort(groups, stable=True)
    if not torch.equal(groups[order], torch.arange(len(groups)) // size):
        raise UnsupportedError(f"the tensor '{name}' has groups of other sizes than group_size {size}")
    return None if torch.equal(order, torch.arange(len(order))) else order


class _Gptq:
    suffix = ".qweight"

    def __init__(self, settings):
        self.bits = _choose(settings, "bits", (2, 3, 4, 8))
        self.group_size = _group_size(settings)
        layout = _choose(settings, "checkpoint_format", ("gptq", "gptq_v2"), settings.get("format") or "gptq")
        self.one_less = layout == "gptq"  # zeros are stored less one
        _choose(settings, "pack_dtype", ("int32", "torch.int32"), "int32")
        _refuse(settings, "dynamic", "is_marlin_format")

    def read(self, torch, file, name, out, inputs):
        bits, size = self.bits, inputs if self.group_size == -1 else min(self.group_size, inputs)
        groups = -(-inputs // size)
        rows, columns = math.ceil(inputs * bits / 32), math.ceil(out * bits / 32)
        words = file.take(f"{name}.qweight", (rows, out), torch.int32)
        scales = file.take(f"{name}.scales", (groups, out), None)
        zeros = file.take(f"{name}.qzeros", (groups, columns), torch.int32)
        zeros = unpacked(zeros.T.contiguous(), bits, out)
        if self.one_less:
            if (zeros == 2**bits - 1).any():
                raise UnsupportedError(
                    f"the tensor '{name}.qzeros' has a zero point of 0, which checkpoint_format 'gptq' cannot express: "
                    "programs read it differently; save the model with checkpoint_format 'gptq_v2'"
                )
            zeros = zeros + 1
        order = None
        if file.has(f"{name}.g_idx"):
            order = _by_group(torch, f"{name}.g_idx", file.take(f"{name}.g_idx", (inputs,), torch.int32), size)
        levels, wide = _signed(torch, unpacked(words, bits, inputs).T, bits)
        levels = levels if order is None else levels[:, order]
        return LowBits(wide, size, levels, scales.T, _signed(torch, zeros, bits)[0], order=order)

    def dequantized(self, torch, file, name, out, inputs):
        """w[o, i] = (q[i, o] - z[g, o]) s[g, o] for the group g of input i."""
        size = inputs if self.group_size == -1 else self.group_size
        q = _bit_by_bit(file.get(f"{name}.qweight"), self.bits, inputs)
        z = _bit_by_bit(file.get(f"{name}.qzeros").T, self.bits, out).T + int(self.one_less)
        g = file.get(f"{name}.g_idx").numpy() if file.has(f"{name}.g_idx") else np.arange(inputs) // size
        return _product(q, z[g], file.get(f"{name}.scales").double().numpy()[g]).T


class _Awq:
    suffix = ".qweight"

    def __init__(self, settings):
        _choose(settings, "bits", (4,))
        _choose(settings, "version", ("gemm", "GEMM"), "gemm")
        _choose(settings, "zero_point", (True,), True)
        self.group_size = _group_size(settings)

    def read(self, torch, file, name, out, inputs):
        size = inputs if self.group_size == -1 else min(self.group_size, inputs)
        groups = -(-inputs // size)
        if out % 8 != 0:
            raise UnsupportedError(f"the tensor '{name}.qweight' has {out} outputs, expected a multiple of 8")
        words = file.take(f"{name}.qweight", (inputs, out // 8), torch.int32)
        zeros = file.take(f"{name}.qzeros", (groups, out // 8), torch.int32)
        scales = file.take(f"{name}.scales", (groups, out), None)
        place = np.empty(8, np.int64)
        place[list(_AWQ_ORDER)] = np.arange(8)  # of each column
        place = (np.arange(out) // 8 * 8) + place[np.arange(out) % 8]
        levels, zeros = (_signed(torch, unpacked(each.T.contiguous(), 4, out)[place], 4)[0] for each in (words, zeros))
        return LowBits(4, size, levels, scales.T, zeros)

    def dequantized(self, torch, file, name, out, inputs):
        """w[o, i] = (q[i, o] - z[g, o]) s[g, o]; word w of a row holds the outputs 8 w + order[k] in its bits 4 k."""
        size = inputs if self.group_size == -1 else self.group_size

        def columns(words):
            made = np.empty((words.shape[0], out), np.int64)
            for at in range(8):
                made[:, _AWQ_ORDER[at] :: 8] = words.numpy().astype(np.int64) // 16**at % 16
            return made

        g = np.arange(inputs) // size
        q, z = (columns(file.get(f"{name}.{part}")) for part in ("qweight", "qzeros"))
        return _product(q, z[g], file.get(f"{name}.scales").double().numpy()[g]).T


class _CompressedTensors:
    suffix = ".weight_packed"

    def __init__(self, settings):
        _choose(settings, "format", ("pack-quantized",))
        _refuse(settings, "kv_cache_scheme", "sparsity_config", "transform_config")
        groups = list((settings.get("config_groups") or {}).values())
        if not groups:
            raise UnsupportedError("quantization_config has no config_groups")
        for each in groups:
            _choose(each, "format", ("pack-quantized",), "pack-quantized")
            _refuse(each, "input_activations", "output_activations")
        self.weights = [each.get("weights") or {} for each in groups]
        for each in self.weights:
            _choose(each, "num_bits", (4, 8))
            _choose(each, "type", ("int",), "int")
            _choose(each, "strategy", ("tensor", "channel", "group"))
            _refuse(each, "dynamic", "block_structure")
        if any(each["num_bits"] != self.weights[0]["num_bits"] for each in self.weights):
            raise UnsupportedError("quantization_config has config_groups of 4 and 8 bits, which is not supported")
        self.bits = self.weights[0]["num_bits"]

    def read(self, torch, file, name, out, inputs):
        bits, per_word = self.bits, 32 // self.bits
        shape = file.take(f"{name}.weight_shape", (2,), None).tolist()
        if shape != [out, inputs]:
            raise CorruptModelError(f"the tensor '{name}.weight_shape' is {shape}, expected {[out, inputs]}")
        words = file.take(f"{name}.weight_packed", (out, math.ceil(inputs / per_word)), torch.int32)
        scales = file.take(f"{name}.weight_scale", None, None)
        scales = scales.reshape(1, 1) if scales.numel() == 1 else scales
        size = self._size(f"{name}.weight_scale", tuple(scales.shape), out, inputs)
        groups = -(-inputs // size)
        scales, zeros = scales.expand(out, groups), None
        if file.has(f"{name}.weight_zero_point"):
            zeros = file.take(f"{name}.weight_zero_point", None, None)
            if zeros.dtype == torch.int32:
                zeros = file.shaped(f"{name}.weight_zero_point", zeros, (math.ceil(out / per_word), groups))
                zeros, _ = _signed(torch, unpacked(zeros.contiguous(), bits, out), bits)
            else:
                zeros = zeros.reshape(1, 1) if zeros.numel() == 1 else file.shaped(f"{name}.weight_zero_point", zeros, (out, groups))
                zeros = zeros.to(torch.int8).expand(out, groups)
        elif any(each.get("symmetric") is False for each in self.weights):
            raise CorruptModelError(f"there is no tensor '{name}.weight_zero_point', which symmetric=false needs")
        order = None
        if file.has(f"{name}.weight_g_idx"):
            index = file.take(f"{name}.weight_g_idx", (inputs,), None)
            if not bool((index == -1).all()):
                order = _by_group(torch, f"{name}.weight_g_idx", index, size)
        levels, wide = _signed(torch, unpacked(words.T.contiguous(), bits, inputs).T, bits)
        levels = levels if order is None else levels[:, order]
        return LowBits(wide, size, levels, scales, zeros, order=order)

    def _size(self, name, shape, out, inputs):
        """The size of a group, from the shape of the scales."""
        for each in self.weights:
            size = each.get("group_size") if each["strategy"] == "group" else inputs
            if isinstance(size, int) and size > 0 and shape == (1 if each["strategy"] == "tensor" else out, -(-inputs // min(size, inputs))):
                return min(size, inputs)
        raise CorruptModelError(f"the tensor '{name}' is {list(shape)}, which fits no group of quantization_config for [{out}, {inputs}] weights")

    def dequantized(self, torch, file, name, out, inputs):
        """w[o, i] = (q[o, i] - z[o, g]) s[o, g], where words hold q and z plus half of their range."""
        half = 2 ** (self.bits - 1)
        q = _bit_by_bit(file.get(f"{name}.weight_packed").T, self.bits, inputs).T - half
        s = file.get(f"{name}.weight_scale").double().numpy().reshape(-1, file.get(f"{name}.weight_scale").shape[-1])
        z = np.zeros_like(s)
        if file.has(f"{name}.weight_zero_point"):
            z = file.get(f"{name}.weight_zero_point")
            z = _bit_by_bit(z, self.bits, out) - half if z.dtype == torch.int32 else z.numpy().reshape(s.shape)
        g = np.arange(inputs) // self._size(f"{name}.weight_scale", s.shape, out, inputs)
        if file.has(f"{name}.weight_g_idx") and not bool((file.get(f"{name}.weight_g_idx") == -1).all()):
            g = file.get(f"{name}.weight_g_idx").numpy()
        return _product(q, z[:, g], s[:, g])


class _TorchAo:
    """Tensors of torchao in safetensors, whose header names the class of each."""

    suffix = "._weight_qdata"
    _CLASSES = ("Int8Tensor", "IntxUnpackedToInt8Tensor", "Int4Tensor")

    def __init__(self, settings):
        pass  # the header of the file has all settings

    def _told(self, file, name):
        text = file.metadata(f"{name}._weight_qdata").get(f"{name}.weight")
        try:
            told = json.loads(text or "")
            kind, data = told["_type"], told["_data"]
            size = data["block_size"]
        except (ValueError, KeyError, TypeError):
            raise CorruptModelError(f"the header of the file does not describe the tensor '{name}.weight'") from None
        if kind not in self._CLASSES:
            raise UnsupportedError(f"the tensor '{name}.weight' is an {kind} of torchao, which is not supported; {', '.join(self._CLASSES)} are")
        for key in ("act_quant_kwargs", "activation_quantization", "activation_dtype"):
            if data.get(key) is not None and not (key == "activation_dtype" and kind == "Int4Tensor" and "bfloat16" in str(data[key])):
                raise UnsupportedError(f"the tensor '{name}.weight' quantizes its layer's inputs ({key}), which is not supported in folders")
        return kind, size

    def read(self, torch, file, name, out, inputs):
        kind, block = self._told(file, name)
        for part in ("act_pre_scale", "act_quant_scale", "act_quant_zero_point"):
            if file.has(f"{name}._weight_{part}"):
                raise UnsupportedError(f"the tensor '{name}._weight_{part}' changes the inputs of its layer, which is not supported")
        size = min(int(block[1]), inputs)
        groups = -(-inputs // size)
        if kind == "Int4Tensor":
            pairs = file.take(f"{name}._weight_qdata", (out, inputs // 2), None).view(torch.uint8)
            scales = file.take(f"{name}._weight_scale", (groups, out), None).T
            offsets = file.take(f"{name}._weight_zero_point", (groups, out), None).T
            levels = torch.stack([pairs << 4, pairs & 240], -1).view(torch.int8).reshape(out, inputs) >> 4
            return LowBits(4, size, levels, scales, offsets=offsets)
        levels = file.take(f"{name}._weight_qdata", (out, inputs), torch.int8)
        rows = -(-out // max(int(block[0]), 1))
        if rows not in (1, out):
            raise UnsupportedError(f"the tensor '{name}.weight' has a block_size of {block}, which is not supported")
        scales = file.take(f"{name}._weight_scale", (rows, groups), None).expand(out, groups)
        zeros = None
        if file.has(f"{name}._weight_zero_point"):
            zeros = file.take(f"{name}._weight_zero_point", (rows, groups), torch.int8).expand(out, groups)
        is_small = bool(((levels >= -8) & (levels < 8)).all()) and (zeros is None or bool(((zeros >= -8) & (zeros <= 8)).all()))
        return LowBits(4 if is_small else 8, size, levels, scales, zeros)

    def dequantized(self, torch, file, name, out, inputs):
        """w = (q - z) s, and of Int4Tensor w = q s + z, whose bytes hold two neighbors."""
        kind, block = self._told(file, name)
        q, s, z = (file.get(f"{name}._weight_{part}") if file.has(f"{name}._weight_{part}") else None for part in ("qdata", "scale", "zero_point"))
        g = np.arange(inputs) // int(block[1])
        if kind == "Int4Tensor":
            q = q.numpy().astype(np.int64) % 256
            q = np.stack([q % 16, q // 16], -1).reshape(out, inputs)
            q, s, z = np.where(q > 7, q - 16, q), s.double().numpy().T[:, g], z.double().numpy().T[:, g]
            return (q * s + z).astype(np.float32)
        s = s.double().numpy()
        z = np.zeros_like(s) if z is None else z.numpy()
        return _product(q.numpy(), z[:, g], s[:, g])


def _bit_by_bit(words, bits, count):
    """The same as unpacked(), from single bits."""
    stream = np.unpackbits(np.ascontiguousarray(words.T.numpy()).view(np.uint8), axis=1, bitorder="little")
    stream = stream[:, : count * bits].reshape(-1, count, bits)
    return (stream.astype(np.int64) << np.arange(bits)).sum(-1).T


def _product(levels, zeros, scales):
    return ((levels.astype(np.float64) - zeros) * scales).astype(np.float32)


_READERS = {"gptq": _Gptq, "awq": _Awq, "compressed-tensors": _CompressedTensors, "torchao": _TorchAo}
