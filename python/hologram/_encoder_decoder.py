# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoders of transformers as two graphs over the same weights: `encode`, and `decode` for prompts and steps."""

import inspect

from ._decoder import BATCH, PAST, TIME, Input, part_of, past_inputs
from ._errors import UnsupportedError
from ._past import Past, given_layer

_SOURCE = 13  # tokens of the encoder's example


def is_encoder_decoder(model):
    return bool(getattr(model.config, "is_encoder_decoder", False))


def encoder_decoder_of(torch, model):
    """(the module `encode`, the module `decode`).

    `encode` returns the keys and values of the cross attention, cross.<layer>.key, which every run of `decode` reads.
    """
    accepted = inspect.signature(model.forward).parameters
    source = _source_of(torch, model)
    is_masked = source.name == "input_ids" and "attention_mask" in accepted
    start = torch.ones(BATCH, 1, dtype=torch.long)
    with torch.no_grad():
        result = model(**{source.name: source.example}, decoder_input_ids=start, use_cache=True, return_dict=True)
    caches = getattr(result, "past_key_values", None)
    if not hasattr(caches, "cross_attention_cache"):
        raise UnsupportedError("the model keeps no keys and values of its cross attention")
    cross_kind = type(caches.cross_attention_cache)
    crosses = _tensors_of(caches.cross_attention_cache, "cross")
    layers = len(crosses) // 2
    pasts = [Past(key, (), tuple(tensor.shape), 2, None) for key, tensor in _tensors_of(caches.self_attention_cache).items()]
    config = getattr(model.get_decoder(), "config", model.config)

    def encode(given):
        start = given[source.name].new_zeros((given[source.name].shape[0], 1)).long()
        result = model(**given, decoder_input_ids=start, use_cache=True, return_dict=True)
        return _tensors_of(result.past_key_values.cross_attention_cache, "cross")

    def cache_of(given, prefix):
        cache = cross_kind(config=config)
        cache.layers = [given_layer(given[f"{prefix}.{i}.key"], given[f"{prefix}.{i}.value"]) for i in range(layers)]
        return cache

    def decode(given):
        from transformers.modeling_outputs import BaseModelOutput

        cache = type(caches)(cache_of(given, "past_key_values"), cache_of(given, "cross"))
        cache.is_updated = dict.fromkeys(range(layers), True)
        key = given["cross.0.key"]
        hidden = key.new_zeros((key.shape[0], key.shape[2], config.hidden_size))  # only its shape counts
        inputs = {"decoder_input_ids": given["input_ids"], "encoder_outputs": BaseModelOutput(last_hidden_state=hidden)}
        if "decoder_attention_mask" in accepted:
            inputs["decoder_attention_mask"] = given["attention_mask"]
        if is_masked:
            inputs["attention_mask"] = given["encoder_attention_mask"]
        result = model(**inputs, past_key_values=cache, use_cache=True, return_dict=True)
        return {"logits": result.logits[:, -1:], **_tensors_of(cache.self_attention_cache, "present")}

    mask = torch.ones_like(source.example)
    by_source = {0: "batch", 2: "source"} if source.name == "input_ids" else {0: "batch"}  # of keys
    inputs = [
        Input("input_ids", torch.ones(BATCH, TIME, dtype=torch.long), {0: "batch", 1: "time"}),
        Input("attention_mask", torch.ones(BATCH, PAST + TIME, dtype=torch.long), {0: "batch", 1: "past + time"}),
        *([Input("encoder_attention_mask", mask, source.sizes)] if is_masked else []),
        *past_inputs(torch, pasts, BATCH, PAST, {0: "batch"}),
        *(Input(name, tensor, by_source) for name, tensor in crosses.items()),
    ]
    read = [source, *([Input("attention_mask", mask, source.sizes)] if is_masked else [])]
    return part_of(torch, model, read, encode), part_of(torch, model, inputs, decode)


def _tensors_of(cache, prefix=""):
    """Keys and values by their names in the file."""
    begin = prefix and prefix + "."
    return {f"{begin}{i}.{name}": getattr(layer, f"{name}s") for i, layer in enumerate(cache.layers) for name in ("key", "value")}


def _source_of(torch, model):
    """The input of the encoder."""
    name = model.main_input_name
    if name == "input_ids":
        return Input(name, torch.ones(BATCH, _SOURCE, dtype=torch.long), {0: "batch", 1: "source"})
    frames, bands = getattr(model.config, "max_source_positions", None), getattr(model.config, "num_mel_bins", None)
    if name != "input_features" or frames is None or bands is None:
        raise UnsupportedError(f"the encoder reads {name}; encoders of input_ids and Whisper's input_features are supported")
    for each in model.get_encoder().modules():
        if isinstance(each, torch.nn.Conv1d):
            frames *= each.stride[0]
    return Input(name, torch.zeros(BATCH, bands, frames), {0: "batch"})
