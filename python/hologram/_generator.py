# SPDX-License-Identifier: Apache-2.0
"""Generates tokens with language models, and embeds texts."""

import json
import os
import threading
from typing import NamedTuple

from . import _core
from ._model import Library, Model, load


class Token(NamedTuple):
    """A generated token. ``prompt`` is the index of the prompt, or of the answer if each prompt has several."""

    prompt: int
    id: int
    log_probability: float


class Generated(NamedTuple):
    """The answer to a prompt: the new ids, without the stop id.

    ``finish`` is "length" after ``max_tokens``, otherwise "stop". ``log_probabilities`` is empty unless they were
    requested. ``score`` is that of a beam search.
    """

    ids: list
    finish: str
    log_probabilities: list
    score: float = 0.0


class Ended(NamedTuple):
    """A sequence that has left a batch: its id, its Generated, and the exception that ended it or None."""

    id: int
    answer: Generated
    error: Exception | None


def _is_one(prompts):
    """Whether the prompts are one prompt: a sequence of integers."""
    return len(prompts) > 0 and not getattr(prompts[0], "ndim", hasattr(prompts[0], "__len__"))


def _is_floats(array):
    return "float" in str(getattr(array, "dtype", ""))


def _start_ids(model):
    """The ids that begin an answer of an encoder-decoder."""
    try:
        config = json.loads(model.attachments["generation_config.json"])
        ids = [config["decoder_start_token_id"]]
        if config.get("forced_bos_token_id") is not None:
            ids.append(config["forced_bos_token_id"])
    except (KeyError, ValueError):
        ids = [None]
    if not all(isinstance(each, int) for each in ids):
        raise ValueError("the file has no decoder_start_token_id; pass the ids that begin the answer as prompts")
    return ids


def _base_of(draft):
    if not isinstance(draft, (Generator, type(None))):
        raise TypeError("draft is a Generator")
    return draft and draft._base


def _figure(place, text):
    """A property: one number of the last call's result."""
    return property(lambda self: self._base.result_()[place], doc=text)


class Generator:
    """Continues prompts of token ids with a language model.

    ``model`` is a Model, an encoder-decoder (a Library), or the path of a ``.hgm`` file. The options are those of ``Model.session``. A prompt is a
    sequence of integers. Prompts of one call run together; several prompts are a list of sequences::

        generator = hg.Generator("model.hgm")
        answer = generator.generate([5, 17, 3], max_tokens=64, temperature=0.8, seed=7)
        for token in generator.stream([5, 17, 3]):
            print(token.id)

    The encoder of an encoder-decoder reads ``encoder_inputs``: the ids of a text or a list of texts, or an array of features
    [prompts, ...]. Prompts begin the answers; without them, the model's start token does.

    ``past`` ("float32", "float16", "bfloat16" or "int8") is how keys and values are stored; by default as the model has them.

    The past is what the model has read. A call with ``reuse_past`` continues from it; ``append``, ``truncate``, ``fork``, ``save`` and
    ``load`` change it::

        logits = generator.append([5, 17])
        other = generator.fork()
        generator.truncate(1)

    Threads take turns at a generator.
    """

    def __init__(self, model, *, past=None, **options):
        if not isinstance(model, (Model, Library)):
            model = load(model)
        if isinstance(model, Library):
            if not {"encode", "decode"} <= set(model.functions()):
                raise TypeError("the file has several entries; pass one of them, such as hg.load(path).decode")
            self._base = _core.GeneratorBase.create(model._base, options, past)
        else:
            self._base = _core.GeneratorBase.create(model, options, past)
        self._model = model
        self._call = 0
        self._draft = None
        self._turn = threading.RLock()  # of a thread for a whole call

    def stream(self, prompts=None, *, encoder_inputs=None, on_logits=None, **options):
        """Yields each Token as soon as it is known.

        Options: ``max_tokens`` (128), ``stop_ids`` (end a sequence), ``temperature`` (0: the largest logit),
        ``top_k``, ``top_p``, ``min_p``, ``repetition_penalty``, ``seed``, ``log_probabilities``, ``reuse_past`` (a
        prompt that begins with the text of the last call, such as the next turn of a chat, is read from there on).
        ``num_return_sequences`` answers per prompt draw their own tokens. Speculative decoding gives the same tokens:
        ``lookup`` (most tokens proposed from earlier text), or ``draft`` (a Generator of a small model) and
        ``draft_tokens`` (5).
        ``on_logits(prompt, ids, logits)`` may change the array of logits before each choice; ``ids`` are those of the
        prompt and the answer so far. Another call of the generator ends an unfinished iteration with an error.
        """
        if options.get("num_beams", 1) != 1:
            raise ValueError("a beam search has no tokens before its end; use generate()")
        with self._turn:
            self._begin(prompts, encoder_inputs, on_logits, options)
            return self._tokens(self._call)

    def generate(self, prompts=None, *, encoder_inputs=None, on_logits=None, **options):
        """Returns the answer: a Generated, or a list of them if there are several prompts or answers.

        Options as ``stream``, and for a beam search, as in transformers: ``num_beams``, ``length_penalty``,
        ``early_stopping``.
        """
        with self._turn:
            is_one = self._begin(prompts, encoder_inputs, on_logits, options)
            while self._base.step_():
                pass
            answers = self.answers
        return answers[0] if is_one and len(answers) == 1 else answers

    def end(self, prompt=0):
        """Ends the sequence of a prompt, between two tokens of ``stream``."""
        self._base.end_(prompt)

    @property
    def answers(self):
        """A Generated for each answer of the last call, as far as it has come."""
        return [Generated(*each) for each in self._base.result_()[0]]

    prompt_ms = _figure(1, "Milliseconds of the first run of the last call, which reads the prompts.")
    decode_ms = _figure(2, "Milliseconds of all later runs of the last call.")
    reused = _figure(3, "The tokens of the last call's prompt that ``reuse_past`` did not read again.")
    proposed = _figure(4, "The tokens that speculative decoding proposed in the last call.")
    accepted = _figure(5, "The proposed tokens of the last call that were right.")

    @property
    def ids(self):
        """The tokens that the model has read; empty after a call with several prompts or answers."""
        return self._base.ids_()

    def append(self, ids):
        """Reads more tokens. Returns the logits after the last one."""
        with self._turn:
            return self._base.append_(ids)

    def truncate(self, length):
        """Forgets all but the first ``length`` tokens."""
        with self._turn:
            self._base.truncate_(length)

    def reset(self):
        """Forgets all tokens."""
        with self._turn:
            self._base.reset_()

    def fork(self):
        """Returns a generator with a copy of the past, which shares the weights."""
        made = object.__new__(type(self))
        made._base, made._model, made._call, made._draft, made._turn = self._base.fork_(), self._model, 0, None, threading.RLock()
        return made

    def set_adapters(self, adapters):
        """Switches to these adapters and no others: an adapter or a list.

        The model needs room for them, from ``apply_adapters()``. Nothing is compiled. What the model has read is read again in
        the next call.
        """
        with self._turn:
            self._base.set_adapters_(adapters if isinstance(adapters, (list, tuple)) else [adapters])

    def save(self, path):
        """Writes the past to a file. Until the new file is complete, an old one remains."""
        self._base.save_(os.fspath(path))

    def load(self, path):
        """Replaces the past by that of a file of a generator with the same weights."""
        with self._turn:
            self._base.load_(os.fspath(path))

    @property
    def vocabulary(self):
        """The number of tokens; 0 if the model does not fix it."""
        return self._base.vocabulary_

    @property
    def position_limit(self):
        """The number of positions that the model has; 0 if it states no limit."""
        return self._base.position_limit_

    def _begin(self, prompts, encoder_inputs, on_logits, options):
        texts, features, is_one = [], None, False
        if _is_floats(encoder_inputs):
            features, is_one = encoder_inputs, len(encoder_inputs) == 1
        elif encoder_inputs is not None:
            is_one = _is_one(encoder_inputs)
            texts = [encoder_inputs] if is_one else encoder_inputs
        if prompts is None:
            if encoder_inputs is None:
                raise TypeError("there are no prompts")
            prompts = [_start_ids(self._model)] * (len(texts) or len(features))
        else:
            is_one = _is_one(prompts)
            prompts = [prompts] if is_one else prompts
        self._call += 1
        self._draft = options.pop("draft", None)
        self._base.begin_(prompts, texts, features, options, on_logits, _base_of(self._draft))
        return is_one

    def _tokens(self, call):
        while True:
            with self._turn:
                if call != self._call:
                    raise RuntimeError("another call of the generator has begun")
                tokens = self._base.step_()
            if not tokens:
                return
            yield from (Token(*token) for token in tokens)


class BatchGenerator:
    """Generates several sequences at once, which join and leave between steps.

    ``model`` and the options are those of Generator; at most ``rows`` sequences run at a time::

        batch = hg.BatchGenerator("model.hgm", rows=8)
        first = batch.add([5, 17, 3], max_tokens=64)
        while batch.running:
            for token in batch.step():
                print(token.prompt, token.id)
            for id, answer, error in batch.ended:
                print(id, answer.ids)

    Tokens equal those of a Generator, except for rounding. Threads take turns at a batch.
    """

    def __init__(self, model, rows=8, *, past=None, **options):
        self._base = _core.BatchBase.create(model if isinstance(model, Model) else load(model), rows, options, past)
        self._ended = []
        self._drafts = {}  # of sequences, which the batch borrows
        self._proposed = self._accepted = 0
        self._turn = threading.RLock()  # of a thread for a whole call

    def add(self, prompt, *, draft=None, on_logits=None, **options):
        """Reads a prompt and adds its sequence. Returns its id, which its tokens have as ``prompt``.

        Options as ``Generator.stream``, without several answers. Sequences may share a ``draft``. Fails if all rows are taken.
        """
        with self._turn:
            id = self._base.add_(prompt, options, on_logits, _base_of(draft))
            self._drafts[id] = draft
        return id

    def step(self):
        """Runs the model once. Returns the new Tokens, at most one per sequence, and several with ``lookup`` or ``draft``."""
        with self._turn:
            tokens = self._base.step_()
            self._ended = []
            self._collect()
        return [Token(*token) for token in tokens]

    @property
    def ended(self):
        """An Ended for each sequence that the last ``step`` or later ``end`` calls ended."""
        return list(self._ended)

    def end(self, id):
        """Ends a sequence between two steps."""
        with self._turn:
            self._base.end_(id)
            self._collect()

    def _collect(self):
        new = self._base.ended_()[len(self._ended) :]
        for id, sequence, error, proposed, accepted in new:
            self._ended.append(Ended(id, Generated(*sequence), error))
            self._drafts.pop(id, None)
            self._proposed += proposed
            self._accepted += accepted

    @property
    def proposed(self):
        """The tokens that speculative decoding proposed for the sequences that have ended."""
        return self._proposed

    @property
    def accepted(self):
        """The proposed tokens of these sequences that were right."""
        return self._accepted

    @property
    def running(self):
        """The number of sequences."""
        return self._base.running_

    @property
    def rows(self):
        """The most sequences that run at a time."""
        return self._base.rows_


class Embedder:
    """Turns texts, as token ids, into vectors with a language model or a text encoder.

    ``model`` and the options are those of Generator. Threads take turns at an embedder::

        embedder = hg.Embedder("model.hgm")
        vector = embedder.embed([5, 17, 3])
    """

    def __init__(self, model, **options):
        self._base = _core.EmbedderBase.create(model if isinstance(model, Model) else load(model), options)

    def embed(self, ids, pooling="mean", normalize=True):
        """Returns an array of ``size`` numbers: the "mean" of the hidden states, or the "first" or "last" one, with a length of 1."""
        return self._base.embed_(ids, pooling, normalize)

    @property
    def size(self):
        """The length of the arrays."""
        return self._base.size_
