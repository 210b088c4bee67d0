# SPDX-License-Identifier: Apache-2.0
"""torch.nn.functional.multi_head_attention_forward."""

import math

from .. import _rows
from ._layers import pad, scaled_dot_product_attention
from ._shapes import cat, chunk, to_shape, transpose, unsqueeze
from ._sizes import dtype_of, is_float, shape_of
from ._table import functions, torch_function

_NAME = "multi_head_attention_forward"


def _additive(name, mask, dtype):
    """The mask added to scores: -inf where a boolean mask is true."""
    if mask is None or is_float(mask):
        return mask
    if dtype_of(mask) != "bool":
        raise ValueError(f"{_NAME}: {name} is {dtype_of(mask)}, expected bool or a float")
    return _rows.cast(_rows.where(mask, float("-inf"), 0.0), dtype)


def _require_shape(name, x, *shapes):
    if tuple(shape_of(x)) not in shapes:
        raise ValueError(f"{_NAME}: {name} is {list(shape_of(x))}, expected {' or '.join(str(list(each)) for each in shapes)}")


def _with_column(mask):
    return None if mask is None else pad(mask, [0, 1])


@torch_function()
def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p,
    out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
    use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
    average_attn_weights=True, is_causal=False):  # fmt: skip
    """Attention of several heads (Vaswani et al. 2017), of [time, batch, features] or [time, features]: the output, and the weights
    or None."""
    if len(shape_of(query)) not in (2, 3) or {len(shape_of(key)), len(shape_of(value))} != {len(shape_of(query))}:
        raise ValueError(f"{_NAME}: the inputs are {list(shape_of(query))}, {list(shape_of(key))}, {list(shape_of(value))}")
    alone = len(shape_of(query)) == 2
    if alone:
        query, key, value = (unsqueeze(each, 1) for each in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else unsqueeze(key_padding_mask, 0)
    time, batch, features = shape_of(query)
    if features != embed_dim_to_check or features % num_heads:
        raise ValueError(f"{_NAME}: the query has {features} features, expected {embed_dim_to_check}, in {num_heads} equal heads")
    same = 2 if use_separate_proj_weight else 3
    if shape_of(key)[:same] != shape_of(value)[:same]:
        raise ValueError(f"{_NAME}: the key is {list(shape_of(key))}, the value {list(shape_of(value))}")
    if is_causal and attn_mask is None:
        raise ValueError(f"{_NAME}: is_causal needs attn_mask, of which it is a hint")
    if (bias_k is None) != (bias_v is None) or (bias_k is not None and (static_k is not None or static_v is not None)):
        raise ValueError(f"{_NAME}: bias_k and bias_v are given together, and without static_k and static_v")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else chunk(in_proj_weight, 3)
    biases = (None,) * 3 if in_proj_bias is None else chunk(in_proj_bias, 3)
    q, k, v = (_rows.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))

    causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if causal else _additive("attn_mask", attn_mask, dtype_of(q))
    hidden = _additive("key_padding_mask", key_padding_mask, dtype_of(q))
    if mask is not None:
        steps = shape_of(key)[0]
        _require_shape("attn_mask", mask, (time, steps), (batch * num_heads, time, steps))
    if bias_k is not None:
        k, v = (cat([x, _rows.expand(b, [1, batch, features])]) for x, b in ((k, bias_k), (v, bias_v)))
        mask, hidden = _with_column(mask), _with_column(hidden)
    heads, width = batch * num_heads, features // num_heads

    def by_head(x):  # [batch * heads, time, width]
        return transpose(to_shape(x, [shape_of(x)[0], heads, width]), 0, 1)

    q, k, v = by_head(q), by_head(k) if static_k is None else static_k, by_head(v) if static_v is None else static_v
    for name, x in (("static_k", k), ("static_v", v)):
        if shape_of(x)[0] != heads or shape_of(x)[2] != width:
            raise ValueError(f"{_NAME}: {name} is {list(shape_of(x))}, expected {[heads, 'time', width]}")
    if add_zero_attn:
        k, v = (pad(x, [0, 0, 0, 1]) for x in (k, v))
        mask, hidden = _with_column(mask), _with_column(hidden)
    steps = shape_of(k)[1]
    if hidden is not None:
        _require_shape("key_padding_mask", hidden, (batch, steps))
        hidden = to_shape(_rows.expand(to_shape(hidden, [batch, 1, 1, steps]), [batch, num_heads, 1, steps]), [heads, 1, steps])
        mask = hidden if mask is None else _rows.add(mask, hidden)
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        scores = _rows.matmul(_rows.mul(q, math.sqrt(1.0 / width)), transpose(k, 1, 2))
        weights = _rows.softmax(scores if mask is None else _rows.add(scores, mask), -1)
        if dropout_p > 0:
            weights = _rows.dropout(weights, p=dropout_p, training=True)
        y = _rows.matmul(weights, v)
        weights = to_shape(weights, [batch, num_heads, time, steps])
        weights = functions["mean"](weights, 1) if average_attn_weights else weights
        weights = to_shape(weights, shape_of(weights)[1:]) if alone else weights
    else:
        weights = None
        if mask is not None and len(shape_of(mask)) == 3:
            mask = to_shape(mask, [batch, num_heads, shape_of(mask)[1], steps])
        q, k, v = (to_shape(x, [batch, num_heads, *shape_of(x)[1:]]) for x in (q, k, v))
        y = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
        y = to_shape(y, [heads, time, width])
    y = to_shape(transpose(y, 0, 1), [time, batch, features])
    y = _rows.linear(y, out_proj_weight, out_proj_bias)
    return to_shape(y, [time, shape_of(y)[2]]) if alone else y, weights
