# SPDX-License-Identifier: Apache-2.0
"""Torch tensors whose elements are a hologram tensor on a device.

torch's autograd, optimizers and modules accept them. Ops that hologram computes on the device run there; torch computes the others
on the host, from a copy of the elements. Views share memory, as in torch.
"""

import weakref

import torch
from torch.utils._pytree import tree_map

from .. import _core

_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


class DeviceTensor(torch.Tensor):
    """A torch tensor on a device. torch reports the device "cpu", because it knows none of hologram's."""

    @staticmethod
    def __new__(cls, array, offset=0):
        dtype = _DTYPES[_core.dtype_name(array.dtype)]
        return torch.Tensor._make_wrapper_subclass(cls, array.shape, strides=array._strides, storage_offset=offset, dtype=dtype)

    def __init__(self, array, offset=0):
        self._array = array
        self._offset = offset  # in elements, from the begin of the memory

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        run = _ON_DEVICE.get(func)
        if run is not None:
            result = run(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if _is_view(func):
            return _viewed(func, args, kwargs)
        return _on_host(func, args, kwargs)

    def hologram(self):
        """The elements as a hologram tensor, which shares them."""
        return as_hologram(self)

    def numpy(self, *, force=False):
        """The elements as a numpy array: a copy."""
        if self.requires_grad and not force:
            raise RuntimeError("numpy() of a tensor that requires a gradient: use detach().numpy()")
        return self._array.numpy()

    def __array__(self, dtype=None):
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def cpu(self, memory_format=torch.preserve_format):
        """A torch tensor on the host, as a part of autograd."""
        return _ToHost.apply(self)

    def tolist(self):
        return self._array.numpy().tolist()

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __repr__(self, *, tensor_contents=None):
        shown = torch.Tensor.__repr__(self._array.torch())
        ends = ", requires_grad=True" if self.is_leaf and self.requires_grad else f", grad_fn=<{self.grad_fn.name()}>" if self.grad_fn else ""
        return f"{shown[:-1]}{ends}, on a device)"

    def __deepcopy__(self, memo):
        made = DeviceTensor(_core.to_vulkan(self._array._gpu(), self._array.numpy()))
        made.requires_grad_(self.requires_grad)
        if getattr(self, "_is_param", False):
            made._is_param = True
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol):
        """Saved like a tensor on the host."""
        made = self._array.torch()
        if getattr(self, "_is_param", False):
            made = torch.nn.Parameter(made, self.requires_grad)
        return made.__reduce_ex__(protocol)


class _ToHost(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor._array.torch()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def as_torch(value):
    """A hologram tensor as a torch tensor: the one that autograd tracks, or a new one."""
    if value._followed is not None:
        return value._followed
    return DeviceTensor(value._share()) if value.is_on_device else _core.share(value, "torch")


def as_hologram(value):
    """A torch tensor as a hologram tensor that knows which tensor autograd tracks."""
    if type(value) is DeviceTensor:
        made = value._array._share()
    elif isinstance(value, torch.Tensor):
        made = _core.share(value.detach(), "array")
    else:
        return value
    if value.requires_grad:
        made._followed = value
    return made


# -- Device copies of tensors on the host ---------------------------------------------------------

_known = {}  # by id: a weak reference to a torch tensor, and its copy on a device


def resident(tensor, gpu, keep=False):
    """The copy on a device of a torch tensor on the host. Parameters, and other tensors from their second use on, keep it, or with
    ``keep`` from the first; it is renewed when the elements have changed."""
    key = id(tensor)
    entry = _known.get(key)
    if entry is None:
        _known[key] = entry = [weakref.ref(tensor, lambda _: _known.pop(key, None)), None]
        if not keep and not (tensor.is_leaf and tensor.requires_grad):
            return _core.to_vulkan(gpu, tensor.detach())
    seen = tensor.detach()
    if entry[1] is None or not entry[1]._equals(seen, gpu):
        entry[1] = _core.to_vulkan(gpu, seen)
    return entry[1]


def move(module, gpu):
    """Moves the parameters and buffers of a module to a device. Optimizers that have them update them there."""
    moved = {}
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is None or type(tensor) is DeviceTensor or not isinstance(tensor, torch.Tensor):
                    continue
                if id(tensor) not in moved:
                    moved[id(tensor)] = (tensor, _moved(tensor, gpu))
                tensors[name] = moved[id(tensor)][1]
    return module


def _moved(tensor, gpu):
    made = DeviceTensor(_core.to_vulkan(gpu, tensor.detach()))
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, tensor.requires_grad)
    _known.pop(id(tensor), None)  # a weak reference, with which tensors cannot be exchanged
    try:
        torch.utils.swap_tensors(tensor, made)  # also where an optimizer or another module has it
    except (AttributeError, RuntimeError):
        return made
    return tensor


def there(tensors):
    """The tensors, those on the host as their copies on the device of another one, if there is such."""
    gpu = next((each._array._gpu() for each in tensors if type(each) is DeviceTensor and each._array.is_on_device), None)
    if gpu is None:
        return tensors
    return [
        DeviceTensor(resident(each, gpu)) if isinstance(each, torch.Tensor) and type(each) is not DeviceTensor else each
        for each in tensors
    ]


# -- What torch does with them --------------------------------------------------------------------


def _is_view(func):
    kind = _VIEWS.get(func)
    if kind is None:
        returned = func._schema.returns
        kind = _VIEWS[func] = any(each.alias_info is not None and not each.alias_info.is_write for each in returned)
    return kind


_VIEWS = {torch.ops.aten._unsafe_view.default: True}


def _viewed(func, args, kwargs):
    """A view op, which torch computes on tensors without memory."""
    (of,) = (each for each in args if type(each) is DeviceTensor)
    reach = of._offset + 1 + sum((n - 1) * s for n, s in zip(of.shape, of.stride())) if of.numel() else of._offset
    form = torch.empty(reach, dtype=of.dtype, device="meta").as_strided(of.shape, of.stride(), of._offset)

    def view(each):
        if not isinstance(each, torch.Tensor):
            return each
        at = each.storage_offset()
        return DeviceTensor(of._array._strided(tuple(each.shape), each.stride(), at - of._offset), at)

    return tree_map(view, func(*[form if each is of else each for each in args], **kwargs))


def _on_host(func, args, kwargs):
    """An op that torch computes from the elements on the host, and writes back what it changes."""
    opened = {}

    def host(each):
        if type(each) is not DeviceTensor:
            return each
        if id(each) not in opened:
            opened[id(each)] = (each, each._array._host())
        return opened[id(each)][1]

    given, named = tree_map(host, args), tree_map(host, kwargs)
    result = func(*given, **named)
    written = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        written += value if isinstance(value, (list, tuple)) else [value]
    changed = [opened[id(each)] for each in written if type(each) is DeviceTensor]
    for tensor, _ in changed:
        tensor._array._touch()

    def own(each):
        for tensor, there in changed:
            if each is there:
                return tensor
        # A result on the memory of an argument would hide writes to it.
        if isinstance(each, torch.Tensor) and any(each is there for _, there in opened.values()):
            return each.clone()
        return each

    return tree_map(own, result)


# -- Ops on the device ----------------------------------------------------------------------------


def _call(name, operands, out=None, **attributes):
    gpu = next(each._array._gpu() for each in operands if type(each) is DeviceTensor)
    given = [
        each._array if type(each) is DeviceTensor else resident(each, gpu) if isinstance(each, torch.Tensor) else each
        for each in operands
    ]
    made = _core.eager_call(_core.executor_on(gpu), name, given, attributes, None if out is None else out._array)
    return out if out is not None else DeviceTensor(made) if made.is_on_device else made.torch()


def _fits(*operands):
    """Whether these are floats of one dtype, and numbers, which the ops below compute as torch does."""
    tensors = [each for each in operands if isinstance(each, torch.Tensor)]
    return all(each.dtype == tensors[0].dtype and each.is_floating_point() for each in tensors) and all(
        isinstance(each, (torch.Tensor, int, float)) and not isinstance(each, bool) for each in operands
    )


def _scaled(value, number):
    if number == 1:
        return value
    return _call("mul", [value, number]) if type(value) is DeviceTensor else value * number


def _add(a, b, *, alpha=1, out=None):
    return _call("add", [a, _scaled(b, alpha)], out)


def _sub(a, b, *, alpha=1, out=None):
    return _call("sub", [a, _scaled(b, alpha)], out)


def _addcmul(a, b, c, *, value=1, out=None):
    return _call("add", [a, _scaled(_call("mul", [b, c]), value)], out)


def _addcdiv(a, b, c, *, value=1, out=None):
    return _call("add", [a, _scaled(_call("div", [b, c]), value)], out)


def _lerp(a, b, weight, *, out=None):
    if isinstance(weight, (int, float)) and abs(weight) >= 0.5:
        return _call("sub", [b, _scaled(_call("sub", [b, a]), 1 - weight)], out)
    return _call("add", [a, _call("mul", [_call("sub", [b, a]), weight])], out)


def _row(name):
    return lambda *operands, out=None: _call(name, operands, out)


def _guarded(function, writes):
    def run(*operands, **named):
        if not any(type(each) is DeviceTensor for each in operands) or not _fits(*operands):
            return NotImplemented
        if not writes:
            return function(*operands, **named)
        if type(operands[0]) is not DeviceTensor:
            return NotImplemented
        return function(*operands, **named, out=operands[0])

    return run


def _clone(tensor, *, memory_format=None):
    return _call("mul", [tensor, 1]) if tensor.is_floating_point() else NotImplemented


def _copy(to, source, non_blocking=False):
    if type(to) is DeviceTensor and type(source) is DeviceTensor and _fits(to, source) and to.shape == source.shape:
        return _call("mul", [source, 1], to)
    return NotImplemented


def _mean(tensor, *, dtype=None):
    return _call("mean", [tensor], dim=[]) if dtype is None and _fits(tensor) else NotImplemented


def _sum(tensor, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None or not _fits(tensor):
        return NotImplemented
    return _call("sum", [tensor], dim=list(dim or []), keepdim=keepdim)


_numbers = {}  # tensors of one element, such as the gradient from which backward() starts


def _like(number):
    def run(tensor, **options):
        dtype = options.get("dtype") or tensor.dtype
        gpu = tensor._array._gpu()
        if tensor.numel() != 1 or not dtype.is_floating_point:
            return DeviceTensor(_core.to_vulkan(gpu, torch.full(tensor.shape, number, dtype=dtype)))
        key = (number, dtype, tuple(tensor.shape))
        if key not in _numbers:
            _numbers[key] = torch.full(tensor.shape, number, dtype=dtype)
        return _clone(DeviceTensor(resident(_numbers[key], gpu, keep=True)))

    return run


def _table():
    aten = torch.ops.aten
    table = {
        aten.clone.default: _clone, aten.copy_.default: _copy, aten.mean.default: _mean, aten.sum.default: _sum,
        aten.sum.dim_IntList: _sum, aten.ones_like.default: _like(1), aten.zeros_like.default: _like(0),
    }  # fmt: skip
    functions = {"add": _add, "sub": _sub, "addcmul": _addcmul, "addcdiv": _addcdiv, "lerp": _lerp}
    rows = "mul div neg sqrt rsqrt reciprocal abs exp log sin cos tanh sigmoid relu square pow maximum minimum mm".split()
    functions |= {name: _row("matmul" if name == "mm" else name) for name in rows}
    for name, function in functions.items():
        for writes, word in ((False, name), (True, name + "_")):
            packet = getattr(aten, word, None)
            if packet is None:
                continue
            for overload in packet.overloads():
                if overload in ("default", "Tensor", "Scalar", "Tensor_Scalar", "Tensor_Tensor"):
                    table[getattr(packet, overload)] = _guarded(function, writes)
    return table


_ON_DEVICE = _table()
_core.set_device_tensor(DeviceTensor, resident)
