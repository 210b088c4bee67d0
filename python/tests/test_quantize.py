# SPDX-License-Identifier: Apache-2.0
"""hg.quantize: its rounding is numpy's arithmetic; what it keeps and rejects."""

import pickle

import hologram as hg
import numpy as np
import pytest


def model_of(weight):
    g = hg.Graph()
    x = g.input("x", ("n", weight.shape[1]))
    g.output("y", hg.ops.linear(x, g.parameter("head.weight", weight)))
    return g.model()


def rounded(w, bits, group):
    """The weight after quantization."""
    most, columns = {8: 127, 4: 7}[bits], w.shape[1]
    out = np.empty_like(w)
    for first in range(0, columns, group or columns):
        block = w[:, first : first + (group or columns)].astype(np.float64)
        scale = (np.abs(block).max(1, keepdims=True) / most).astype(np.float32)
        level = np.sign(block) * np.floor(np.abs(block / scale) + 0.5)
        out[:, first : first + block.shape[1]] = level.astype(np.float32) * scale
    return out


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("group", [0, 16, 24])
def test_weights_are_rounded(bits, group):
    w = np.random.default_rng(1).standard_normal((96, 256)).astype(np.float32)
    model = model_of(w)
    small = hg.quantize(model, bits=bits, group=group)
    wanted = rounded(w, bits, group)
    np.testing.assert_array_equal(small(np.eye(256, dtype=np.float32)), wanted.T)
    error = np.linalg.norm((wanted - w).astype(np.float64)) / np.linalg.norm(w.astype(np.float64))
    assert small.info["quantized"] == {"head.weight": pytest.approx(error, rel=1e-6)}
    assert len(small.serialize()) < len(model.serialize()) * (0.35 if bits == 8 else 0.25)
    assert pickle.loads(pickle.dumps(small)).info == small.info
    assert small.parameters() == {} and "head.weight" in small.buffers()
    assert model.info["quantized"] == {} and list(model.parameters()) == ["head.weight"]


def test_what_is_kept_and_refused():
    model = model_of(np.ones((24, 64), np.float32))
    for kept in (hg.quantize(model, keep="head"), hg.quantize(model, keep=["head.weight"]), hg.quantize(model, least=1537)):
        assert kept.info["quantized"] == {} and kept.serialize() == model.serialize()
    with pytest.raises(ValueError, match="`keep` names 'tail'"):
        hg.quantize(model, keep=["tail"])
    with pytest.raises(ValueError, match="`bits` is 3, but weights have 8 or 4"):
        hg.quantize(model, bits=3)
    with pytest.raises(ValueError, match="element 65 of 'head.weight' is nan"):
        w = np.ones((24, 64), np.float32)
        w[1, 1] = np.nan
        hg.quantize(model_of(w))


def test_samples_select_levels_and_bits():
    rng = np.random.default_rng(3)
    w = rng.standard_normal((24, 64)).astype(np.float32)
    model = model_of(w)
    x = np.cumsum(rng.standard_normal((200, 64)), 1).astype(np.float32)  # correlated inputs
    wanted = (x @ w.T).astype(np.float64)

    def error(small):
        return np.linalg.norm(small(x) - wanted) / np.linalg.norm(wanted)

    nearest, least, second = (
        error(hg.quantize(model, samples, bits=4, rounding=rounding))
        for rounding, samples in (("nearest", None), ("least_squares", None), ("second_order", [x]))
    )
    assert second < 0.5 * min(nearest, least)
    sizes = []
    for limit in (0.1, 0.01, 1e-4, 0):
        small = hg.quantize(model, [x], max_error=limit)
        assert error(small) <= limit + 1e-6
        sizes.append(len(small.serialize()))
    assert sizes == sorted(sizes) and sizes[-1] == len(model.serialize())
    labels = wanted.argmax(1)
    small = hg.quantize(model, [x], max_error=0, metric="accuracy", targets=[labels])
    assert (small(x).argmax(1) == labels).mean() >= (model(x).argmax(1) == labels).mean()
    with pytest.raises(ValueError, match="`max_error` and `metric` require samples"):
        hg.quantize(model, max_error=0.1)
    with pytest.raises(ValueError, match="there is no rounding 'up'"):
        hg.quantize(model, rounding="up")


def test_samples_give_ranges():
    rng = np.random.default_rng(2)
    w = rng.standard_normal((24, 64)).astype(np.float32)
    model = model_of(w)
    samples = [rng.uniform(-1, 3, (n, 64)).astype(np.float32) for n in (1, 5)]
    small = hg.quantize(model, samples)
    # In numpy's arithmetic: 8 bits from the smallest to the largest number.
    low, high = (getattr(np, f)([getattr(np, f)(x) for x in samples]) for f in ("min", "max"))
    scale = (np.float64(high) - low) / 255
    x = rng.uniform(low, high, (7, 64)).astype(np.float32)
    zero = np.rint(-low / scale)
    levels = np.clip(np.rint(x / scale) + zero, 0, 255) - zero
    wanted = (levels * scale) @ rounded(w, 8, 0).T.astype(np.float64)
    np.testing.assert_allclose(small(x), wanted, atol=scale * np.abs(w).max())  # a tie may round either way
    assert np.abs(small(x) - x @ w.T).max() > 0 and small.buffers()["head.weight"].dtype == np.int8
    assert list(small.info["quantized"]) == ["head.weight"]
    with pytest.raises(hg.UnsupportedError, match="'head.weight' has quantized levels"):
        small.state_dict()
    # Larger values are clipped; arguments may be a tuple, or given by name.
    np.testing.assert_array_equal(small(np.full((1, 64), 9, np.float32)), small(np.full((1, 64), high, np.float32)))
    for form in ([(x,) for x in samples], [{"x": x} for x in samples], iter(samples)):
        assert hg.quantize(model, form).serialize() == small.serialize()
    assert hg.quantize(model, samples, percentile=90).serialize() != small.serialize()


def test_fastest_keeps_layers_that_eight_bits_do_not_make_faster():
    model = model_of(np.random.default_rng(4).standard_normal((24, 64)).astype(np.float32))
    samples = [np.ones((2, 64), np.float32)]
    small = hg.quantize(model, samples, fastest=True, threads=1).serialize()
    assert small in (model.serialize(), hg.quantize(model, samples).serialize())
    with pytest.raises(ValueError, match="`fastest` requires samples"):
        hg.quantize(model, fastest=True)


def test_samples_that_do_not_fit():
    model = model_of(np.ones((24, 64), np.float32))
    with pytest.raises(TypeError, match="takes 1 inputs, samples.1. has 2"):
        x = np.ones((1, 64), np.float32)
        hg.quantize(model, [x, (x, x)])
    with pytest.raises(ValueError):
        hg.quantize(model, [])
    with pytest.raises(ValueError):
        hg.quantize(model, [np.ones((1, 63), np.float32)])


def test_attachments_stay_with_the_model(tmp_path):
    model = model_of(np.ones((96, 64), np.float32))
    assert model.attachments == {}
    files = {"tokenizer.json": b"{}", "a/\u00e9": bytes(range(256)), "none": b""}
    model.attachments = files
    model.save(tmp_path / "model.hgm")
    for each in (model, hg.quantize(model), hg.load(tmp_path / "model.hgm"), pickle.loads(pickle.dumps(model))):
        assert each.attachments == files and list(each.attachments) == list(files)
    with pytest.raises(TypeError):
        model.attachments["more"] = b""
    with pytest.raises(TypeError, match="'a' is a str, expected bytes"):
        model.attachments = {"a": "text"}
    with pytest.raises(ValueError, match="not empty"):
        model.attachments = {"": b""}
    assert model.attachments == files
    model.attachments = {}
    assert model.attachments == {}
