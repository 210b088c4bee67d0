# SPDX-License-Identifier: Apache-2.0
"""Models on many machines, by engines that exist.

*Batch inference*: ``Predictor`` for Ray Data's ``map_batches``, ``map_in_pandas`` for Spark's ``mapInPandas``. The model is
loaded once in each worker, and rows stay in their order; an engine that runs a batch again gets the same bits.

*Data-parallel training*: each process trains a part of the data with a ``Trainer(optimizer=None)``;
``average_gradients`` makes one gradient of theirs, over mpi4py or torch.distributed (gloo).
"""

import functools
import os

import numpy as np

from . import _core
from ._model import load


@functools.lru_cache(maxsize=8)
def _session_of(path, options):
    """One session of a file in each process."""
    model = load(path)
    return model, model.session(**dict(options))


def _outputs_of(model, result):
    from ._tree import flatten

    return {spec.name: np.asarray(each) for spec, each in zip(model.outputs, flatten(result)[0])}


class Predictor:
    """Batches of columns through a model: ``ds.map_batches(Predictor, fn_constructor_args=["model.hgm"])``.

    A batch is a dict of numpy arrays whose first size counts rows. ``inputs`` names the column of each input of the
    model, by default the input's own name; columns of objects are stacked. The outputs are added by name under
    ``prefix``, and other columns stay. ``batch_size`` bounds how many rows run at once, and so the memory.
    ``options`` are those of a session; ``threads=1`` where the engine has a worker for each core.
    """

    def __init__(self, model, inputs=None, batch_size=None, prefix="", keep=True, **options):
        self._path, self._given = os.fspath(model), dict(inputs or {})
        self._batch_size, self._prefix, self._keep = batch_size, prefix, keep
        self._options = tuple(sorted(options.items()))

    @property
    def outputs(self):
        """Names of the columns that are added."""
        model, _ = _session_of(self._path, self._options)
        return [self._prefix + spec.name for spec in model.outputs]

    def _columns(self, batch):
        model, _ = _session_of(self._path, self._options)
        out = {}
        for spec in model.inputs:
            column = self._given.get(spec.name, spec.name)
            if column not in batch:
                raise ValueError(f"the batch has no column '{column}' for the input '{spec.name}'; it has {', '.join(batch)}")
            values = np.asarray(batch[column])
            if values.dtype == object:
                values = np.stack([np.asarray(each) for each in values]) if len(values) else values.astype("float32")
            out[spec.name] = np.ascontiguousarray(values, _core.numpy_dtype(spec.dtype))
        return out

    def __call__(self, batch):
        model, session = _session_of(self._path, self._options)
        columns = self._columns(batch)
        count = len(next(iter(columns.values())))
        size = self._batch_size or max(count, 1)
        parts = []
        for first in range(0, max(count, 1), size):
            part = {name: values[first : first + size] for name, values in columns.items()}
            parts.append(_outputs_of(model, session(**part)))
        found = {self._prefix + name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for name, values in found.items():
            if len(values) != count:
                raise ValueError(f"the output '{name}' has {len(values)} rows for {count}; it is not one for each row")
        return {**(dict(batch) if self._keep else {}), **found}


def map_in_pandas(model, inputs=None, batch_size=None, prefix="", keep=True, **options):
    """A function for Spark: ``df.mapInPandas(map_in_pandas("model.hgm"), schema)``; as Predictor, on DataFrames.

    The file is read where a worker runs: it must be there, as ``SparkContext.addFile`` puts it. Outputs with more
    than one number for each row become lists.
    """
    predict = Predictor(model, inputs, batch_size, prefix, keep, **options)

    def run(frames):
        import pandas

        for frame in frames:
            found = predict({name: frame[name].to_numpy() for name in frame.columns})
            out = frame.copy() if keep else pandas.DataFrame(index=frame.index)
            for name in predict.outputs:
                values = found[name]
                out[name] = list(values) if values.ndim > 1 else values
            yield out

    return run


def _reduce(array, comm):
    """The sum over all processes, in place."""
    if comm is not None:
        from mpi4py import MPI

        comm.Allreduce(MPI.IN_PLACE, array, op=MPI.SUM)
        return comm.Get_size()
    import torch

    torch.distributed.all_reduce(torch.from_numpy(array))
    return torch.distributed.get_world_size()


def average_gradients(trainer, comm=None):
    """Makes ``trainer.gradients()`` the mean over all processes: between ``backward()`` and the optimizer's step.

    ``comm`` is a communicator of mpi4py; without one it is torch.distributed's default group. One message carries
    all gradients of a dtype. Processes with equally large batches then train as one with all of them.
    """
    _each_dtype(trainer.gradients(), comm, average=True)


def broadcast_parameters(trainer, comm=None, root=0):
    """Gives all processes the weights and buffers of one."""
    rank = comm.Get_rank() if comm is not None else _rank()
    values = {**trainer.parameters(), **trainer.buffers()}
    if rank != root:
        for value in values.values():
            value[...] = 0
    _each_dtype(values, comm, average=False)


def _rank():
    import torch

    return torch.distributed.get_rank()


def _each_dtype(values, comm, average):
    groups = {}
    for name in sorted(values):
        groups.setdefault(values[name].dtype, []).append(values[name])
    for arrays in groups.values():
        flat = np.concatenate([each.reshape(-1) for each in arrays])
        count = _reduce(flat, comm)
        if average:
            flat /= count
        at = 0
        for each in arrays:
            each[...] = flat[at : at + each.size].reshape(each.shape)
            at += each.size
