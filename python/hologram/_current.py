# SPDX-License-Identifier: Apache-2.0
"""The executor that ops run on."""

import contextvars
import threading

from . import _core

chosen = contextvars.ContextVar("hologram_executor", default=None)  # by the innermost ``with hg.Executor(...)``
thread = threading.local()  # its executors, and the depth of custom kernels that call ops


def executor():
    """The executor of the innermost ``with hg.Executor(...)``, or this thread's own, which runs on the device of its tensors and
    otherwise on the CPU."""
    found = chosen.get()
    if found is not None:
        return found._open()
    depth = getattr(thread, "depth", 0)
    found = getattr(thread, f"executor{depth}", None)
    if found is None:
        found = _core.ExecutorBase("cpu", 0, 0, "", follows=True)
        setattr(thread, f"executor{depth}", found)
    return found
