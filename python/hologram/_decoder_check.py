# SPDX-License-Identifier: Apache-2.0
"""Checks a converted decoder against the module of transformers: logits with and without a past, and greedy tokens."""

import numpy as np

from ._check import _compare
from ._errors import MismatchError

GREEDY_STEPS = 64
_LENGTHS = (1, 7, 40)  # of prompts


class Runner:
    """Runs a converted decoder and passes its past on, as hg::Generator does."""

    def __init__(self, model):
        self.session = model.session()
        self.inputs = model.inputs
        self.outputs = [spec.name for spec in model.outputs]
        self.names = {spec.name for spec in self.inputs}

    def start(self, batch):
        self.ids = np.zeros((batch, 0), np.int64)
        self.mask = np.zeros((batch, 0), np.int64)
        self.past = {
            spec.name: np.zeros((batch, spec.shape[1], 0, spec.shape[3]), np.float32)
            for spec in self.inputs
            if spec.name.startswith("past_key_values.")
        }

    def run(self, ids, mask):
        """The logits of the last position after these tokens."""
        begin = self.ids.shape[1] if self.past else 0
        self.ids, self.mask = np.concatenate([self.ids, ids], 1), np.concatenate([self.mask, mask], 1)
        given = {
            "input_ids": self.ids[:, begin:],
            "attention_mask": self.mask,
            "position_ids": np.maximum(self.mask.cumsum(1) - 1, 0)[:, begin:],
            **self.past,
        }
        result = self.session(**{name: np.ascontiguousarray(array) for name, array in given.items() if name in self.names})
        result = dict(zip(self.outputs, result if isinstance(result, tuple) else (result,)))
        # Outputs are views that the next run overwrites.
        self.past = {name: np.array(result["present." + name.removeprefix("past_key_values.")]) for name in self.past}
        return np.array(result["logits"])[:, -1]


class Reference:
    """The same for the module."""

    def __init__(self, torch, model):
        self.torch, self.model = torch, model

    def start(self, batch):
        self.ids = np.zeros((batch, 0), np.int64)
        self.mask = np.zeros((batch, 0), np.int64)

    def run(self, ids, mask):
        """Reads all tokens, so that it does not depend on any cache."""
        import inspect

        self.ids, self.mask = np.concatenate([self.ids, ids], 1), np.concatenate([self.mask, mask], 1)
        given = {
            "input_ids": self.ids,
            "attention_mask": self.mask,
            "position_ids": np.maximum(self.mask.cumsum(1) - 1, 0),
        }
        accepted = inspect.signature(self.model.forward).parameters
        given = {name: self.torch.from_numpy(array.copy()) for name, array in given.items() if name in accepted}
        with self.torch.no_grad():
            return self.model(**given, use_cache=False, return_dict=True).logits[:, -1].float().numpy()


def check_decoder(torch, module, model, decoder, pairs, limit):
    """Raises MismatchError. Returns the largest error of the logits, relative to the largest logit. ``limit``: positions of
    the model, or None. ``pairs``: sizes that torch.export took for different."""
    words = _vocabulary(module)
    ours, theirs = Runner(model), Reference(torch, module)
    draws = np.random.default_rng(0)
    worst = 0.0
    for batch, parts in _cases(decoder, pairs, limit):
        hidden = draws.integers(0, parts[0], batch) if decoder.is_masked and batch > 1 else np.zeros(batch, np.int64)
        if batch > 1:
            hidden[0] = 0
        ours.start(batch)
        theirs.start(batch)
        for i, time in enumerate(parts):
            ids = draws.integers(0, words, (batch, time))
            mask = (np.arange(time) >= hidden[:, None]).astype(np.int64) if i == 0 else np.ones((batch, time), np.int64)
            wanted, got = theirs.run(ids, mask), ours.run(ids, mask)
            found = _compare(torch, "logits", torch.from_numpy(wanted.copy()), torch.from_numpy(got), "f32")
            if not found["largest_error"] <= found["allowed"]:
                raise MismatchError(
                    f"the logits differ from the module's by {found['largest_error']:.3g}, allowed are {found['allowed']:.3g}, "
                    f"for {batch} {'prompt' if batch == 1 else 'prompts'} after runs on {', '.join(map(str, parts[: i + 1]))} tokens"
                )
            worst = max(worst, found["largest_error"] / max(float(np.abs(wanted).max()), 1e-3))
    _check_greedy(torch, module, ours, words, limit, draws)
    return worst


def _cases(decoder, pairs, limit):
    """(batch, tokens of each run)."""
    cases = [(1, (length, 1, 1, 3)) for length in _LENGTHS] + ([(3, (7, 1, 1)), (2, (40, 1, 2))] if decoder.is_masked else [(3, (7, 1))])
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
    return [(batch, parts) for batch, parts in cases if limit is None or sum(parts) <= limit]


def _value(text, sizes):
    from . import _core

    try:
        return _core.size_of(text, sizes)
    except (ValueError, ZeroDivisionError):
        return None


def _vocabulary(module):
    return int(module.get_input_embeddings().num_embeddings)


def _check_greedy(torch, module, ours, words, limit, draws):
    """Tokens of 64 steps beside the module's own generate()."""
    prompt = draws.integers(0, words, (1, 7))
    steps = GREEDY_STEPS if limit is None else min(GREEDY_STEPS, limit - prompt.shape[1])
    if steps < 1:
        return
    from transformers import GenerationConfig

    config = GenerationConfig(do_sample=False, max_new_tokens=steps, min_new_tokens=None, eos_token_id=None, pad_token_id=0, output_logits=True,
                              return_dict_in_generate=True)  # fmt: skip
    ids = torch.from_numpy(prompt)
    with torch.no_grad():
        result = module.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
    wanted = result.sequences[0, prompt.shape[1] :].tolist()
    ours.start(1)
    given, mask = prompt, np.ones_like(prompt)
    for step, token in enumerate(wanted):
        logits = ours.run(given, mask)[0]
        theirs = result.logits[step][0].float().numpy()
        token_here = int(logits.argmax())
        if token_here != token:
            gap = float(theirs[token] - theirs[token_here])
            if gap <= 2e-4 * max(float(np.abs(theirs).max()), 1e-3):
                return  # two tokens are equally likely up to rounding: what follows differs
            raise MismatchError(f"greedy token {step + 1} after a prompt of {prompt.shape[1]} is {token_here}, the module's is {token}")
        given, mask = np.array([[token]]), np.ones((1, 1), np.int64)
