# SPDX-License-Identifier: Apache-2.0
"""Executors, which run single ops, and tensors that stay on their device."""

import contextvars
import threading

import numpy

from . import _core, ops

_outer = contextvars.ContextVar("hologram_outer_executors", default=())  # of the `with`s that this thread or task is in


class Executor:
    """Runs ops at once on one device: ``with hg.Executor(backend="vulkan") as ex: ex.add(a, b)``.

    ``backend`` is "cpu", "vulkan" (an error without a device) or "auto" (a device if there is one, else the CPU;
    ``notes`` says which and why). Every op of ``hg.ops`` is a method. Inside the ``with`` block, ``hg.ops`` also runs
    here. Plans of calls are cached. Thread-safe.
    """

    def __init__(self, backend="auto", *, threads=0, seed=0, gpu_name=""):
        if backend not in ("cpu", "vulkan", "auto", "automatic"):
            raise ValueError(f"there is no backend '{backend}'; the backends are 'cpu', 'vulkan' and 'auto'")
        self._base = _core.ExecutorBase(backend, threads, seed, gpu_name)
        self._lock, self._inside = threading.Lock(), 0  # how many `with`s it is in, of all threads

    def _open(self):
        base = self._base
        if base is None:
            raise RuntimeError("the executor was freed")
        return base

    @property
    def backend(self):
        """ "cpu" or "vulkan"."""
        return self._open().device_()

    device = backend

    @property
    def notes(self):
        """How and why the device was chosen."""
        return self._open().notes_()

    @property
    def gpu_name(self):
        """The driver's name of the device; empty on the CPU."""
        return self._open().gpu_name_()

    def counters(self):
        """Counts plans created and reused; on a device also uploads, downloads, their bytes, and submissions."""
        return self._open().counters_()

    def seed(self, seed):
        """Restarts random ops as in a new executor with this seed."""
        self._open().seed_(seed)

    def call(self, op, *args, **kwargs):
        """Calls any op by name."""
        return getattr(self, op)(*args, **kwargs)

    def to_vulkan(self, tensor):
        """Uploads the tensor, or each of a list or tuple, to this executor's device in one submission."""
        return _core.to_vulkan(self._open().gpu_(), _device_values(tensor))

    def free(self):
        """Frees the plans; any later use is an error."""
        base, self._base = self._base, None
        if base is not None:
            base.close_()

    close = free

    @property
    def is_freed(self):
        """Whether ``free()`` was called or the ``with`` block has ended."""
        return self._base is None

    def __enter__(self):
        with self._lock:
            self._open()
            self._inside += 1
        _outer.set((*_outer.get(), _core.chosen.get()))
        _core.chosen.set(self)
        return self

    def __exit__(self, *unused):
        *rest, before = _outer.get()
        _outer.set(tuple(rest))
        _core.chosen.set(before)
        with self._lock:
            self._inside -= 1
            is_last = self._inside == 0
        if is_last:
            self.free()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        function = getattr(ops, name)

        def run(*args, **kwargs):
            self._open()
            token = _core.chosen.set(self)
            try:
                return function(*args, **kwargs)
            finally:
                _core.chosen.reset(token)

        run.__name__ = name
        run.__doc__ = function.__doc__
        return run

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(ops.__all__))

    def __repr__(self):
        return "Executor(freed)" if self._base is None else f"Executor(backend='{self.backend}')"


def create_executor_for_tensor(tensor, backend=None):
    """An executor of ``backend``, or by default for the tensor's location: the Vulkan device of a hologram tensor, else the
    CPU."""
    if backend is not None:
        return Executor(backend)
    if isinstance(tensor, _core.Tensor) and tensor.is_on_device:
        return _vulkan() or Executor("cpu")
    return Executor("cpu")


_shared = []


def _vulkan():
    """The executor of the innermost ``with`` if it uses a device, otherwise the one that to_vulkan() and similar functions
    share; None without a GPU. (A software device is used only if such a ``with`` names it.)"""
    current = _core.chosen.get()
    if current is not None and current.backend == "vulkan":
        return current
    if not _shared or _shared[0].is_freed:
        _shared[:] = [Executor("auto")]
    return _shared[0] if _shared[0].backend == "vulkan" else None


def _device_values(tensor):
    """Casts f64 to f32, in which shaders compute; integers stay."""
    if isinstance(tensor, float):  # also a numpy.float64
        return numpy.float32(tensor)
    if isinstance(tensor, (list, tuple)):
        return type(tensor)(_device_values(each) for each in tensor)
    if isinstance(tensor, _core.Tensor):
        return tensor
    dtype = str(getattr(tensor, "dtype", ""))
    if dtype in ("float64", "torch.float64"):
        return tensor.float() if dtype.startswith("torch") else tensor.astype("float32")
    if hasattr(tensor, "detach"):
        return tensor.detach().cpu()
    return tensor


def to_vulkan(tensor, keep_on_gpu=True):
    """Uploads a tensor, or a list or tuple of them, as hologram tensors in one submission; lists keep their type.

    float64 and Python's floats become float32, integers stay. With ``keep_on_gpu=False``, or without a Vulkan device, the elements
    stay on the host. A torch module is moved in place, like ``module.to(device)``: its parameters and buffers stay on the device,
    where optimizers of torch update them.
    """
    executor = _vulkan()
    if hasattr(tensor, "named_parameters") and hasattr(tensor, "named_buffers"):
        if executor is None or not keep_on_gpu:
            return tensor
        from ._autograd._device import move

        return move(tensor, executor._open().gpu_())
    if executor is not None and keep_on_gpu:
        return executor.to_vulkan(tensor)

    def one(each):
        return _core.copy(_device_values(each), "array")

    if isinstance(tensor, (list, tuple)):
        return type(tensor)(one(each) for each in tensor)
    return one(tensor)


def from_vulkan(array, device="cpu"):
    """Downloads a hologram tensor, or each of a list or tuple: as a torch tensor on ``device`` if torch is installed, otherwise
    as a numpy array."""
    if isinstance(array, (list, tuple)):
        return type(array)(from_vulkan(each, device) for each in array)
    if hasattr(array, "hologram"):
        array = array.hologram()
    if not isinstance(array, _core.Tensor):
        raise TypeError(f"from_vulkan takes a hologram tensor, not a {type(array).__name__}")
    if str(device) == "numpy":
        return array.numpy()
    try:
        import torch  # noqa: F401
    except ImportError:
        return array.numpy()
    return array.torch().to(device)
