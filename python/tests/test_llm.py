# SPDX-License-Identifier: Apache-2.0
"""hologram.llm: a folder of transformers becomes a file whose greedy tokens are those of generate()."""

import copy
import json
import os
import subprocess
import unittest.mock

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hologram as hg  # noqa: E402
from hologram.__main__ import main  # noqa: E402
from hologram.llm._check import Runner  # noqa: E402
from hologram.llm._expert_loops import every_expert  # noqa: E402
from hologram.llm._masks import broadcast_masks  # noqa: E402
from nets import spread_weights  # noqa: E402

WORDS = 97


def small(**changes):
    given = {
        "vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.3, "sliding_window": 8,
        "use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"], "tie_word_embeddings": True,
        "eos_token_id": [5, 2], "bos_token_id": 1, "pad_token_id": 0,
    }  # fmt: skip
    torch.manual_seed(0)
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**{**given, **changes})).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers

    path = tmp_path_factory.mktemp("llm") / "small"
    small().save_pretrained(path)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w3"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w2", chat_template="{{ messages[0]['content'] }}")
    made.save_pretrained(path)
    return path


def greedy(model, prompts, steps):
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(each)) + each for each in prompts])
    mask = torch.tensor([[0] * (longest - len(each)) + [1] * len(each) for each in prompts])
    config = transformers.GenerationConfig(do_sample=False, max_new_tokens=steps, pad_token_id=0)
    model.generation_config = transformers.GenerationConfig()  # no stop ids
    with torch.no_grad():
        return model.generate(ids, attention_mask=mask, generation_config=config)[:, longest:].tolist()


def test_a_folder_becomes_a_file_that_generates(folder, tmp_path, capsys):
    assert main(["llm", str(folder), "-o", f"{tmp_path}/small.hgm"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "hologram:" in line]  # transformers prints its progress
    assert len(lines) == 1 and "AutoTokenizer gives other ids" in lines[0]  # for Qwen2, it makes another kind of tokenizer
    assert main(["llm", str(folder), "-o", f"{folder}/config.json"]) == 4
    assert "would replace" in capsys.readouterr().err
    model = hg.load(tmp_path / "small.hgm")
    assert {"tokenizer.json", "generation_config.json", "config.json", "chat_template.jinja"} <= set(model.attachments)
    assert model.attachments["tokenizer.json"] == (folder / "tokenizer.json").read_bytes()
    assert json.loads(model.attachments["generation_config.json"])["eos_token_id"] == [5, 2]
    assert [spec.name for spec in model.inputs][:4] == ["input_ids", "attention_mask", "position_ids", "past_key_values.0.key"]
    assert model.inputs[1].shape == ("batch", "past + time") and model.outputs[0].shape == ("batch", "time", WORDS)
    prompts = [[7], [9, 8, 7, 6, 5], np.random.default_rng(0).integers(0, WORDS, 30).tolist()]
    runner = Runner(model)
    longest = max(map(len, prompts))
    ids = np.array([[prompt[0]] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = np.array([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    runner.start(3)
    got = []
    for _ in range(24):
        ids = runner.run(ids, mask).argmax(1)[:, None]
        mask = np.ones_like(ids)
        got.append(ids[:, 0])
    assert np.array(got).T.tolist() == greedy(small(), prompts, 24)


def test_the_program_generates_from_the_file(folder, tmp_path):
    program = os.path.join(os.path.dirname(os.environ.get("HOLOGRAM_CONVERT", "")), "hg-generate")
    if not os.access(program, os.X_OK):
        pytest.skip("hg-generate is not built")
    model = small()
    model.generation_config.eos_token_id = None
    hg.llm.convert(model, tmp_path / "small.hgm")
    words = [program, f"{tmp_path}/small.hgm", "--max-tokens", "16"]
    for prompts in ([[7]], [[3, 4, 5], [9] * 12]):
        ids = [word for prompt in prompts for word in ("--ids", ",".join(map(str, prompt)))]
        done = subprocess.run([*words, *ids], capture_output=True, text=True, check=True)
        assert [list(map(int, line.split(","))) for line in done.stdout.split()] == greedy(model, prompts, 16)


def test_speculation_gives_the_tokens_of_the_module(tmp_path):
    module = small()
    made = hg.llm.convert(module, tmp_path / "small.hgm")
    generator, draft = hg.Generator(made, threads=1), hg.Generator(hg.llm.convert(small(num_hidden_layers=1, layer_types=["full_attention"]), tmp_path / "draft.hgm"), threads=1)
    accepted = 0
    for prompt in [3, 4, 5, 6] * 4, np.random.default_rng(1).integers(0, WORDS, 40).tolist():
        wanted = greedy(module, [prompt], 48)[0]
        for how in {"lookup": 4}, {"draft": draft}, {"draft": generator.fork()}:
            generator.reset()
            assert generator.generate(prompt, max_tokens=48, **how).ids == wanted
            accepted += generator.accepted
    assert accepted > 60  # the model itself proposes all of its tokens
    vector = hg.Embedder(made, threads=1).embed([3, 4, 5])
    with torch.no_grad():
        hidden = module.model(torch.tensor([[3, 4, 5]])).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(vector, hidden / hidden.norm(), atol=1e-4)


@pytest.mark.parametrize("bits", [8, 4])
def test_weights_are_quantized(folder, tmp_path, bits):
    made = hg.llm.convert(folder, tmp_path / "small.hgm", bits=bits, group=16, check=False)
    assert made.report.unchecked and len(made.info["quantized"]) == 11
    weights = sum(array.nbytes for array in {**made.parameters(), **made.buffers()}.values())
    floats = os.path.getsize(folder / "model.safetensors")
    assert weights < {8: 0.45, 4: 0.35}[bits] * floats
    assert made.attachments["tokenizer.json"] == (folder / "tokenizer.json").read_bytes()
    runner = Runner(made)
    runner.start(1)
    assert np.isfinite(runner.run(np.array([[1, 2, 3]]), np.ones((1, 3), np.int64))).all()


def test_the_context_is_limited(tmp_path):
    model = hg.llm.convert(small(), tmp_path / "small.hgm", max_context=9)
    assert model.report.logits_error < 1e-4
    runner = Runner(model)
    runner.start(1)
    runner.run(np.ones((1, 8), np.int64), np.ones((1, 8), np.int64))
    runner.run(np.ones((1, 1), np.int64), np.ones((1, 1), np.int64))
    with pytest.raises(ValueError, match="past \\+ time is 10, but the model was converted for past \\+ time at most 9"):
        runner.run(np.ones((1, 1), np.int64), np.ones((1, 1), np.int64))


def changed(model, forward):
    """`model` with another forward, which calls that of its class."""
    forward.__signature__ = __import__("inspect").signature(type(model).forward)
    model.__class__ = type("Other", (type(model),), {"forward": forward})
    return model


def test_a_difference_leaves_no_file(tmp_path):
    model = small()
    forward = type(model).forward

    def other(self, input_ids=None, **given):  # the exported module has a past; the module of the check has none
        result = forward(self, input_ids=input_ids, **given)
        if given.get("past_key_values", given.get("cache")) is not None:
            result.logits = result.logits * 1.01
        return result

    with pytest.raises(hg.MismatchError, match=r"^\w+: the logits differ from the module's by .*, allowed are .*; generate\(\) of the module contradicts its run on all tokens"):
        hg.llm.convert(changed(model, other), tmp_path / "small.hgm")
    assert list(tmp_path.iterdir()) == []


def test_a_branch_on_the_length_of_the_text_is_refused(tmp_path):
    model = small()
    own = type(model).forward

    def forward(self, input_ids=None, **given):
        result = own(self, input_ids=input_ids, **given)
        if input_ids.shape[1] // 4 == 2:
            result.logits = result.logits + 1
        return result

    with pytest.raises(hg.UnsupportedError, match=r"the program of torch.export is right for some lengths of text only: with .*time=\d+: .* but the model was converted for [^;]*time"):
        hg.llm.convert(changed(model, forward), tmp_path / "small.hgm")


RECURRENT = {
    "MambaForCausalLM": {"state_size": 4, "num_hidden_layers": 2},
    "RwkvForCausalLM": {"num_hidden_layers": 2, "context_length": 128},
    "RecurrentGemmaForCausalLM": {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 16, "head_dim": 8},
    "Lfm2ForCausalLM": {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"]},
}


@pytest.mark.parametrize("kind", RECURRENT)
def test_states_of_recurrent_layers_are_pasts(tmp_path, kind):
    made = getattr(transformers, kind)
    torch.manual_seed(0)
    sizes = {
        "vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    module = made(made.config_class(**{**sizes, **RECURRENT[kind]})).eval()
    model = hg.llm.convert(copy.deepcopy(module), tmp_path / "small.hgm")
    assert model.report.logits_error < 1e-4
    assert not any("recomputes" in warning for warning in model.report.warnings)
    pasts = [spec for spec in model.inputs if spec.name.startswith("past_key_values.")]
    assert model.inputs[0].shape[1] == 1 and any("past" not in spec.shape for spec in pasts)
    generator = hg.Generator(model)
    prompts = [[7], [9, 8, 7, 6, 5], np.random.default_rng(0).integers(3, WORDS, 40).tolist()]
    alone = [generator.generate(prompt, max_tokens=24).ids for prompt in prompts]
    # RecurrentGemma keeps its state in the module.
    assert alone == [greedy(copy.deepcopy(module), [prompt], 24)[0] for prompt in prompts]
    if kind == "RwkvForCausalLM":  # transformers mixes the rows of a batch
        assert any("one prompt at a time" in warning for warning in model.report.warnings)
        with pytest.raises(ValueError, match="takes 1 prompt at a time"):
            generator.generate(prompts)
    else:
        assert [each.ids for each in generator.generate(prompts, max_tokens=24)] == alone


def test_models_whose_tokens_see_later_ones_do_not_convert_unnoticed(tmp_path):
    sizes = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "initializer_range": 0.3}
    torch.manual_seed(0)
    with pytest.raises(hg.UnsupportedError, match="needs is_decoder=true"):
        hg.llm.convert(transformers.BertLMHeadModel(transformers.BertConfig(**sizes)).eval(), tmp_path / "x.hgm")
    assert not (tmp_path / "x.hgm").exists()


def test_loops_over_chosen_experts_are_captured(tmp_path):
    torch.manual_seed(0)
    config = transformers.DbrxConfig(
        d_model=32, n_heads=4, n_layers=2, vocab_size=WORDS, max_seq_len=128, initializer_range=0.3, pad_token_id=0,
        attn_config={"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0}, ffn_config={"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
    )  # fmt: skip
    module = spread_weights(transformers.DbrxForCausalLM(config).eval())
    generator = hg.Generator(hg.llm.convert(module, tmp_path / "dbrx.hgm"))
    prompts = [[7], [9, 8, 7, 6, 5], np.random.default_rng(0).integers(3, WORDS, 40).tolist()]
    for group in [[prompt] for prompt in prompts] + [prompts]:
        assert [each.ids for each in generator.generate(group, max_tokens=24)] == greedy(module, group, 24)


@pytest.mark.parametrize("adds", (True, False))
def test_only_sums_over_experts_are_captured(adds):
    def routed(x, chosen):
        total = torch.zeros_like(x)
        for (expert,) in torch.nn.functional.one_hot(chosen, 3).sum(0).nonzero():
            (tokens,) = torch.where(chosen == expert)
            if adds:
                total.index_add_(0, tokens, x[tokens] * (int(expert) + 1))
            else:
                total[tokens] = x[tokens]
        return total

    x, chosen = torch.randn(5, 4), torch.tensor([2, 0, 0, 2, 0])
    with every_expert(torch):
        if adds:
            assert torch.equal(routed(x, chosen), x * (chosen + 1).unsqueeze(1))
        else:
            with pytest.raises(hg.UnsupportedError, match="its experts use the tokens that chose them in __setitem__"):
                routed(x, chosen)


class Branching(transformers.Qwen2ForCausalLM):
    """Turns logits around where a prompt has the id ``turns``."""

    turns = -1

    def forward(self, input_ids, **kwargs):
        result = super().forward(input_ids, **kwargs)
        if (input_ids == self.turns).any().item():
            result.logits = -result.logits
        return result


def test_branches_on_values_are_those_of_the_example(tmp_path):
    model = small()
    model.__class__ = Branching
    prompts = [[7], [9, 8, 7, 6, 5]]
    generator = hg.Generator(hg.llm.convert(model, tmp_path / "one.hgm"))
    for prompt in prompts:
        assert generator.generate(prompt, max_tokens=24, stop_ids=[]).ids == greedy(model, [prompt], 24)[0]
    model.turns = 9
    with pytest.raises(hg.MismatchError, match="the logits differ"):
        hg.llm.convert(model, tmp_path / "both.hgm")
    runner = Runner(hg.llm.convert(model, tmp_path / "both.hgm", check=False))
    for prompt in prompts:
        runner.start(1)
        logits = runner.run(np.array([prompt]), np.ones((1, len(prompt)), np.int64))
        assert np.isnan(logits).all() if 9 in prompt else np.isfinite(logits).all()


def test_dynamic_positions_follow_the_length_of_the_text(tmp_path):
    model = small(rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}, max_position_embeddings=24)
    generator = hg.Generator(hg.llm.convert(model, tmp_path / "x.hgm"))
    for prompt in [7, 8, 9], list(range(3, 33)):  # the module keeps the frequencies of its longest text
        assert generator.generate(prompt, max_tokens=40, stop_ids=[]).ids == greedy(copy.deepcopy(model), [prompt], 40)[0]


def test_caches_that_begin_anew_are_left_out(tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3}
    longrope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 4.0, 8.0]}
    torch.manual_seed(0)
    config = transformers.Phi3Config(vocab_size=WORDS, max_position_embeddings=128, original_max_position_embeddings=24, rope_parameters=longrope, pad_token_id=0, **sizes)
    model = transformers.Phi3ForCausalLM(config).eval()
    whole = hg.llm.convert(model, tmp_path / "whole.hgm")
    assert any("begins anew after 24 tokens" in warning for warning in whole.report.warnings)
    assert hg.Generator(whole).generate([7, 8, 9], max_tokens=40, stop_ids=[]).ids == greedy(model, [[7, 8, 9]], 40)[0]
    short = hg.llm.convert(model, tmp_path / "short.hgm", max_context=24)
    assert any(each.name.startswith("past_key_values.") for each in short.inputs)
    assert hg.Generator(short).generate([7, 8, 9], max_tokens=20, stop_ids=[]).ids == greedy(model, [[7, 8, 9]], 20)[0]


class Excluding(transformers.Qwen2ForCausalLM):
    """Never answers with the id 3."""

    def forward(self, input_ids, attention_mask=None, **kwargs):
        result = super().forward(input_ids, attention_mask, **kwargs)
        result.logits = result.logits.index_fill(-1, torch.tensor([3]), torch.finfo(torch.float32).min)
        return result


def test_excluded_tokens_do_not_hide_errors_of_others(tmp_path):
    model = small()
    model.__class__ = Excluding
    assert 1e-9 < hg.llm.convert(model, tmp_path / "x.hgm").report.logits_error < 1e-4


class Counting(transformers.Qwen2ForCausalLM):
    """Counts positions by two, unless they are given."""

    def forward(self, input_ids, attention_mask=None, cache=None, position_ids=None, **kwargs):
        if position_ids is None:
            past = 0 if cache is None else cache.get_seq_length()
            position_ids = (torch.arange(input_ids.shape[1]) + past).unsqueeze(0) * 2
        return super().forward(input_ids, attention_mask, position_ids, cache, **kwargs)

    def prepare_inputs_for_generation(self, *args, **kwargs):
        made = super().prepare_inputs_for_generation(*args, **kwargs)
        made.pop("position_ids", None)
        return made


def test_modules_may_count_positions_themselves(tmp_path):
    model = small()
    model.__class__ = Counting
    made = hg.llm.convert(model, tmp_path / "x.hgm")
    assert any("one prompt at a time" in warning for warning in made.report.warnings)  # padding moves the positions
    for prompt in [7], [9, 8, 7, 6, 5]:
        assert hg.Generator(made).generate(prompt, max_tokens=24, stop_ids=[]).ids == greedy(model, [prompt], 24)[0]


def test_masks_by_broadcasting_are_those_by_vmap():
    from transformers.masking_utils import sdpa_mask

    table = torch.rand(3, 7) > 0.5

    def mask(batch, head, query, key):
        return table[batch, key] & (key <= query)

    def made():
        return sdpa_mask(batch_size=3, q_length=5, kv_length=7, q_offset=2, mask_function=mask, use_vmap=True)

    wanted = made()
    with broadcast_masks(torch), unittest.mock.patch("torch.vmap", None):
        assert torch.equal(made(), wanted)


def test_a_decoder_without_an_auto_class_is_loaded(tmp_path):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = transformers.Emu3ForCausalLM(transformers.Emu3TextConfig(vocab_size=WORDS, initializer_range=0.3, pad_token_id=0, bos_token_id=1, eos_token_id=2, **sizes)).eval()
    model.save_pretrained(tmp_path / "emu3")
    generator = hg.Generator(hg.llm.convert(tmp_path / "emu3", tmp_path / "emu3.hgm"))
    assert generator.generate([7, 8, 9], max_tokens=24, stop_ids=[]).ids == greedy(model, [[7, 8, 9]], 24)[0]


def test_modules_that_do_not_generate_are_rejected(tmp_path):
    model = small()
    with pytest.raises(hg.UnsupportedError, match=r"^qwen2: the module has no generate\(\) that appends one token at a time"):
        hg.llm.convert(model.model, tmp_path / "x.hgm")


def test_models_of_several_ids_per_position_are_rejected(tmp_path):
    sizes = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "ffn_dim": 48, "num_attention_heads": 4, "max_position_embeddings": 160}
    model = transformers.MusicgenForCausalLM(transformers.MusicgenDecoderConfig(**sizes, pad_token_id=WORDS, bos_token_id=WORDS)).eval()
    with pytest.raises(hg.UnsupportedError, match="musicgen_decoder: its forward does not take ids alone, one per position"):
        hg.llm.convert(model, tmp_path / "x.hgm")


def test_tokens_that_generate_keeps_beside_the_text_are_rejected(tmp_path):
    torch.manual_seed(0)
    model = transformers.XLNetLMHeadModel(transformers.XLNetConfig(vocab_size=WORDS, d_model=32, n_layer=2, n_head=4, d_inner=48)).eval()
    spread_weights(model)
    with pytest.raises(hg.UnsupportedError, match="^xlnet: its generate\\(\\) keeps what forward made of tokens that are no part of the text"):
        hg.llm.convert(model, tmp_path / "xlnet.hgm")


def test_a_mask_that_fits_one_prompt_alone(tmp_path):
    """Steps of GIT widen the mask by an image's tokens, which hides others if the prompt has padding and no image."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    vision = {**sizes, "image_size": 16, "patch_size": 8}
    model = transformers.GitForCausalLM(transformers.GitConfig(**sizes, vision_config=vision, vocab_size=WORDS, max_position_embeddings=128)).eval()
    spread_weights(model)
    made = hg.llm.convert(model, tmp_path / "git.hgm", text_only=True)
    assert any("one prompt at a time" in each for each in made.report.warnings)
    for length in (1, 7, 40):
        prompt = torch.randint(6, WORDS, (length,)).tolist()
        assert hg.Generator(made).generate(prompt, max_tokens=24, stop_ids=[]).ids == greedy(model, [prompt], 24)[0]


def test_a_file_that_reads_short_texts_only_says_so(tmp_path):
    """MiniMax computes longer texts in blocks, and each step reads all tokens again."""
    torch.manual_seed(0)
    model = transformers.MiniMaxForCausalLM(transformers.MiniMaxConfig(
        vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        num_local_experts=2, num_experts_per_tok=1, block_size=128, max_position_embeddings=256)).eval()  # fmt: skip
    spread_weights(model)
    made = hg.llm.convert(model, tmp_path / "minimax.hgm")
    said = "the file reads at most 128 tokens, since its module rejects longer inputs or computes them differently"
    assert said in made.report.warnings
    prompt = torch.randint(6, WORDS, (9,)).tolist()
    generator = hg.Generator(made)
    assert generator.generate(prompt, max_tokens=40, stop_ids=[]).ids == greedy(model, [prompt], 40)[0]
    with pytest.raises(ValueError, match="has 129 tokens, but the model has 128 positions"):
        generator.generate(torch.randint(6, WORDS, (129,)).tolist(), max_tokens=1)


def test_short_contexts_are_checked(tmp_path):
    assert hg.llm.convert(small(), tmp_path / "short.hgm", max_context=2).report.logits_error > 0


def test_refusals(folder, tmp_path, capsys):
    with pytest.raises(ValueError, match="bits is 5; weights have 8 or 4"):
        hg.llm.convert(folder, tmp_path / "x.hgm", bits=5)
    with pytest.raises(ValueError, match="max_context is 500, but the model has 128 positions"):
        hg.llm.convert(folder, tmp_path / "x.hgm", max_context=500)
    with pytest.raises(ValueError, match="group is -1, expected at least 0"):
        hg.llm.convert(folder, tmp_path / "x.hgm", bits=4, group=-1)
    for path in "", tmp_path:
        with pytest.raises(ValueError, match="is no path of a file to write"):
            hg.llm.convert(folder, path)
    with pytest.raises(hg.NotFoundError, match="x.hgm: there is no folder .*none"):
        hg.llm.convert(folder, tmp_path / "none" / "x.hgm")
    with pytest.raises(TypeError, match="not a Linear"):
        hg.llm.convert(torch.nn.Linear(2, 2), tmp_path / "x.hgm")
    assert main(["llm", f"{tmp_path}/none", "-o", f"{tmp_path}/x.hgm"]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["llm", str(tmp_path), "-o", f"{tmp_path}/x.hgm"]) == 2
    assert "has no config.json" in capsys.readouterr().err
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no such type"}))
    assert main(["llm", str(tmp_path), "-o", f"{tmp_path}/x.hgm"]) == 3
    assert not (tmp_path / "x.hgm").exists()
