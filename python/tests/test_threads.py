# SPDX-License-Identifier: Apache-2.0
"""Threads that share objects get the same results as alone, also in builds of Python without the GIL. The GIL, Ctrl-C, forks."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from conftest import mlp, pointwise

import hologram as hg


def together(count, work):
    """Runs work(k) in this number of threads at once; raises the first thread's exception."""
    raised, start = [], threading.Barrier(count)

    def run(k):
        try:
            start.wait()
            work(k)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not any(t.is_alive() for t in threads), "a thread hangs"
    if raised:
        raise raised[0]


def test_the_gil_stays_as_it_is():
    """A Python without the GIL does not enable it for this package."""
    if hasattr(sys, "_is_gil_enabled") and not sys.flags.gil:
        assert not sys._is_gil_enabled()


def test_expressions_that_share_parts(rng):
    x = rng.standard_normal((64, 64)).astype(np.float32)
    leaf = hg.Var(x)
    shared = hg.ops.relu(leaf) * 2.0 + leaf

    def work(k):
        for i in range(60):
            factor = float(1 + (k * 7 + i) % 5)
            y = hg.ops.matmul(shared, leaf) * factor
            assert y.shape == (64, 64) and str(y)
            want = (np.maximum(x, 0) * 2 + x) @ x * factor
            np.testing.assert_allclose(y.numpy(), want, rtol=1e-4, atol=1e-3)
            slope = hg.ops.sum(shared * factor).grad(leaf)
            np.testing.assert_array_equal(slope.numpy(), ((x > 0) * 2 + 1) * np.float32(factor))

    together(6, work)


def test_an_expression_waits_for_no_thread_that_waits_for_it():
    """A Python kernel needs the GIL while its expression runs, and may run other expressions."""
    inner = hg.Var(np.ones(3, "float32"))
    function = hg.register_op("thread_inner(x) -> y", lambda x: x + (inner * 2.0).numpy())

    def work(k):
        leaf = hg.Var(np.full(3, k, "float32"))
        for _ in range(50):
            np.testing.assert_array_equal((function(leaf) + inner).numpy(), k + 3)

    together(4, work)


def test_one_trainer(rng):
    """Steps take turns. The result is the same in any order, because all use the same batch."""
    model, _ = mlp(rng)
    x, y = (rng.standard_normal((16, n)).astype(np.float32) for n in (8, 3))
    one, many = (hg.Trainer(model, loss="mse", optimizer="sgd", lr=0.01, threads=1) for _ in range(2))
    for _ in range(4 * 25):
        one.step(x, y)

    def work(k):
        for i in range(25):
            many.step(x, y)
            if i % 8 == k:
                many.evaluate(x, y)
                many.model(), many.memory(), many.state_dict() if sys.modules.get("torch") else None
            assert many.lr == pytest.approx(0.01) and len(many.parameters()) == 4

    together(4, work)
    assert many.updates == one.updates == 100
    for name, value in one.parameters().items():
        np.testing.assert_array_equal(many.parameters()[name], value)


def test_callbacks_use_their_trainer_and_wait_for_threads_that_do(rng):
    model, _ = mlp(rng)
    x, y = (rng.standard_normal((16, n)).astype(np.float32) for n in (8, 3))
    trainer, seen = hg.Trainer(model, loss="mse"), []

    def callback(event):
        thread = threading.Thread(target=lambda: seen.append(trainer.evaluate(x, y)["loss"]))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert trainer.evaluate(x, y)["loss"] == seen[-1]

    trainer.fit(x, y, epochs=3, batch_size=8, callbacks=callback)
    assert len(seen) == 3 * 2 + 3


def test_a_function_inside_of_a_step_cannot_step(rng):
    function = hg.register_op("thread_step(x) -> y", lambda x: use() and x, gradient=lambda dy: dy)
    graph = hg.Graph()
    w = graph.parameter("w", rng.standard_normal((3, 4)).astype(np.float32))
    graph.output("y", hg.ops.linear(function(graph.input("x", ("n", 4))), w))
    trainer = hg.Trainer(graph.model(), loss="mse")
    x, y = np.ones((2, 4), "float32"), np.ones((2, 3), "float32")

    def use():
        trainer.step(x, y)

    with pytest.raises(RuntimeError, match="a function that a trainer calls"):
        trainer.step(x, y)


def test_everything_at_once(rng):
    """All threads share one model, executor, kernel, program, graph and library."""
    model, kernel, executor = pointwise(), hg.kernel("k", "max(a + b, 0.0) * a"), hg.Executor("cpu", threads=1)
    nn = hg.named
    program = hg.compile(nn.Group([nn.Input("x", ("n", 8)), nn.Linear(8, 4).output("y")]), threads=1)
    weights = program.initial_parameters(3)
    data = [rng.standard_normal((n, 8)).astype(np.float32) for n in (1, 3, 200)]
    want = [np.maximum(x + x, 0) * x for x in data]
    linear = [x @ weights["y.weight"].T + weights["y.bias"] for x in data]
    flat = pointwise(shape=("n", 8))

    def work(k):
        own = np.random.default_rng(k)
        for i in range(80):
            j = int(own.integers(3))
            x = data[j]
            np.testing.assert_array_equal(flat(x, x), want[j])
            np.testing.assert_array_equal(model(x.reshape(-1), b=x.reshape(-1)), want[j].reshape(-1))
            np.testing.assert_array_equal(kernel(x, x), want[j])
            np.testing.assert_array_equal(executor.relu(executor.add(x, x)) * x, want[j])
            np.testing.assert_array_equal(hg.ops.relu(hg.ops.add(x, x)) * x, want[j])
            np.testing.assert_allclose(program.evaluate(weights, {"x": x})["y"], linear[j], rtol=1e-4, atol=1e-5)
            program.summary(), program.memory(), executor.counters(), str(flat.graph)
            with executor if k % 2 else hg.Executor("cpu", threads=1):
                np.testing.assert_array_equal(hg.ops.add(x, x), x + x)

    with executor:
        together(6, work)
    assert executor.is_freed


def test_one_graph(rng):
    """Threads add nodes to a graph in any order, and none is lost."""
    graph = hg.Graph()
    x = graph.input("x", (4,))

    def work(k):
        y = x
        for i in range(40):
            y = hg.ops.add(y, np.full(4, k, "float32")) * 1.0
        graph.output(f"y{k}", y)

    together(4, work)
    found = graph.model()(np.zeros(4, "float32"))
    names = [spec.name for spec in graph.model().outputs]
    for name, value in zip(names, found):
        np.testing.assert_array_equal(value, 40 * int(name[1:]))


def test_a_model_is_called_first_by_many():
    for _ in range(20):
        model = pointwise()
        x = np.arange(5, dtype=np.float32)
        together(6, lambda k: np.testing.assert_array_equal(model(x, x), 2 * x * x))


def test_many_threads(small, rng):
    model, weights = small
    data = [rng.standard_normal((n, 8)).astype(np.float32) for n in range(1, 9)]
    want = [model(x) for x in data]
    failures = []

    def work(seed):
        order = np.random.default_rng(seed).integers(0, 8, 200)
        for i in order:
            if not np.array_equal(model(data[i]), want[i]):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def heavy():
    """Some seconds of work."""
    g = hg.Graph()
    x = g.input("x", ("n", "n"))
    y = x
    for _ in range(200):
        y = hg.ops.matmul(y, x)
    g.output("y", y)
    return g.model()


def test_the_gil_is_released():
    session = heavy().session(threads=1)
    x = np.zeros((400, 400), np.float32)
    session(x)
    ticks, done = [0], threading.Event()

    def tick():
        while not done.is_set():
            ticks[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks[0]
    session(x)
    during = ticks[0] - before
    done.set()
    thread.join()
    assert during > 3


def test_ctrl_c_stops_a_run():
    session = heavy().session(threads=1)
    x = np.zeros((1500, 1500), np.float32)
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        session(x)
    timer.join()
    handler = signal.getsignal(signal.SIGINT)
    assert handler is signal.default_int_handler
    small = np.zeros((4, 4), np.float32)
    np.testing.assert_array_equal(session(small), small)


def test_a_forked_child_runs():
    model, weights = mlp(np.random.default_rng(1), (64, 512, 64))
    x = np.ones((256, 64), np.float32)
    want = model.session(threads=2)(x)
    session = model.session(threads=2)
    session(x)
    child = os.fork()
    if child == 0:
        ok = np.array_equal(session(x), want) and np.array_equal(model(x), want)
        os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
