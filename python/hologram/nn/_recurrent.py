# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers and their cells."""

import torch
from torch.nn.utils.rnn import PackedSequence

from .. import _rows as ops
from .._errors import UnsupportedError
from ._common import autocast


def _scan(layer, x, w_ih, w_hh, b_ih, b_hh, w_hr, states, reverse=False):
    """All steps of one direction. x: [time, batch, in]; returns y [time, batch, out] and the final states."""
    kind = layer.mode
    gates = ops.linear(*autocast(None, x, w_ih, b_ih))
    keeps = kind == "GRU" or isinstance(layer, torch.nn.LSTMCell)
    if keeps and torch.is_autocast_enabled("cpu"):  # torch keeps the dtype of the state
        dtype = states[-1].dtype
        gates, w_hh, b_hh, *states = (None if t is None else t.to(dtype) for t in (gates, w_hh, b_hh, *states))
    else:
        w_hh, b_hh, w_hr, *states = autocast(None, w_hh, b_hh, w_hr, *states)
    if kind == "LSTM":
        y, *states = ops.lstm_scan(gates, *states, w_hh, b_hh, w_hr, reverse=reverse)
    elif kind == "GRU":
        y, *states = ops.gru_scan(gates, *states, w_hh, b_hh, reverse=reverse)
    else:
        y, *states = ops.rnn_scan(gates, *states, w_hh, b_hh, nonlinearity=kind[4:].lower(), reverse=reverse)
    return y, states


class _Recurrent:
    def forward(self, input, hx=None):
        name = type(self).__name__
        if isinstance(input, PackedSequence):
            raise UnsupportedError(f"{name}: packed sequences are not supported")
        if input.dim() not in (2, 3):
            raise ValueError(f"{name}: expected 2 or 3 dims, got {tuple(input.shape)}")
        lstm = self.mode == "LSTM"
        given = () if hx is None else tuple(hx) if lstm else (hx,)
        if input.dim() == 2:  # one sample
            y, states = self._of_batch(input.unsqueeze(1), tuple(s.unsqueeze(1) for s in given))
            y, states = y.squeeze(1), tuple(s.squeeze(1) for s in states)
        else:
            y, states = self._of_batch(input.transpose(0, 1) if self.batch_first else input, given)
            y = y.transpose(0, 1) if self.batch_first else y
        return y, states if lstm else states[0]

    def _of_batch(self, x, given):
        directions = 2 if self.bidirectional else 1
        count, batch = self.num_layers * directions, x.shape[1]
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][: 2 if self.mode == "LSTM" else 1]
        if x.shape[2] != self.input_size:
            raise ValueError(f"{type(self).__name__} of {self.input_size} features: the input has {x.shape[2]}")
        if not given:
            given = tuple(x.new_zeros(count, batch, size) for size in sizes)
        for state, size in zip(given, sizes, strict=True):
            if tuple(state.shape) != (count, batch, size):
                raise ValueError(f"{type(self).__name__}: a state is {tuple(state.shape)}, not {(count, batch, size)}")
        last = []
        for k in range(self.num_layers):
            both = []
            for d in range(directions):
                suffix = f"_l{k}{'_reverse' if d else ''}"
                names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
                weights = [getattr(self, each + suffix, None) for each in names]
                y, states = _scan(self, x, *weights, [s[k * directions + d] for s in given], reverse=d == 1)
                both.append(y)
                last.append(states)
            x = ops.concat(both, dim=2) if directions == 2 else both[0]
            if self.training and self.dropout > 0 and k + 1 < self.num_layers:
                keep = torch.empty_like(x).bernoulli_(1 - self.dropout)
                x = ops.mul(x, keep if self.dropout == 1 else keep.div_(1 - self.dropout))
        return x, tuple(
            ops.concat([s.reshape(1, *s.shape) for s in states], dim=0) for states in zip(*last, strict=True)
        )


class RNN(_Recurrent, torch.nn.RNN):
    """Dropout between layers draws from torch's generator, in its own order."""


class LSTM(_Recurrent, torch.nn.LSTM):
    """Dropout between layers draws from torch's generator, in its own order."""


class GRU(_Recurrent, torch.nn.GRU):
    """Dropout between layers draws from torch's generator, in its own order."""


class _Cell:
    def forward(self, input, hx=None):
        if input.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: expected 1 or 2 dims, got {tuple(input.shape)}")
        lstm = self.mode == "LSTM"
        x = input if input.dim() == 2 else input.unsqueeze(0)
        given = (None,) * (2 if lstm else 1) if hx is None else tuple(hx) if lstm else (hx,)
        states = [
            x.new_zeros(x.shape[0], self.hidden_size) if s is None else s if s.dim() == 2 else s.unsqueeze(0) for s in given
        ]
        for state in states:
            if x.shape[1] != self.input_size or tuple(state.shape) != (x.shape[0], self.hidden_size):
                raise ValueError(
                    f"{type(self).__name__} of {self.input_size} to {self.hidden_size}: the input is {tuple(input.shape)}, "
                    f"a state is {tuple(state.shape)}"
                )
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, None)
        _, states = _scan(self, x.unsqueeze(0), *weights, states)
        states = tuple(s if input.dim() == 2 else s.squeeze(0) for s in states)
        return states if lstm else states[0]


class RNNCell(_Cell, torch.nn.RNNCell):
    @property
    def mode(self):
        """RNN_TANH or RNN_RELU, as in torch's RNN."""
        return f"RNN_{self.nonlinearity.upper()}"


class LSTMCell(_Cell, torch.nn.LSTMCell):
    mode = "LSTM"


class GRUCell(_Cell, torch.nn.GRUCell):
    mode = "GRU"
