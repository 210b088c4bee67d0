# SPDX-License-Identifier: Apache-2.0
"""Progress of a training: events, history, bar."""

import sys


class Event(dict):
    """What callbacks receive after each batch and each epoch: ``step steps epoch epochs loss lr ms is_epoch is_best``, and
    at the end of an epoch with validation data ``val_loss`` and ``val_metrics``; also as attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class History(list):
    """The events of the epochs, in order. ``history["loss"]`` lists one value of each."""

    def __getitem__(self, key):
        if isinstance(key, str):
            return [event.get(key) for event in self]
        return super().__getitem__(key)


class Bar:
    """A tqdm bar, if tqdm is installed and the bar is wanted."""

    def __init__(self, wanted):
        self._make = None
        if wanted is None:
            wanted = sys.stderr is not None and sys.stderr.isatty()
        if wanted:
            try:
                from tqdm.auto import tqdm

                self._make = tqdm
            except ImportError:
                pass
        self._bar = None

    def show(self, event):
        if self._make is None:
            return
        if self._bar is None:
            self._bar = self._make(total=event.get("steps") or None, unit="batch")
        if event.is_epoch:
            words = {"epoch": f"{event.epoch}/{event.epochs}", "loss": f"{event.loss:.4g}"}
            if "val_loss" in event:
                words["val_loss"] = f"{event.val_loss:.4g}"
            self._bar.set_postfix(words)
        else:
            self._bar.update(1)

    def close(self):
        if self._bar is not None:
            self._bar.close()
