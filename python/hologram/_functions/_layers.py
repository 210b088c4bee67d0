# SPDX-License-Identifier: Apache-2.0
"""The layers of torch.nn.functional."""

import math

import numpy as np

from .. import _core, _rows
from ._shapes import to_shape, transpose, unsqueeze
from ._sizes import cast_to, dtype_of, element_of, is_float, product, shape_of
from ._table import functions, torch_function

_EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def listed(value, count, name):
    """One number for all dims, or one per dim, as a list."""
    if isinstance(value, (tuple, list)):
        if len(value) == 1:
            return list(value) * count
        if len(value) != count:
            raise ValueError(f"{name} has {len(value)} numbers for {count} dims")
        return list(value)
    return [value] * count


def batched(name, input, dims, function):
    """Applies ``function`` to [n, c, spatial...], also if the input lacks n."""
    rank = len(shape_of(input))
    if rank not in (dims + 1, dims + 2):
        raise ValueError(f"{name}: expected {dims + 1} or {dims + 2} dims, got {list(shape_of(input))}")
    if rank == dims + 2:
        return function(input)
    made = function(unsqueeze(input, 0))
    results = made if isinstance(made, tuple) else (made,)
    results = tuple(to_shape(each, shape_of(each)[1:]) for each in results)
    return results if isinstance(made, tuple) else results[0]


def _implicit_dim(x, dim):
    if dim is not None:
        return dim
    return 0 if len(shape_of(x)) in (0, 1, 3) else 1


@torch_function()
def softmax(input, dim=None, dtype=None):
    """exp(x) / sum exp(x) along a dim. Without ``dim``, as in torch: dim 0 of 0, 1 or 3 dims, otherwise dim 1."""
    return _rows.softmax(cast_to(input, dtype), _implicit_dim(input, dim))


@torch_function()
def log_softmax(input, dim=None, dtype=None):
    """log softmax along a dim. Without ``dim``, as softmax."""
    return _rows.log_softmax(cast_to(input, dtype), _implicit_dim(input, dim))


@torch_function()
def softmin(input, dim=None, dtype=None):
    """softmax of -input."""
    return _rows.softmax(_rows.neg(cast_to(input, dtype)), _implicit_dim(input, dim))


@torch_function()
def relu6(input, inplace=False):
    """Between 0 and 6."""
    return _rows.hardtanh(input, 0.0, 6.0)


@torch_function()
def selu(input, inplace=False):
    """Klambauer et al. 2017."""
    return _rows.elu(input, alpha=1.6732632423543772, scale=1.0507009873554805)


@torch_function()
def celu(input, alpha=1.0, inplace=False):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return _rows.elu(input, alpha=alpha, input_scale=1 / alpha)


@torch_function()
def tanhshrink(input):
    """x - tanh(x)."""
    return _rows.sub(input, _rows.tanh(input))


@torch_function()
def softsign(input):
    """x / (1 + abs(x))."""
    return _rows.div(input, _rows.add(_rows.abs(input), 1))


@torch_function()
def dropout(input, p=0.5, training=True, inplace=False):
    """Zeros elements at random, and scales the rest; the input itself without ``training``."""
    return _rows.dropout(input, p=p, training=training)


@torch_function()
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalizes the last dims."""
    return _rows.layer_norm(input, weight=weight, bias=bias, normalized_shape=normalized_shape, eps=eps)


@torch_function()
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divides by the root mean square of the last dims; eps is that of the dtype by default."""
    return _rows.rms_norm(input, weight=weight, normalized_shape=normalized_shape, eps=_EPSILON.get(dtype_of(input), 0.0) if eps is None else eps)


@torch_function()
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalizes groups of channels."""
    return _rows.group_norm(input, weight=weight, bias=bias, groups=num_groups, eps=eps)


@torch_function()
def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    """Normalizes each channel of each sample. Running statistics are not updated."""
    if not use_input_stats:
        return _rows.batch_norm(input, weight, bias, running_mean, running_var, training=False, eps=eps)[0]
    if running_mean is not None or running_var is not None:
        raise ValueError("instance_norm: running statistics are updated by hg.nn.InstanceNorm only")
    return _rows.group_norm(input, weight=weight, bias=bias, groups=shape_of(input)[1], eps=eps)


@torch_function()
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalizes channels over the batch. In training, running statistics that are arrays or tensors are updated in place."""
    if not training and (running_mean is None or running_var is None):
        raise ValueError("batch_norm: running_mean and running_var are needed without training=True")
    running = [running_mean, running_var]
    updates = training and running_mean is not None and running_var is not None
    if updates and any(isinstance(each, (_core.Var, _core.Value)) for each in (input, *running)):
        raise ValueError("batch_norm: training updates running statistics in place, which expressions cannot; pass None for them")
    y, *new = _rows.batch_norm(input, weight, bias, *running, training=training, momentum=momentum, eps=eps)
    if updates:
        for place, value in zip(running, new):
            _rows.contiguous(value.detach() if hasattr(value, "detach") else value, out=place)
    return y


def _convolution(dims):
    def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        step, spread = listed(stride, dims, "stride"), listed(dilation, dims, "dilation")
        kernel = shape_of(weight)[2:]
        if padding == "valid":
            padding = 0
        if padding == "same":
            if any(n != 1 for n in step):
                raise ValueError(f"conv{dims}d: padding='same' needs stride 1, it is {step}")
            totals = [d * (k - 1) for d, k in zip(spread, kernel)]
            low = [n // 2 for n in totals]
            more = [n - 2 * m for n, m in zip(totals, low)]
            lead = len(shape_of(input)) - dims
            if any(more):
                input = _rows.pad(input, [0] * (2 * lead) + [p for n in more for p in (0, n)])
            padding = low
        elif isinstance(padding, str):
            raise ValueError(f"conv{dims}d: padding is {padding!r}, expected numbers, 'valid' or 'same'")
        pads = listed(padding, dims, "padding")
        return batched(f"conv{dims}d", input, dims, lambda x: _rows.conv(
            x, weight, bias, stride=step, padding=pads, dilation=spread, groups=groups))  # fmt: skip

    def conv_transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        lists = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        lists = {key: listed(value, dims, key) for key, value in lists.items()}
        return batched(f"conv_transpose{dims}d", input, dims, lambda x: _rows.conv(
            x, weight, bias, transposed=True, groups=groups, **lists))  # fmt: skip

    conv.__name__, conv.__doc__ = f"conv{dims}d", f"Convolution over {dims} dims."
    conv_transpose.__name__, conv_transpose.__doc__ = f"conv_transpose{dims}d", f"Transposed convolution over {dims} dims."
    torch_function()(conv)
    torch_function()(conv_transpose)


def _pools(dims):
    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        row = _rows.max_pool_with_indices if return_indices else _rows.max_pool
        lists = _window(kernel_size, stride, padding)
        return batched(f"max_pool{dims}d", input, dims, lambda x: row(
            x, **lists, dilation=listed(dilation, dims, "dilation"), ceil_mode=ceil_mode))  # fmt: skip

    def average(input, lists, ceil_mode, count_include_pad, divisor_override):
        return batched(f"avg_pool{dims}d", input, dims, lambda x: _rows.avg_pool(
            x, **lists, ceil_mode=ceil_mode, count_include_pad=count_include_pad, divisor_override=divisor_override))  # fmt: skip

    if dims == 1:

        def avg_pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
            return average(input, _window(kernel_size, stride, padding), ceil_mode, count_include_pad, None)
    else:

        def avg_pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
            return average(input, _window(kernel_size, stride, padding), ceil_mode, count_include_pad, divisor_override)

    def _window(kernel_size, stride, padding):
        kernel = listed(kernel_size, dims, "kernel_size")
        step = kernel if stride is None or stride in ((), []) else listed(stride, dims, "stride")
        return {"kernel_size": kernel, "stride": step, "padding": listed(padding, dims, "padding")}

    def _sizes(input, output_size):
        wanted = listed(output_size, dims, "output_size")
        return [n if want is None else want for want, n in zip(wanted, shape_of(input)[-dims:])]

    def max_pool_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    def adaptive_max_with_indices(input, output_size, return_indices=False):
        return adaptive_max(input, output_size, True)

    def adaptive_avg(input, output_size):
        sizes = _sizes(input, output_size)
        return batched(f"adaptive_avg_pool{dims}d", input, dims, lambda x: _rows.adaptive_avg_pool(x, sizes))

    def adaptive_max(input, output_size, return_indices=False):
        sizes = _sizes(input, output_size)
        made = batched(f"adaptive_max_pool{dims}d", input, dims, lambda x: _rows.adaptive_max_pool(x, sizes))
        return made if return_indices else made[0]

    words = {"max_pool": max_pool, "avg_pool": avg_pool, "adaptive_avg_pool": adaptive_avg, "adaptive_max_pool": adaptive_max}
    for word, function in words.items():
        function.__name__, function.__doc__ = f"{word}{dims}d", f"The row {word} over {dims} dims."
        torch_function()(function)
    for word, function in (("max_pool", max_pool_with_indices), ("adaptive_max_pool", adaptive_max_with_indices)):
        function.__name__, function.__doc__ = f"{word}{dims}d_with_indices", f"{word}{dims}d, and the places of the maxima."
        torch_function()(function)


for _count in (1, 2, 3):
    _convolution(_count)
    _pools(_count)


@torch_function()
def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """The products of groups of rows, which end at ``offs``, with one matrix each."""
    if offs is None:
        return _rows.matmul(mat_a, mat_b)
    if bias is not None:
        raise ValueError("grouped_mm: bias must be None, as in PyTorch")
    result = _rows.grouped_mm(mat_a, mat_b, offs)
    return result if out_dtype is None else _rows.cast(result, out_dtype)


@torch_function()
def pad(input, pad, mode="constant", value=None):
    """Pads dims, from the last one: begin and end of the last dim, then of the one before it. Negative pads remove elements."""
    pads, shape = list(pad), shape_of(input)
    if len(pads) % 2 or len(pads) > 2 * len(shape):
        raise ValueError(f"pad: {len(pads)} numbers are given for {len(shape)} dims, expected two per dim")
    if mode != "constant" and value:
        raise ValueError(f"pad: mode {mode!r} has no value")
    words = {"constant": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}
    if mode not in words:
        raise ValueError(f"pad: mode is {mode!r}, expected one of {', '.join(words)}")
    order = [0] * (2 * len(shape) - len(pads))
    for i in reversed(range(0, len(pads), 2)):
        order += pads[i : i + 2]
    return _rows.pad(input, order, mode=mode, value=element_of(value or 0.0, dtype_of(input)))


@torch_function()
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Windows of an image as columns; windows along one dim are ``Var.unfold(dim, size, step)``."""
    lists = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    lists = {key: listed(value, 2, key) for key, value in lists.items()}
    if len(shape_of(input)) == 3:
        made = _rows.im2col(unsqueeze(input, 0), **lists)
        return to_shape(made, shape_of(made)[1:])
    return _rows.im2col(input, **lists)


@torch_function()
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sums columns back to an image, the transpose of unfold."""
    lists = {"output_size": output_size, "kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    lists = {key: listed(value, 2, key) for key, value in lists.items()}
    if len(shape_of(input)) == 2:
        made = _rows.col2im(unsqueeze(input, 0), **lists)
        return to_shape(made, shape_of(made)[1:])
    return _rows.col2im(input, **lists)


@torch_function()
def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    """Resizes spatial dims."""
    spatial = shape_of(input)[2:]
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: either size or scale_factor is given")
    scales = []
    if size is None:
        factors = [float(each) for each in listed(scale_factor, len(spatial), "scale_factor")]
        sizes = [math.floor(float(n) * f) for n, f in zip(spatial, factors)]
        scales = [] if recompute_scale_factor or align_corners else factors
    else:
        sizes = listed(size, len(spatial), "size")
    if mode == "area" and align_corners is None and not antialias:
        return _rows.adaptive_avg_pool(input, sizes)
    return _rows.interpolate(input, sizes, mode=mode, align_corners=bool(align_corners), antialias=antialias, scales=scales)


@torch_function()
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@torch_function()
def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with the nearest elements."""
    return interpolate(input, size, scale_factor)


@torch_function()
def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate between elements, with aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", True)


@torch_function()
def affine_grid(theta, size, align_corners=None):
    """Points of [-1, 1] for grid_sample: an affine map of each sample, [n, 2, 3] or [n, 3, 4], applied to those of ``size``."""
    spatial = list(size)[2:]
    if list(shape_of(theta)) != [size[0], len(spatial), len(spatial) + 1] or len(spatial) not in (2, 3):
        raise ValueError(f"affine_grid: theta is {list(shape_of(theta))}, the size {list(size)}")
    lines = [np.linspace(-1, 1, n) * (1 if align_corners else (n - 1) / n) if n > 1 else np.zeros(n) for n in spatial]
    points = [np.broadcast_to(each, spatial) for each in np.meshgrid(*lines, indexing="ij")[::-1]]  # the last dim first
    base = np.stack([*points, np.ones(spatial)], -1).reshape(1, -1, len(spatial) + 1)
    made = _rows.matmul(_rows.cast(base, dtype_of(theta)), _rows.permute(theta, [0, 2, 1]))
    return to_shape(made, [size[0], *spatial, len(spatial)])


@torch_function()
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Values of an image at points of [-1, 1]."""
    return _rows.grid_sample(input, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners))


@torch_function()
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(q k^T * scale) v; attn_mask is added, or bool and True where attention is allowed."""
    if attn_mask is not None and is_causal:
        raise ValueError("scaled_dot_product_attention: attn_mask and is_causal=True are not given together")
    shape = shape_of(query)
    if enable_gqa:
        times = shape[-3] // shape_of(key)[-3]
        if times * shape_of(key)[-3] != shape[-3]:
            raise ValueError(f"scaled_dot_product_attention: {shape[-3]} heads of queries, {shape_of(key)[-3]} of keys")
        key, value = (_heads(each, times) for each in (key, value))
    if attn_mask is not None and dtype_of(attn_mask) != "bool":
        attn_mask = cast_to(attn_mask, dtype_of(query))
    leads = [shape_of(each)[:-2] for each in (query, key, value)]
    lead = leads[0]
    if len(set(leads)) > 1 and not any(isinstance(size, str) for each in leads for size in each):
        lead = np.broadcast_shapes(*leads)
        query, key, value = (_rows.expand(each, [*lead, *shape_of(each)[-2:]]) for each in (query, key, value))
    if dropout_p == 0.0:
        if len(lead) == 2:
            return _rows.attention(query, key, value, attn_mask, scale=scale, causal=is_causal)
        lifted = [to_shape(each, [*[1] * (2 - len(lead)), *shape_of(each)]) for each in (query, key, value)]
        made = _rows.attention(*lifted, attn_mask, scale=scale, causal=is_causal)
        return to_shape(made, [*lead, shape[-2], shape_of(value)[-1]])
    scale = 1 / math.sqrt(shape[-1]) if scale is None else scale
    scores = _rows.mul(_rows.matmul(query, transpose(key, -2, -1)), scale)
    if is_causal:
        attn_mask = np.tril(np.ones((shape[-2], shape_of(key)[-2]), bool))
    if attn_mask is not None and dtype_of(attn_mask) == "bool":
        scores = _rows.where(attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = _rows.add(scores, attn_mask)
    return _rows.matmul(_rows.dropout(safe_softmax(scores), p=dropout_p, training=True), value)


@torch_function()
def threshold(input, threshold, value, inplace=False):
    """The input where it exceeds the threshold, elsewhere ``value``."""
    dtype = dtype_of(input)
    if is_float(input):
        return _rows.threshold(input, threshold, element_of(value, dtype))
    if dtype == "bool":
        raise ValueError("threshold: the input is bool, expected numbers")
    return _rows.where(_rows.gt(input, element_of(threshold, dtype)), input, element_of(value, dtype))


@torch_function()
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """The input within the two bounds."""
    dtype = dtype_of(input)
    if dtype == "bool" or (dtype == "uint8" and min_val < 0) or min_val > max_val:
        raise ValueError(f"hardtanh: the bounds of a {dtype} tensor are {min_val} and {max_val}")
    if is_float(input):
        return _rows.hardtanh(input, element_of(min_val, dtype), element_of(max_val, dtype))
    return _rows.clamp(input, *(element_of(element_of(each, "int64"), dtype) for each in (min_val, max_val)))


def safe_softmax(scores):
    """Softmax along the last dim; a row of -inf alone becomes zeros."""
    hidden = _rows.all(_rows.eq(scores, -math.inf), [-1], True)
    return _rows.where(hidden, 0.0, _rows.softmax(_rows.where(hidden, 0.0, scores), -1))


def _heads(x, times):
    shape = shape_of(x)
    wide = _rows.expand(unsqueeze(x, -3), [*shape[:-2], times, *shape[-2:]])
    return to_shape(wide, [*shape[:-3], product([shape[-3], times]), *shape[-2:]])


@torch_function("native_channel_shuffle")
def channel_shuffle(input, groups):
    """Interleaves groups of channels."""
    n, c, *rest = shape_of(input)
    if not rest or c % groups:
        raise ValueError(f"channel_shuffle: the input is {list(shape_of(input))}, expected {groups} equal groups of channels")
    made = _rows.permute(to_shape(input, [n, groups, c // groups, *rest]), [0, 2, 1, *range(3, 3 + len(rest))])
    return to_shape(made, [n, c, *rest])


@torch_function()
def conv_tbc(input, weight, bias, pad=0):
    """Convolution over the first dim of [time, batch, channels]."""
    made = functions["conv1d"](_rows.permute(input, [1, 2, 0]), _rows.permute(weight, [2, 1, 0]), bias, padding=pad)
    return _rows.permute(made, [2, 0, 1])


@torch_function()
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divides by a power of the mean square of ``size`` channels. Krizhevsky et al. 2012, section 3.3."""
    shape = shape_of(input)
    if len(shape) < 3:
        raise ValueError(f"local_response_norm: expected 3 or more dims, got {list(shape)}")
    if 0 in shape:
        return input
    square = _rows.reshape(_rows.mul(input, input), [shape[0], 1, shape[1], product(shape[2:])])
    square = _rows.pad(square, [0, 0, 0, 0, size // 2, (size - 1) // 2, 0, 0])
    mean = to_shape(_rows.avg_pool(square, [size, 1], stride=[1, 1]), shape)
    return _rows.div(input, _rows.pow(_rows.add(_rows.mul(mean, alpha), k), beta))


@torch_function()
def pdist(input, p=2):
    """The distances of all pairs of rows: of row 0 and each later one, then of row 1."""
    if len(shape_of(input)) != 2 or not isinstance(shape_of(input)[0], int):
        raise ValueError(f"pdist: the input is {list(shape_of(input))}, expected two dims, the first one known")
    rows, columns = np.triu_indices(shape_of(input)[0], 1)
    first, second = (unsqueeze(_rows.index_select(input, each.astype(np.int64), 0), 1) for each in (rows, columns))
    return to_shape(_rows.cdist(first, second, float(p)), [len(rows)])


def _bags(input, offsets, include_last_offset):
    """The flat indices, the bag of each, and the number of bags."""
    if dtype_of(input) not in ("int32", "int64"):
        raise ValueError(f"embedding_bag: the input is {dtype_of(input)}, expected int32 or int64")
    index = np.asarray(input)
    if index.ndim not in (1, 2) or (index.ndim == 1) != (offsets is not None):
        raise ValueError(f"embedding_bag: one dim goes with offsets, two without them; the input is {list(index.shape)}")
    if index.ndim == 2:
        return index.reshape(-1).astype(np.int64), np.arange(index.shape[0]).repeat(index.shape[1]), index.shape[0]
    starts, count = np.asarray(offsets), len(index)
    if starts.ndim != 1 or starts.dtype != index.dtype:
        raise ValueError(f"embedding_bag: the offsets are {starts.dtype}{list(starts.shape)}, expected one dim of {index.dtype}")
    if include_last_offset:
        if len(starts) == 0 or starts[-1] != count:
            raise ValueError(f"embedding_bag: with include_last_offset the last offset is {count}, the size of the input")
        starts = starts[:-1]
    if len(starts) and (starts[0] != 0 or starts[-1] > count or (starts[1:] < starts[:-1]).any()):
        raise ValueError(f"embedding_bag: offsets rise from 0 to at most {count}, the size of the input")
    return index.astype(np.int64), np.searchsorted(starts, np.arange(count), side="right") - 1, len(starts)


@torch_function()
def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):  # fmt: skip
    """The sum, mean or maximum of the rows of each bag: a row of ``input``, or the indices between two ``offsets``. The indices are
    arrays or tensors."""
    if isinstance(input, (_core.Var, _core.Value)):
        raise TypeError("embedding_bag() reads its indices when it is called; in an expression, reduce embedding(input, weight)")
    if max_norm is not None or sparse or scale_grad_by_freq:
        raise ValueError("embedding_bag: max_norm, sparse and scale_grad_by_freq are not supported")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode is {mode!r}, expected 'sum', 'mean' or 'max'")
    scale = per_sample_weights
    if scale is not None and (mode != "sum" or shape_of(scale) != shape_of(input)):
        raise ValueError(f"embedding_bag: per_sample_weights are for mode 'sum', which is {mode!r}, and have the shape of the input, "
                         f"{list(shape_of(input))}")  # fmt: skip
    if scale is not None and dtype_of(scale) != dtype_of(weight):
        raise ValueError(f"embedding_bag: per_sample_weights are {dtype_of(scale)}, the table is {dtype_of(weight)}")
    index, bag, bags = _bags(input, offsets, include_last_offset)
    scale = None if scale is None else _rows.reshape(scale, [len(index)])
    if padding_idx is not None:
        stays = np.flatnonzero(index != padding_idx % shape_of(weight)[0])
        index, bag = index[stays], bag[stays]
        scale = None if scale is None else _rows.index_select(scale, stays, 0)
    rows = _rows.embedding(weight, index)  # [indices, features]
    if scale is not None:
        rows = _rows.mul(rows, unsqueeze(scale, 1))
    empty = _rows.full([bags, shape_of(weight)[1]], 0.0, dtype_of(weight))
    if mode == "max" and len(index):
        sizes = np.bincount(bag, minlength=bags)
        is_there = np.arange(sizes.max()) < sizes[:, None]  # [bags, longest]
        places = np.zeros(is_there.shape, np.int64)
        places[is_there] = np.arange(len(index))
        filled = _rows.where(is_there[:, :, None], _rows.embedding(rows, places), -np.inf)
        return _rows.where((sizes == 0)[:, None], empty, _rows.max(filled, dim=1)[0])  # the first of equal ones has the gradient
    y = _rows.index_reduce(empty, bag, rows, dim=0, reduce="add")
    if mode != "mean":
        return y
    sizes = np.maximum(np.bincount(bag, minlength=bags), 1).reshape(bags, 1)
    return _rows.div(y, _rows.cast(sizes, dtype_of(weight)))


def _refuse_scaled(name):
    raise ValueError(f"{name} multiplies float8 tensors, and there is no float8 dtype here: use mm, or hg.quantize for a model")


@torch_function()
def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None,
              output_dtype="bfloat16", contraction_dim=(), use_fast_accum=False):  # fmt: skip
    """Always an error, because there is no float8 dtype."""
    _refuse_scaled("scaled_mm")


@torch_function()
def scaled_grouped_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None,
                      offs=None, output_dtype="bfloat16", contraction_dim=(), use_fast_accum=False):  # fmt: skip
    """Always an error, because there is no float8 dtype."""
    _refuse_scaled("scaled_grouped_mm")
