# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoders of transformers as two graphs over the same weights: `encode`, and `decode` for prompts and steps."""

import inspect

from ._decoder import BATCH, PAST, TIME, Input, part_of, past_inputs
from ._errors import UnsupportedError
from ._past import Past, given_layer

def is_encoder_decoder(model):
    return bool(getattr(model.config, "is_encoder_decoder", False))


def encoder_decoder_of(torch, model):
    """(the module `encode`, the module `decode`, a note about what the encoder reads).

    `encode` returns the keys and values of the cross attention, cross.<layer>.key, which every step of `decode` reads.
    """
    accepted = inspect.signature(model.forward).parameters
    source = source_of(torch, model, accepted)
    is_masked = source.name == "input_ids" and "attention_mask" in accepted
    batch, start = BATCH, {"decoder_input_ids": torch.ones(BATCH, 1, dtype=torch.long)}
    with torch.no_grad():
        caches = model(**{source.name: source.example}, **start, use_cache=True, return_dict=True).past_key_values
    if not hasattr(caches, "cross_attention_cache"):
        raise UnsupportedError("the model keeps no keys and values of its cross attention")
    kinds = type(caches), type(caches.cross_attention_cache)
    pasts = [
        Past(f"{i}.{name}", (), tuple(getattr(layer, f"{name}s").shape), 2, None)
        for i, layer in enumerate(caches.self_attention_cache.layers)
        for name in ("key", "value")
    ]
    crosses = [
        (f"cross.{i}.{name}", getattr(layer, f"{name}s")) for i, layer in enumerate(caches.cross_attention_cache.layers) for name in ("key", "value")
    ]
    by_source = {2: "source"} if 1 in source.sizes else {}  # of keys
    width = caches and model.get_decoder().config.hidden_size if hasattr(model, "get_decoder") else model.config.hidden_size

    def encode(given):
        start = given[source.name].new_zeros((given[source.name].shape[0], 1)).long()
        result = model(**given, decoder_input_ids=start, use_cache=True, return_dict=True)
        return {
            f"cross.{i}.{name}": getattr(layer, f"{name}s")
            for i, layer in enumerate(result.past_key_values.cross_attention_cache.layers)
            for name in ("key", "value")
        }

    def decode(given):
        from transformers.modeling_outputs import BaseModelOutput

        cross = _cache_of(torch, kinds[1], model, given, "cross", len(crosses) // 2)
        own = _cache_of(torch, kinds[1], model, given, "past_key_values", len(pasts) // 2)
        cache = kinds[0](own, cross)
        cache.is_updated = dict.fromkeys(range(len(crosses) // 2), True)
        key = given[crosses[0][0]]
        hidden = key.new_zeros((key.shape[0], key.shape[2], width))  # only its shape counts
        inputs = {"decoder_input_ids": given["input_ids"], "encoder_outputs": BaseModelOutput(last_hidden_state=hidden)}
        if "decoder_attention_mask" in accepted:
            inputs["decoder_attention_mask"] = given["attention_mask"]
        if is_masked:
            inputs["attention_mask"] = given["encoder_attention_mask"]
        result = model(**inputs, past_key_values=cache, use_cache=True, return_dict=True)
        outputs = {"logits": result.logits[:, -1:]}
        for i, layer in enumerate(cache.self_attention_cache.layers):
            outputs |= {f"present.{i}.key": layer.keys, f"present.{i}.value": layer.values}
        return outputs

    encoder_inputs = [source]
    if is_masked:
        encoder_inputs.append(Input("attention_mask", torch.ones_like(source.example), source.sizes))
    by_batch = {0: "batch"}
    inputs = [
        Input("input_ids", torch.ones(batch, TIME, dtype=torch.long), {0: "batch", 1: "time"}),
        Input("attention_mask", torch.ones(batch, PAST + TIME, dtype=torch.long), {0: "batch", 1: "past + time"}),
    ]
    if is_masked:
        inputs.append(Input("encoder_attention_mask", torch.ones_like(source.example), source.sizes))
    inputs += past_inputs(torch, pasts, batch, PAST, by_batch)
    inputs += [Input(name, tensor, {**by_batch, **by_source}) for name, tensor in crosses]
    encoder, decoder = part_of(torch, model, encoder_inputs, encode), part_of(torch, model, inputs, decode)
    decoder.pasts, decoder.is_masked, decoder.steps, decoder.one_row, decoder.without_past = pasts, True, False, False, ""
    return encoder, decoder


def source_of(torch, model, accepted):
    """The input of the encoder."""
    name = model.main_input_name
    if name == "input_ids":
        return Input(name, torch.ones(BATCH, 13, dtype=torch.long), {0: "batch", 1: "source"})
    if name != "input_features":
        raise UnsupportedError(f"the encoder reads {name}; encoders of input_ids and input_features are supported")
    config = model.config
    encoder = model.get_encoder()
    frames = config.max_source_positions
    for each in encoder.modules():
        if isinstance(each, torch.nn.Conv1d):
            frames *= each.stride[0]
    return Input(name, torch.zeros(BATCH, config.num_mel_bins, frames), {0: "batch"})


def _cache_of(torch, kind, model, given, prefix, layers):
    cache = kind(config=model.get_decoder().config)
    cache.layers = [given_layer(given[f"{prefix}.{i}.key"], given[f"{prefix}.{i}.value"]) for i in range(layers)]
    return cache
