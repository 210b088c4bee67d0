# SPDX-License-Identifier: Apache-2.0
"""Training: forward, backward and update in one planned graph."""


import numpy as np

from . import _core
from ._model import Model, Profile, path_of, require_gradients
from ._progress import Bar, Event, History
from ._tensors import detached
from ._tree import flatten, leaves_of
from .named import as_model


def _listed(value, make):
    """None, one value or a list of values that `make` understands, as a list."""
    if value is None:
        return []
    return [make(each) for each in (value if isinstance(value, (list, tuple)) else [value])]


def _kind(value):
    return dict(value) if isinstance(value, dict) else {"kind": value}


class Trainer:
    """Trains a model: forward, backward and update are one planned graph.

    ``loss`` is a name ("cross_entropy", "mse", "l1", "smooth_l1", "huber", "nll", "bce", "bce_with_logits", "kl_div",
    "output"), a dict, or a list of these. A dict has ``kind`` and options (``reduction label_smoothing ignore_index
    class_weights weight output target target_type ...``, as in hg/train.h). A ``target_type`` such as
    ``("float32", ["n", 10])`` makes the targets of cross_entropy probabilities.

    ``optimizer`` is a name ("sgd", "adam", "adamw", "rmsprop") or a result of ``hg.SGD``, ``hg.Adam``, ``hg.AdamW`` or
    ``hg.RMSprop``. ``lr``, ``momentum`` and ``weight_decay`` are the options of a named optimizer. With
    ``optimizer=None`` another optimizer drives the trainer: ``backward()`` adds to ``gradients()``, and any torch.optim
    optimizer accepts ``torch_parameters()``.

    Further options: ``schedule`` (a name or ``hg.Schedule``), ``metrics`` ("accuracy", "mean_error"), ``rules`` (dicts
    with ``pattern`` and ``lr``, ``weight_decay`` or ``frozen``), ``penalties``, ``clip_norm``, ``clip_value``,
    ``accumulate``, ``mode`` ("training", "as-traced"), ``compute`` ("float32", "bfloat16", "float16"), ``resume``,
    ``quantize`` (a dict of the options of ``hg.quantize``: trains for these bits, with rounded weights in each pass),
    ``all_reduce`` (a ``hg.distributed.AllReduce``: several processes train as one), and session options.

    ``model`` is a model, the path of one, or one of ``hg.named``: a program or a block, which starts with its initial
    parameters. The given model is not changed: ``model()`` returns the trained model, and ``save()`` writes it.
    """

    _OWN = ("penalties", "rules", "clip_norm", "clip_value", "accumulate", "mode", "compute", "resume", "all_reduce",
            "quantize")  # fmt: skip

    def __init__(self, model, loss="mse", optimizer="adamw", *, lr=None, momentum=None, weight_decay=None,
                 schedule=None, metrics=(), **options):  # fmt: skip
        model = as_model(model)
        require_gradients(model)
        self._own = optimizer is not None
        step = _kind(optimizer or "sgd")
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if value is not None:
                step[name] = value
        given = {name: options.pop(name) for name in self._OWN if name in options}
        if not self._own:
            given["accumulate"] = max(2, given.get("accumulate", 2))
        given["losses"] = _listed(loss, _kind)
        given["metrics"] = _listed(metrics, _kind)
        given["optimizer"] = step
        if schedule is not None:
            given["schedule"] = _kind(schedule)
        self._maximizes = given.get("schedule", {}).get("maximize", False)
        given["session"] = options
        self._tree, self._order = model._tree, model._order
        self._base = _core.TrainerBase.create(model, given)
        self._targets = list(dict.fromkeys(each.get("target", "target") for each in given["losses"] if each["kind"] != "output"))
        self._inputs = [spec.name for spec in model.inputs]
        self._names = {"parameters": list(model.parameters_()), "buffers": list(model.buffers_())}
        self._metrics = [each["kind"] for each in given["metrics"]]
        self._torch = None
        self.history = History()

    # -- Steps ------------------------------------------------------------------------------------

    def _split(self, batch):
        """Inputs and targets of one batch: (x, y), nested or flat, or a dict by name."""
        inputs = len(self._inputs)
        if isinstance(batch, (list, tuple)) and len(batch) == 2 and any(isinstance(each, (list, tuple, dict)) for each in batch):
            given = batch[0] if isinstance(batch[0], (list, tuple)) else (batch[0],)
            leaves = leaves_of(tuple(given), self._inputs, self._order) + leaves_of(batch[1], self._targets)
        else:
            batch = tuple(batch) if isinstance(batch, list) else batch
            leaves = leaves_of(batch, [*self._inputs, *self._targets])
        missing = [name for name, leaf in zip([*self._inputs, *self._targets], leaves) if leaf is None]
        if len(leaves) != inputs + len(self._targets) or missing:
            raise ValueError(
                f"a batch has {len(leaves) - len(missing)} tensors; the model takes {inputs} inputs and {len(self._targets)} targets"
            )
        return leaves[:inputs], leaves[inputs:]

    def step(self, inputs, targets=None):
        """Runs forward, backward and update on one batch. Returns the loss before the update."""
        batch = self._split([inputs] if targets is None else [inputs, targets])
        return self._base.step_(*batch, True)

    def backward(self, inputs, targets=None):
        """Runs forward and backward on one batch: adds to ``gradients()``, updates nothing, and returns the loss.

        Requires ``optimizer=None``. If a torch optimizer has set the gradients of ``torch_parameters()`` to None, they
        start from 0.
        """
        if self._own:
            raise ValueError("backward() is for a trainer with optimizer=None; this one has an optimizer, use step()")
        batch = self._split([inputs] if targets is None else [inputs, targets])
        shared = self._torch or {}
        gradients = self.gradients()
        for name, parameter in shared.items():
            if parameter.grad is None:
                gradients[name][...] = 0
        loss = self._base.step_(*batch, False)
        for name, parameter in shared.items():
            if parameter.grad is None:
                parameter.grad = _core.share(gradients[name], "torch")
        return loss

    def zero_grad(self):
        """Sets ``gradients()`` to 0."""
        for value in self.gradients().values():
            value[...] = 0

    def gradients(self):
        """The summed gradients by name, as numpy arrays in the trainer's memory. Requires ``optimizer=None``."""
        if self._own:
            raise ValueError("a trainer with an optimizer keeps no gradients; make it with optimizer=None")
        return {name: self._base.value_("train/sum/" + name) for name in self.trained}

    def torch_parameters(self):
        """The trained weights as torch.nn.Parameters that share the trainer's memory, as do their gradients after
        ``backward()``. Any torch.optim optimizer and scheduler accepts them."""
        import torch

        if self._torch is None:
            self._torch = {
                name: torch.nn.Parameter(_core.share(self._base.value_(name), "torch")) for name in self.trained
            }
        return list(self._torch.values())

    def fit(self, x, y=None, *, epochs=1, batch_size=32, shuffle=True, validation=None, validation_data=None,
            callbacks=(), progress=None, patience=0, best_path="", finish=False):  # fmt: skip
        """Trains for epochs over arrays (``x`` and ``y``, each one or a list), or over an iterable of batches (``x`` alone).

        The first dim of arrays counts samples; the last batch may be smaller. A batch of an iterable, such as torch's
        DataLoader, is ``(x, y)``. ``validation`` (or ``validation_data``) is ``(x, y)`` or an iterable of batches.

        ``callbacks`` receive an event after each batch and each epoch, and end the training by returning False.
        ``progress`` shows a bar; by default if standard error is a terminal. ``patience`` ends the training after so many
        epochs without a better loss; the best model goes to ``best_path``. ``finish`` completes the epochs of an
        interrupted training over arrays that was resumed. Returns the events of the epochs.
        """
        callbacks = [callbacks] if callable(callbacks) else list(callbacks)
        validation = validation if validation is not None else validation_data
        bar = Bar(progress)
        history = History()

        def tell(event):
            go = True
            for callback in callbacks:
                go = (callback(event) is not False) and go
            bar.show(event)
            if event.is_epoch:
                history.append(event)
                self.history.append(event)
            return go

        try:
            if y is None and not _is_array(x):
                if finish:
                    raise ValueError("finish=True continues within an epoch over arrays; an iterable of batches has no such place")
                self._fit_batches(x, epochs, validation, tell, patience, best_path)
            else:
                self._fit_arrays(x, y, epochs, batch_size, shuffle, validation, tell, patience, best_path, finish)
        finally:
            bar.close()
        return history

    def _fit_arrays(self, x, y, epochs, batch_size, shuffle, validation, tell, patience, best_path, finish):
        data = self._split([x] if y is None else [x, y])
        held_out = None if validation is None else self._joined(validation)
        options = {
            "epochs": epochs,
            "batch": 0 if batch_size is None else batch_size,
            "shuffle": bool(shuffle),
            "finish": bool(finish),
            "patience": patience,
            "best_path": path_of(best_path),
        }

        def on_progress(progress):
            return tell(self._event(progress))

        self._base.fit_(*data, options, held_out, on_progress)

    def _event(self, progress):
        event = Event(progress)
        if "validation" in event:
            event["val_loss"], values = event.pop("validation")
            event["val_metrics"] = dict(zip(self._metrics, values))
        return event

    def _joined(self, data):
        """(x, y), a dict or an iterable of batches, as one batch."""
        if isinstance(data, dict):
            return self._split(data)
        if hasattr(data, "shape"):
            return self._split([data])
        data = list(data)
        if len(flatten(data)[0]) == len(self._inputs) + len(self._targets):
            return self._split(data)
        batches = [self._split(batch) for batch in data]
        if not batches:
            raise ValueError("there are no batches to validate with")
        rows = [np.concatenate([_core.share(detached(each), "numpy") for each in place])
                for place in zip(*((*inputs, *targets) for inputs, targets in batches))]  # fmt: skip
        return rows[: len(self._inputs)], rows[len(self._inputs) :]

    def _fit_batches(self, batches, epochs, validation, tell, patience, best_path):
        import time

        if iter(batches) is batches and epochs > 1:
            raise ValueError("an iterator gives its batches once; for more than one epoch give a list or a DataLoader")
        if self._maximizes and (validation is None or not self._metrics):
            raise ValueError("a plateau schedule that maximizes judges the first metric on validation data; give both")
        best, since_best, step = float("inf"), 0, 0
        known = len(batches) if hasattr(batches, "__len__") else 0
        for epoch in range(1, epochs + 1):
            began, total, samples = time.perf_counter(), 0.0, 0
            for batch in batches:
                start = time.perf_counter()
                inputs, targets = self._split(batch)
                loss = self._base.step_(inputs, targets, True)
                step += 1
                count = _samples(inputs, targets)
                total += loss * count
                samples += count
                ms = (time.perf_counter() - start) * 1e3
                event = Event(step=step, steps=epochs * known, epoch=epoch, epochs=epochs, loss=loss, lr=self.lr,
                              ms=ms, is_epoch=False, is_best=False)  # fmt: skip
                if not tell(event):
                    return
            if samples == 0:
                raise ValueError("there are no batches")
            event = Event(step=step, steps=epochs * known, epoch=epoch, epochs=epochs, loss=total / samples, lr=self.lr,
                          ms=(time.perf_counter() - began) * 1e3, is_epoch=True)  # fmt: skip
            judged = event["loss"]
            if validation is not None:
                judged, metrics = self._evaluate_any(validation)
                event["val_loss"], event["val_metrics"] = judged, metrics
            self._base.end_epoch_(metrics[self._metrics[0]] if self._maximizes else judged)
            event["is_best"] = judged < best
            if judged < best:
                best, since_best = judged, 0
                if best_path:
                    self.save(best_path)
            else:
                since_best += 1
            if not tell(event) or (patience and since_best >= patience):
                return

    def _evaluate_any(self, data):
        """Evaluates arrays (x, y), or averages over an iterable of batches."""
        is_pair = isinstance(data, tuple) and len(data) == 2 and all(_is_array(each) for each in flatten(data)[0])
        if is_pair or hasattr(data, "shape"):
            result = self.evaluate(*data) if is_pair else self.evaluate(data)
            return result.pop("loss"), result
        total, samples, sums = 0.0, 0, {}
        for batch in data:
            inputs, targets = self._split(batch)
            count = _samples(inputs, targets)
            loss, metrics = self._base.evaluate_(inputs, targets, 0)
            total += loss * count
            samples += count
            for name, value in zip(self._metrics, metrics):
                sums[name] = sums.get(name, 0.0) + value * count
        if samples == 0:
            raise ValueError("there are no batches to validate with")
        return total / samples, {name: value / samples for name, value in sums.items()}

    def evaluate(self, x, y=None, *, batch_size=32):
        """Loss and metrics in inference mode with the current weights, as a dict."""
        inputs, targets = self._split([x] if y is None else [x, y])
        loss, metrics = self._base.evaluate_(inputs, targets, 0 if batch_size is None else batch_size)
        return {"loss": loss, **dict(zip(self._metrics, metrics))}

    # -- State ------------------------------------------------------------------------------------

    @property
    def lr(self):
        """The rate of the last update, or of the first one before any. Setting it keeps the ratios of rules. The saved file keeps
        it: a trainer of that file continues with it if created with the original ``lr``."""
        return self._base.lr_()

    @lr.setter
    def lr(self, value):
        self._base.set_lr_(value)

    @property
    def updates(self):
        """Number of updates since training began, including earlier files."""
        return self._base.updates_()

    @property
    def trained(self):
        """Names of the parameters that are trained."""
        return self._base.trained_()

    @property
    def notes(self):
        """Warnings: layers that training mode could not change, samples that are left out."""
        return self._base.notes_()

    @property
    def graph(self):
        """The graph of a step, after the passes."""
        return self._base.graph_()

    def parameters(self):
        """The weights by name, as writable numpy arrays in the trainer's memory."""
        return {name: self._base.value_(name) for name in self._names["parameters"]}

    def buffers(self):
        """Running statistics by name, as numpy arrays in the trainer's memory."""
        return {name: self._base.value_(name) for name in self._names["buffers"] if not name.startswith("train/")}

    def state_dict(self):
        """Parameters and buffers by name, as torch tensors with their own memory."""
        return {name: _core.copy(array, "torch") for name, array in {**self.parameters(), **self.buffers()}.items()}

    def load_state_dict(self, state, strict=True):
        """Copies weights and buffers by name from torch tensors or numpy arrays."""
        own = {**self.parameters(), **self.buffers()}
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        if strict and (missing or unexpected):
            raise ValueError(f"missing keys: {missing}; unexpected keys: {unexpected}")
        values = {name: _core.share(detached(state[name]), "numpy") for name in own if name in state}
        for name, value in values.items():
            if value.shape != own[name].shape:
                raise ValueError(f"'{name}' is {own[name].shape}, the value is {value.shape}")
            if value.dtype != own[name].dtype:
                raise ValueError(f"'{name}' is {own[name].dtype}, the value is {value.dtype}")
        for name, value in values.items():
            own[name][...] = value

    def memory(self, **dims):
        """Bytes of a step; exact before the first step if sizes are given."""
        return self._base.memory_(dims)

    def profile(self):
        """The time of each node of the last step. Requires ``profile=True``."""
        return Profile(self._base.rows_())

    def model(self):
        """The trained model with the optimizer's state, from which training resumes with the same bits."""
        return Model._of(self._base.model_(), self._tree, self._order)

    def adapter(self):
        """The trained adapter of a model from ``hg.add_adapter`` or ``hg.apply_adapters``, with the optimizer's state."""
        return Model._of(self._base.adapter_())

    def save(self, path):
        """Writes model() to a .hgm file."""
        self._base.save_(path_of(path))


def _is_array(value):
    return hasattr(value, "shape") or (
        isinstance(value, (list, tuple)) and bool(value) and all(hasattr(each, "shape") for each in flatten(value)[0])
        and not isinstance(value[0], (list, tuple, dict))
    )  # fmt: skip


def _samples(inputs, targets):
    for tensor in (*targets, *inputs):
        if tensor.shape:
            return int(tensor.shape[0])
    return 1
