# SPDX-License-Identifier: Apache-2.0
"""Passes tensors between numpy, torch and hologram without copies, bit-exact for every dtype."""

from . import _core


def to_numpy(tensor):
    """The tensor as a numpy array that shares its memory, if that is on the host.

    bfloat16 uses the dtype of the package ml_dtypes, or raw pairs of bytes if that is not installed.
    """
    return _core.share(detached(tensor), "numpy")


def to_torch(tensor):
    """The tensor as a torch tensor that shares its memory, if that is on the host."""
    import torch

    if isinstance(tensor, torch.Tensor):
        return tensor
    return _core.share(tensor, "torch")


def from_numpy(array):
    """The array as a hologram tensor that shares its memory, as an Executor accepts and returns it."""
    return _core.share(array, "array")


def from_torch(tensor):
    """The tensor as a hologram tensor that shares its memory."""
    return _core.share(detached(tensor), "array")


def detached(tensor):
    """The tensor without torch's gradient history; anything else unchanged."""
    return tensor.detach() if hasattr(tensor, "detach") else tensor


def validate_tensor_compatible(tensor):
    """Returns True if hologram can read the tensor as it is; otherwise raises TypeError or ValueError with the reason."""
    if not _core.is_tensor(tensor):
        raise TypeError(f"a {type(tensor).__name__} is no tensor")
    _core.describe(detached(tensor))
    return True


def ensure_vulkan_compatible(tensor):
    """The tensor, or each of a list or tuple, as a numpy array of a dtype that shaders compute in: floats become float32, integers
    and bools stay. Nothing is uploaded."""
    if isinstance(tensor, (list, tuple)) and any(_core.is_tensor(each) for each in tensor):
        return type(tensor)(ensure_vulkan_compatible(each) for each in tensor)
    array = to_numpy(tensor)
    if _core.dtype_name(array.dtype).startswith(("float", "bfloat")) and array.dtype != "float32":
        return array.astype("float32")
    return array


def match_device(tensor, reference):
    """Moves ``tensor`` to the kind (numpy, torch, hologram) and device of ``reference``."""
    from ._executor import from_vulkan, to_vulkan

    if isinstance(reference, _core.Tensor):
        if isinstance(tensor, _core.Tensor) and tensor.is_on_device == reference.is_on_device:
            return tensor
        return to_vulkan(tensor, keep_on_gpu=reference.is_on_device)
    if hasattr(reference, "detach"):
        made = from_vulkan(tensor) if isinstance(tensor, _core.Tensor) else to_torch(tensor)
        return made.to(reference.device)
    return tensor.numpy() if isinstance(tensor, _core.Tensor) else to_numpy(tensor)
