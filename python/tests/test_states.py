# SPDX-License-Identifier: Apache-2.0
"""Sessions of several entries that share buffers, beside plain numpy and PyTorch."""

import os
import random
import threading

import numpy as np
import pytest

import hologram as hg


def counter(step, first=(1, 2)):
    """before = count; count += step * x"""
    g = hg.Graph()
    count = g.buffer("count", np.array(first, np.float32))
    g.output("before", count + 0.0)
    if step:
        g.assign(count, count + g.input("x", (len(first),)) * step)
    return g.model()


def library_of(path, **models):
    hg.save_library(models, path)
    return hg.load(path)


def test_sessions_see_each_others_states(tmp_path):
    library = library_of(tmp_path / "l.hgm", add=counter(1.0), twice=counter(2.0), read=counter(0))
    states = library.states()
    assert states.names() == ["count"] and len(states) == 1
    sessions = {name: library.session(name, states=states, threads=1) for name in library}
    alone = library.session("read")
    want, order = np.array([1, 2], np.float32), random.Random(3)
    x = np.array([1, -2], np.float32)
    for _ in range(50):
        name = order.choice(list(sessions))
        got = sessions[name]() if name == "read" else sessions[name](x)
        np.testing.assert_array_equal(got, want)
        want = want + x * {"add": 1, "twice": 2, "read": 0}[name]
        np.testing.assert_array_equal(states["count"], want)
        np.testing.assert_array_equal(alone(), [1, 2])
    states["count"] = [5, 6]
    np.testing.assert_array_equal(sessions["read"](), [5, 6])
    states["count"][:] = 0  # of a copy
    np.testing.assert_array_equal(sessions["read"](), [5, 6])
    states.reset()
    np.testing.assert_array_equal(sessions["read"](), [1, 2])


def test_states_of_a_model():
    model = counter(1.0)
    states = model.states()
    session, x = model.session(states=states), np.array([1, -2], np.float32)
    for want in ([1, 2], [2, 0], [3, -2]):
        np.testing.assert_array_equal(session(x), want)
    states.reset()
    np.testing.assert_array_equal(session(x), [1, 2])


def test_what_cannot_be_shared(tmp_path):
    library = library_of(tmp_path / "l.hgm", add=counter(1.0), read=counter(0))
    states = library.states()
    with pytest.raises(hg.NotFoundError, match="there is no shared state 'none'; there are count"):
        states["none"]
    with pytest.raises(ValueError, match=r"'count' is f32\[2\]"):
        states["count"] = np.zeros(3, np.float32)
    with pytest.raises(TypeError):
        library.session("add", states=3)
    wide = library_of(tmp_path / "w.hgm", add=counter(1.0, (1,)), read=counter(0, (1,)))
    with pytest.raises((ValueError, hg.HologramError), match="count"):
        wide.session("add", states=states)
    with pytest.raises((ValueError, hg.HologramError), match="different values of 'count'"):
        library_of(tmp_path / "d.hgm", add=counter(1.0), other=counter(2.0, (3, 4))).states()
    assert library_of(tmp_path / "n.hgm", read=counter(0)).states().names() == []


def test_threads_take_turns(tmp_path):
    library = library_of(tmp_path / "l.hgm", add=counter(1.0), twice=counter(2.0))
    states = library.states()
    one = np.ones(2, np.float32)

    def work(name):
        session = library.session(name, states=states, threads=1)
        for _ in range(300):
            session(one)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("add", "twice") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(states["count"], np.array([1, 2]) + 300 * 9)


def test_exported_programs_become_entries_that_share_states(tmp_path):
    torch = pytest.importorskip("torch", "2.5")

    core = hg._core
    if not hasattr(core, "convert_command"):
        pytest.skip("this build has no converter")

    class Part(torch.nn.Module):
        def __init__(self, shared, steps):
            super().__init__()
            self.steps, self.weight = steps, shared["weight"]
            for name in sorted({name for _, name in steps}):
                self.register_buffer(name, shared[name])

        def forward(self, x):
            y = x * self.weight
            for kind, name in self.steps:
                state = getattr(self, name)
                if kind == "read":
                    y = y + state
                elif kind == "add":
                    state.add_(y.sum(0) * 0.25)
                elif kind == "copy":
                    state.copy_(y[0] * 0.5)
                else:
                    state.zero_()
            return y

    for seed in range(1, 1 + int(os.environ.get("HG_STATES_CASES", "6"))):
        order = random.Random(seed)
        torch.manual_seed(seed)
        shared = {name: torch.randn(3) for name in ("a", "b")}
        shared["weight"] = torch.nn.Parameter(torch.randn(3))
        parts = {}
        for k in range(order.randint(2, 3)):
            kinds = [order.choice(["read", "read", "add", "copy", "zero"]) for _ in range(order.randint(1, 4))]
            parts[f"e{k}"] = Part(shared, [(kind, order.choice("ab")) for kind in kinds])
        words = []
        for name, part in parts.items():
            program = torch.export.export(part, (torch.randn(2, 3),))
            torch.export.save(program, tmp_path / f"{name}.pt2")
            words += ["--entry", f"{name}={tmp_path / name}.pt2"]
        path = tmp_path / f"{seed}.hgm"
        assert core.convert_command([*words, "-o", str(path)]) == 0, seed
        library = hg.load(path)
        states = library.states()
        sessions = {name: library.session(name, states=states, threads=1) for name in parts}
        for _ in range(8):
            name, x = order.choice(list(parts)), torch.randn(2, 3)
            with torch.no_grad():
                want = parts[name](x)
            np.testing.assert_allclose(sessions[name](x.numpy()), want.numpy(), 1e-5, 1e-5, err_msg=f"seed {seed}")
            for state in states.names():
                np.testing.assert_allclose(states[state], shared[state].numpy(), 1e-5, 1e-5, err_msg=f"seed {seed}")


@pytest.mark.parametrize("as_type", ["float32", "float64"])
def test_a_full_state_is_named(tmp_path, as_type):
    g = hg.Graph()
    kept, used = g.buffer("kept", np.zeros((2, 4), np.float32)), g.buffer("used", np.zeros(1, np.int64))
    at = hg.ops.reshape(used, (1, 1)) + g.input("i", (2, 1), "int64") * 0
    changed = hg.ops.scatter(hg.ops.cast(kept, as_type), 1, at, hg.ops.cast(g.input("x", (2, 1)), as_type))
    g.assign(kept, hg.ops.cast(changed, "float32"))
    g.assign(used, used + 1)
    g.output("y", changed)
    library = library_of(tmp_path / "l.hgm", step=g.model())
    states = library.states()
    session = library.session("step", states=states, threads=1)
    zeros, x = np.zeros((2, 1), np.int64), np.ones((2, 1), np.float32)
    for _ in range(4):
        session(i=zeros, x=x)
    with pytest.raises(ValueError, match=r"index is out of range: the state 'kept' is f32\[2, 4\] and cannot grow; if it is full, reset it"):
        session(i=zeros, x=x)
    states.reset()
    session(i=zeros, x=x)
