# SPDX-License-Identifier: Apache-2.0
"""Rejects folders that transformers loads without their true weights, silently or with only a warning."""

import json
import os

from .._errors import CorruptModelError, UnsupportedError

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


def refuse_adapter(folder):
    """Whether transformers applies an adapter depends on whether the package peft is installed."""
    if os.path.exists(os.path.join(folder, "adapter_config.json")):
        raise UnsupportedError(
            f"{folder}: adapter_config.json says that the folder holds an adapter: merge the adapter into its model, or convert a folder without it"
        )


class Checkpoint:
    """The tensors of the safetensors files that transformers reads from a folder."""

    def __init__(self, torch, folder):
        from safetensors import SafetensorError, safe_open

        self._files = {}
        for path in _paths(folder):
            try:
                file = safe_open(path, framework="pt")
            except FileNotFoundError:
                raise CorruptModelError(f"{folder}: {_INDEX} names '{os.path.basename(path)}', which the folder does not have") from None
            except (SafetensorError, OSError) as error:
                raise CorruptModelError(f"{path}: {error}") from error
            for name in file.keys():
                if name in self._files and not torch.equal(self._files[name].get_tensor(name), file.get_tensor(name)):
                    raise CorruptModelError(f"{path}: another file of the folder has other values for the tensor '{name}'")
                self._files[name] = file
        self.names, self.taken = set(self._files), set()

    def has(self, name):
        return name in self.names

    def metadata(self, name):
        return self._files[name].metadata() or {}

    def dtype(self, name):
        """The type as safetensors writes it, such as F32."""
        return self._files[name].get_slice(name).get_dtype()

    def get(self, name):
        if name not in self.names:
            raise CorruptModelError(f"the checkpoint has no tensor '{name}'")
        return self._files[name].get_tensor(name)

    def take(self, name, shape, dtype):
        """The tensor, of this shape and dtype if they are not None."""
        tensor = self.get(name)
        self.taken.add(name)
        if dtype is not None and tensor.dtype != dtype:
            raise CorruptModelError(f"the tensor '{name}' is {tensor.dtype}, expected {dtype}")
        return tensor if shape is None else self.shaped(name, tensor, shape)

    def shaped(self, name, tensor, shape):
        if tuple(tensor.shape) != tuple(shape):
            raise CorruptModelError(f"the tensor '{name}' is {list(tensor.shape)}, expected {list(shape)}")
        return tensor


def _paths(folder):
    """In the order of transformers: a single file hides an index."""
    if os.path.exists(os.path.join(folder, _SINGLE)):
        return [os.path.join(folder, _SINGLE)]
    index = os.path.join(folder, _INDEX)
    if os.path.exists(index):
        try:
            with open(index, encoding="utf-8") as text:
                listed = set(json.load(text)["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptModelError(f"{index}: expected a JSON object with a weight_map") from error
        return [os.path.join(folder, name) for name in sorted(listed)]
    return sorted(each.path for each in os.scandir(folder) if each.name.endswith(".safetensors"))


def refuse_levels(folder, file, module, known=()):
    """Rejects integers and 8-bit floats in the place of weights: transformers widens them without their scales."""
    weights = {name for name, weight in module.named_parameters() if weight.is_floating_point()}
    prefix = f"{module.base_model_prefix}."
    for name in sorted(file.names.difference(known)):
        dtype = file.dtype(name)
        if dtype in ("F64", "F32", "F16", "BF16"):
            continue
        if dtype.startswith(("F", "I8")) or not weights.isdisjoint((name, prefix + name, name.removeprefix(prefix))):
            raise UnsupportedError(f"{folder}: the tensor '{name}' has the type {dtype}, but config.json has no quantization_config that says its scale")


def refuse_missing(folder, told):
    """``told``: the loading info of from_pretrained, which draws missing weights at random."""
    refuse_first(folder, "the files lack the tensor", told["missing_keys"])
    refuse_first(folder, "wrong size of the tensor", told["mismatched_keys"])


def refuse_first(folder, what, names):
    names = _sorted(names)
    if names:
        raise CorruptModelError(f"{folder}: {what} '{names[0]}'" + (f", and of {len(names) - 1} more" if len(names) > 1 else ""))


def unread_warnings(told):
    """A sentence for the tensors that the module does not read."""
    names = _sorted(told["unexpected_keys"])
    return [f"the model does not read {len(names)} tensor{'s' if len(names) > 1 else ''} of the folder, such as '{names[0]}'"] if names else []


def _sorted(names):
    return sorted(each if isinstance(each, str) else each[0] for each in names)
