# SPDX-License-Identifier: Apache-2.0
"""The decoder of this sample in PyTorch: makes random weights, and results to compare the sample with.

  weights.npy    f32[all]: the parameters, one after another, in the order of Decoder.parameters()
  prompt.npy     i64[batch, time]
  tokens.npy     i64[batch, STEPS]: the tokens that greedy decoding appends
  logits.npy     f32[batch, time + STEPS - 1, WORDS]: of the whole text at once

  python3 model.py [FOLDER] [--seed N]      FOLDER defaults to the folder of this file

Needs torch and numpy.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, LAYERS, HEADS, KV_HEADS, HIDDEN, STEPS = 48, 32, 2, 4, 2, 64, 8
HEAD = WIDTH // HEADS


def rope(x, start=0):
    """x: [batch, heads, time, HEAD], the first at position `start`."""
    place = torch.arange(start, start + x.shape[2], dtype=torch.float32)
    angle = place[:, None] * 10000 ** (-torch.arange(0, HEAD, 2) / HEAD)
    angle = torch.cat([angle, angle], -1)
    a, b = x.chunk(2, -1)
    return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.RMSNorm(WIDTH, eps=1e-6)
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.v = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        def heads(y, count):
            return y.view(*y.shape[:2], count, HEAD).transpose(1, 2)
        y = self.norm1(x)
        q, k, v = rope(heads(self.q(y), HEADS)), rope(heads(self.k(y), KV_HEADS)), heads(self.v(y), KV_HEADS)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)  # the head as well
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.words.weight.T


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).resolve().parent)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Decoder()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, 1.5 / parameter.shape[1] ** 0.5)
        prompt = torch.randint(WORDS, (2, 7))
        text = prompt
        for _ in range(STEPS):
            logits = model(text)
            text = torch.cat([text, logits[:, -1:].argmax(-1)], 1)
        weights = torch.cat([p.flatten() for p in model.parameters()])
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, tensor in {"weights": weights, "prompt": prompt, "logits": logits,
                         "tokens": text[:, prompt.shape[1]:]}.items():
        np.save(args.folder / f"{name}.npy", tensor.numpy())


if __name__ == "__main__":
    main()
