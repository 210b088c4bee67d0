# SPDX-License-Identifier: Apache-2.0
"""Custom language models: hg.convert names their caches as a Generator expects, whatever the form of the cache."""

import collections
import dataclasses

import numpy as np
import pytest

import hologram as hg

torch = pytest.importorskip("torch")
if tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) < (2, 9):
    pytest.skip("this torch has no torch.export with these dynamic shapes", allow_module_level=True)

WORDS, SIZE, HEADS, LAYERS, STEPS = 61, 16, 2, 2, 12
AUTO = torch.export.Dim.AUTO


def rotated(x, positions):
    angles = positions[:, None, :, None] * 100.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles, (a, b) = torch.cat([angles, angles], -1), x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = torch.nn.RMSNorm(SIZE), torch.nn.Linear(SIZE, 3 * SIZE), torch.nn.Linear(SIZE, SIZE)

    def forward(self, x, mask, positions, past, dim):
        batch, time, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, time, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = rotated(q, positions), rotated(k, positions)
        if dim == 1:  # [batch, time, heads, size]
            k, v = k.transpose(1, 2), v.transpose(1, 2)
        if past is not None:
            k, v = torch.cat([past[0], k], dim), torch.cat([past[1], v], dim)
        kept = k, v
        if dim == 1:
            k, v = k.transpose(1, 2), v.transpose(1, 2)
        keys = k.shape[2]
        seen = torch.arange(keys)[None, :] <= torch.arange(keys - time, keys)[:, None]
        seen = seen[None, None] if mask is None else seen & (mask != 0)[:, None, None, :]
        weights = (q @ k.transpose(-1, -2)).masked_fill(~seen, -1e9).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).reshape(batch, time, -1)), kept


class Decoder(torch.nn.Module):
    """`form`: from arguments to a list of (keys, values), and from logits and such a list to the results."""

    dim = 2

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = torch.nn.Embedding(WORDS, SIZE), torch.nn.Linear(SIZE, WORDS)
        self.layers = torch.nn.ModuleList([Layer() for _ in range(LAYERS)])
        for each in self.parameters():
            torch.nn.init.normal_(each, 0, 0.4)

    def run(self, ids, mask=None, positions=None, past=None):
        if positions is None:
            before = 0 if past is None else past[0][0].shape[self.dim]
            positions = torch.arange(before, before + ids.shape[1])[None]
        x, kept = self.table(ids), []
        for i, layer in enumerate(self.layers):
            x, pair = layer(x, mask, positions, None if past is None else past[i], self.dim)
            kept.append(pair)
        return self.head(x), kept


class Tuples(Decoder):
    def forward(self, input_ids, attention_mask, position_ids, state):
        logits, kept = self.run(input_ids, attention_mask, position_ids, state)
        return logits, tuple(kept)


class TimeFirst(Tuples):
    dim = 1


class Unmasked(Decoder):
    def forward(self, tokens, state):
        logits, kept = self.run(tokens, past=state)
        return tuple(kept), logits


class UnmaskedTimeFirst(Unmasked):
    dim = 1


class Legacy(Decoder):
    def forward(self, input_ids, attention_mask, position_ids, past_key_values):
        logits, kept = self.run(input_ids, attention_mask, position_ids, past_key_values)
        return {"logits": logits, "past_key_values": tuple(kept)}


class Dicts(Decoder):
    def forward(self, input_ids, attention_mask, position_ids, cache):
        logits, kept = self.run(input_ids, attention_mask, position_ids, [(cache[f"layer{i}"]["k"], cache[f"layer{i}"]["v"]) for i in range(LAYERS)])
        return {"cache": {f"layer{i}": {"k": k, "v": v} for i, (k, v) in enumerate(kept)}, "logits": logits}


class Lists(Decoder):
    """Keys and values in lists of their own, and in another order in the results."""

    def forward(self, input_ids, attention_mask, position_ids, keys, values):
        logits, kept = self.run(input_ids, attention_mask, position_ids, list(zip(keys, values)))
        return logits, [v for _, v in kept], [k for k, _ in kept]


class Arguments(Decoder):
    def forward(self, input_ids, attention_mask, position_ids, k0, v0, k1, v1):
        logits, kept = self.run(input_ids, attention_mask, position_ids, [(k0, v0), (k1, v1)])
        return logits, *kept[0], *kept[1]


class Stacked(Decoder):
    """One tensor [layers, 2, batch, heads, time, size]: no result is the concatenation of an argument and new positions."""

    def forward(self, input_ids, attention_mask, position_ids, cache):
        logits, kept = self.run(input_ids, attention_mask, position_ids, [(cache[i, 0], cache[i, 1]) for i in range(LAYERS)])
        return logits, torch.stack([torch.stack(pair) for pair in kept])


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    cache: list


torch.export.register_dataclass(Result)


class Dataclass(Decoder):
    def forward(self, input_ids, attention_mask, position_ids, cache):
        return Result(*self.run(input_ids, attention_mask, position_ids, cache))


Pair = collections.namedtuple("Pair", "keys values")
Answer = collections.namedtuple("Answer", "logits hidden cache")


class NamedTuples(Decoder):
    def forward(self, input_ids, attention_mask, position_ids, cache):
        logits, kept = self.run(input_ids, attention_mask, position_ids, cache)
        return Answer(logits, logits.mean(-1), [Pair(*each) for each in kept])


class Dynamic(Decoder):
    def forward(self, input_ids, attention_mask, position_ids, past_key_values):
        logits, kept = self.run(input_ids, attention_mask, position_ids, [(each.keys, each.values) for each in past_key_values.layers])
        return logits, dynamic_cache(kept)


def dynamic_cache(pairs):
    from transformers import DynamicCache

    cache = DynamicCache()
    for i, pair in enumerate(pairs):
        cache.update(*pair, i)
    return cache


def arguments_of(kind):
    """(arguments of an example, their open sizes)."""
    batch, time, past, dim = 2, 3, 5, kind.dim
    shape = [batch, HEADS, SIZE // HEADS]
    shape.insert(dim, past)
    pairs, open_sizes = [(torch.randn(shape), torch.randn(shape)) for _ in range(LAYERS)], {0: AUTO, dim: AUTO}
    given, sizes = [torch.randint(1, WORDS, (batch, time))], [{0: AUTO, 1: AUTO}]
    if not issubclass(kind, Unmasked):
        given += [torch.ones(batch, past + time, dtype=torch.long), torch.arange(past, past + time).repeat(batch, 1)]
        sizes *= 3
    if kind is Dicts:
        cache = {f"layer{i}": dict(zip("kv", pair)) for i, pair in enumerate(pairs)}
        return (*given, cache), (*sizes, {name: dict.fromkeys("kv", open_sizes) for name in cache})
    if kind is Lists:
        return (*given, *map(list, zip(*pairs))), (*sizes, *[[open_sizes] * LAYERS] * 2)
    if kind is Arguments:
        return (*given, *pairs[0], *pairs[1]), (*sizes, *[open_sizes] * 2 * LAYERS)
    if kind is Stacked:
        return (*given, torch.stack([torch.stack(pair) for pair in pairs])), (*sizes, {2: AUTO, 4: AUTO})
    if kind is Dynamic:
        pytest.importorskip("transformers").integrations.executorch.register_dynamic_cache_export_support()
        return (*given, dynamic_cache(pairs)), (*sizes, [[open_sizes] * LAYERS] * 2)
    if kind is NamedTuples:
        return (*given, [Pair(*pair) for pair in pairs]), (*sizes, [Pair(open_sizes, open_sizes)] * LAYERS)
    return (*given, tuple(pairs)), (*sizes, tuple((open_sizes, open_sizes) for _ in pairs))


def greedy(module, prompt):
    """Recomputes all tokens at each step."""
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(STEPS):
            ids.append(int(module.run(torch.tensor([ids]))[0][0, -1].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize(
    "kind",
    [Tuples, TimeFirst, Unmasked, UnmaskedTimeFirst, Legacy, Dicts, Lists, Arguments, Stacked, Dataclass, NamedTuples, Dynamic],
)
def test_a_module_of_any_form_generates_tokens(kind):
    module = kind().eval()
    arguments, sizes = arguments_of(kind)
    model = hg.convert(module, arguments, dynamic=sizes)
    assert model.report.ok
    inputs, outputs = [each.name for each in model.inputs], [each.name for each in model.outputs]
    count = 1 if kind is Stacked else 2 * LAYERS
    past = [name for name in inputs if name.startswith("past_key_values.")]
    assert len(past) == count and {name.replace("past_key_values", "present") for name in past} <= set(outputs)
    generator = hg.Generator(model)
    prompts = [np.random.default_rng(length).integers(1, WORDS, length).tolist() for length in (1, 7, 40)]
    wanted = [greedy(module, prompt) for prompt in prompts]
    assert [generator.generate(prompt, max_tokens=STEPS).ids for prompt in prompts] == wanted
    assert len({token for each in wanted for token in each}) > 4
    if issubclass(kind, Unmasked):
        prompts = [np.random.default_rng(seed).integers(1, WORDS, 7).tolist() for seed in range(3)]
        wanted = [greedy(module, prompt) for prompt in prompts]
    assert [each.ids for each in generator.generate(prompts, max_tokens=STEPS)] == wanted


def test_beams_reorder_a_cache_whatever_its_dims():
    found = []
    for kind in (Tuples, UnmaskedTimeFirst, Stacked):
        arguments, sizes = arguments_of(kind)
        generator = hg.Generator(hg.convert(kind().eval(), arguments, dynamic=sizes, check=False))
        found.append(generator.generate([5, 7, 11], max_tokens=STEPS, num_beams=3).ids)
    assert found[0] == found[1] == found[2]


def test_an_exported_file_has_the_same_names(tmp_path):
    arguments, sizes = arguments_of(Tuples)
    program = torch.export.export(Tuples().eval(), arguments, dynamic_shapes=sizes, strict=False)
    torch.export.save(program, tmp_path / "m.pt2")
    file, module = hg.convert(tmp_path / "m.pt2"), hg.convert(Tuples().eval(), arguments, dynamic=sizes)
    for side in ("inputs", "outputs"):
        assert [each.name for each in getattr(file, side)] == [each.name for each in getattr(module, side)]
    assert [each.name for each in module.outputs] == ["output_0", *(f"present.{i}.{part}" for i in range(LAYERS) for part in ("key", "value"))]


def test_sizes_of_a_cache_can_have_names():
    arguments, _ = arguments_of(Tuples)
    batch, time, past = map(torch.export.Dim, ("batch", "time", "past"))
    pair = ({0: batch, 2: past},) * 2
    model = hg.convert(Tuples().eval(), arguments, dynamic=({0: batch, 1: time}, {0: batch, 1: AUTO}, {0: batch, 1: time}, (pair,) * LAYERS))
    assert [each.shape for each in model.inputs][:2] == [("batch", "time"), ("batch", "past + time")]


class Buffers(Decoder):
    """A cache of a fixed number of positions in buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(LAYERS, 2, 1, HEADS, 64, SIZE // HEADS), persistent=False)

    def forward(self, input_ids, cache_position):
        x, time = self.table(input_ids), input_ids.shape[1]
        for i, layer in enumerate(self.layers):
            q, k, v = layer.qkv(layer.norm(x)).view(1, time, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            q, k = rotated(q, cache_position[None]), rotated(k, cache_position[None])
            self.cache[i, 0].index_copy_(2, cache_position, k)
            self.cache[i, 1].index_copy_(2, cache_position, v)
            seen = torch.arange(64)[None, :] <= cache_position[:, None]
            weights = (q @ self.cache[i, 0].transpose(-1, -2)).masked_fill(~seen, -1e9).softmax(-1)
            x = x + layer.out((weights @ self.cache[i, 1]).transpose(1, 2).reshape(1, time, -1))
        return self.head(x)


def test_a_module_with_its_cache_in_buffers_generates_tokens():
    module, time = Buffers().eval(), torch.export.Dim("time", max=64)
    model = hg.convert(module, (torch.randint(1, WORDS, (1, 3)), torch.arange(3)), dynamic=({1: time}, {0: time}))
    generator = hg.Generator(model)
    for length in (1, 7, 40):
        prompt = np.random.default_rng(length).integers(1, WORDS, length).tolist()
        assert generator.generate(prompt, max_tokens=STEPS).ids == greedy(module, prompt)


def test_a_cache_in_buffers_needs_any_number_of_ids():
    model = hg.convert(Buffers().eval(), (torch.randint(1, WORDS, (1, 1)), torch.arange(1)))
    with pytest.raises(hg.UnsupportedError, match="the model has no past; export it with a dynamic dim 1 of 'input_ids', or with its cache as inputs"):
        hg.Generator(model)


class Streaming(torch.nn.Module):
    """No language model: it reads no ids, so its names stay its own."""

    def forward(self, x, state):
        joined = torch.cat([state, x], 2)
        return {"y": joined.cumsum(2)[:, :, -x.shape[2] :], "state": joined}


def test_other_modules_keep_their_names():
    model = hg.convert(Streaming(), (torch.randn(2, 3, 4), torch.randn(2, 3, 5)), dynamic=({2: AUTO}, {2: AUTO}))
    assert ([each.name for each in model.inputs], [each.name for each in model.outputs]) == (["x", "state"], ["y", "state"])
