# SPDX-License-Identifier: Apache-2.0
"""The training of each process in test_distributed; with MPI run as ``ranks.py FOLDER``."""

import pathlib
import sys

import numpy as np
from conftest import mlp

import hologram as hg

OPTIMIZERS = {
    "sgd": {"lr": 0.1, "momentum": 0.9, "clip_norm": 0.5},
    "adamw": {"lr": 0.01, "rules": [{"pattern": "*.bias", "weight_decay": 0}]},
    "adam": {"lr": 0.01, "accumulate": 2},
}
ROWS, STEPS = 5, 6  # samples of a rank in one batch; batches


def train(reduce, folder, ranks=None):
    """Weights of this rank after some batches, in FOLDER/OPTIMIZER_RANK.npz; half way the first rank saves a
    checkpoint, from which all go on. Without ``reduce`` one process takes the batches of ``ranks``."""
    count, rank = (reduce.size, reduce.rank) if reduce is not None else (ranks, 0)
    rows = ROWS if reduce is not None else ROWS * ranks
    folder = pathlib.Path(folder)
    for optimizer, bucket_bytes in zip(OPTIMIZERS, (0, 256, 1 << 20)):
        options = OPTIMIZERS[optimizer]
        if reduce is not None:
            reduce.bucket_bytes = bucket_bytes
        model, _ = mlp(np.random.default_rng(1))
        data = np.random.default_rng(2)
        x, y = (data.standard_normal((STEPS, count * ROWS, n)).astype(np.float32) for n in (8, 3))
        own = slice(rank * rows, rank * rows + rows)
        losses = []
        for half in (range(STEPS // 2), range(STEPS // 2, STEPS)):
            trainer = hg.Trainer(model, loss="mse", optimizer=optimizer, threads=1, all_reduce=reduce, **options)
            if half.start > 0:
                assert trainer.updates == STEPS // 2 // options.get("accumulate", 1)
            for step in half:
                losses.append(trainer.step(x[step, own], y[step, own]))
            checkpoint = folder / f"{optimizer}.hgm"
            if rank == 0:
                trainer.save(checkpoint)
            if reduce is not None:  # all ranks wait for the file
                reduce.begin("file", np.zeros(1, "float32"))
                reduce.wait()
            model = hg.load(checkpoint)
        np.savez(folder / f"{optimizer}_{rank}.npz", losses=np.float32(losses), **trainer.parameters())
        if reduce is not None:  # the next file is another one
            reduce.begin("end", np.zeros(1, "float32"))
            reduce.wait()


if __name__ == "__main__":
    from mpi4py import MPI

    train(hg.distributed.AllReduce(MPI.COMM_WORLD), sys.argv[1])
