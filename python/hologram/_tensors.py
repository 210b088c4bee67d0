# SPDX-License-Identifier: Apache-2.0
"""Tensors between numpy, torch and hologram, without copies; bit for bit for every dtype."""

from . import _core


def to_numpy(tensor):
    """The tensor as a numpy array that shares its memory where that is on the host.

    bfloat16 has the dtype of the package ml_dtypes, or two raw bytes where that is not installed.
    """
    return _core.share(detached(tensor), "numpy")


def to_torch(tensor):
    """The tensor as a torch tensor that shares its memory where that is on the host."""
    import torch

    if isinstance(tensor, torch.Tensor):
        return tensor
    return _core.share(tensor, "torch")


def from_numpy(array):
    """The array as one of hologram's own, which shares its memory: what an Executor takes and gives."""
    return _core.share(array, "array")


def from_torch(tensor):
    """The tensor as one of hologram's own, which shares its memory."""
    return _core.share(detached(tensor), "array")


def detached(tensor):
    """The tensor without torch's history of gradients; anything else as it is."""
    return tensor.detach() if hasattr(tensor, "detach") else tensor


def validate_tensor_compatible(tensor):
    """True for a tensor that hologram can read as it is; else TypeError or ValueError says why not."""
    if not _core.is_tensor(tensor):
        raise TypeError(f"a {type(tensor).__name__} is no tensor")
    _core.describe(detached(tensor))
    return True


def match_device(tensor, reference):
    """``tensor`` where ``reference`` is: its kind (numpy, torch, VulkanTensor), and its device."""
    from ._executor import from_vulkan, to_vulkan

    if isinstance(reference, _core.VulkanTensor):
        if isinstance(tensor, _core.VulkanTensor) and tensor.is_on_device == reference.is_on_device:
            return tensor
        return to_vulkan(tensor, keep_on_gpu=reference.is_on_device)
    if hasattr(reference, "detach"):
        made = from_vulkan(tensor) if isinstance(tensor, _core.VulkanTensor) else to_torch(tensor)
        return made.to(reference.device)
    return tensor.numpy() if isinstance(tensor, _core.VulkanTensor) else to_numpy(tensor)
