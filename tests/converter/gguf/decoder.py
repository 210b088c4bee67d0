# SPDX-License-Identifier: Apache-2.0
"""Random decoders of each architecture, and their logits in f64 without a cache."""
import math

import numpy as np

from container import BLOCKS, tensor

VOCABULARY = 61
erf = np.vectorize(math.erf)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# Properties of the architectures; every `window`-th layer has no window. With `biases`, every projection has a bias.
KINDS = {
    "llama": dict(act=silu, gated=True, neighbors=True, bias=True, moe=True, normalized=True),
    "qwen2": dict(act=silu, gated=True, bias=True),
    "qwen2moe": dict(act=silu, gated=True, moe=True, always_moe=True, shared=True),
    "qwen3": dict(act=silu, gated=True, qk="head"),
    "qwen3moe": dict(act=silu, gated=True, qk="head", moe=True, always_moe=True, normalized=True),
    "gemma2": dict(act=gelu_tanh, gated=True, after=True, scaled=True, caps=True, window=2),
    "gemma3": dict(act=gelu_tanh, gated=True, after=True, scaled=True, qk="head", window=6, window_base=10000.0),
    "phi3": dict(act=silu, fused=True, gate_in_up=True, window=1 << 20),
    "olmo2": dict(act=silu, gated=True, before=False, after=True, qk="whole"),
    "gpt2": dict(act=gelu_tanh, layer_norm=True, fused=True, biases=True, positions=True),
    "starcoder2": dict(act=gelu_tanh, layer_norm=True, biases=True, window=1 << 20),
    "falcon": dict(act=gelu, layer_norm=True, fused=True, parallel=True),
}


class Decoder:
    """Draws sizes, settings and tensors. `close` is set if rounding decides the choice of an expert."""

    def __init__(self, rng, architecture):
        self.rng, self.name, self.kind = rng, architecture, KINDS[architecture]
        self.tensors, self.weights, self.close = {}, {}, False
        self.layers = int(rng.choice([1, 2, 7])) if architecture == "gemma3" else int(rng.integers(1, 4))
        self.width = int(rng.choice([32, 64, 256]))
        self.kv_heads = int(rng.integers(1, 4))
        self.heads = self.kv_heads * int(rng.integers(1, 4))
        self.dim = int(rng.choice([8, 16, 24]))
        self.inner = int(rng.choice([32, 64, 256]))
        self.rotated = self.dim if rng.random() < 0.7 else self.dim // 2
        self.base, self.factor = float(rng.choice([10000.0, 500.0])), float(rng.choice([1.0, 4.0]))
        self.eps = 1e-5
        self.window = int(rng.integers(1, 9)) if "window" in self.kind and rng.random() < 0.8 else 0
        self.experts = int(rng.integers(2, 6)) if self.kind.get("moe") and (self.kind.get("always_moe") or rng.random() < 0.4) else 0
        self.used = int(rng.integers(1, self.experts + 1)) if self.experts else 0
        self.bias = self.kind.get("biases", False) or self.kind.get("bias", False) and rng.random() < 0.6
        self.make()

    def metadata(self):
        norm = "attention.layer_norm_epsilon" if self.kind.get("layer_norm") else "attention.layer_norm_rms_epsilon"
        values = {"context_length": 128, "embedding_length": self.width, "block_count": self.layers, "feed_forward_length": self.inner,
                  "attention.head_count": self.heads, "attention.head_count_kv": self.kv_heads, "attention.key_length": self.dim,
                  "attention.value_length": self.dim, norm: self.eps}  # fmt: skip
        if not self.kind.get("positions"):
            values |= {"rope.dimension_count": self.rotated, "rope.freq_base": self.base}
            if self.factor != 1:
                values |= {"rope.scaling.type": "linear", "rope.scaling.factor": self.factor}
        if self.layers == 2:  # one number per layer
            values["attention.head_count_kv"] = [self.kv_heads] * self.layers
        if self.window:
            values["attention.sliding_window"] = self.window
        if self.kind.get("caps"):
            values |= {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
        if self.experts:
            values |= {"expert_count": self.experts, "expert_used_count": self.used}
        return {"general.architecture": self.name, "general.name": "random"} | {f"{self.name}.{k}": v for k, v in values.items()}

    def put(self, name, shape, center=0.0, exact=False):
        """Adds a matrix of a type whose block size divides its rows, or an f32 vector."""
        kinds = [0, 1, 30] + [k for k, (elements, _) in BLOCKS.items() if shape[-1] % elements == 0]
        kind = 0 if exact or len(shape) == 1 else int(self.rng.choice(kinds))
        scale = 0.3 if len(shape) == 1 else 1.2 / math.sqrt(shape[-1])
        self.tensors[name], self.weights[name] = tensor(self.rng, kind, tuple(shape), scale, center)

    def product(self, name, rows, columns):
        self.put(name + ".weight", (rows, columns))
        if self.bias:
            self.put(name + ".bias", (rows,))

    def norm_weights(self, name, size):
        self.put(name + ".weight", (size,), 1.0)
        if self.kind.get("layer_norm"):
            self.put(name + ".bias", (size,))

    def make(self):
        k, w, q, kv = self.kind, self.width, self.heads * self.dim, self.kv_heads * self.dim
        self.put("token_embd.weight", (VOCABULARY, w))
        if k.get("positions"):
            self.put("position_embd.weight", (128, w))
        for i in range(self.layers):
            at = f"blk.{i}."
            if k.get("before", True):
                self.norm_weights(at + "attn_norm", w)
                if not k.get("parallel"):
                    self.norm_weights(at + "ffn_norm", w)
            if k.get("parallel") and self.rng.random() < 0.5:
                self.norm_weights(at + "attn_norm_2", w)
            if k.get("after"):
                self.norm_weights(at + "post_attention_norm", w)
                self.norm_weights(at + "post_ffw_norm", w)
            if k.get("fused"):
                self.product(at + "attn_qkv", q + 2 * kv, w)
            else:
                for part, rows in (("q", q), ("k", kv), ("v", kv)):
                    self.product(at + "attn_" + part, rows, w)
            if "qk" in k:
                whole = k["qk"] == "whole"
                self.put(at + "attn_q_norm.weight", (q if whole else self.dim,), 1.0)
                self.put(at + "attn_k_norm.weight", (kv if whole else self.dim,), 1.0)
            self.product(at + "attn_output", w, q)
            if self.experts:
                self.put(at + "ffn_gate_inp.weight", (self.experts, w), exact=True)
                for part, shape in (("gate", (self.inner, w)), ("up", (self.inner, w)), ("down", (w, self.inner))):
                    self.put(f"{at}ffn_{part}_exps.weight", (self.experts, *shape))
                    if k.get("shared"):
                        self.put(f"{at}ffn_{part}_shexp.weight", shape)
                if k.get("shared"):
                    self.put(at + "ffn_gate_inp_shexp.weight", (w,))
            else:
                if k.get("gated"):
                    self.product(at + "ffn_gate", self.inner, w)
                self.product(at + "ffn_up", self.inner * (2 if k.get("gate_in_up") else 1), w)
                self.product(at + "ffn_down", w, self.inner)
        self.norm_weights("output_norm", w)
        if self.rng.random() < 0.5:
            self.put("output.weight", (VOCABULARY, w))

    def norm(self, name, x):
        if self.kind.get("layer_norm"):
            x = x - x.mean(-1, keepdims=True)
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weights[name + ".weight"]
        return y + self.weights.get(name + ".bias", 0)

    def linear(self, name, x):
        return x @ self.weights[name + ".weight"].T + self.weights.get(name + ".bias", 0)

    def rotate(self, x, positions, local):
        if self.kind.get("positions"):
            return x
        base, factor = (self.kind["window_base"], 1) if local else (self.base, self.factor)
        half = self.rotated // 2
        turn = positions[:, None, :, None] * base ** (-2.0 * np.arange(half) / self.rotated) / factor
        y = x.copy()
        one, two = slice(0, half), slice(half, self.rotated)
        if self.kind.get("neighbors"):
            one, two = slice(0, self.rotated, 2), slice(1, self.rotated, 2)
        y[..., one] = x[..., one] * np.cos(turn) - x[..., two] * np.sin(turn)
        y[..., two] = x[..., two] * np.cos(turn) + x[..., one] * np.sin(turn)
        return y

    def attend(self, i, x, seen, positions):
        at, (b, t, _) = f"blk.{i}.", x.shape
        if self.kind.get("fused"):
            q, k, v = np.split(self.linear(at + "attn_qkv", x), [self.heads * self.dim, (self.heads + self.kv_heads) * self.dim], -1)
        else:
            q, k, v = (self.linear(at + "attn_" + part, x) for part in "qkv")
        heads = lambda y: y.reshape(b, t, -1, self.dim).transpose(0, 2, 1, 3)
        if self.kind.get("qk") == "whole":
            q, k = self.norm(at + "attn_q_norm", q), self.norm(at + "attn_k_norm", k)
        q, k, v = heads(q), heads(k), heads(v)
        if self.kind.get("qk") == "head":
            q, k = self.norm(at + "attn_q_norm", q), self.norm(at + "attn_k_norm", k)
        has_window = "window" in self.kind and (i + 1) % self.kind["window"] != 0
        local = has_window and self.window and "window_base" in self.kind
        q, k = self.rotate(q, positions, local), self.rotate(k, positions, local)
        k, v = (np.repeat(y, self.heads // self.kv_heads, 1) for y in (k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(self.dim)
        if self.kind.get("caps"):
            scores = np.tanh(scores / 5) * 5
        query, key = np.arange(t)[:, None], np.arange(t)[None]
        shown = (key <= query) & (seen[:, None, None, :] != 0)
        if has_window and self.window:
            shown = shown & (key > query - self.window)
        y = softmax(np.where(shown, scores, -1e30)) @ v
        return self.linear(at + "attn_output", y.transpose(0, 2, 1, 3).reshape(b, t, -1))

    def mixture(self, at, x):
        w = self.weights
        shares = softmax(x @ w[at + "ffn_gate_inp.weight"].T)
        order = np.argsort(-shares, -1, kind="stable")
        sorted_shares = np.take_along_axis(shares, order, -1)
        if self.used < self.experts:
            self.close |= bool((sorted_shares[..., self.used - 1] - sorted_shares[..., self.used] < 1e-4).any())
        kept = np.zeros_like(shares)
        np.put_along_axis(kept, order[..., : self.used], sorted_shares[..., : self.used], -1)
        if self.kind.get("normalized"):
            kept /= kept.sum(-1, keepdims=True)
        y = 0
        for e in range(self.experts):
            gate, up, down = (w[f"{at}ffn_{part}_exps.weight"][e] for part in ("gate", "up", "down"))
            y = y + kept[..., e : e + 1] * ((silu(x @ gate.T) * (x @ up.T)) @ down.T)
        if self.kind.get("shared"):
            gate, up, down = (w[f"{at}ffn_{part}_shexp.weight"] for part in ("gate", "up", "down"))
            z = (silu(x @ gate.T) * (x @ up.T)) @ down.T
            y = y + z / (1 + np.exp(-(x @ w[at + "ffn_gate_inp_shexp.weight"])))[..., None]
        return y

    def mlp(self, at, x):
        if self.experts:
            return self.mixture(at, x)
        y = self.linear(at + "ffn_up", x)
        if self.kind.get("gate_in_up"):
            y = self.kind["act"](y[..., : self.inner]) * y[..., self.inner :]
        elif self.kind.get("gated"):
            y = self.kind["act"](self.linear(at + "ffn_gate", x)) * y
        else:
            y = self.kind["act"](y)
        return self.linear(at + "ffn_down", y)

    def logits(self, ids, seen, positions):
        k = self.kind
        x = self.weights["token_embd.weight"][ids]
        if k.get("scaled"):
            x = x * math.sqrt(self.width)
        if k.get("positions"):
            x = x + self.weights["position_embd.weight"][positions]
        for i in range(self.layers):
            at = f"blk.{i}."
            if k.get("parallel"):
                y = self.norm(at + "attn_norm", x)
                z = self.norm(at + "attn_norm_2", x) if at + "attn_norm_2.weight" in self.weights else y
                x = x + self.attend(i, z, seen, positions) + self.mlp(at, y)
                continue
            y = self.attend(i, self.norm(at + "attn_norm", x) if k.get("before", True) else x, seen, positions)
            x = x + (self.norm(at + "post_attention_norm", y) if k.get("after") else y)
            y = self.mlp(at, self.norm(at + "ffn_norm", x) if k.get("before", True) else x)
            x = x + (self.norm(at + "post_ffw_norm", y) if k.get("after") else y)
        x = self.norm("output_norm", x)
        y = x @ self.weights.get("output.weight", self.weights["token_embd.weight"]).T
        return np.tanh(y / 3) * 3 if k.get("caps") else y
