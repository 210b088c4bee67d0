#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training samples per second of one process and of two, each on one thread, over torch.distributed's gloo and MPI.

  PYTHONPATH=build/python bench/data_parallel.py [ROUNDS [cpu]]

Each variant trains a digit network with 64 samples per process and step; the result is the best of ROUNDS (12) rounds of 20 steps.

- "together": gradients are summed during the backward pass (AllReduce);
- "one by one": the same without buckets;
- "after": one message after the backward pass (average_gradients, and torch's SGD).

With "cpu", a second is one of processor time, which other programs do not affect. That excludes waiting, and MPI, which polls while
it waits.
"""
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

import hologram as hg

ROWS, STEPS = 64, 20


def network(width):
    """Three convolutions and two linear layers; most weights are in one of 1,024 x WIDTH."""
    torch.manual_seed(0)
    return hg.convert(
        torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(),
            torch.nn.MaxPool2d(2), torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
            torch.nn.Linear(1024, width), torch.nn.ReLU(), torch.nn.Linear(width, 10),
        ),
        torch.randn(2, 1, 8, 8), dynamic="n",
    )  # fmt: skip


def train(engine, way, width, rounds, clock):
    """Milliseconds of a step."""
    torch.set_num_threads(1)
    comm = None
    if engine == "mpi":
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        rank = comm.Get_rank()
    elif engine == "gloo":
        rank = int(os.environ["RANK"])
        torch.distributed.init_process_group("gloo", init_method=os.environ["MEET"], rank=rank, world_size=2)
    else:
        rank = 0
    rng = np.random.default_rng(rank)
    x = rng.standard_normal((ROWS, 1, 8, 8), np.float32)
    y = rng.integers(0, 10, ROWS)
    if way == "after":
        trainer = hg.Trainer(network(width), "cross_entropy", None, threads=1)
        optimizer = torch.optim.SGD(trainer.torch_parameters(), 0.01)
    else:
        options = {"bucket_bytes": 0} if way == "one by one" else {}
        reduce = hg.distributed.AllReduce(comm, **options) if engine != "alone" else None
        trainer = hg.Trainer(network(width), "cross_entropy", "sgd", lr=0.01, threads=1, all_reduce=reduce)

    def step():
        if way != "after":
            trainer.step(x, y)
            return
        optimizer.zero_grad()
        trainer.backward(x, y)
        if engine != "alone":
            hg.distributed.average_gradients(trainer, comm)
        optimizer.step()

    best = float("inf")
    for k in range(rounds + 1):
        start = clock()
        for _ in range(STEPS):
            step()
        if k > 0:
            best = min(best, (clock() - start) / STEPS)
    if engine == "gloo":
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    if rank == 0:
        print(best * 1e3, flush=True)


def run(engine, way, width, rounds, clock):
    """The same in processes of their own."""
    words = [sys.executable, __file__, "--rank", engine, way, str(width), str(rounds), clock]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MEET": f"file://{folder}/meet", "OMP_WAIT_POLICY": "passive"}
        if engine == "mpi":
            words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", *words]
        ranks = [subprocess.Popen(words, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
                 for rank in range(2 if engine == "gloo" else 1)]  # fmt: skip
        said = [rank.communicate()[0] for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks)
    return float(said[0].split()[-1])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        train(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), time.process_time if sys.argv[6] == "cpu" else time.perf_counter)
        sys.exit()
    rounds, clock = int((sys.argv[1:] or ["12"])[0]), (sys.argv[2:] or ["wall"])[0]
    for width in (64, 1024):
        ways = [(engine, way) for engine in (("gloo",) if clock == "cpu" else ("gloo", "mpi")) for way in ("together", "one by one", "after")]
        for engine, way in [("alone", "together"), *ways]:
            ms = run(engine, way, width, rounds, clock)
            ranks = 1 if engine == "alone" else 2
            print(f"width {width}, {engine}, {way}: {ms:.2f} ms, {ranks * ROWS / ms * 1e3:.0f} samples/s", flush=True)
