# SPDX-License-Identifier: Apache-2.0
"""Batch inference and data-parallel training, in several processes."""

import importlib.util
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import mlp, mlp_numpy
from ranks import OPTIMIZERS, train

import hologram as hg


@pytest.fixture
def saved(rng, tmp_path):
    model, weights = mlp(rng)
    model.save(tmp_path / "m.hgm")
    return tmp_path / "m.hgm", weights


def test_a_predictor_keeps_rows_and_order(saved, rng):
    path, weights = saved
    rows = rng.standard_normal((23, 8)).astype(np.float32)
    want = hg.load(path)(rows)
    for options in ({}, {"batch_size": 5}, {"batch_size": 1, "threads": 1}, {"batch_size": 100}):
        predict = hg.distributed.Predictor(path, **options)
        got = predict({"id": np.arange(23), "x": rows})
        np.testing.assert_array_equal(got["id"], np.arange(23))
        np.testing.assert_allclose(got["y"], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(predict({"x": rows})["y"], want)
    lists = np.empty(23, object)
    lists[:] = [list(map(float, row)) for row in rows]
    got = hg.distributed.Predictor(path, inputs={"x": "features"}, prefix="m_", keep=False)({"features": lists})
    assert list(got) == ["m_y"]
    np.testing.assert_array_equal(got["m_y"], want)
    assert predict({"x": rows[:0]})["y"].shape == (0, 3)
    with pytest.raises(ValueError, match="no column 'x'"):
        predict({"z": rows})


def images(rng):
    """Convolution, norm, pooling and attention over rows, and an integer input."""
    g = hg.Graph()
    x, kind = g.input("x", ("n", 2, 6, 5)), g.input("kind", ("n",), "int64")
    y = hg.ops.conv(x, g.parameter("w", rng.standard_normal((9, 2, 3, 3)).astype(np.float32)), None, padding=[1, 1])
    y = hg.ops.reshape(hg.ops.relu(y), ["n", 9, 30])
    y = hg.ops.matmul(hg.ops.softmax(hg.ops.matmul(y, hg.ops.permute(y, [0, 2, 1])), -1), y)
    y = hg.ops.mean(y, [2])
    table = g.parameter("table", rng.standard_normal((5, 9)).astype(np.float32))
    y = y + hg.ops.embedding(kind, table)
    g.output("y", hg.ops.linear(y, g.parameter("head", rng.standard_normal((7, 9)).astype(np.float32))))
    g.output("most", hg.ops.argmax(y, -1))
    return g.model()


@pytest.mark.parametrize("make", [lambda rng: mlp(rng, (60, 37, 20, 3))[0], images], ids=["mlp", "images"])
def test_rows_get_the_same_bits_wherever_batches_are_cut(make, rng, tmp_path):
    make(rng).save(tmp_path / "m.hgm")
    model = hg.load(tmp_path / "m.hgm")
    count = 150
    rows = {}
    for spec in model.inputs:
        shape = (count, *spec.shape[1:])
        rows[spec.name] = rng.integers(0, 5, shape) if spec.dtype == "int64" else rng.standard_normal(shape).astype(np.float32)
    for size in (1, 7, 16, 64):
        predict = hg.distributed.Predictor(tmp_path / "m.hgm", batch_size=size, keep=False)
        want = predict(rows)
        for _ in range(8):
            order = rng.permutation(count)
            cuts = np.sort(rng.integers(0, count + 1, 5))  # some parts are empty
            parts = [predict({k: v[part] for k, v in rows.items()}) for part in np.split(order, cuts)]
            for name in want:
                np.testing.assert_array_equal(np.concatenate([p[name] for p in parts]), want[name][order])


def test_a_worker_loads_its_model_once(saved, rng):
    path, _ = saved
    loaded = hg.distributed._session_of.cache_info().misses
    for _ in range(3):
        hg.distributed.Predictor(path, batch_size=4)({"x": rng.standard_normal((9, 8)).astype(np.float32)})
    assert hg.distributed._session_of.cache_info().misses == loaded + 1


def test_a_model_of_one_size_takes_any_number_of_rows(rng, tmp_path):
    model, weights = mlp(rng, batch=4)
    model.save(tmp_path / "four.hgm")
    predict = hg.distributed.Predictor(tmp_path / "four.hgm", batch_size=4)
    for count in (0, 1, 4, 9):
        rows = rng.standard_normal((count, 8)).astype(np.float32)
        np.testing.assert_allclose(predict({"x": rows})["y"], mlp_numpy(weights, rows), rtol=1e-4, atol=1e-5)


def test_columns_that_do_not_fit_are_refused(rng, tmp_path):
    images(rng).save(tmp_path / "m.hgm")
    predict = hg.distributed.Predictor(tmp_path / "m.hgm", batch_size=8)
    x, kind = rng.standard_normal((3, 2, 6, 5)), np.arange(3)
    want = predict({"x": x, "kind": kind})
    lists = np.empty(3, object)
    lists[:] = [each.tolist() for each in x]  # nested lists, as Spark gives them
    for same in (x.reshape(3, -1), x.astype(np.float32), lists):
        np.testing.assert_array_equal(predict({"x": same, "kind": kind.astype(np.uint8)})["y"], want["y"])
    for wrong in (
        {"x": x, "kind": kind + 0.5},
        {"x": x, "kind": kind.astype(np.uint64) + 2**63},
        {"x": x.reshape(3, -1)[:, 1:], "kind": kind},
        {"x": x + 1j, "kind": kind},
        {"x": x, "kind": np.array(["a", "b", "c"])},
    ):
        with pytest.raises(ValueError, match="column '(x|kind)'"):
            predict(wrong)
    with pytest.raises(ValueError, match="batch_size"):
        hg.distributed.Predictor(tmp_path / "m.hgm", batch_size=0)
    g = hg.Graph()
    g.output("sum", hg.ops.sum(g.input("x", ("n",))))
    g.model().save(tmp_path / "sum.hgm")
    with pytest.raises(ValueError, match="'sum' has the shape"):
        hg.distributed.Predictor(tmp_path / "sum.hgm")({"x": np.ones(3, np.float32)})


def _predict(path, rows):
    return hg.distributed.Predictor(path, threads=1)({"x": rows})["y"]


def test_other_processes_give_the_same_bits(saved, rng):
    path, _ = saved
    rows = rng.standard_normal((40, 8)).astype(np.float32)
    want = _predict(path, rows[:10])
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        parts = pool.starmap(_predict, [(path, rows[i : i + 10]) for i in range(0, 40, 10)])
    np.testing.assert_array_equal(parts[0], want)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, _predict(path, rows[10 * i : 10 * i + 10]))


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="needs pandas")
def test_frames(saved, rng):
    import pandas

    path, weights = saved
    rows = rng.standard_normal((7, 8)).astype(np.float32)
    frame = pandas.DataFrame({"id": range(7), "x": list(rows)})
    run = hg.distributed.map_in_pandas(path)
    (one, two) = run([frame[:4], frame[4:]])
    got = pandas.concat([one, two])
    assert list(got["id"]) == list(range(7))
    np.testing.assert_allclose(np.stack(got["y"]), mlp_numpy(weights, rows), rtol=1e-4, atol=1e-5)


def _train(rank, count, file, results):
    import torch

    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=count)
    model, _ = mlp(np.random.default_rng(rank))  # each process starts with other weights
    trainer = hg.Trainer(model, loss="mse", optimizer=None, threads=1)
    hg.distributed.broadcast_parameters(trainer)
    results[rank] = _steps(trainer, rank, count)
    torch.distributed.destroy_process_group()


def _steps(trainer, rank, count):
    import torch

    x, y = (np.random.default_rng(5).standard_normal((16, n)).astype(np.float32) for n in (8, 3))
    optimizer = torch.optim.SGD(trainer.torch_parameters(), 0.1, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        trainer.backward(x[rank::count], y[rank::count])
        if count > 1:
            hg.distributed.average_gradients(trainer)
        optimizer.step()
    return {name: value.copy() for name, value in trainer.parameters().items()}


def test_two_ranks_equal_one_with_twice_the_batch(tmp_path):
    pytest.importorskip("torch", "2.5")
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        results = manager.dict()
        processes = [context.Process(target=_train, args=(r, 2, tmp_path / "meet", results)) for r in range(2)]
        [p.start() for p in processes]
        [p.join(120) for p in processes]
        assert [p.exitcode for p in processes] == [0, 0]
        both = dict(results)
    model, _ = mlp(np.random.default_rng(0))
    alone = _steps(hg.Trainer(model, loss="mse", optimizer=None, threads=1), 0, 1)
    for name, value in alone.items():
        np.testing.assert_array_equal(both[0][name], both[1][name])
        np.testing.assert_allclose(both[0][name], value, rtol=1e-4, atol=1e-6)


def _gloo(rank, count, meet, folder):
    import torch

    torch.distributed.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=count)
    train(hg.distributed.AllReduce(), folder)
    torch.distributed.destroy_process_group()


def _compare(folder, count):
    """Compares what the ranks wrote with one process that has all samples."""
    alone = folder / "alone"
    alone.mkdir()
    train(None, alone, count)
    for optimizer in OPTIMIZERS:
        want = np.load(alone / f"{optimizer}_0.npz")
        ranks = [np.load(folder / f"{optimizer}_{rank}.npz") for rank in range(count)]
        for name in want:
            for rank in ranks:
                np.testing.assert_array_equal(rank[name], ranks[0][name], err_msg=name)
            np.testing.assert_allclose(ranks[0][name], want[name], rtol=2e-4, atol=2e-5, err_msg=f"{optimizer} {name}")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_gradients_are_summed_while_backward_runs(count, tmp_path):
    pytest.importorskip("torch", "2.5")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_gloo, args=(r, count, tmp_path / "meet", tmp_path)) for r in range(count)]
    [p.start() for p in processes]
    [p.join(240) for p in processes]
    assert [p.exitcode for p in processes] == [0] * count
    _compare(tmp_path, count)


# Sums as a training has them, as often as forty processes would end: each time the end must find no memory of theirs
# in a thread of gloo, which would ask for an interpreter that is ending.
SUMS = """
import atexit, os, sys, weakref
alive = []
left = lambda: sum(each() is not None for each in alive)
atexit.register(lambda: left() and os._exit(3))  # runs behind those that are registered later
import numpy as np
import torch
import hologram as hg

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
reduce = hg.distributed.AllReduce()

def run():
    for i in range(8):
        array = np.full(64, i, "float32")
        alive.append(weakref.ref(array))
        reduce.begin("sum", array)
    reduce.wait()

for _ in range(40):
    run()
    hg.distributed._let_go()
    if left():
        sys.exit(2)
run()
"""


def test_gloo_holds_nothing_when_a_process_ends(tmp_path):
    pytest.importorskip("torch", "2.5")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ranks = [subprocess.Popen([sys.executable, "-c", SUMS, tmp_path / "meet", str(rank)], env=environment) for rank in range(2)]
    assert [rank.wait(120) for rank in ranks] == [0, 0]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
@pytest.mark.parametrize("count", [1, 2])
def test_the_same_over_mpi(count, tmp_path):
    script = pathlib.Path(__file__).with_name("ranks.py")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(count), sys.executable, script, tmp_path]
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240,
                          env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    _compare(tmp_path, count)


def test_what_a_rank_raises_comes_out(rng):
    class Gone(Exception):
        pass

    class Broken:
        size, bucket_bytes = 2, 0
        names = []

        def begin(self, name, array):
            assert array.flags.writeable
            self.names.append(name)
            if name == "1.weight" and not self.names.count("1.weight") > 1:
                raise Gone("rank 1 is gone")

        def wait(self):
            pass

    model, _ = mlp(rng)
    trainer = hg.Trainer(model, loss="mse", optimizer="sgd", all_reduce=Broken())
    before = {name: value.copy() for name, value in trainer.parameters().items()}
    x, y = np.ones((4, 8), "float32"), np.ones((4, 3), "float32")
    with pytest.raises(Gone, match="rank 1 is gone"):
        trainer.step(x, y)
    for name, value in trainer.parameters().items():
        np.testing.assert_array_equal(value, before[name])
    trainer.step(x, y)
    assert Broken.names[0] == "loss" and set(trainer.trained) < set(Broken.names)
    with pytest.raises(AttributeError, match="size"):
        hg.Trainer(model, loss="mse", all_reduce=object())


def test_small_gradients_are_summed_together(rng):
    class Sums:
        size = 1

        def __init__(self, **options):
            self.sums = []
            vars(self).update(options)

        def begin(self, name, array):
            self.sums.append((name, array.nbytes))

        def wait(self):
            pass

    model, _ = mlp(rng)
    x, y = rng.standard_normal((4, 8)).astype(np.float32), np.ones((4, 3), "float32")

    def trained(sums):
        trainer = hg.Trainer(model, loss="mse", optimizer="sgd", all_reduce=sums)
        trainer.step(x, y)
        return trainer

    alone = hg.Trainer(model, loss="mse", optimizer="sgd")
    alone.step(x, y)
    nbytes = {"loss": 4, **{name: alone.parameters()[name].nbytes for name in alone.trained}}
    for bucket_bytes in (None, 0, 1, 100, max(nbytes.values()), 1 << 30):
        sums = Sums() if bucket_bytes is None else Sums(bucket_bytes=bucket_bytes)
        trainer = trained(sums)
        for name, value in alone.parameters().items():
            np.testing.assert_array_equal(trainer.parameters()[name], value)
        assert sorted(name for names, _ in sums.sums for name in names.split(", ")) == sorted(nbytes)
        for names, size in sums.sums:
            parts = [nbytes[name] for name in names.split(", ")]
            assert size == sum(parts)
            if len(parts) > 1:
                assert all(part < (1 << 20 if bucket_bytes is None else bucket_bytes) for part in parts)
        assert len(sums.sums) == (1 if bucket_bytes in (None, 1 << 30) else len(nbytes) if bucket_bytes in (0, 1) else len(sums.sums))
    with pytest.raises(ValueError, match="bucket_bytes is -1"):
        hg.Trainer(model, loss="mse", all_reduce=Sums(bucket_bytes=-1))
