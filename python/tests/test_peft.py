# SPDX-License-Identifier: Apache-2.0
"""Adapters in the files of peft, which safetensors reads and writes here."""

import json

import numpy as np
import pytest

import hologram as hg

safetensors = pytest.importorskip("safetensors.numpy")

RANDOM = np.random.default_rng(3)
SIZES = {"model.layers.0.q_proj": (12, 8), "model.layers.1.q_proj": (5, 12)}


def base(weights):
    g = hg.Graph()
    h = g.input("x", ("n", 8))
    for layer in weights:
        h = hg.ops.linear(h, g.parameter(f"{layer}.weight", weights[layer]))
    g.output("y", h)
    return g.model()


WEIGHTS = {layer: RANDOM.standard_normal(shape).astype(np.float32) for layer, shape in SIZES.items()}
X = RANDOM.standard_normal((6, 8)).astype(np.float32)


def written(folder, ranks, dtype=np.float32, **config):
    """Writes an adapter. Returns the A and B of each layer."""
    folder.mkdir()
    parts = {}
    for layer, rank in ranks.items():
        out, size = SIZES[layer]
        parts[layer] = [RANDOM.standard_normal(shape).astype(dtype) for shape in ((rank, size), (out, rank))]
    named = {f"base_model.model.{layer}.lora_{x}.weight": part for layer, ab in parts.items() for x, part in zip("AB", ab)}
    safetensors.save_file(named, folder / "adapter_model.safetensors")
    whole = {"peft_type": "LORA", "r": 3, "lora_alpha": 6, "target_modules": ["q_proj"], "bias": "none", **config}
    (folder / "adapter_config.json").write_text(json.dumps(whole))
    return parts


def expected(parts, scales):
    h = X.astype(np.float64)
    for layer in SIZES:
        weight = WEIGHTS[layer].astype(np.float64)
        if layer in parts:
            a, b = (part.astype(np.float64) for part in parts[layer])
            weight = weight + scales[layer] * b @ a
        h = h @ weight.T
    return h


FIRST, SECOND = SIZES


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("ranks", "scales", "config"),
    [
        ({FIRST: 3, SECOND: 3}, {FIRST: 2, SECOND: 2}, {}),
        ({SECOND: 3}, {SECOND: 2}, {"target_modules": "model.layers.1.*"}),
        ({FIRST: 3, SECOND: 3}, {FIRST: 6 / 3**0.5, SECOND: 6 / 3**0.5}, {"use_rslora": True}),
        ({FIRST: 3, SECOND: 2}, {FIRST: 2, SECOND: 3}, {"rank_pattern": {"layers.1.q_proj": 2}}),
        ({FIRST: 3, SECOND: 3}, {FIRST: 3, SECOND: 2}, {"alpha_pattern": {"^model\\.layers\\.0\\..*": 9}}),
    ],
)
def test_files_of_peft_are_read_and_written(tmp_path, ranks, scales, config, dtype):
    parts = written(tmp_path / "one", ranks, dtype, **config)
    model = base(WEIGHTS)
    want = expected(parts, scales)
    adapter = hg.load_peft(tmp_path / "one")
    np.testing.assert_allclose(hg.apply_adapters(model, adapter)(X), want, rtol=1e-4, atol=1e-3)
    hg.save_peft(adapter, tmp_path / "two", base="some/model")
    again = hg.load_peft(tmp_path / "two")
    np.testing.assert_allclose(hg.apply_adapters(model, again)(X), want, rtol=1e-4, atol=1e-3)
    # By hand, from what was written.
    saved = safetensors.load_file(tmp_path / "two" / "adapter_model.safetensors")
    rules = json.loads((tmp_path / "two" / "adapter_config.json").read_text())
    assert rules["base_model_name_or_path"] == "some/model" and rules["target_modules"] == sorted(ranks)
    for layer, (a, b) in parts.items():
        np.testing.assert_array_equal(saved[f"base_model.model.{layer}.lora_A.weight"], a.astype(np.float32))
        np.testing.assert_array_equal(saved[f"base_model.model.{layer}.lora_B.weight"], b.astype(np.float32))
    hg.save_peft(adapter, tmp_path / "two")  # replaces the files
    assert sorted(p.name for p in (tmp_path / "two").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]


def test_brain_floats_are_read(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    parts = written(tmp_path / "one", {FIRST: 3})
    narrow = {f"base_model.model.{FIRST}.lora_{x}.weight": torch.from_numpy(part).bfloat16() for x, part in zip("AB", parts[FIRST])}
    save_file(narrow, tmp_path / "one" / "adapter_model.safetensors")
    parts[FIRST] = [each.float().numpy() for each in narrow.values()]
    got = hg.apply_adapters(base(WEIGHTS), hg.load_peft(tmp_path / "one"))(X)
    np.testing.assert_allclose(got, expected(parts, {FIRST: 2}), rtol=1e-4, atol=1e-3)


def test_a_trained_adapter_is_written_without_its_optimizer(tmp_path):
    trainer = hg.Trainer(hg.add_adapter(base(WEIGHTS), "*", rank=2), "mse", lr=0.1)
    for _ in range(3):
        trainer.step(X, np.ones((6, 5), np.float32))
    hg.save_peft(trainer.adapter(), tmp_path / "trained")
    again = hg.load_peft(tmp_path / "trained")
    np.testing.assert_array_equal(hg.apply_adapters(base(WEIGHTS), again)(X), trainer.model()(X))


def test_stacked_adapters_are_written_as_one(tmp_path):
    one, two = (written(tmp_path / name, {FIRST: 3}, lora_alpha=alpha) for name, alpha in (("one", 6), ("two", 9)))
    both = hg.take_adapter(hg.apply_adapters(base(WEIGHTS), [hg.load_peft(tmp_path / name) for name in ("one", "two")]))
    hg.save_peft(both, tmp_path / "both")
    assert json.loads((tmp_path / "both" / "adapter_config.json").read_text())["r"] == 6
    joined = {FIRST: [np.concatenate([2 * one[FIRST][0], 3 * two[FIRST][0]]), np.concatenate([one[FIRST][1], two[FIRST][1]], 1)]}
    got = hg.apply_adapters(base(WEIGHTS), hg.load_peft(tmp_path / "both"))(X)
    np.testing.assert_allclose(got, expected(joined, {FIRST: 1}), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"use_dora": True}, "use_dora is True"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"modules_to_save": ["head"]}, "modules_to_save is"),
        ({"lora_alpha": None}, "has no number 'lora_alpha'"),
        ({"r": 4}, r"'model.layers.0.q_proj' has A \[3, 8\] and B \[12, 3\], but the rank is 4"),
    ],
)
def test_other_methods_are_refused(tmp_path, config, message):
    written(tmp_path / "one", {FIRST: 3}, **config)
    with pytest.raises(ValueError, match=message):
        hg.load_peft(tmp_path / "one")


def test_other_tensors_are_refused(tmp_path):
    parts = written(tmp_path / "one", {FIRST: 3})
    file, name = tmp_path / "one" / "adapter_model.safetensors", f"base_model.model.{FIRST}.lora_A.weight"
    safetensors.save_file({name: parts[FIRST][0]}, file)
    with pytest.raises(ValueError, match="has no lora_B.weight"):
        hg.load_peft(tmp_path / "one")
    safetensors.save_file({"base_model.model.embed.lora_embedding_A": parts[FIRST][0]}, file)
    with pytest.raises(ValueError, match="'base_model.model.embed.lora_embedding_A' is not supported"):
        hg.load_peft(tmp_path / "one")
    whole = file.read_bytes()
    for damaged in (whole[:5], whole[:40], whole[:-8], whole.replace(b"F32", b"C64"), whole.replace(b"[3,8]", b"[9,8]")):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="adapter_model.safetensors"):
            hg.load_peft(tmp_path / "one")
    with pytest.raises(ValueError, match="has no adapter"):
        hg.save_peft(base(WEIGHTS), tmp_path / "two")


def test_layers_of_gguf_files_have_the_names_of_transformers(tmp_path):
    names = {
        "model.layers.0.self_attn.q_proj": "blk.0.attn_q", "model.layers.10.self_attn.o_proj": "blk.10.attn_output",
        "model.layers.0.mlp.gate_proj": "blk.0.ffn_gate", "model.layers.0.mlp.down_proj": "blk.0.ffn_down",
        "transformer.h.0.attn.c_attn": "blk.0.attn_qkv", "transformer.h.0.mlp.c_fc": "blk.0.ffn_up", "lm_head": "output",
    }  # fmt: skip

    weights = {name: RANDOM.standard_normal((8, 8)).astype(np.float32) * 0.3 for name in [*names.values(), "blk.1.attn_q"]}
    parts = {name: [RANDOM.standard_normal(shape).astype(np.float32) * 0.3 for shape in ((2, 8), (8, 2))] for name in names}
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "adapter_config.json").write_text(json.dumps({"r": 2, "lora_alpha": 4}))

    def write(parts):
        named = {f"base_model.model.{layer}.lora_{x}.weight": part for layer, ab in parts.items() for x, part in zip("AB", ab)}
        safetensors.save_file(named, tmp_path / "lora" / "adapter_model.safetensors")

    write(parts)
    got = hg.apply_adapters(base(weights), hg.load_peft(tmp_path / "lora", base(weights)))(X)
    want = base({**weights, **{names[name]: weights[names[name]] + 2 * b @ a for name, (a, b) in parts.items()}})(X)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    unknown = "model.layers.0.mlp.experts.3.up_proj", "transformer.h.0.self_attention.query_key_value"
    for layer, name in {**dict(zip(unknown, unknown)), "model.layers.2.self_attn.q_proj": "blk.2.attn_q"}.items():
        write({layer: parts["lm_head"]})
        with pytest.raises(ValueError, match=f"no layer matches '{name}'"):
            hg.load_peft(tmp_path / "lora", base(weights))


def test_a_generator_switches_to_an_adapter_of_peft(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64, initializer_range=0.3, tie_word_embeddings=True,
    )  # fmt: skip
    module = transformers.LlamaForCausalLM(config).eval()
    model = hg.llm.convert(module, tmp_path / "small.hgm")
    folders, wanted = [], []
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    for k, names in enumerate((("q_proj", "v_proj"), ("down_proj", "lm_head"))):
        folder = tmp_path / f"lora{k}"
        folder.mkdir()
        tensors, restored = {}, []
        for name, layer in module.named_modules():
            if name.split(".")[-1] not in names:
                continue
            a, b = (torch.randn(shape) * 0.2 for shape in ((4, layer.in_features), (layer.out_features, 4)))
            tensors[f"base_model.model.{name}.lora_A.weight"], tensors[f"base_model.model.{name}.lora_B.weight"] = a.numpy(), b.numpy()
            restored.append((layer, layer.weight))
            layer.weight = torch.nn.Parameter(layer.weight.detach() + 2 * b @ a)
        safetensors.save_file(tensors, folder / "adapter_model.safetensors")
        whole = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": list(names)}
        (folder / "adapter_config.json").write_text(json.dumps(whole))
        with torch.no_grad():
            wanted.append(module(ids).logits[0, -1].numpy())
        for layer, weight in restored:
            layer.weight = weight
        folders.append(folder)
    adapters = [hg.load_peft(folder, model) for folder in folders]
    hg.save_peft(adapters[1], tmp_path / "again", prefix="model.")
    assert set(safetensors.load_file(tmp_path / "again" / "adapter_model.safetensors")) == set(tensors)
    with pytest.raises(ValueError, match="does not begin with 'x.'"):
        hg.save_peft(adapters[1], tmp_path / "again", prefix="x.")
    generator = hg.Generator(hg.apply_adapters(model, adapters), threads=1)
    for k in (0, 1, 0):
        generator.set_adapters(adapters[k])
        generator.reset()
        np.testing.assert_allclose(generator.append(ids[0].tolist()), wanted[k], atol=2e-3)
    generator.set_adapters(adapters[1])
    assert len(generator.ids) == 5
    generator.set_adapters([])
    with torch.no_grad():
        more = module(torch.tensor([[1, 2, 3, 4, 5, 6]])).logits[0, -1].numpy()
    np.testing.assert_allclose(generator.append([6]), more, atol=2e-3)
