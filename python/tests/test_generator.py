# SPDX-License-Identifier: Apache-2.0
"""Generators: greedy answers compared with numpy, options, callbacks, errors, threads."""

import threading

import numpy as np
import pytest

import hologram as hg

WORDS, WIDTH = 23, 8


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(3)
    return [rng.standard_normal((WORDS, WIDTH)).astype(np.float32) for _ in range(2)]


@pytest.fixture(scope="module")
def model(weights):
    """Multiplies the sum of all embeddings so far by the head, and passes the sum on."""
    g = hg.Graph()
    ids = g.input("input_ids", ("b", "t"), "int64")
    mask = g.input("attention_mask", ("b", "p + t"), "int64")
    past = g.input("past.x", ("b", 1, "p", WIDTH))
    new = hg.ops.reshape(hg.ops.embedding(ids, g.parameter("words", weights[0])), ("b", 1, "t", WIDTH))
    present = hg.ops.concat([past, new], 2)
    shown = hg.ops.reshape(hg.ops.cast(mask, "float32"), ("b", 1, "p + t", 1))
    total = hg.ops.sum(hg.ops.mul(present, shown), [2])
    g.output("logits", hg.ops.linear(total, g.parameter("head", weights[1])))
    g.output("present.x", present)
    return g.model()


def logits_of(weights, ids):
    return weights[1] @ weights[0][ids].sum(0)


def greedy(weights, ids, count):
    ids = list(ids)
    for _ in range(count):
        ids.append(int(np.argmax(logits_of(weights, ids))))
    return ids[-count:] if count else []


@pytest.fixture
def generator(model):
    return hg.Generator(model, threads=1)


@pytest.mark.parametrize("prompt", [[4], (1, 2, 3), np.array([7, 0, 22])])
@pytest.mark.parametrize("count", [0, 1, 30])
def test_greedy_equals_numpy(generator, weights, prompt, count):
    answer = generator.generate(prompt, max_tokens=count)
    assert answer.ids == greedy(weights, prompt, count)
    assert answer.finish == "length"
    assert answer.log_probabilities == []


def test_several_prompts(generator, weights):
    prompts = [[1, 2], [3, 4], [5, 6]]
    answers = generator.generate(prompts, max_tokens=9)
    assert [a.ids for a in answers] == [greedy(weights, p, 9) for p in prompts]
    assert generator.prompt_ms > 0 and generator.decode_ms > 0


def test_a_chat_goes_on(generator, weights):
    prompt = [1, 2, 3]
    for more, reused in (([], 0), ([4], 6), ([5, 6], 11)):
        prompt += more
        answer = generator.generate(prompt, max_tokens=4, reuse_past=True)
        assert answer.ids == greedy(weights, prompt, 4)
        assert generator.reused == reused  # all but the last token of the answer
        prompt += answer.ids


def test_stream(generator, weights):
    tokens = list(generator.stream([1, 2], max_tokens=5, log_probabilities=True))
    assert [t.id for t in tokens] == greedy(weights, [1, 2], 5)
    logits = logits_of(weights, [1, 2]).astype(np.float64)
    expected = logits[tokens[0].id] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    assert abs(tokens[0].log_probability - expected) < 1e-5


def test_stops(generator, weights):
    want = greedy(weights, [1, 2], 8)
    stop = want[3]
    answer = generator.generate([1, 2], max_tokens=8, stop_ids=[stop])
    assert answer.ids == want[: want.index(stop)] and answer.finish == "stop"
    for token in generator.stream([1, 2], max_tokens=8):
        generator.end(token.prompt)
    assert generator.answers[0].ids == want[:1] and generator.answers[0].finish == "stop"


def test_draws_repeat(generator):
    options = {"max_tokens": 20, "temperature": 2.0, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.1}
    first = generator.generate([1], seed=5, **options).ids
    assert first == generator.generate([1], seed=5, **options).ids
    assert first != generator.generate([1], seed=6, **options).ids


def test_on_logits(generator):
    seen = []

    def only_seven(prompt, ids, logits):
        seen.append((prompt, ids.tolist()))
        logits[:7] = -np.inf
        logits[8:] = -np.inf

    assert generator.generate([1, 2], max_tokens=3, on_logits=only_seven).ids == [7, 7, 7]
    assert seen == [(0, [1, 2]), (0, [1, 2, 7]), (0, [1, 2, 7, 7])]


def test_errors(generator, model):
    def fails(*_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        generator.generate([1], on_logits=fails)
    with pytest.raises(RuntimeError, match="on_logits cannot use"):
        generator.generate([1], on_logits=lambda *_: generator.generate([1]))
    with pytest.raises(ValueError, match="23"):
        generator.generate([23])
    with pytest.raises(ValueError, match="token id"):
        generator.generate([-1])
    with pytest.raises(ValueError, match="empty"):
        generator.generate([[]])
    with pytest.raises(ValueError, match="no prompts"):
        generator.generate([])
    with pytest.raises(TypeError, match="'most'"):
        generator.generate([1], most=3)
    with pytest.raises(TypeError):
        generator.generate([1.5])
    with pytest.raises(ValueError, match="top_p"):
        generator.generate([1], temperature=1.0, top_p=3.0)
    with pytest.raises(hg.NotFoundError):
        hg.Generator("missing.hgm")
    g = hg.Graph()
    g.output("y", hg.ops.relu(g.input("x", ("n",))))
    with pytest.raises(hg.UnsupportedError, match="'x'"):
        hg.Generator(g.model())
    interrupted = generator.stream([1], max_tokens=5)
    next(interrupted)
    generator.generate([2], max_tokens=1)
    with pytest.raises(RuntimeError, match="another call"):
        next(interrupted)


def test_threads_take_turns(model, weights):
    generator = hg.Generator(model, threads=1)
    answers = {}

    def work(i):
        own = hg.Generator(model, threads=1)
        answers[i] = own.generate([i], max_tokens=20).ids
        with_all = generator.generate([i], max_tokens=0)
        assert with_all.ids == []

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {i: greedy(weights, [i], 20) for i in range(8)}
