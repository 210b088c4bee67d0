# SPDX-License-Identifier: Apache-2.0
"""One step of recurrent layers: torch.lstm_cell, gru_cell, rnn_tanh_cell and rnn_relu_cell."""

from .. import _rows
from ._shapes import chunk
from ._sizes import shape_of
from ._table import define, torch_function


def _gates(name, count, input, h, w_ih, w_hh, b_ih, b_hh):
    """The products of the input and of the state, [batch, count * hidden] each."""
    ranks = [len(shape_of(each)) for each in (input, h, w_ih, w_hh)]
    if ranks != [2, 2, 2, 2] or shape_of(w_ih)[0] != count * shape_of(h)[1] or shape_of(input)[0] != shape_of(h)[0]:
        shapes = [list(shape_of(each)) for each in (input, h, w_ih, w_hh)]
        raise ValueError(f"{name}: the input is {shapes[0]}, the state {shapes[1]}, the weights {shapes[2]} and {shapes[3]}; they do not fit each other")
    return _rows.linear(input, w_ih, b_ih), _rows.linear(h, w_hh, b_hh)


@torch_function()
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """The next (h, c) of an LSTM."""
    h, c = hx
    i, f, g, o = chunk(_rows.add(*_gates("lstm_cell", 4, input, h, w_ih, w_hh, b_ih, b_hh)), 4, 1)
    c = _rows.add(_rows.mul(_rows.sigmoid(f), c), _rows.mul(_rows.sigmoid(i), _rows.tanh(g)))
    return _rows.mul(_rows.sigmoid(o), _rows.tanh(c)), c


@torch_function()
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """The next h of a GRU."""
    (ri, zi, ni), (rh, zh, nh) = (chunk(each, 3, 1) for each in _gates("gru_cell", 3, input, hx, w_ih, w_hh, b_ih, b_hh))
    n = _rows.tanh(_rows.add(ni, _rows.mul(_rows.sigmoid(_rows.add(ri, rh)), nh)))
    return _rows.add(n, _rows.mul(_rows.sigmoid(_rows.add(zi, zh)), _rows.sub(hx, n)))


def _rnn_cell(name, activation):
    define(name, "The next h of an RNN.", lambda input, hx, w_ih, w_hh, b_ih=None, b_hh=None:
           activation(_rows.add(*_gates(name, 1, input, hx, w_ih, w_hh, b_ih, b_hh))))  # fmt: skip


_rnn_cell("rnn_tanh_cell", _rows.tanh)
_rnn_cell("rnn_relu_cell", _rows.relu)
