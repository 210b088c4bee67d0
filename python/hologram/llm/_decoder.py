# SPDX-License-Identifier: Apache-2.0
"""Language models of transformers as graphs: one forward for prompts and steps, whose past is passed in and out.

No architecture is named here: a run of the module shows what it keeps, and forward's signature its inputs.
"""

import inspect
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

from .._errors import UnsupportedError, one_line
from ._masks import scores, seen_keys, sliding_window
from ._past import filled, find_pasts, kept_by
from ._steps import branches, layers_of

BATCH, TIME, PAST = 3, 11, 17  # of the example; models rarely have these sizes
LONG = 1031  # tokens of a prompt that layers may read in blocks: several, since torch.export fixes the number 1


class Input(NamedTuple):
    """An input of a graph."""

    name: str  # in the file
    example: object
    sizes: dict  # dims that vary, and the names of their sizes


def part_of(torch, model, inputs, forward):
    """A module that is exported as one graph. ``forward`` maps a dict of inputs to a dict of outputs."""

    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model
            self.context = nullcontext

        def forward(self, given):
            with self.context() as context:
                outputs = forward(given)
            return context.checked(outputs) if hasattr(context, "checked") else outputs

    part = Part().eval()
    part.inputs = inputs
    return part


# Other forms of decoders, for modules whose first form differs from generate().
ONE_ROW, WITHOUT_PAST, STEP_BRANCH = "one row", "without past", "step branch"


def decoder_of(torch, model, limit=None, read=None, form="", why=""):
    """The module of a decoder. ``limit``: its positions, or None. ``read`` maps its inputs to arguments of forward that replace the ids.
    ``form``: empty, or another form; ``why`` the module needs it.

    Its attributes: ``placed``: forward takes positions from 0 on; ``is_masked``; ``steps``: it reads one token at a time; ``has_step_branch``:
    layers with states compute a step differently from a prompt; ``one_row``: it takes one prompt at a time; ``pasts``; ``without_past``: why it
    has no past."""
    accepted = inspect.signature(model.forward).parameters
    is_masked, placed = "attention_mask" in accepted, takes_positions(torch, model)
    found, reason = find_pasts(torch, model, accepted)
    if found is not None and not is_masked and not found.has_states:
        found, reason = None, "its forward takes no attention_mask"
    if form == WITHOUT_PAST and found is not None:
        found, reason = None, why
    last = _last_before_reset(model)
    if found is not None and last is not None and (limit is None or limit > last):
        found, reason = None, f"its cache begins anew after {last} tokens, which max_context={last} or --max-context {last} avoids"
    if found is not None and read is None and _sees_later_tokens(torch, model):
        if getattr(model.config, "is_decoder", True) is False:
            raise UnsupportedError("logits depend on later tokens: a model that generates text needs is_decoder=true in config.json")
        window = sliding_window(model)
        if is_masked and (window is None or limit is not None and limit <= window):
            rows = 1 if _sees_padding(torch, model, accepted) else BATCH
            made = _decoder(torch, model, placed, is_masked, found, rows, partial(_prefix, torch))
            if not _wrong_step(torch, model, made, min(rows, 2), (4, 1, 1)):
                return made
        found, reason = None, "logits depend on later tokens"
    if found is not None and found.has_states:
        for rows in (2, 1) if form != STEP_BRANCH else ():
            made = _decoder(torch, model, placed, is_masked, found, rows, read)
            if not (reason := _wrong_step(torch, model, made, rows)):
                return made
        made = _with_step_branch(torch, model, placed, is_masked, found, read)
        if made is not None:
            return made
        found, reason = None, f"it keeps states, and {reason or why}"
    counts = "position_ids" in accepted and not placed  # padding too
    made = _decoder(torch, model, placed, is_masked, found, 1 if counts or form == ONE_ROW or getattr(model, "one_row", False) else BATCH, read)
    made.without_past = "" if made.pasts else reason
    return made


def _last_before_reset(model):
    """The length after which generate() reads all tokens again, with other factors of their positions. Or None."""
    from transformers import GenerationMixin

    text = model.config.get_text_config(decoder=True)
    is_long = (getattr(text, "rope_parameters", None) or {}).get("rope_type") == "longrope"
    is_own = type(model).prepare_inputs_for_generation is not GenerationMixin.prepare_inputs_for_generation
    return getattr(text, "original_max_position_embeddings", None) if is_long and is_own else None


def takes_positions(torch, model):
    """Whether forward takes positions from 0 on. Where they are others, and generate() passes none, the module counts them."""
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return False
    words = int(model.get_input_embeddings().num_embeddings)
    ids = (torch.arange(6).view(1, 6) * 7 + 3) % words
    positions = {"position_ids": torch.arange(6).view(1, 6)}
    try:
        with torch.no_grad():
            passed = model.prepare_inputs_for_generation(ids, attention_mask=torch.ones_like(ids), is_first_iteration=True, **positions)
            if "position_ids" in passed:
                return True
            found = [model(input_ids=ids, **each, **without_cache(model), return_dict=True).logits for each in (positions, {})]
    except Exception:  # a module may fail in any way
        return True
    return torch.allclose(*found, rtol=1e-3, atol=1e-3)


def _with_step_branch(torch, model, placed, is_masked, found, read):
    """A decoder whose layers with states compute a step differently from a prompt. Or None."""
    if not is_masked or cache_argument(model) is None:
        return None
    try:
        layers = layers_of(torch, model, found)
    except Exception:  # a module may fail in any way
        return None
    made = _decoder(torch, model, placed, is_masked, found, BATCH, read, layers)
    return None if _wrong_step(torch, model, made, 2, (4, 1, 1)) else made


def _decoder(torch, model, placed, is_masked, found, rows, read, layers=()):
    """``layers``: the layers that compute a step differently from a prompt."""
    pasts = found.pasts if found else []
    steps = found is not None and found.has_states and not layers
    masks = is_masked or steps  # states begin where the mask begins

    def forward(given):
        ids = {"input_ids": given["input_ids"]} if read is None else {}
        ids |= without_cache(model) if found is None else {"use_cache": True}
        if is_masked and not (steps and all(each.grows < 0 for each in pasts)):  # a token alone is never hidden
            ids["attention_mask"] = given["attention_mask"]
        if placed and masks:
            ids["position_ids"] = given["position_ids"]
        ids |= {} if read is None else read(given)
        if found is not None:
            ids[found.argument] = filled(torch, found, model, _begun(torch, found, given))
        with _step_branch(torch, layers, given):
            result = model(**ids, return_dict=True)
        outputs = {"logits": result.logits}  # programs that slice them compute only these
        if found is not None:
            cache = getattr(result, found.argument, None)
            kept = kept_by(found, model, ids[found.argument] if cache is None else cache)
            outputs |= {f"present.{key}": tensor for key, tensor in kept.items()}
        return outputs

    batch, time, past = 1 if rows == 1 else BATCH, 1 if steps else LONG if layers else TIME, PAST if found else 0
    by_batch = {} if rows == 1 else {0: "batch"}
    by_time = by_batch if steps else {**by_batch, 1: "time"}
    everything = "past + 1" if steps else "past + time" if found else "time"
    inputs = [Input("input_ids", torch.ones(batch, time, dtype=torch.long), by_time)]
    if masks:
        inputs.append(Input("attention_mask", torch.ones(batch, past + time, dtype=torch.long), {**by_batch, 1: everything}))
        inputs.append(Input("position_ids", torch.arange(past, past + time).expand(batch, time).clone(), by_time))
    inputs += past_inputs(torch, pasts, batch, past, by_batch)
    made = part_of(torch, model, inputs, forward)
    made.placed, made.pasts, made.is_masked, made.steps, made.one_row, made.without_past = placed, pasts, masks, steps, rows == 1, ""
    made.has_step_branch = bool(layers)
    return made


def _step_branch(torch, layers, given):
    """A context in which a program's ``layers`` choose between prompts and steps, as the module itself does when it runs."""
    if not layers or not torch.compiler.is_exporting():
        return nullcontext()
    time, everything = given["input_ids"].shape[1], given["attention_mask"].shape[1]
    return branches(torch, layers, (torch.full((), time) == 1) & (torch.full((), everything) > 1), time)


def past_inputs(torch, pasts, batch, past, by_batch):
    return [
        Input(f"past_key_values.{each.key}", torch.zeros(each.file_shape(batch, past)), {**by_batch, **({2: "past"} if each.grows >= 0 else {})})
        for each in pasts
    ]


def _begun(torch, found, given):
    """The pasts of ``given``. Before a row's first visible token, its states are the initial ones."""
    values = {}
    for each in found.pasts:
        value = given[f"past_key_values.{each.key}"]
        if each.grows < 0:
            mask, time = given["attention_mask"], given["input_ids"].shape[1]
            is_first = (mask.cumsum(1) - mask)[:, mask.shape[1] - time] == 0
            initial = torch.zeros_like(value) if each.initial is None else each.initial.expand(value.shape)
            value = torch.where(is_first.view(-1, *[1] * (value.dim() - 1)), initial, value)
        values[each.key] = value
    return values


def _sees_later_tokens(torch, model):
    """Whether a token changes the logits before it, so that no cache can hold them."""
    words = int(model.get_input_embeddings().num_embeddings)
    ids = (torch.arange(2 * 6).view(2, 6) * 7 + 3) % words
    try:
        with torch.no_grad():
            whole, begin = (model(input_ids=each, **without_cache(model), return_dict=True).logits for each in (ids, ids[:, :4]))
    except Exception:  # the module may need other inputs, which later stages name
        return False
    return not torch.allclose(whole[:, :4], begin, rtol=1e-3, atol=1e-3)


def _prefix(torch, given):
    """Arguments of a forward in which the tokens of the first run see each other, and later ones those before."""
    ids, mask = given["input_ids"], given["attention_mask"]
    is_prompt = torch.full((1, 1), mask.shape[1] - ids.shape[1]) == 0
    seen, _ = seen_keys(torch, mask, ids != ids, is_prompt, True)
    return {"input_ids": ids, "attention_mask": scores(torch, seen)}


def _sees_padding(torch, model, accepted):
    """Whether a token that the mask hides changes the logits of others, as in PaliGemma, whose prompts are causal in a padded batch."""
    words = int(model.get_input_embeddings().num_embeddings)
    ids = (torch.arange(5).view(1, 5) * 7 + 3) % words
    found = []
    for begin in (0, 1):
        mask = torch.ones_like(ids[:, begin:])
        mask[:, : 1 - begin] = 0
        given = {"input_ids": ids[:, begin:], "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
        try:
            with torch.no_grad():
                found.append(model(**{name: each for name, each in given.items() if name in accepted}, **without_cache(model), return_dict=True).logits[:, -1])
        except Exception:  # a module may fail in any way
            return True
    return not torch.allclose(*found, rtol=1e-3, atol=1e-3)


def _wrong_step(torch, model, decoder, rows, continued=()):
    """Compares steps with a run on all tokens, or runs on ``continued`` tokens with those of the module. Returns what is wrong."""
    words = int(model.get_input_embeddings().num_embeddings)
    ids = (torch.arange(rows * 6).view(rows, 6) * 7 + 3) % words
    given = {each.name: torch.zeros(each.example[:rows].shape) for each in decoder.inputs}
    given = {name: value[:, :, :0] if 2 in each.sizes else value for (name, value), each in zip(given.items(), decoder.inputs)}
    try:
        with torch.no_grad():
            whole = _continued(torch, model, ids, continued) if continued else model(input_ids=ids, **without_cache(model), return_dict=True).logits
            end = 0
            for time in continued or (1,) * ids.shape[1]:
                begin, end = end, end + time
                given |= {"input_ids": ids[:, begin:end], "attention_mask": torch.ones(rows, end, dtype=torch.long),
                          "position_ids": torch.arange(begin, end).expand(rows, time)}  # fmt: skip
                outputs = decoder({each.name: given[each.name] for each in decoder.inputs})
                given |= {f"past_key_values.{each.key}": outputs[f"present.{each.key}"] for each in decoder.pasts}
                if not torch.allclose(outputs["logits"][:, -1], whole[:, end - 1], rtol=1e-3, atol=1e-3):
                    return f"step {end} of {rows} {'row' if rows == 1 else 'rows'} differs from a run on all tokens"
    except Exception as error:  # a module may fail in any way
        return f"a step fails ({one_line(error)})"
    return ""


def _continued(torch, model, ids, times):
    """The logits of runs of the module on so many tokens each, which continue its cache."""
    logits, cache, end, name = [], {}, 0, cache_argument(model)
    for time in times:
        begin, end = end, end + time
        mask = torch.ones(ids.shape[0], end, dtype=torch.long)
        result = model(input_ids=ids[:, begin:end], attention_mask=mask, use_cache=True, **cache, return_dict=True)
        logits.append(result.logits)
        cache = {name: getattr(result, name)}
    return torch.cat(logits, 1)


def fault_of(torch, model):
    """What forward lacks that language models have: it takes ids alone, and returns logits for each. Or empty."""
    ids = torch.ones(2, 5, dtype=torch.long)
    given = {"decoder_input_ids": ids} if getattr(model.config, "is_encoder_decoder", False) else {}
    try:
        with torch.no_grad():
            shape = model(input_ids=ids, **given, **without_cache(model), return_dict=True).logits.shape
    except Exception as error:  # a module may fail in any way
        return f"its forward does not take ids alone, one per position ({one_line(error)})"
    return "" if shape[:2] == ids.shape else f"its logits have the shape {list(shape)} for ids [2, 5]; models with one id per position are supported"


def without_cache(model):
    """Arguments of a forward that keeps no cache."""
    parameters = inspect.signature(model.forward).parameters
    accepts = "use_cache" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return {"use_cache": False} if accepts else {}


def cache_argument(model):
    """The argument of forward that continues a cache, or None."""
    accepted = inspect.signature(model.forward).parameters
    return next((name for name in ("past_key_values", "cache") if name in accepted), None)
