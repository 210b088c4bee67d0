# SPDX-License-Identifier: Apache-2.0
"""Attention, and the transformer (Vaswani et al. 2017)."""

import math

import torch

from .. import _rows as ops
from .._errors import UnsupportedError
from .._functions._layers import safe_softmax
from ._common import autocast
from ._dropout import Dropout
from ._norms import LayerNorm
from ._products import Linear


def _additive(mask, like):
    """The mask added to scores: -inf where a boolean mask is true."""
    if mask is None or mask.is_floating_point():
        return mask if mask is None else mask.to(like.dtype)
    if mask.dtype != torch.bool:
        raise ValueError(f"attention: a mask is bool or a float, not {mask.dtype}")
    return torch.zeros(mask.shape, dtype=like.dtype).masked_fill_(mask, -math.inf)


class MultiheadAttention(torch.nn.MultiheadAttention):
    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):  # fmt: skip
        if is_causal and attn_mask is None:
            raise ValueError("MultiheadAttention: is_causal needs attn_mask, of which it is a hint")
        if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
            raise ValueError(f"MultiheadAttention: the inputs are {tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}")
        alone = query.dim() == 2
        # [batch, time, features]
        if alone:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        y, weights = self._of_batch(query, key, value, key_padding_mask, attn_mask, need_weights)
        if need_weights and average_attn_weights:
            weights = ops.mean(weights, [1])
        if alone:
            return y.squeeze(0), None if weights is None else weights.squeeze(0)
        return y if self.batch_first else y.transpose(0, 1), weights

    def _of_batch(self, query, key, value, key_padding_mask, attn_mask, need_weights):
        batch, time, features = query.shape
        if features != self.embed_dim or key.shape[:2] != value.shape[:2] or key.shape[0] != batch:
            raise ValueError(f"MultiheadAttention of {self.embed_dim}: the query is {tuple(query.shape)}, "
                             f"the key {tuple(key.shape)}, the value {tuple(value.shape)}")  # fmt: skip
        if self._qkv_same_embed_dim:
            parts = self.in_proj_weight.chunk(3)
        else:
            parts = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (ops.linear(*autocast(None, x, w, b)) for x, w, b in zip((query, key, value), parts, biases))
        if self.bias_k is not None:
            k, v = (ops.concat([x, b.to(x.dtype).expand(batch, 1, -1)], dim=1) for x, b in ((k, self.bias_k), (v, self.bias_v)))
        if self.add_zero_attn:
            k, v = (ops.concat([x, x.new_zeros(batch, 1, self.embed_dim)], dim=1) for x in (k, v))
        heads, width, steps = self.num_heads, self.head_dim, k.shape[1]
        q, k, v = (ops.permute(ops.reshape(x, [batch, x.shape[1], heads, width]), [0, 2, 1, 3]) for x in (q, k, v))
        mask = self._mask(q, key_padding_mask, attn_mask, key.shape[1], steps)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights or dropout > 0:
            scores = ops.matmul(ops.mul(q, math.sqrt(1.0 / width)), ops.permute(k, [0, 1, 3, 2]))
            scores = scores if mask is None else ops.add(scores, mask)
            weights = ops.softmax(scores, -1) if need_weights else safe_softmax(scores)
            if dropout > 0:
                keep = torch.empty_like(weights).bernoulli_(1 - dropout)
                weights = ops.mul(weights, keep if dropout == 1 else keep.div_(1 - dropout))
            y = ops.matmul(weights, v)
        else:
            y = ops.attention(q, k, v, mask)
        y = ops.reshape(ops.permute(y, [0, 2, 1, 3]), [batch, time, self.embed_dim])
        return ops.linear(*autocast(None, y, self.out_proj.weight, self.out_proj.bias)), weights if need_weights else None

    def _mask(self, q, key_padding_mask, attn_mask, given, steps):
        """Combines both masks into one that is added to the scores [batch, heads, time, steps]."""
        batch, heads, time = q.shape[:3]
        mask = _additive(attn_mask, q)
        if mask is not None:
            if tuple(mask.shape) not in ((time, given), (batch * heads, time, given)):
                raise ValueError(f"MultiheadAttention: attn_mask is {tuple(mask.shape)}, not {(time, given)} or "
                                 f"{(batch * heads, time, given)}")  # fmt: skip
            mask = mask.reshape(-1, heads if mask.dim() == 3 else 1, time, given)
        hidden = _additive(key_padding_mask, q)
        if hidden is not None:
            if tuple(hidden.shape) != (batch, given):
                raise ValueError(f"MultiheadAttention: key_padding_mask is {tuple(hidden.shape)}, not {(batch, given)}")
            hidden = hidden.reshape(batch, 1, 1, given)
            mask = hidden if mask is None else ops.add(mask, hidden)
        if mask is not None and steps > given:  # all queries see what bias_k and add_zero_attn add
            mask = ops.pad(mask, [0, 0, 0, 0, 0, 0, 0, steps - given])
        return None if mask is None else mask.expand(batch, heads, time, steps)


_ACTIVATIONS = {torch.relu: ops.relu, torch.nn.functional.relu: ops.relu, torch.nn.functional.gelu: ops.gelu}


def _activation(function):
    """torch's functional relu and gelu as ops; layers stay."""
    if function in _ACTIVATIONS:
        return _ACTIVATIONS[function]
    if not isinstance(function, torch.nn.Module) and function not in _ACTIVATIONS.values():
        raise UnsupportedError(f"the activation {function} of a transformer is 'relu', 'gelu' or a layer")
    return function


def _adopted(layer):
    """The parts of one of torch's transformer layers as layers of this package, with the same parameters."""
    for part in layer.children():
        for ours in (MultiheadAttention, Linear, LayerNorm, Dropout):
            if type(part) is ours.__mro__[1]:
                part.__class__ = ours
    layer.activation = _activation(layer.activation)


class TransformerEncoderLayer(torch.nn.TransformerEncoderLayer):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        _adopted(self)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        """Like torch.nn.TransformerEncoderLayer."""
        def attention(x):
            y = self.self_attn(x, x, x, attn_mask=src_mask, key_padding_mask=src_key_padding_mask, need_weights=False, is_causal=is_causal)
            return self.dropout1(y[0])

        if self.norm_first:
            x = ops.add(src, attention(self.norm1(src)))
            return ops.add(x, self._ff_block(self.norm2(x)))
        x = self.norm1(ops.add(src, attention(src)))
        return self.norm2(ops.add(x, self._ff_block(x)))


class TransformerDecoderLayer(torch.nn.TransformerDecoderLayer):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        _adopted(self)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):  # fmt: skip
        """Like torch.nn.TransformerDecoderLayer."""
        def own(x):
            y = self.self_attn(x, x, x, attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask, is_causal=tgt_is_causal,
                               need_weights=False)  # fmt: skip
            return self.dropout1(y[0])

        def other(x):
            y = self.multihead_attn(x, memory, memory, attn_mask=memory_mask, key_padding_mask=memory_key_padding_mask,
                                    is_causal=memory_is_causal, need_weights=False)  # fmt: skip
            return self.dropout2(y[0])

        if self.norm_first:
            x = ops.add(tgt, own(self.norm1(tgt)))
            x = ops.add(x, other(self.norm2(x)))
            return ops.add(x, self._ff_block(self.norm3(x)))
        x = self.norm1(ops.add(tgt, own(tgt)))
        x = self.norm2(ops.add(x, other(x)))
        return self.norm3(ops.add(x, self._ff_block(x)))


class TransformerEncoder(torch.nn.TransformerEncoder):
    """Padding is masked, not removed: ``enable_nested_tensor`` has no effect."""

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        """Like torch.nn.TransformerEncoder."""
        y = src
        for layer in self.layers:
            y = layer(y, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal) and mask is not None)
        return y if self.norm is None else self.norm(y)


class TransformerDecoder(torch.nn.TransformerDecoder):
    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):  # fmt: skip
        """Like torch.nn.TransformerDecoder."""
        y = tgt
        for layer in self.layers:
            y = layer(y, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                      memory_key_padding_mask=memory_key_padding_mask,
                      tgt_is_causal=bool(tgt_is_causal) and tgt_mask is not None,
                      memory_is_causal=memory_is_causal)  # fmt: skip
        return y if self.norm is None else self.norm(y)


class Transformer(torch.nn.Transformer):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        kinds = (TransformerEncoder, TransformerDecoder, TransformerEncoderLayer, TransformerDecoderLayer, LayerNorm)
        for part in list(self.modules()):
            for ours in kinds:
                if type(part) is ours.__mro__[1]:
                    part.__class__ = ours
                    if ours in kinds[2:4]:
                        _adopted(part)
