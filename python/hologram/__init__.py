# SPDX-License-Identifier: Apache-2.0
"""Hologram: runs and trains PyTorch models without PyTorch.

    import hologram as hg

    m = hg.load("model.hgm")
    y = m(x)                                  # numpy arrays or torch tensors, without copies

- ``hg.load`` reads a model; ``hg.convert`` converts a PyTorch module; ``hg.Trainer`` trains.
- ``hg.llm.convert`` converts a language model of ``transformers``.
- ``hg.ops`` runs single ops; ``hg.Var`` is a lazy expression.
- ``hg.kernel`` makes a function from a formula; ``hg.register_op`` adds a custom op.
- ``hg.nn`` provides PyTorch layers, ``hg.torch`` connects both libraries, ``hg.named`` builds models of named blocks.

Only numpy is required.
"""

import importlib

from . import _methods, named, ops  # noqa: F401 - adds methods
from ._adapters import add_adapter, apply_adapters, merge_adapters, take_adapter
from ._core import (
    Graph,
    Memory,
    ProfileRow,
    Tensor,
    Value,
    Var,
    hvp,
    jacobian,
    jvp,
)
from ._core import version as __version__
from ._devices import DeviceInfo, devices
from ._errors import (
    CorruptModelError,
    DeviceLostError,
    HologramError,
    MismatchError,
    NotFoundError,
    UnsupportedError,
)
from ._executor import Executor, create_executor_for_tensor, from_vulkan, to_vulkan
from ._expressions import evaluate, to_model, vjp
from ._generator import BatchGenerator, Embedder, Ended, Generated, Generator, Token
from ._kernel import Kernel, kernel
from ._model import Library, Model, Profile, Session, TensorSpec, load, save_library
from ._optimizers import SGD, Adam, AdamW, RMSprop, Schedule
from ._own_ops import TensorType, register_op
from ._peft import load_peft, save_peft
from ._quantize import quantize
from ._tensors import (
    ensure_vulkan_compatible,
    from_numpy,
    from_torch,
    match_device,
    to_numpy,
    to_torch,
    validate_tensor_compatible,
)
from ._train import Trainer
from .named import compile

VulkanTensor = Tensor
to_vulkan_gpu = to_vulkan_batch = to_vulkan
functional = ops

# Imported on first use, because they take time or need torch.
_LAZY = {
    "convert": ("._convert", "convert"),
    "Report": ("._convert", "Report"),
    "llm": (".llm", None),
    "nn": (".nn", None),
    "torch": (".torch", None),
    "distributed": (".distributed", None),
}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'hologram' has no attribute '{name}'")
    module, attribute = _LAZY[name]
    value = importlib.import_module(module, __name__)
    if attribute is not None:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_LAZY))
