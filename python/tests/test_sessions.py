# SPDX-License-Identifier: Apache-2.0
"""Sessions and their options; memory, profile and graph of a model."""

import threading

import numpy as np
import pytest

import hologram as hg


def test_sessions(small, rng):
    model, weights = small
    x = rng.standard_normal((4, 8)).astype(np.float32)
    want = model(x)
    for options in (
        {"threads": 1},
        {"threads": 2, "device": "cpu"},
        {"memory_limit": "64M"},
        {"memory_limit": 1 << 26, "precision": "float32"},
        {"low_memory": True},
        {"dims": {"n": 4}},
        {"device": "auto"},
        {"checkpoint": "sqrt", "seed": 3, "most_rounds": 10},
    ):
        np.testing.assert_allclose(model.session(**options)(x), want, rtol=1e-5, atol=1e-6)
    rough = model.session(precision="bfloat16")(x)
    np.testing.assert_allclose(rough, want, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    "options",
    [{"autotune": True}, {"disabled_passes": ["*"]}, {"kernels": ["linear=loops"]}, {"lazy_allocation": True}, {"first_run": 5},
     {"keep_all_values": True}, {"profile": True}, {"tuning": b""}, {"gpu_name": ""}, {"memory_limit": "1G", "low_memory": True}],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_further_options_change_no_result(options, small, rng):
    model, _ = small
    x = rng.standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_allclose(model.session(**options)(x), model(x), rtol=1e-5, atol=1e-6)


def test_packed_weights_are_mapped_by_the_next_session(tmp_path, rng):
    g = hg.Graph()
    weight = rng.standard_normal((96, 64)).astype(np.float32)
    g.output("y", hg.ops.linear(g.input("x", (32, 64)), g.parameter("w", weight)))
    model, x = g.model(), rng.standard_normal((32, 64)).astype(np.float32)
    want = model(x)
    file = tmp_path / "net.packed"
    for mapped in (0, 96 * 64 * 4):
        session = model.session(packed=str(file))
        np.testing.assert_array_equal(session(x), want)
        assert session.memory().mapped_bytes == mapped
        session.save_packed()
        del session
    for wrong in (3, b"net", "a\0b"):
        with pytest.raises(TypeError, match="packed cannot be"):
            model.session(packed=wrong)
    model.session(packed=file)
    with pytest.raises(ValueError, match="option packed"):
        session = model.session()
        session(x)
        session.save_packed()


def test_seeds_decide_what_is_drawn():
    g = hg.Graph()
    g.output("y", hg.ops.dropout(g.input("x", ("n",)), 0.5, training=True))
    model, x = g.model(), np.ones(200, np.float32)

    def runs(**options):
        session = model.session(**options)
        return [session(x).tolist() for _ in range(3)]

    first = runs(seed=3)
    assert first == runs(seed=3) and first[0] != first[1]
    assert first != runs(seed=4)
    assert runs(seed=3, first_run=1)[:2] == first[1:]
    session = model.session(seed=4)
    session(x)
    session.seed(3)
    assert [session(x).tolist() for _ in range(3)] == first


def test_a_session_that_cannot_be_fails_at_once(small):
    model, _ = small
    with pytest.raises(ValueError, match="threads is -1; it must not be negative"):
        model.session(threads=-1)
    with pytest.raises(ValueError, match="no_such"):
        model.session(kernels=["linear=no_such"])


def test_sizes_are_planned_once():
    """The model's own session keeps its plans, also if threads alternate: calls of an op's shape rule show it."""
    asked = []
    function = hg.register_op("asked(x) -> y", lambda x: x + 1, shape=lambda x: asked.append(x.shape) or x.shape)
    graph = hg.Graph()
    graph.output("y", function(graph.input("x", ("n",))))
    model = graph.model()

    def call(n):
        np.testing.assert_array_equal(model(np.ones(n, np.float32)), np.full(n, 2))

    def asked_for(n):
        before = len(asked)
        thread = threading.Thread(target=call, args=(n,))
        thread.start()
        thread.join()
        call(n)
        return len(asked) - before

    assert asked_for(3) > 0 and asked_for(5) > 0
    assert [asked_for(n) for n in (3, 5, 3)] == [0, 0, 0]


def test_memory(small):
    model, _ = small
    memory = model.memory(n=64)
    assert memory.peak_bytes >= memory.arena_bytes >= memory.arena_lower_bound > 0
    assert memory.weights_bytes > 0
    assert model.memory(n=640).arena_bytes > memory.arena_bytes
    model(np.zeros((2, 8), np.float32))
    assert model.memory().arena_bytes < memory.arena_bytes
    assert model.flops(n=1) > 0
    assert "<svg" in model.memory_svg(n=4)


def test_profile(small):
    model, _ = small
    profile = model.profile(np.zeros((4, 8), np.float32))
    assert len(profile) > 0 and profile.total_ms > 0
    assert {row.op for row in profile} & {"linear", "matmul"}
    assert "linear" in str(profile) and "total" in str(profile)
    assert profile._repr_html_().startswith("<table>")
    assert len(model.profile(n=3)) == len(model.profile()) > 0
    with pytest.raises(ValueError, match="profile=True"):
        model.session().profile()


def test_graph(small):
    model, _ = small
    text = str(model.graph)
    assert "linear" in text and "relu" in text and "0.weight" in text
    assert model.graph.ops == ["linear", "relu", "linear"]
    assert model.graph._repr_svg_().lstrip().startswith("<")
    assert "svg" in model.graph._repr_svg_()[:200]
    assert model.inputs == [("x", "float32", ("n", 8))]
    assert model.outputs == [("y", "float32", ("n", 3))]
    assert model.inputs[0].name == "x"
    assert "x: float32[n, 8]" in repr(model)
    assert set(model.parameters()) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    with pytest.raises(ValueError):
        model.parameters()["0.weight"][...] = 0


def test_devices():
    devices = hg.devices()
    assert devices[0].kind == "cpu"
    assert all(each.kind == "vulkan" for each in devices[1:])
