# SPDX-License-Identifier: Apache-2.0
"""Generators: greedy answers compared with numpy, options, callbacks, errors, threads."""

import threading
import time

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


def test_the_past(generator, weights, tmp_path):
    assert generator.ids == []
    np.testing.assert_allclose(generator.append([4, 1]), logits_of(weights, [4, 1]), atol=1e-5)
    other = generator.fork()
    np.testing.assert_allclose(generator.append(np.array([7])), logits_of(weights, [4, 1, 7]), atol=1e-5)
    generator.save(tmp_path / "past")
    generator.truncate(1)
    np.testing.assert_allclose(generator.append([2]), logits_of(weights, [4, 2]), atol=1e-5)
    assert other.ids == [4, 1] and generator.ids == [4, 2]
    other.load(tmp_path / "past")
    assert other.generate([4, 1, 7, 3], max_tokens=5, reuse_past=True).ids == greedy(weights, [4, 1, 7, 3], 5)
    assert other.reused == 3
    generator.reset()
    assert generator.ids == []
    with pytest.raises(ValueError, match="truncate a past of 0 tokens to 3"):
        generator.truncate(3)
    with pytest.raises(TypeError, match="integer"):
        generator.truncate(1.5)
    (tmp_path / "past").write_bytes((tmp_path / "past").read_bytes()[:-70])
    with pytest.raises(hg.CorruptModelError):
        other.load(tmp_path / "past")
    with pytest.raises(hg.NotFoundError):
        other.load(tmp_path / "none")


def test_a_past_in_fewer_bits(model, last_words, weights):
    exact = logits_of(weights, [4, 1, 7])
    for past in "float16", "bf16", "int8":
        generator = hg.Generator(model, past=past, threads=1)
        np.testing.assert_allclose(generator.append([4, 1, 7]), exact, atol=0.02 * np.abs(exact).max())
    batch = hg.BatchGenerator(last_words, rows=2, past="int8")
    batch.add([3], max_tokens=2)
    while batch.running:
        batch.step()
    with pytest.raises(ValueError, match="f32, f16, bf16 or i8, not as i64"):
        hg.Generator(model, past="int64")


@pytest.fixture(scope="module")
def last_words(weights):
    """Multiplies the embedding of each token by the head. The past and the positions have no effect."""
    g = hg.Graph()
    ids, mask = g.input("input_ids", ("b", "t"), "int64"), g.input("attention_mask", ("b", "p + t"), "int64")
    rows = hg.ops.embedding(ids, g.parameter("words", weights[0]))
    present = hg.ops.concat([g.input("past.x", ("b", 1, "p", WIDTH)), hg.ops.reshape(rows, ("b", 1, "t", WIDTH))], 2)
    shown = hg.ops.reshape(hg.ops.cast(mask, "float32"), ("b", 1, "p + t", 1))
    read = hg.ops.reshape(hg.ops.sum(hg.ops.mul(present, shown), [1, 2]), ("b", 1, WIDTH))
    at = hg.ops.reshape(hg.ops.cast(g.input("position_ids", ("b", "t"), "int64"), "float32"), ("b", "t", 1))
    g.output("logits", hg.ops.linear(hg.ops.add(rows, hg.ops.mul(hg.ops.add(read, at), 0.0)), g.parameter("head", weights[1])))
    g.output("present.x", present)
    return g.model()


def test_speculation_gives_the_same_tokens(last_words, model):
    plain, other, draft = (hg.Generator(last_words, threads=1) for _ in range(3))
    for options in {}, {"temperature": 0.8, "seed": 4}:
        wanted = plain.generate([1, 2], max_tokens=60, **options).ids
        assert plain.proposed == 0
        for how in {"lookup": 3}, {"draft": draft}, {"draft": draft, "draft_tokens": 2}:
            assert other.generate([1, 2], max_tokens=60, **how, **options).ids == wanted
            assert 10 < other.accepted <= other.proposed
            assert [token.id for token in other.stream([1, 2], max_tokens=60, **how, **options)] == wanted
    with pytest.raises(hg.UnsupportedError, match="needs the logits of all tokens"):
        hg.Generator(model).generate([1], lookup=2)
    with pytest.raises(TypeError, match="draft"):
        plain.generate([1], draft=model)
    with pytest.raises(ValueError, match="the generator itself"):
        plain.generate([1], draft=plain)


def test_speculation_in_a_batch_gives_the_same_tokens(last_words, model):
    plain, draft, other = (hg.Generator(last_words, threads=1) for _ in range(3))
    hows = [{}, {"lookup": 3}, {"draft": draft}, {"draft": draft, "draft_tokens": 2}, {"draft": other}]
    prompts = [[1, 2], [3], [7, 0, 22], [4], [5, 6]]
    for options in {}, {"temperature": 0.8, "seed": 4}:
        batch, answers = hg.BatchGenerator(last_words, rows=5, threads=1), {}
        ids = [batch.add(prompt, max_tokens=40, **how, **options) for prompt, how in zip(prompts, hows)]
        while batch.running:
            batch.step()
            answers |= {each.id: each.answer.ids for each in batch.ended}
        for id, prompt in zip(ids, prompts):
            assert answers[id] == plain.generate(prompt, max_tokens=40, **options).ids
        assert 20 < batch.accepted <= batch.proposed
    batch = hg.BatchGenerator(last_words, rows=1)
    with pytest.raises(TypeError, match="draft is a Generator"):
        batch.add([1], draft=model)
    with pytest.raises(hg.UnsupportedError, match="needs the logits of all tokens"):
        batch.add([1], draft=hg.Generator(model))
    first = batch.add([1], draft=draft)  # after failures, the row is free
    del draft
    batch.step()
    batch.end(first)
    assert [each.id for each in batch.ended] == [first] and batch.running == 0


def test_a_batch(last_words, weights):
    def following(prompt, count):
        return [prompt := int(np.argmax(logits_of(weights, [prompt]))) for _ in range(count)]

    batch = hg.BatchGenerator(last_words, rows=2, threads=1)
    prompts, answers, ids = [[1, 2], [3], [7, 0, 22], [4]], {}, {}
    while len(answers) < len(prompts):
        while batch.running < batch.rows and len(ids) < len(prompts):
            prompt = prompts[len(ids)]
            ids[batch.add(prompt, max_tokens=3 + len(prompt))] = prompt
        for token in batch.step():
            assert token.prompt in ids
        for ended in batch.ended:
            assert ended.error is None
            answers[ended.id] = ended.answer.ids
    for id, prompt in ids.items():
        assert answers[id] == following(prompt[-1], 3 + len(prompt))

    def fails(*_):
        raise KeyError("mine")

    first, second = batch.add([1], on_logits=fails), batch.add([2], max_tokens=1)
    with pytest.raises(RuntimeError, match="all 2 rows are taken"):
        batch.add([3])
    batch.step()
    ended = {each.id: each for each in batch.ended}
    assert isinstance(ended[first].error, KeyError) and ended[second].answer.ids == following(2, 1)
    third = batch.add([5])
    batch.end(third)
    assert batch.running == 0 and batch.ended[-1].answer.finish == "stop"
    with pytest.raises(hg.NotFoundError, match=str(third)):
        batch.end(third)


def test_embeddings(weights):
    g = hg.Graph()
    rows = hg.ops.embedding(g.input("input_ids", ("b", "t"), "int64"), g.parameter("words", weights[0]))
    g.output("logits", hg.ops.linear(rows, g.parameter("head", weights[1])))
    embedder = hg.Embedder(g.model())
    assert embedder.size == WIDTH
    ids = [3, 9, 9, 1]
    mean = weights[0][ids].mean(0)
    np.testing.assert_allclose(embedder.embed(ids), mean / np.linalg.norm(mean), atol=1e-6)
    np.testing.assert_allclose(embedder.embed(ids, normalize=False), mean, atol=1e-6)
    np.testing.assert_allclose(embedder.embed(ids, "last", False), weights[0][1], atol=1e-6)
    np.testing.assert_allclose(embedder.embed(ids, pooling="first", normalize=False), weights[0][3], atol=1e-6)
    with pytest.raises(ValueError, match="pooling 'max'"):
        embedder.embed(ids, "max")
    with pytest.raises(ValueError, match="23"):
        embedder.embed([23])


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
    with pytest.raises(ValueError, match="stop_ids has the id 4096, but the vocabulary has"):
        generator.generate([1, 2], stop_ids=[4096])
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
    with pytest.raises(ValueError, match="64 bits"):
        hg.BatchGenerator(model, rows=2**70)
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
    answers, shared = {}, {}

    def work(i):
        own = hg.Generator(model, threads=1)
        answers[i] = own.generate([i], max_tokens=20).ids
        shared[i] = generator.generate([i], max_tokens=20, on_logits=lambda *_: time.sleep(1e-3)).ids

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == shared == {i: greedy(weights, [i], 20) for i in range(8)}
