# SPDX-License-Identifier: Apache-2.0
"""Models on many machines, with existing engines.

*Batch inference*: ``Predictor`` for Ray Data's ``map_batches``; ``map_in_pandas`` for Spark's ``mapInPandas``; ``pandas_udf`` for
Spark columns. Each worker loads the model once, and rows keep their order. With ``batch_size``, every run has that size, however
the engine splits batches, so rows get the same bits as in a single process.

*Data-parallel training* over mpi4py or torch.distributed (gloo): each process trains on a part of the data with a
``Trainer(all_reduce=AllReduce())``, which sums gradients during the backward pass.
"""

import atexit
import functools
import os
import time
import weakref

import numpy as np

from . import _core
from ._model import load

__all__ = ["AllReduce", "Predictor", "average_gradients", "broadcast_parameters", "map_in_pandas", "pandas_udf"]


@functools.lru_cache(maxsize=8)
def _session_of(path, options):
    """One session of a file per process."""
    model = load(path)
    return model, model.session(**dict(options))


def _outputs_of(model, result):
    from ._tree import flatten

    return {spec.name: np.asarray(each) for spec, each in zip(model.outputs, flatten(result)[0])}


def _stacked(values):
    """Stacks lists in a column, of lists or of numbers, into dims."""
    if values.dtype != object or not len(values):
        return values
    return np.stack([_stacked(np.asarray(each)) for each in values])


def _values(values, spec, column):
    """A column as an input: lists are stacked, flat rows take the input's shape, numbers its dtype."""
    values, dtype, row = _stacked(values), _core.numpy_dtype(spec.dtype), spec.shape[1:]
    if not len(values):
        return np.zeros((0, *(1 if isinstance(dim, str) else dim for dim in row)), dtype)
    if values.ndim == 2 and len(row) > 1 and all(isinstance(dim, int) for dim in row):
        if values.shape[1] != np.prod(row):
            raise ValueError(f"column '{column}' has {values.shape[1]} numbers for each row; the input '{spec.name}' is {list(row)}")
        values = values.reshape(len(values), *row)
    fits = np.can_cast(values.dtype, dtype, "same_kind") or (values.dtype.kind in "iu" and dtype.kind in "iu")
    if not fits:
        raise ValueError(f"column '{column}' is {values.dtype}; the input '{spec.name}' is {spec.dtype}")
    cast = np.ascontiguousarray(values, dtype)
    if dtype.kind in "iu" and not np.array_equal(cast, values):
        raise ValueError(f"column '{column}' has numbers beyond {spec.dtype}, of the input '{spec.name}'")
    return cast


def _filled(values, size):
    """Pads rows to `size` by repeating the last one, or with zeros if there are none."""
    missing = size - len(values)
    if missing == 0:
        return values
    last = values[-1:] if len(values) else np.zeros((1, *values.shape[1:]), values.dtype)
    return np.concatenate([values, np.repeat(last, missing, 0)])


class Predictor:
    """Runs batches of columns through a model: ``ds.map_batches(Predictor, fn_constructor_args=["model.hgm"])``.

    A batch is a dict of numpy arrays whose first size counts rows. ``inputs`` names the column of each model input, by
    default the input's name. Lists are stacked, and flat rows take the input's shape. Outputs are added by name with
    ``prefix``; other columns stay.

    With ``batch_size``, every run has exactly that many rows: larger batches are split, smaller ones are padded with
    their last row, and the padding's results are dropped. This bounds the memory and plans a single size. Without it,
    a batch runs as it arrives.

    ``options`` are session options; use ``threads=1`` if the engine has one worker per core.
    """

    def __init__(self, model, inputs=None, batch_size=None, prefix="", keep=True, **options):
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size is at least 1, not {batch_size}")
        self._path, self._given = os.fspath(model), dict(inputs or {})
        self._batch_size, self._prefix, self._keep = batch_size, prefix, keep
        self._options = tuple(sorted(options.items()))

    @property
    def inputs(self):
        """Names of the columns that are read, one per model input."""
        model, _ = _session_of(self._path, self._options)
        return [self._given.get(spec.name, spec.name) for spec in model.inputs]

    @property
    def outputs(self):
        """Names of the columns that are added."""
        model, _ = _session_of(self._path, self._options)
        return [self._prefix + spec.name for spec in model.outputs]

    def _columns(self, batch):
        model, _ = _session_of(self._path, self._options)
        out = {}
        for spec, column in zip(model.inputs, self.inputs):
            if column not in batch:
                raise ValueError(f"the batch has no column '{column}' for the input '{spec.name}'; it has {', '.join(batch)}")
            out[spec.name] = _values(np.asarray(batch[column]), spec, column)
        return out

    def __call__(self, batch):
        model, session = _session_of(self._path, self._options)
        columns = self._columns(batch)
        count = len(next(iter(columns.values())))
        size = self._batch_size or max(count, 1)
        parts = []
        for first in range(0, max(count, 1), size):
            part = {name: values[first : first + size] for name, values in columns.items()}
            rows = min(size, count - first)
            if self._batch_size:
                part = {name: _filled(values, size) for name, values in part.items()}
            found = _outputs_of(model, session(**part))
            for name, values in found.items():
                given = size if self._batch_size else rows
                if values.ndim == 0 or len(values) != given:
                    raise ValueError(f"the output '{name}' has the shape {values.shape} for {given} rows; it is not one for each row")
            parts.append({name: values[:rows] for name, values in found.items()})
        found = {self._prefix + name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return {**(dict(batch) if self._keep else {}), **found}


def _cells(values):
    """Rows as a pandas column that Arrow accepts."""
    return values if values.ndim == 1 else list(values) if values.ndim == 2 else values.tolist()


def map_in_pandas(model, inputs=None, batch_size=None, prefix="", keep=True, **options):
    """A function for Spark: ``df.mapInPandas(map_in_pandas("model.hgm"), schema)``; like Predictor, on DataFrames.

    Each worker reads the file, so it must exist there, for example through ``SparkContext.addFile``. Outputs with more
    than one number per row become lists.
    """
    predict = Predictor(model, inputs, batch_size, prefix, keep, **options)

    def run(frames):
        import pandas

        for frame in frames:
            found = predict({name: frame[name].to_numpy() for name in frame.columns})
            out = frame.copy() if keep else pandas.DataFrame(index=frame.index)
            for name in predict.outputs:
                out[name] = _cells(found[name])
            yield out

    return run


def pandas_udf(model, returns, output=None, batch_size=None, **options):
    """A function of columns for Spark: ``df.withColumn("y", pandas_udf("model.hgm", "array<float>")("x"))``.

    Its columns are the model's inputs, in order. ``returns`` is the Spark type of ``output``, by default the first
    output. Outputs with more than one number per row are lists. Otherwise like ``map_in_pandas``. Requires pyspark.
    """
    from collections.abc import Iterator

    import pandas
    from pyspark.sql import functions

    predict = Predictor(model, batch_size=batch_size, keep=False, **options)

    def run(batches):
        for columns in batches:
            names = predict.inputs
            columns = columns if isinstance(columns, tuple) else (columns,)
            if len(columns) != len(names):
                raise ValueError(f"the model takes {', '.join(names)}; {len(columns)} columns are given")
            found = predict({name: column.to_numpy() for name, column in zip(names, columns)})
            name = output if output is not None else predict.outputs[0]
            if name not in found:
                raise ValueError(f"the model has no output '{name}'; it has {', '.join(found)}")
            yield pandas.Series(_cells(found[name]))

    run.__annotations__ = {"batches": Iterator[tuple[pandas.Series, ...]], "return": Iterator[pandas.Series]}
    return functions.pandas_udf(run, returns)


class AllReduce:
    """Makes the trainers of several processes train as one: ``hg.Trainer(model, all_reduce=AllReduce(comm))``.

    ``comm`` is an mpi4py communicator; by default torch.distributed's default group is used. Each process has a trainer
    with equal weights (``broadcast_parameters``) and options, and takes its own batches of the same size as the others.
    To rounding, all then have the weights that one process would have after batches with all their samples. ``step()``
    returns the loss over all processes.

    Gradients are summed during the backward pass: a gradient of ``bucket_bytes`` or more as soon as it is ready,
    smaller ones together once they add up to that size; 0 sums each separately. Running statistics stay local. One
    process saves; all resume from that file.
    """

    def __init__(self, comm=None, bucket_bytes=1 << 20):
        self._comm, self._pending, self.bucket_bytes = comm, [], bucket_bytes
        if comm is not None:
            self.size, self.rank = comm.Get_size(), comm.Get_rank()
        else:
            import torch

            self.size, self.rank = torch.distributed.get_world_size(), torch.distributed.get_rank()

    def begin(self, name, array):
        """Starts summing an array over all processes, in place; do not change it before ``wait()`` has returned."""
        if self._comm is not None:
            from mpi4py import MPI

            self._pending.append(self._comm.Iallreduce(MPI.IN_PLACE, array, op=MPI.SUM))
        else:
            self._pending.append(_begin_sum(array))

    def wait(self):
        """Returns when all sums that were started are complete."""
        pending, self._pending = self._pending, []
        for each in pending:
            each.wait()


# Memory of sums that torch still holds, by the id of its weak reference.
_held = {}


def _begin_sum(array):
    """Starts summing an array over all processes, in place."""
    import torch

    view = array.view()  # of torch's alone, which holds it as long as the tensor lives
    held = weakref.ref(view, lambda held: _held.pop(id(held)))
    _held[id(held)] = held
    return torch.distributed.all_reduce(torch.from_numpy(view), async_op=True)


def _let_go():
    """Returns when torch holds no memory of sums, or after a second.

    A gloo thread frees a work some time after wait() has returned, and a barrier frees the works that it waited for.
    Freeing needs the interpreter; if that is exiting, the process would abort.
    """
    end = time.monotonic() + 1
    while _held and time.monotonic() < end:
        time.sleep(0.001)


atexit.register(_let_go)


def _reduce(array, comm):
    """Sums over all processes, in place."""
    if comm is not None:
        from mpi4py import MPI

        comm.Allreduce(MPI.IN_PLACE, array, op=MPI.SUM)
        return comm.Get_size()
    import torch

    _begin_sum(array).wait()
    return torch.distributed.get_world_size()


def average_gradients(trainer, comm=None):
    """Averages ``trainer.gradients()`` over all processes. Call it between ``backward()`` and the step of an external
    optimizer, on a ``Trainer(optimizer=None)``. Sums over several batches are sent once.

    ``comm`` is an mpi4py communicator; by default torch.distributed's default group is used. One message carries all
    gradients of a dtype. Processes with equal batch sizes then train like one with all batches.
    """
    _each_dtype(trainer.gradients(), comm, average=True)


def broadcast_parameters(trainer, comm=None, root=0):
    """Copies the weights and buffers of one process to all others."""
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
