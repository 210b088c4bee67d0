# SPDX-License-Identifier: Apache-2.0
"""Checks a converted decoder against the module of transformers: logits with and without a past, and greedy tokens."""

import inspect
from typing import NamedTuple

import numpy as np

from .. import _core
from .._check import compare
from .._errors import MismatchError, UnsupportedError
from .._model import Library
from ._decoder import cache_argument, without_cache
from ._encoder_decoder import tables_of
from ._images import prompts_with_image, without_images
from ._parts import part_with_text

GREEDY_STEPS = 64
_LENGTHS = (1, 7, 40)  # of prompts
_LOWEST = np.float32(np.finfo(np.float32).min / 2)


class Runner:
    """Runs a converted language model and passes its past on, as hg::Generator does."""

    def __init__(self, model):
        self.encode = None
        if isinstance(model, Library):
            self.encode = model.encode
            model = model.decode
        self.session = model.session()
        self.inputs = model.inputs
        self.outputs = [spec.name for spec in model.outputs]
        self.names = {spec.name for spec in self.inputs}
        self.steps = self.inputs[0].shape[1] == 1  # one token at a time

    def start(self, batch, source=None):
        """``source``: the inputs of the encoder."""
        self.ids = np.zeros((batch, 0), np.int64)
        self.mask = np.zeros((batch, 0), np.int64)
        sizes = {"batch": batch, "past": 0}
        self.past = {
            spec.name: np.zeros([sizes.get(size, size) for size in spec.shape], np.float32)
            for spec in self.inputs
            if spec.name.startswith("past_key_values.")
        }
        self.cross = {}
        if source is not None:
            names = [spec.name for spec in self.encode.inputs]
            rows = [slice(r, r + 1) for r in range(batch)] if self.encode.inputs[0].shape[0] == 1 else [slice(None)]
            parts = [self.encode(**{name: source[name][row] for name in names}) for row in rows]
            parts = [part if isinstance(part, tuple) else (part,) for part in parts]
            self.cross = {spec.name: np.concatenate(arrays) for spec, *arrays in zip(self.encode.outputs, *parts, strict=True)}
            self.cross["encoder_attention_mask"] = source.get("attention_mask")

    def run(self, ids, mask):
        """The logits of the last position after these tokens."""
        if self.steps and ids.shape[1] > 1:
            for t in range(ids.shape[1]):
                logits = self.run(ids[:, t : t + 1], mask[:, t : t + 1])
            return logits
        begin = self.ids.shape[1] if self.past else 0
        self.ids, self.mask = np.concatenate([self.ids, ids], 1), np.concatenate([self.mask, mask], 1)
        given = {
            "input_ids": self.ids[:, begin:],
            "attention_mask": self.mask,
            "position_ids": positions_of(self.mask)[:, begin:],
            **self.past,
            **self.cross,
        }
        result = self.session(**{name: np.ascontiguousarray(array) for name, array in given.items() if name in self.names})
        result = dict(zip(self.outputs, result if isinstance(result, tuple) else (result,)))
        # Outputs are views that the next run overwrites.
        self.past = {name: np.array(result["present." + name.removeprefix("past_key_values.")]) for name in self.past}
        return np.array(result["logits"])[:, -1]


class Expected(NamedTuple):
    """The module's results for consecutive runs."""

    ids: list  # of each run, [batch, time]
    masks: list
    logits: list  # of the last position, or None to compare nothing
    greedy: bool  # whether each run's ids are the most likely token of the run before
    source: object = None  # inputs of the encoder, by name
    doubt: str = ""  # how the module contradicts itself, with a cache and without


def expected_of(torch, module, decoder, pairs, limit):
    """``limit``: positions of the model, or None. ``pairs``: sizes that torch.export assumed to differ."""
    words = int(module.get_input_embeddings().num_embeddings)
    draws = np.random.default_rng(0)
    accepted = set(inspect.signature(module.forward).parameters) - (set() if decoder.placed else {"position_ids"})
    greedy = _greedy(torch, module, words, limit, draws)
    continues = _continues(module, decoder, greedy)
    all_expected = []
    for batch, parts in _cases(decoder, pairs, limit):
        if decoder.one_row and batch > 1:
            continue
        if continues:
            parts = (parts[0], *[1] * (len(parts) - 1))
        hidden = draws.integers(0, parts[0], batch) if decoder.is_masked else np.zeros(batch, np.int64)
        hidden[0] = 0
        ids = [_drawn(module, draws, (batch, time)) for time in parts]
        masks = [np.ones((batch, time), np.int64) for time in parts]
        masks[0] = (np.arange(parts[0]) >= hidden[:, None]).astype(np.int64)
        # Tokens that the mask hides are arbitrary.
        given_to_ours = [np.where(masks[0] == 0, (ids[0] + 1) % words, ids[0]), *ids[1:]]
        # Padding changes the states of some modules, so each row is read without it.
        rows = [slice(r, r + 1) for r in range(batch)] if decoder.steps else [slice(None)]
        found = []
        for row in rows:
            begin = int(hidden[row][0]) if decoder.steps else 0
            runs = []
            for end in range(1, len(parts) + 1):
                mask = np.concatenate(masks[:end], 1)[row, begin:]
                given = {"input_ids": np.concatenate(ids[:end], 1)[row, begin:], "attention_mask": mask, "position_ids": positions_of(mask)}
                runs.append({name: array for name, array in given.items() if name in accepted})
            found.append(_logits_of(torch, module, runs, continues))
        all_expected.append(Expected(given_to_ours, masks, [np.concatenate(each) for each in zip(*found)], False))
        if decoder.has_step_branch and parts[0] > 3:  # generators read long prompts in parts of at least two tokens
            middle = parts[0] // 2
            pieces = [[each[0][:, :middle], each[0][:, middle:]] for each in (given_to_ours, masks)]
            all_expected.append(Expected(*pieces, [None, np.concatenate([each[0] for each in found])], False))
    return all_expected + greedy


def _continues(module, decoder, greedy):
    """Whether the file is compared with runs of the module that continue its cache, since they contradict those on all tokens."""
    return bool(decoder.pasts) and any(each.doubt for each in greedy) and cache_argument(module) is not None


def _logits_of(torch, module, runs, continues, tokens="input_ids"):
    """The logits of the last position of each run. ``runs``: the arguments of forward, with all ``tokens`` each time.

    The module reads them all without a cache. If it ``continues``, each run after the first reads one more token, with its cache.
    """
    found, more, argument = [], without_cache(module), cache_argument(module)
    for i, run in enumerate(runs):
        given = {name: torch.from_numpy(array) for name, array in run.items()}
        if continues:
            more = {"use_cache": True} if i == 0 else {"use_cache": True, argument: cache}  # noqa: F821
            given |= {name: given[name][:, -1:] for name in (tokens, "position_ids") if i > 0 and name in given}
        with torch.no_grad():
            result = module(**given, **more, return_dict=True)
        cache = getattr(result, argument) if continues else None
        found.append(result.logits[:, -1].float().numpy().copy())
    return found


def _drawn(module, draws, shape):
    """Random ids. No padding: some modules do not count it in the positions of later tokens, but do so with a cache."""
    words, pad = min(int(each.num_embeddings) for each in tables_of(module)), getattr(module.config, "pad_token_id", None)
    ids = draws.integers(0, words, shape)
    return ids if pad is None else np.where(ids == pad, (pad + 1) % words, ids)


def positions_of(mask):
    return np.maximum(mask.cumsum(1) - 1, 0)


def _greedy(torch, module, words, limit, draws, source=None, prompt=None, images=None):
    """64 tokens of the module's own generate()."""
    from transformers import GenerationConfig, GenerationMixin

    if prompt is None:
        prompt = _drawn(module, draws, (1, 7))
    steps = GREEDY_STEPS if limit is None else min(GREEDY_STEPS, limit - prompt.shape[1])
    if steps < 1:
        return []
    config = GenerationConfig(do_sample=False, max_new_tokens=steps, eos_token_id=None, pad_token_id=0, output_logits=True, decoder_start_token_id=int(prompt[0, 0]),
                              return_dict_in_generate=True)  # fmt: skip
    ids = torch.from_numpy(prompt)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if images is not None:
        given |= images
    elif source is not None:
        given = {"decoder_input_ids": ids, **{name: torch.from_numpy(array) for name, array in source.items()}}
    part = part_with_text(torch, module)
    generate = GenerationMixin.generate if part is None else type(module).generate
    owners = [each for each in (module, part) if each is not None]
    own = [each.generation_config for each in owners]  # defaults for generate(), such as stop ids
    for each in owners:
        each.generation_config = GenerationConfig()
    try:
        with torch.no_grad():
            result = generate(module, **given, generation_config=config)
    finally:
        for each, config in zip(owners, own):
            each.generation_config = config
    tokens = result.sequences[:, prompt.shape[1] :].numpy()
    given = [prompt, *(tokens[:, i : i + 1] for i in range(tokens.shape[1] - 1))]
    logits = [each.float().numpy() for each in result.logits]
    doubt = "" if images is not None else _doubt(torch, module, result.sequences, logits, source)
    return [Expected(given, [np.ones_like(each) for each in given], logits, True, source, doubt)]


def _doubt(torch, module, ids, logits, source):
    """Whether generate() contradicts a run on all tokens."""
    if source is None:
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    else:
        given = {"decoder_input_ids": ids, **{name: torch.from_numpy(array) for name, array in source.items()}}
    try:
        with torch.no_grad():
            whole = module(**given, **without_cache(module), return_dict=True).logits
    except Exception:  # a module may fail in any way
        return ""
    if whole.shape[1] != ids.shape[1]:  # the module returns only the last logits
        return ""
    begin = ids.shape[1] - len(logits)
    for step, each in enumerate(logits):
        other = whole[:, begin + step - 1].float().numpy()
        if not np.allclose(each, other, rtol=1e-3, atol=1e-3 * float(np.abs(each).max())):
            return f"generate() of the module contradicts its run on all tokens from token {step + 1} on, by {float(np.abs(each - other).max()):.3g}"
    return ""


def expected_of_encoder(torch, module, source, decoder, limit):
    """The same of an encoder-decoder. Shorter texts are padded on the right."""
    words = min(int(each.num_embeddings) for each in tables_of(module))
    draws = np.random.default_rng(0)
    known = [getattr(each, "decoder_start_token_id", None) for each in (module.generation_config, module.config)]
    start = next((each for each in known if each is not None), 0)
    all_expected = []
    cases = [(1,), (7,), (40,), (40, 7, 1)] if source.name == "input_ids" else [(1,), (1, 1, 1)]
    for lengths in cases:
        batch, longest = len(lengths), max(lengths)
        if limit is not None and longest > limit:
            continue
        if source.name == "input_ids":
            shown = (np.arange(longest) < np.array(lengths)[:, None]).astype(np.int64)
            given = {"input_ids": _drawn(module, draws, shown.shape), "attention_mask": shown}
        else:
            more = {"samples": 320}  # a multiple of usual frames
            shape = [size + (more.get(source.sizes[d], 36) if batch > 1 and d in source.sizes else 0) for d, size in enumerate(source.example.shape)]
            given = {source.name: draws.normal(size=(batch, *shape[1:])).astype(np.float32)}
        greedy = _greedy(torch, module, words, limit, draws, given, np.full((batch, 1), start))
        continues = _continues(module, decoder, greedy)
        ids = [np.full((batch, 1), start), *(_drawn(module, draws, (batch, 1 if continues else time)) for time in (1, 6, 1, 3))]
        runs = [{**given, "decoder_input_ids": np.concatenate(ids[:end], 1)} for end in range(1, len(ids) + 1)]
        logits = _logits_of(torch, module, runs, continues, "decoder_input_ids")
        all_expected.append(Expected(ids, [np.ones_like(each) for each in ids], logits, False, given))
        all_expected += greedy
    return all_expected


def expected_of_images(torch, module, images, limit):
    """The same of a model that reads images. Shorter prompts are padded on the left."""
    words = int(module.get_input_embeddings().num_embeddings)
    draws = np.random.default_rng(0)

    def draw(shape):
        return without_images(images, _drawn(module, draws, shape), words)

    all_expected = []
    for lengths in [(1,), (7,), (40,), (40, 7, 1)]:
        if limit is not None and max(lengths) + images.features + 5 > limit:
            continue
        prompt, mask = prompts_with_image(images, lengths, draw)
        source = {"pixel_values": draws.normal(size=(len(lengths), *images.shape)).astype(np.float32)}
        pixels = torch.from_numpy(source["pixel_values"])
        ids = [prompt, *(draw((len(lengths), time)) for time in (1, 1, 3))]
        masks, logits = [mask, *(np.ones_like(each) for each in ids[1:])], []
        for end in range(1, len(ids) + 1):  # all tokens each time, without a cache
            read, seen = np.concatenate(ids[:end], 1), np.concatenate(masks[:end], 1)
            with torch.no_grad():
                result = module(
                    input_ids=torch.from_numpy(read), attention_mask=torch.from_numpy(seen), position_ids=torch.from_numpy(positions_of(seen)),
                    **images.arguments(torch, read, seen, pixels, prompt.shape[1]), **without_cache(module), return_dict=True,
                )  # fmt: skip
            logits.append(result.logits[:, -1].float().numpy().copy())
        all_expected.append(Expected(ids, masks, logits, False, source))
        if len(lengths) == 1:
            more = images.arguments(torch, prompt, mask, pixels, prompt.shape[1])
            all_expected += _greedy(torch, module, words, limit, draws, source, prompt, more)
    return all_expected


def compare_decoder(torch, model, all_expected):
    """Raises MismatchError. Returns the largest error of logits, relative to the largest logit of its run."""
    runner, worst = Runner(model), 0.0
    doubt = "".join(f"; {each.doubt}" for each in all_expected if each.doubt)
    if doubt and runner.steps:
        doubt += "; the file reads prompts as generate() reads answers, token by token"
    for expected in all_expected:
        runner.start(len(expected.ids[0]), expected.source)
        for run, (ids, mask, wanted) in enumerate(zip(expected.ids, expected.masks, expected.logits)):
            got = runner.run(ids, mask)
            if wanted is None:
                continue
            if not (wanted < np.inf).all():  # also finds NaN
                raise UnsupportedError("the logits of the module itself are infinite or not a number")
            # Logits of tokens that the module excludes would allow any error of the others.
            excluded = wanted <= _LOWEST
            known, made = np.where(excluded, 0, wanted), np.where(excluded & (got <= _LOWEST), 0, got)
            found = compare(torch, "logits", torch.from_numpy(known), torch.from_numpy(made), "f32")
            if not found["largest_error"] <= found["allowed"]:
                times = ", ".join(str(each.shape[1]) for each in expected.ids[: run + 1])
                after = f"{run} greedy tokens" if expected.greedy else f"runs on {times} tokens"
                raise MismatchError(
                    f"the logits differ from the module's by {found['largest_error']:.3g}, allowed are {found['allowed']:.3g}, "
                    f"for {len(ids)} {'prompt' if len(ids) == 1 else 'prompts'} after {after}{doubt}",
                    model.report,
                )
            worst = max(worst, found["largest_error"] / max(float(np.abs(known).max()), 1e-3))
            for ours, theirs in zip(got, wanted) if expected.greedy else ():
                gap = float(theirs.max() - theirs[ours.argmax()])
                if gap > found["allowed"]:  # else both tokens are equally likely up to rounding
                    message = f"greedy token {run + 1} is {ours.argmax()}, the module's is {theirs.argmax()}{doubt}"
                    raise MismatchError(message, model.report)
    return worst


def _cases(decoder, pairs, limit):
    """(batch, tokens of each run)."""
    cases = [(1, (length, 1, 1, 3)) for length in _LENGTHS] + [(3, (7, 1, 1)), (2, (40, 1, 2))]
    if decoder.has_step_branch:  # and several blocks of tokens
        cases += [(1, (256, 1)), (2, (300, 1))]
    for batch in range(1, 5):  # sizes at which torch.export would have made another program
        for first in range(1, 72):
            for time in (1, 2, 3, 5):
                sizes = {"batch": batch, "past": first if decoder.pasts else 0, "time": time if decoder.pasts else first}
                found = [pair for pair in pairs if _value(pair[0], sizes) == _value(pair[1], sizes)]
                if found:
                    pairs = [pair for pair in pairs if pair not in found]
                    cases.append((batch, (first, time)))
    for time in range(1, 72):  # also of first runs
        sizes = {"batch": 1, "past": 0, "time": time}
        if any(_value(a, sizes) == _value(b, sizes) for a, b in pairs):
            cases.append((1, (time,)))
    return [(batch, parts) for batch, parts in cases if limit is None or sum(parts) <= limit] or [(1, (limit,))]


def _value(text, sizes):
    try:
        return _core.size_of(text, sizes)
    except (ValueError, ZeroDivisionError):
        return None
