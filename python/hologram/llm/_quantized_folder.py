# SPDX-License-Identifier: Apache-2.0
"""Loads folders of Hugging Face whose linear layers are quantized. Weights stay in low bits; no quantization package is needed."""

import re

from .._errors import CorruptModelError, UnsupportedError
from .._low_bits import low_bit_linear
from ._folder_check import Checkpoint, refuse_first, refuse_levels, refuse_missing
from ._packed_formats import format_of


def settings_of(config):
    """The quantization_config of a folder's config, or None."""
    for each in (config, config.get_text_config(decoder=True)):
        found = getattr(each, "quantization_config", None)
        if found:
            return found if isinstance(found, dict) else found.to_dict()
    return None


def class_of(kind, config):
    """The class of a configuration, if ``kind`` is an Auto class."""
    from transformers.models.auto.auto_factory import _get_model_class

    return _get_model_class(config, kind._model_mapping) if hasattr(kind, "_model_mapping") else kind


def load_quantized(torch, kind, config, folder, settings, check):
    """The module in float32, with low-bit layers. ``kind``: a class of transformers, or an Auto class. ``check``: compares each layer
    with the definition of its format."""
    layout = format_of(settings)
    file = Checkpoint(torch, folder)
    if not file.names:
        raise UnsupportedError(f"{folder}: the weights are not in files of safetensors")
    names = sorted(name.removesuffix(layout.suffix) for name in file.names if name.endswith(layout.suffix))
    if not names:
        raise UnsupportedError(f"{folder}: quantization_config names {settings['quant_method']}, but no tensor ends with {layout.suffix}")
    for each in (config, config.get_text_config(decoder=True)):
        if getattr(each, "quantization_config", None) is not None:
            del each.quantization_config
    made = class_of(kind, config)
    module, told = _without_weights(torch, made, names).from_pretrained(
        folder, config=config, dtype=torch.float32, local_files_only=True, output_loading_info=True, ignore_mismatched_sizes=True
    )
    module.__class__ = made
    for name in names:
        old = module.get_submodule(name)
        with torch.no_grad():
            low = layout.read(torch, file, name, old.out_features, old.in_features)
            bias = file.take(f"{name}.bias", (old.out_features,), None).float() if file.has(f"{name}.bias") else None
            if bias is None and old.has_bias:
                raise CorruptModelError(f"there is no tensor '{name}.bias'")
            new = low_bit_linear(torch, low, bias)
            if check:
                _compare(torch, name, new, layout.dequantized(torch, file, name, old.out_features, old.in_features))
        module.set_submodule(name, new)
    refuse_missing(folder, told)
    left = [name for name in file.names - file.taken if name.startswith(tuple(f"{each}." for each in names))]
    refuse_first(folder, "unknown tensor", [*told["unexpected_keys"], *left])
    refuse_levels(folder, file, module, file.taken)
    return module.eval()


def _without_weights(torch, made, names):
    """A subclass whose constructor puts placeholders in the place of the quantized layers: from_pretrained loads the others."""
    from transformers.pytorch_utils import Conv1D

    class Placeholder(torch.nn.Module):
        def __init__(self, layer):
            super().__init__()
            is_turned = isinstance(layer, Conv1D)
            self.in_features, self.out_features = layer.weight.shape if is_turned else reversed(layer.weight.shape)
            self.has_bias = layer.bias is not None
            self.weight = torch.empty(0, device="cpu")  # some models initialize it by name

    def init(self, config, *args, **given):
        made.__init__(self, config, *args, **given)
        for name in names:
            try:
                layer = self.get_submodule(name)
            except AttributeError:
                layer = None
            if not isinstance(layer, (torch.nn.Linear, Conv1D)):
                raise UnsupportedError(f"the checkpoint quantizes '{name}', which is not a linear layer of {made.__name__}")
            self.set_submodule(name, Placeholder(layer))
        ours = {rf"^{re.escape(name)}\." for name in names}
        self._keys_to_ignore_on_load_unexpected = ours.union(self._keys_to_ignore_on_load_unexpected or ())

    return type(made.__name__, (made,), {"__init__": init, "__module__": made.__module__})


def _compare(torch, name, layer, wanted):
    """Levels times scales of 16 bits are exact. With scales of 32 bits, zeros add a rounding."""
    wanted = torch.from_numpy(wanted)
    wanted = wanted if layer.order is None else wanted[:, layer.order]
    got = layer.dequantized()
    is_exact = layer.weight_scale.dtype != torch.float32 and layer.weight_offset is None
    room = 0 if is_exact else 3e-7 * float((layer.weight_scale.float().abs().amax() * 256))
    if not bool(((got - wanted).abs() <= room).all()):
        raise CorruptModelError(f"the weights of '{name}' are not finite or differ from the definition of their format")
