# SPDX-License-Identifier: Apache-2.0
"""Random modules with regions of torch.autocast on the CPU: nested, disabled, in bf16 and f16.

The steps include every op that autocast handles, and ops that it does not. Results are cast to f32. Their numbers
reveal the original dtype: all numbers of a 16-bit tensor fit that dtype.
"""
import random
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 8

# x: [n, 8] of any float dtype; y: another tensor.
STEPS = {
    "linear": lambda m, x, y: m.linear(x),
    "matmul": lambda m, x, y: x @ m.weight,
    "mm": lambda m, x, y: torch.mm(x, m.weight),
    "addmm": lambda m, x, y: torch.addmm(m.bias, x, m.weight),
    "bmm": lambda m, x, y: torch.bmm(x[None], m.weight[None])[0],
    "baddbmm": lambda m, x, y: torch.baddbmm(m.bias.expand(1, 1, WIDTH), x[None], m.weight[None])[0],
    "addbmm": lambda m, x, y: torch.addbmm(m.bias, x[None], m.weight[None]),
    "conv1d": lambda m, x, y: F.conv1d(x[:, None], m.filter, padding=1)[:, 0],
    "conv1d_same": lambda m, x, y: F.conv1d(x[:, None], m.filter, padding="same")[:, 0],
    "conv2d": lambda m, x, y: F.conv2d(x.view(-1, 1, 2, 4), m.filter[..., None], padding=(1, 0)).flatten(1),
    "conv3d": lambda m, x, y: F.conv3d(x.view(-1, 1, 2, 2, 2), m.filter[..., None, None], padding=(1, 0, 0)).flatten(1),
    "conv_transpose1d": lambda m, x, y: F.conv_transpose1d(x[:, None], m.filter, padding=1)[:, 0],
    "conv_transpose2d": lambda m, x, y: F.conv_transpose2d(x.view(-1, 1, 2, 4), m.filter[..., None], padding=(1, 0)).flatten(1),
    "prelu": lambda m, x, y: F.prelu(x, m.slope),
    "vecdot": lambda m, x, y: x * 0.5 + torch.linalg.vecdot(x, m.bias.to(x.dtype))[:, None],
    "attention": lambda m, x, y: F.scaled_dot_product_attention(x.view(-1, 1, 2, 4), x.view(-1, 1, 2, 4), x.view(-1, 1, 2, 4)).flatten(1),
    "einsum": lambda m, x, y: torch.einsum("ni,io->no", x, m.weight),
    "einsum_mul": lambda m, x, y: torch.einsum("ni,i->ni", x, m.bias),
    "einsum_dots": lambda m, x, y: torch.einsum("...i,oi", x, m.weight),
    "einsum_one": lambda m, x, y: torch.einsum("ni->n", x)[:, None] + y,
    "tensordot": lambda m, x, y: torch.tensordot(x, m.weight, dims=1),
    "cat": lambda m, x, y: torch.cat([x, y], 1)[:, 4:12],
    "stack": lambda m, x, y: torch.stack([x, y, x], 1)[:, 1],
    "index_copy": lambda m, x, y: torch.index_copy(x, 1, m.places, y[:, :2].to(x.dtype)),
    "pad_reflect": lambda m, x, y: F.pad(x[:, None], (1, 2), mode="reflect")[:, 0, 1:9],
    "pad_replicate": lambda m, x, y: F.pad(x[:, None], (1, 2), mode="replicate")[:, 0, :8],
    "pad_constant": lambda m, x, y: F.pad(x, (1, 0))[:, :8],
    "mse_loss": lambda m, x, y: F.mse_loss(x, y) + x,
    "l1_loss": lambda m, x, y: F.l1_loss(x, y, reduction="none"),
    "smooth_l1_loss": lambda m, x, y: F.smooth_l1_loss(x, y, reduction="none"),
    "huber_loss": lambda m, x, y: F.huber_loss(x, y.to(x.dtype), reduction="none"),
    "kl_div": lambda m, x, y: F.kl_div(x, y.sigmoid(), reduction="none"),
    "bce": lambda m, x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction="none"),
    "bce_with_logits": lambda m, x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction="none"),
    "cross_entropy": lambda m, x, y: F.cross_entropy(x, m.classes[:1].expand(x.shape[0]), reduction="none")[:, None] + y,
    "nll_loss": lambda m, x, y: F.nll_loss(x, m.classes[:1].expand(x.shape[0]), reduction="none")[:, None] + y,
    "poisson_nll_loss": lambda m, x, y: F.poisson_nll_loss(x, y, reduction="none"),
    "soft_margin_loss": lambda m, x, y: F.soft_margin_loss(x, y.sign().to(x.dtype), reduction="none"),
    "avg_pool3d": lambda m, x, y: F.avg_pool3d(x.view(-1, 1, 2, 2, 2), (1, 1, 2), (1, 1, 1)).flatten(1).repeat(1, 2),
    "max_pool3d": lambda m, x, y: F.max_pool3d(x.view(-1, 1, 2, 2, 2), (1, 1, 2), (1, 1, 1)).flatten(1).repeat(1, 2),
    "adaptive_avg_pool3d": lambda m, x, y: F.adaptive_avg_pool3d(x.view(-1, 1, 2, 2, 2), (2, 2, 2)).flatten(1),
    "grid_sample": lambda m, x, y: F.grid_sample(x.view(-1, 1, 2, 4), torch.zeros(1, 2, 4, 2).to(x.dtype).expand(x.shape[0], 2, 4, 2), align_corners=False).flatten(1),
    "prod": lambda m, x, y: x.sigmoid().prod(1, keepdim=True) + y,
    "cdist": lambda m, x, y: torch.cdist(x, m.weight, compute_mode="donot_use_mm_for_euclid_dist"),
    "quantile": lambda m, x, y: torch.quantile(x, 0.3, 1, keepdim=True) + y if x.dtype == torch.float32 else x,
    "trace": lambda m, x, y: torch.trace(x) * 0.1 + y,
    "fft": lambda m, x, y: torch.fft.rfft(x).real[:, :4].repeat(1, 2) * 0.3 if x.dtype == torch.float32 else x,
    "lstm": lambda m, x, y: m.lstm(x[None].expand(2, *x.shape))[0][1] if x.dtype == torch.float32 else x,
    "lstm_states": lambda m, x, y: sum(m.lstm(x[None])[1])[0] + y if x.dtype == torch.float32 else x,
    "gru": lambda m, x, y: m.gru(x[None].expand(2, *x.shape))[0][1] if x.dtype == torch.float32 else x,
    "rnn": lambda m, x, y: m.rnn(x[None].expand(2, *x.shape))[0][1] if x.dtype == torch.float32 else x,
    "lstm_cell": lambda m, x, y: m.lstm_cell(x, (y, y))[0] if x.dtype == y.dtype == torch.float32 else x,
    "gru_cell": lambda m, x, y: m.gru_cell(x, y) if x.dtype == y.dtype == torch.float32 else x,
    "rnn_cell": lambda m, x, y: m.rnn_cell(x, y) if x.dtype == y.dtype == torch.float32 else x,
    # ops that autocast does not change
    "exp": lambda m, x, y: (x * 0.5).exp(),
    "softmax": lambda m, x, y: x.softmax(-1),
    "layer_norm": lambda m, x, y: F.layer_norm(x, (WIDTH,)),
    "gelu": lambda m, x, y: F.gelu(x),
    "relu": lambda m, x, y: F.relu(x) - 0.25,
    "add": lambda m, x, y: x + y,
    "mul": lambda m, x, y: x * y,
    "where": lambda m, x, y: torch.where(x > 0, x, y),
    "cumsum": lambda m, x, y: x.cumsum(1) * 0.25,
    "mean": lambda m, x, y: x.mean(1, keepdim=True) + y,
    "float": lambda m, x, y: x.float(),
    "bfloat16": lambda m, x, y: x.bfloat16(),
    "half": lambda m, x, y: x.half(),
    "double": lambda m, x, y: x.double(),
}


def plan(draw, depth=0):
    """Returns steps and regions of steps: (dtype or None, steps)."""
    steps = []
    for _ in range(draw.randint(1, 4)):
        if depth < 3 and (depth == 0 or draw.random() < 0.3):
            dtype = draw.choice([torch.bfloat16, torch.bfloat16, torch.float16])
            steps.append((dtype if depth == 0 or draw.random() < 0.6 else None, plan(draw, depth + 1)))
        else:
            steps.append((draw.choice(list(STEPS)), draw.randrange(8)))
    return steps


class Random(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.plan = plan(random.Random(seed))
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.weight, self.bias = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.4), nn.Parameter(torch.randn(WIDTH))
        self.filter, self.slope = nn.Parameter(torch.randn(1, 1, 3)), nn.Parameter(torch.tensor([0.3]))
        self.lstm, self.gru = nn.LSTM(WIDTH, WIDTH, num_layers=2), nn.GRU(WIDTH, WIDTH // 2, bidirectional=True)
        self.rnn, self.lstm_cell = nn.RNN(WIDTH, WIDTH, nonlinearity="relu"), nn.LSTMCell(WIDTH, WIDTH)
        self.gru_cell, self.rnn_cell = nn.GRUCell(WIDTH, WIDTH), nn.RNNCell(WIDTH, WIDTH)
        self.register_buffer("places", torch.tensor([1, 6]))
        self.register_buffer("classes", torch.tensor([2, 5]))

    def steps(self, plan, values):
        for step in plan:
            if isinstance(step[1], list):
                with torch.autocast("cpu", dtype=step[0] or torch.bfloat16, enabled=step[0] is not None):
                    self.steps(step[1], values)
            else:
                values.append(STEPS[step[0]](self, values[-1], values[step[1] % len(values)]))

    def forward(self, x):
        values = [x]
        self.steps(self.plan, values)
        return tuple(each.float() for each in values[1:])


def answers(seed):
    """Returns whether eager PyTorch runs the module: dtypes may not fit each other."""
    torch.manual_seed(seed)
    try:
        return all(bool(each.isfinite().all()) for each in Random(seed)(torch.randn(3, WIDTH)))
    except RuntimeError:
        return False


def difference(got, want):
    """Returns what is wrong with a result. Its numbers show the dtype in which it was computed."""
    got = torch.from_numpy(got.copy())
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    for dtype in (torch.bfloat16, torch.float16):
        mine, theirs = (float((each.to(dtype).float() == each).float().mean()) for each in (got, want))
        if abs(mine - theirs) > 0.5:  # sums of few numbers of a dtype often fit it
            return f"{'is' if mine > theirs else 'is not'} of {dtype}"
    limit = 0.05 * max(1.0, float(want.abs().max()))
    return "" if bool(((got - want).abs() <= limit).all()) else f"is wrong by {float((got - want).abs().max())}"


def table_troubles():
    """Checks that the converter's table has every op that this PyTorch registers, and otherwise only those listed
    below."""
    source = (Path(__file__).parents[3] / "converter/interpret/autocast.cpp").read_text()
    rows = re.findall(r'^    \{Casts::\w+,((?:\s+"[^"]*")+)\},$', source, re.M)
    table = {"aten::" + name for names in rows for name in names.replace('"', "").split()}
    names = torch._C._dispatch_get_all_op_names()
    registered = {name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCPU")}
    for name in sorted(registered - table):
        yield f"{name} is not in the table of autocast"
    for name in sorted(table - registered):
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        if name not in names or not composite:
            yield f"{name} of the table of autocast is no op that others make up"
