# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoders of transformers as two graphs over the same weights: `encode`, and `decode` for prompts and steps."""

import inspect

from .._errors import UnsupportedError, one_line
from ._decoder import BATCH, PAST, TIME, Input, cache_argument, part_of, past_inputs, without_cache
from ._past import Past, given_layer

_SOURCE, _FRAMES, _SAMPLES = 13, 97, (4001, 8000)  # of the encoder's example: tokens, frames of a spectrogram, samples of a sound


def is_encoder_decoder(model):
    return bool(getattr(model.config, "is_encoder_decoder", False))


def encoder_decoder_of(torch, model):
    """(the module `encode`, the module `decode`). The attribute ``without_past`` of `decode`: why it has no past.

    `encode` returns the keys and values of the cross attention, cross.<layer>.key, which every run of `decode` reads. If the module
    keeps none, or not correctly, `encode` returns what the encoder does, cross.hidden, and `decode` reads all tokens in each run.
    """
    source = _source_of(torch, model)
    try:
        made = _with_past(torch, model, source, TIME)
    except Exception as error:  # a module may fail in any way
        made, reason = None, one_line(error)
    if made is not None and (reason := _wrong_runs(torch, model, source, *made)):
        made = _with_past(torch, model, source, 1)
        if _wrong_runs(torch, model, source, *made) and _wrong_runs(torch, model, source, *made, continues=True):
            made = None
    if made is None:
        made = _without_past(torch, model, source)
        made[1].without_past, made[1].pasts = reason, []
    return made


def reads_sounds(model):
    accepted = inspect.signature(model.forward).parameters
    return any(name in accepted for name in ("input_features", "input_values", "audio_input_features"))


def tables_of(model):
    """The embeddings of ids: encoder and decoder may have one each."""
    tables = [model.get_input_embeddings()]
    if getattr(model.config, "is_encoder_decoder", False):
        tables.append(getattr(model.get_decoder(), "embed_tokens", None))
    return [each for each in tables if hasattr(each, "num_embeddings")] or tables[:1]


def _is_masked(model, source):
    return source.name == "input_ids" and "attention_mask" in inspect.signature(model.forward).parameters


def _encoder_of(torch, model, source, forward):
    masks = [Input("attention_mask", torch.ones_like(source.example), source.sizes)] if _is_masked(model, source) else []
    return part_of(torch, model, [source, *masks], forward)


def _with_past(torch, model, source, time):
    """``time``: tokens of the example. With 1, the file reads one token in each run."""
    accepted = inspect.signature(model.forward).parameters
    start = torch.ones(BATCH, 1, dtype=torch.long)
    with torch.no_grad():
        result = model(**_decoder_arguments({"input_ids": start}, _encoded(model, {source.name: source.example})), use_cache=True, return_dict=True)
    caches = getattr(result, "past_key_values", None)
    if not hasattr(caches, "cross_attention_cache"):
        raise UnsupportedError("the model keeps no keys and values of its cross attention")
    cross_kind = type(caches.cross_attention_cache)
    crosses = _tensors_of(caches.cross_attention_cache, "cross")
    layers = len(crosses) // 2
    pasts = [Past(key, (), tuple(tensor.shape), 2, None) for key, tensor in _tensors_of(caches.self_attention_cache).items()]
    if any(len(each.shape) != 4 or each.shape[2] != 1 for each in pasts):
        raise UnsupportedError("its decoder keeps other tensors than keys and values")
    config = getattr(model.get_decoder(), "config", model.config)

    def encode(given):
        read = {"input_ids": given[source.name].new_zeros((given[source.name].shape[0], 1)).long()}
        if "attention_mask" in given:
            read["encoder_attention_mask"] = given["attention_mask"]
        result = model(**_decoder_arguments(read, _encoded(model, given)), use_cache=True, return_dict=True)
        return _tensors_of(result.past_key_values.cross_attention_cache, "cross")

    def cache_of(given, prefix):
        cache = cross_kind(config=config)
        cache.layers = [given_layer(given[f"{prefix}.{i}.key"], given[f"{prefix}.{i}.value"]) for i in range(layers)]
        return cache

    def decode(given):
        cache = type(caches)(cache_of(given, "past_key_values"), cache_of(given, "cross"))
        cache.is_updated = dict.fromkeys(range(layers), True)
        key = given["cross.0.key"]
        hidden = key.new_zeros((key.shape[0], key.shape[2], config.hidden_size))  # only its shape counts
        inputs = _decoder_arguments(given, hidden)
        if "decoder_attention_mask" in accepted:
            inputs["decoder_attention_mask"] = given["attention_mask"]
        result = model(**inputs, past_key_values=cache, use_cache=True, return_dict=True)
        return {"logits": result.logits[:, -1:], **_tensors_of(cache.self_attention_cache, "present")}

    by_source = {0: "batch", 2: "source"} if len(source.sizes) > 1 else {0: "batch"}  # of keys
    everything = "past + 1" if time == 1 else "past + time"
    inputs = [
        Input("input_ids", torch.ones(BATCH, time, dtype=torch.long), {0: "batch", **({} if time == 1 else {1: "time"})}),
        Input("attention_mask", torch.ones(BATCH, PAST + time, dtype=torch.long), {0: "batch", 1: everything}),
        *_mask_of_source(torch, model, source),
        *past_inputs(torch, pasts, BATCH, PAST, {0: "batch"}),
        *(Input(name, tensor, by_source) for name, tensor in crosses.items()),
    ]
    decoder = part_of(torch, model, inputs, decode)
    decoder.without_past, decoder.pasts = "", pasts
    return _encoder_of(torch, model, source, encode), decoder


def _without_past(torch, model, source):
    def encode(given):
        return {"cross.hidden": _encoded(model, given)}

    def decode(given):
        inputs = _decoder_arguments(given, given["cross.hidden"])
        result = model(**inputs, **without_cache(model), return_dict=True)
        return {"logits": result.logits}

    encoder = _encoder_of(torch, model, source, encode)
    with torch.no_grad():
        hidden = encoder({each.name: each.example for each in encoder.inputs})["cross.hidden"]
    by_source = {0: "batch", 1: "source"} if len(source.sizes) > 1 else {0: "batch"}
    ids = Input("input_ids", torch.ones(BATCH, TIME, dtype=torch.long), {0: "batch", 1: "time"})
    return encoder, part_of(torch, model, [ids, *_mask_of_source(torch, model, source), Input("cross.hidden", hidden, by_source)], decode)


def _mask_of_source(torch, model, source):
    return [Input("encoder_attention_mask", torch.ones_like(source.example), source.sizes)] if _is_masked(model, source) else []


def _encoded(model, given):
    """What the encoder returns, as generate() runs it."""
    encoder = model.get_encoder()
    accepted = inspect.signature(encoder.forward).parameters
    is_open = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
    given = {name: value for name, value in {**given, "return_dict": True}.items() if is_open or name in accepted}
    return encoder(**given).last_hidden_state


def _decoder_arguments(given, hidden):
    from transformers.modeling_outputs import BaseModelOutput

    class Encoded(BaseModelOutput):
        """Some modules also return what the encoder returns, such as the choices of its routers."""

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)

    inputs = {"decoder_input_ids": given["input_ids"], "encoder_outputs": Encoded(last_hidden_state=hidden)}
    if "encoder_attention_mask" in given:
        inputs["attention_mask"] = given["encoder_attention_mask"]
    return inputs


def _wrong_runs(torch, model, source, encoder, decoder, continues=False):
    """Compares runs with a past with a run on all tokens, or with the steps of a module that ``continues``. Returns what is wrong."""
    words, rows, count = min(int(each.num_embeddings) for each in tables_of(model)), 2, 6
    read = (torch.arange(rows * 5).view(rows, 5) * 7 + 3) % words if source.name == "input_ids" else source.example[:rows]
    ids = (torch.arange(rows * count).view(rows, count) * 7 + 3) % words
    time = decoder.inputs[0].example.shape[1]
    mask = {"attention_mask": torch.ones_like(read)} if _is_masked(model, source) else {}
    given, name = {source.name: read, **mask}, cache_argument(model)
    try:
        with torch.no_grad():
            if continues:
                made, cache, hidden = [], {}, _encoded(model, given)
                for t in range(count):
                    step = {"input_ids": ids[:, t : t + 1], **({"encoder_attention_mask": mask["attention_mask"]} if mask else {})}
                    result = model(**_decoder_arguments(step, hidden), use_cache=True, **cache, return_dict=True)
                    made.append(result.logits)
                    cache = {name: getattr(result, name)}
                wanted = torch.cat(made, 1)
            else:
                wanted = model(**given, decoder_input_ids=ids, **without_cache(model), return_dict=True).logits
            given = encoder(given) | ({"encoder_attention_mask": mask["attention_mask"]} if mask else {})
            given |= {each.name: torch.zeros(rows, *each.example.shape[1:])[:, :, :0] for each in decoder.inputs if each.name.startswith("past")}
            begin = 0
            for end in range(1, count + 1) if time == 1 else (3, count):
                given |= {"input_ids": ids[:, begin:end], "attention_mask": torch.ones(rows, end, dtype=torch.long)}
                outputs = decoder(given)
                given |= {f"past_key_values.{key.removeprefix('present.')}": each for key, each in outputs.items() if key != "logits"}
                if not torch.allclose(outputs["logits"][:, -1], wanted[:, end - 1], rtol=1e-3, atol=1e-3):
                    return f"a run on {end - begin} tokens with a past differs from a run on all tokens"
                begin = end
    except Exception as error:  # a module may fail in any way
        return f"a run with a past fails ({one_line(error)})"
    return ""


def _tensors_of(cache, prefix=""):
    """Keys and values by their names in the file."""
    begin = prefix and prefix + "."
    return {f"{begin}{i}.{name}": getattr(layer, f"{name}s") for i, layer in enumerate(cache.layers) for name in ("key", "value")}


def _source_of(torch, model):
    """The input of the encoder."""
    encoder, name = model.get_encoder(), model.main_input_name
    if name == "input_ids" or name not in inspect.signature(encoder.forward).parameters:
        name = getattr(encoder, "main_input_name", name)
    if name == "input_ids":
        return Input(name, torch.ones(BATCH, _SOURCE, dtype=torch.long), {0: "batch", 1: "source"})
    reason = "its configuration tells no shape of them"
    for shape, sizes in _shapes_of(torch, model, name):
        example = torch.randn(BATCH, *shape, generator=torch.Generator().manual_seed(0))
        try:
            with torch.no_grad():
                encoder(**{name: example})
            return Input(name, example, {0: "batch", **sizes})
        except Exception as error:  # a module may fail in any way
            reason = one_line(error)
    raise UnsupportedError(f"the encoder reads {name} of unknown shape ({reason}); encoders of input_ids, input_features, input_values and pixel_values are supported")


def _shapes_of(torch, model, name):
    """Shapes that features may have, without the batch, and the dims that vary."""
    configs = [model.config, *(part for part in vars(model.config).values() if hasattr(part, "to_dict"))]

    def found(*names):
        return next((value for config in configs for each in names if isinstance(value := getattr(config, each, None), (int, list, tuple))), None)

    bands, positions = found("num_mel_bins", "input_feat_per_channel"), getattr(model.config, "max_source_positions", None)
    if name == "input_features" and bands is not None:
        if positions is not None:  # Whisper reads spectrograms of one length
            for each in model.get_encoder().modules():
                positions *= each.stride[0] if isinstance(each, torch.nn.Conv1d) else 1
            yield (bands, positions), {}
        yield (_FRAMES, bands), {1: "frames"}
        yield (bands, _FRAMES), {2: "frames"}
    elif name == "input_values":
        for samples in _SAMPLES:  # some modules read only whole frames
            yield (samples,), {1: "samples"}
    elif name == "pixel_values" and (size := found("image_size")) is not None:
        yield (found("num_channels") or 3, *(size if isinstance(size, (list, tuple)) else (size, size))), {}
