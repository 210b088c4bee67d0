# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoders of transformers: files whose greedy tokens are those of generate()."""

import inspect
import json
import os
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hologram as hg  # noqa: E402
from nets import spread_weights  # noqa: E402

WORDS, STEPS = 97, 64
SIZES = {
    "vocab_size": WORDS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "init_std": 0.3, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3, "max_position_embeddings": 96, "forced_eos_token_id": None,
}  # fmt: skip
KINDS = {
    "T5ForConditionalGeneration": {"d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
    "BartForConditionalGeneration": {},
    "MarianMTModel": {},
    "WhisperForConditionalGeneration": {"max_source_positions": 20, "max_target_positions": 96, "num_mel_bins": 8},
    # Its decoder reads one token at a time.
    "FSMTForConditionalGeneration": {"langs": ["en", "de"], "src_vocab_size": WORDS, "tgt_vocab_size": WORDS},
    # Its encoder reads sounds of any length.
    "MoonshineForConditionalGeneration": {
        "hidden_size": 32, "intermediate_size": 48, "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2,
        "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4,
    },
}  # fmt: skip
SHAPES = {"input_features": (8, 40), "input_values": (2003,)}


def small(kind):
    made = getattr(transformers, kind)
    torch.manual_seed(0)
    model = made(made.config_class(**{**SIZES, **KINDS[kind]})).eval()
    spread_weights(model)
    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=3)  # no stop ids
    return model


def generated(model, **source):
    config = transformers.GenerationConfig(do_sample=False, max_new_tokens=STEPS, pad_token_id=0, decoder_start_token_id=3)
    start = torch.full((len(next(iter(source.values()))), 1), 3)
    with torch.no_grad():
        ids = transformers.GenerationMixin.generate(model, **source, decoder_input_ids=start, generation_config=config)
    return ids[:, 1:].tolist()


@pytest.fixture(scope="module", params=list(KINDS))
def files(request, tmp_path_factory):
    model = small(request.param)
    path = tmp_path_factory.mktemp("encoder") / "model.hgm"
    hg.llm.convert(model, path)
    return model, path


def sources(model):
    """(inputs of the module, inputs of the generator)."""
    draws = np.random.default_rng(5)
    if model.main_input_name in SHAPES:
        for batch in (1, 3):
            features = draws.normal(size=(batch, *SHAPES[model.main_input_name])).astype(np.float32)
            yield {model.main_input_name: torch.from_numpy(features)}, features
        return
    texts = [draws.integers(4, WORDS, count).tolist() for count in (1, 7, 40)]
    for group in [[text] for text in texts] + [texts]:
        longest = max(map(len, group))
        ids = torch.tensor([text + [0] * (longest - len(text)) for text in group])
        mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in group])
        yield {"input_ids": ids, "attention_mask": mask}, group


def test_greedy_tokens_are_those_of_generate(files):
    model, path = files
    library = hg.load(path)
    assert library.functions() == ["encode", "decode"]
    assert json.loads(library.attachments["generation_config.json"])["decoder_start_token_id"] == 3
    # The steps read the keys of the cross attention, and do not compute them.
    assert [spec.name for spec in library.encode.outputs][:2] == ["cross.0.key", "cross.0.value"]
    generator = hg.Generator(library)
    for given, ours in sources(model):
        wanted = generated(model, **given)
        got = generator.generate(encoder_inputs=ours, max_tokens=STEPS)
        assert [each.ids for each in (got if isinstance(got, list) else [got])] == wanted
    assert generator.generate([3, 5], encoder_inputs=ours[:1], max_tokens=2).ids  # a prompt of the answer


def test_modules_that_replace_their_parts_do_so_for_each_text(tmp_path):
    sizes = {**SIZES, "max_position_embeddings": 160, "attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 4}
    torch.manual_seed(0)
    model = spread_weights(transformers.BigBirdPegasusForConditionalGeneration(transformers.BigBirdPegasusConfig(**sizes)).eval())
    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=3)
    made = hg.llm.convert(model, tmp_path / "x.hgm")
    assert model.get_encoder().attention_type == "block_sparse"
    # The attention is full up to (5 + 2 * num_random_blocks) * block_size tokens.
    assert "the encoder reads at most 52 tokens, since its module rejects longer inputs or computes them differently" in made.report.warnings
    text = np.random.default_rng(0).integers(4, WORDS, 53).tolist()
    got = hg.Generator(made).generate(encoder_inputs=[text[:52]], max_tokens=STEPS)
    assert [each.ids for each in got] == generated(model, input_ids=torch.tensor([text[:52]]))
    with pytest.raises(ValueError, match="source is 53, but the model was converted for source at most 52"):
        hg.Generator(made).generate(encoder_inputs=[text], max_tokens=2)


def test_the_program_reads_texts_and_features(files, tmp_path):
    program = os.path.join(os.path.dirname(os.environ.get("HOLOGRAM_CONVERT", "")), "hg-generate")
    if not os.access(program, os.X_OK):
        pytest.skip("hg-generate is not built")
    model, path = files
    for given, ours in sources(model):
        if isinstance(ours, list):
            words = [word for text in ours for word in ("--ids", ",".join(map(str, text)))]
        else:
            np.save(tmp_path / "features.npy", ours)
            words = ["--features", f"{tmp_path}/features.npy"]
        command = [program, str(path), *words, "--max-tokens", "20"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        wanted = [row[:20] for row in generated(model, **given)]
        assert [list(map(int, line.split(","))) for line in done.stdout.split()] == wanted
        done = subprocess.run([*command, "--decoder-ids", f"3,{wanted[0][0]}", "--json"], capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        assert (answer if isinstance(answer, dict) else answer[0])["ids"][:19] == wanted[0][1:]


IMAGE, FEATURES = 90, 4  # the image's token, and the features of an image


def llava():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    vision = transformers.CLIPVisionConfig(**sizes, num_hidden_layers=3, image_size=16, patch_size=8, projection_dim=16)
    text = transformers.LlamaConfig(**sizes, vocab_size=WORDS, num_hidden_layers=2, num_key_value_heads=2, max_position_embeddings=700, pad_token_id=0)
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_id=IMAGE, vision_feature_layer=-2)
    model = transformers.LlavaForConditionalGeneration(config).eval()
    spread_weights(model)
    model.generation_config = transformers.GenerationConfig()
    return model


def test_images_are_read_in_the_place_of_their_tokens(tmp_path):
    if not hasattr(transformers, "LlavaForConditionalGeneration"):
        pytest.skip("this version of transformers has no LLaVA")
    model = llava()
    model.save_pretrained(tmp_path / "llava")
    hg.llm.convert(tmp_path / "llava", tmp_path / "llava.hgm")
    generator = hg.Generator(hg.load(tmp_path / "llava.hgm"))
    draws = np.random.default_rng(5)
    texts = [draws.integers(3, IMAGE, count).tolist() for count in (1, 7, 40, 600)]  # 600: more than a run of a decoder reads
    prompts = [text[: len(text) // 2] + [IMAGE] * FEATURES + text[len(text) // 2 :] for text in texts]
    config = transformers.GenerationConfig(do_sample=False, max_new_tokens=48, pad_token_id=0)
    for group in [[prompt] for prompt in prompts] + [prompts[:3]]:
        longest = max(map(len, group))
        ids = torch.tensor([[0] * (longest - len(each)) + each for each in group])
        mask = torch.tensor([[0] * (longest - len(each)) + [1] * len(each) for each in group])
        pixels = draws.normal(size=(len(group), 3, 16, 16)).astype(np.float32)
        with torch.no_grad():
            wanted = model.generate(input_ids=ids, attention_mask=mask, pixel_values=torch.from_numpy(pixels), generation_config=config)
        got = generator.generate(group, encoder_inputs=pixels, max_tokens=48)
        assert [each.ids for each in (got if isinstance(got, list) else [got])] == wanted[:, longest:].tolist()
    for count in (1, FEATURES - 1, FEATURES + 1, 2 * FEATURES):
        with pytest.raises(ValueError, match="is nan"):
            generator.generate([[5, *[IMAGE] * count, 7]], encoder_inputs=pixels[:1], max_tokens=2)
    with torch.no_grad():
        wanted = model.generate(input_ids=torch.tensor([texts[1]]), generation_config=config)[:, 7:].tolist()
    assert generator.generate(texts[1], encoder_inputs=pixels[:1], max_tokens=48).ids == wanted[0]  # a prompt without an image


def with_own_part(kind, **changes):
    """A model whose generate() passes its images to another model: to the cross attention (BLIP), or in the place of tokens (BLIP-2)."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {"vocab_size": WORDS, "max_position_embeddings": 160, "pad_token_id": 0, "bos_token_id": 3}
    vision = {**sizes, "hidden_size": 48, "image_size": 16, "patch_size": 8}
    if kind == "Blip":
        more = {"text_config": {**sizes, **text, "encoder_hidden_size": 48, "sep_token_id": WORDS}, "vision_config": vision, "image_text_hidden_size": 32}
    else:
        words = {**text, "model_type": "opt", "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "word_embed_proj_dim": 32}
        more = {"text_config": words, "vision_config": vision, "qformer_config": {**sizes, "encoder_hidden_size": 48}, "num_query_tokens": FEATURES, "image_token_index": IMAGE}
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(getattr(transformers, f"{kind}Config")(**{**more, **changes})).eval()
    spread_weights(model)
    return model


def test_a_captioner_is_an_encoder_decoder(tmp_path):
    model = with_own_part("Blip")
    before, parts = {name: each.clone() for name, each in model.state_dict().items()}, (model.vision_model.config, model.text_decoder.config)
    model.save_pretrained(tmp_path / "blip")
    config = transformers.GenerationConfig(do_sample=False, max_new_tokens=STEPS)
    for source in (model, tmp_path / "blip"):
        generator = hg.Generator(hg.llm.convert(source, tmp_path / "blip.hgm"))
        for count in (1, 3):
            pixels = np.random.default_rng(count).normal(size=(count, 3, 16, 16)).astype(np.float32)
            wanted = model.generate(pixel_values=torch.from_numpy(pixels), generation_config=config)[:, 1:].tolist()
            got = generator.generate([[3]] * count, encoder_inputs=pixels, max_tokens=STEPS)
            assert [each.ids for each in (got if isinstance(got, list) else [got])] == wanted
            assert len(set(wanted[0])) > 4
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert parts == (model.vision_model.config, model.text_decoder.config)
    assert not hasattr(model.text_decoder.config, "cross_attention_hidden_size")


def with_types(kind):
    """A model whose token_type_ids tell which tokens see later ones: those of an image (Gemma 3), or of the prompt (PaliGemma)."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2}
    vision = transformers.SiglipVisionConfig(**sizes, image_size=16, patch_size=8, projection_dim=32, vision_use_head=False)
    sizes |= {"vocab_size": WORDS, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 800, "pad_token_id": 0}
    if kind == "gemma3":
        text = transformers.Gemma3TextConfig(**sizes, sliding_window=12, layer_types=["sliding_attention", "full_attention"])
        config = transformers.Gemma3Config(vision_config=vision, text_config=text, image_token_id=IMAGE, mm_tokens_per_image=FEATURES)
        model = transformers.Gemma3ForConditionalGeneration(config).eval()
    else:
        config = transformers.PaliGemmaConfig(vision_config=vision, text_config=transformers.GemmaConfig(**sizes), image_token_id=IMAGE, projection_dim=32)
        model = transformers.PaliGemmaForConditionalGeneration(config).eval()
    spread_weights(model)
    model.generation_config = transformers.GenerationConfig()
    return model


@pytest.mark.parametrize("kind", ["gemma3", "paligemma"])
def test_tokens_of_images_see_each_other(tmp_path, kind):
    if not hasattr(transformers, "Gemma3ForConditionalGeneration"):
        pytest.skip("this version of transformers has no Gemma 3")
    model = with_types(kind)
    hg.llm.convert(model, tmp_path / "m.hgm")
    generator = hg.Generator(hg.load(tmp_path / "m.hgm"))
    draws = np.random.default_rng(5)
    texts = [draws.integers(3, IMAGE, count).tolist() for count in (1, 7, 40, 600)]
    prompts = [text[: len(text) // 2] + [IMAGE] * FEATURES + text[len(text) // 2 :] for text in texts]
    config = transformers.GenerationConfig(do_sample=False, max_new_tokens=32, pad_token_id=0)
    for group in [[prompt] for prompt in prompts] + [prompts[:3]]:
        longest = max(map(len, group))
        ids = torch.tensor([[0] * (longest - len(each)) + each for each in group])
        mask = torch.tensor([[0] * (longest - len(each)) + [1] * len(each) for each in group])
        types = (ids == IMAGE).long() if kind == "gemma3" else torch.zeros_like(ids)
        pixels = draws.normal(size=(len(group), 3, 16, 16)).astype(np.float32)
        with torch.no_grad():
            wanted = model.generate(input_ids=ids, attention_mask=mask, token_type_ids=types, pixel_values=torch.from_numpy(pixels), generation_config=config)
        got = generator.generate(group, encoder_inputs=pixels, max_tokens=32)
        assert [each.ids for each in (got if isinstance(got, list) else [got])] == wanted[:, longest:].tolist()


def test_tokens_of_a_prompt_see_each_other_without_images(tmp_path):
    model = with_types("paligemma")
    made = hg.llm.convert(model, tmp_path / "m.hgm", text_only=True)
    assert any("contradicts its run on all tokens" in warning for warning in made.report.warnings)
    assert not any("recomputes" in warning for warning in made.report.warnings)
    generator = hg.Generator(made)
    prompts = [np.random.default_rng(5).integers(3, IMAGE, count).tolist() for count in (1, 7, 40)]
    config = transformers.GenerationConfig(do_sample=False, max_new_tokens=32, pad_token_id=0)
    for prompt in prompts:
        ids = torch.tensor([prompt])
        with torch.no_grad():
            wanted = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config)[0, len(prompt) :].tolist()
        assert generator.generate(prompt, max_tokens=32).ids == wanted
    # Padding makes the module's masks causal, so rows of a batch would differ from the same prompts alone.
    assert any("one prompt at a time" in warning for warning in made.report.warnings)


def test_an_encoder_decoder_without_such_keys_reads_all_tokens_again(tmp_path):
    model = small("BartForConditionalGeneration")
    forward = type(model).forward

    def other(self, input_ids=None, use_cache=None, **given):
        return forward(self, input_ids=input_ids, use_cache=False, **given)

    other.__signature__ = inspect.signature(forward)
    model.__class__ = type("Other", (type(model),), {"forward": other})
    library = hg.llm.convert(model, tmp_path / "m.hgm")
    assert any("recomputes all tokens" in warning for warning in library.report.warnings)
    assert [spec.name for spec in library.encode.outputs] == ["cross.hidden"]
    generator = hg.Generator(library)
    for given, ours in sources(model):
        got = generator.generate(encoder_inputs=ours, max_tokens=STEPS)
        assert [each.ids for each in (got if isinstance(got, list) else [got])] == generated(model, **given)


def test_a_model_whose_images_are_rejected_reads_text(tmp_path):
    if not hasattr(transformers, "LlavaNextForConditionalGeneration"):
        pytest.skip("this version of transformers has no LLaVA-NeXT")
    torch.manual_seed(0)
    parts = llava().config
    model = transformers.LlavaNextForConditionalGeneration(transformers.LlavaNextConfig(vision_config=parts.vision_config, text_config=parts.text_config, image_token_id=IMAGE)).eval()
    with pytest.raises(hg.UnsupportedError, match="^llava_next: its images have any size, which image_sizes tells; .* --text-only, the file reads only text"):
        hg.llm.convert(model, tmp_path / "m.hgm")
    generator = hg.Generator(hg.llm.convert(model, tmp_path / "m.hgm", text_only=True))
    with torch.no_grad():
        wanted = model.generate(input_ids=torch.tensor([[5, 7, 11]]), do_sample=False, max_new_tokens=20, pad_token_id=0)[0, 3:].tolist()
    assert generator.generate([5, 7, 11], max_tokens=20).ids == wanted


def test_a_folder_is_loaded_and_quantized(tmp_path):
    model = small("BartForConditionalGeneration")
    model.save_pretrained(tmp_path / "bart")
    made = hg.llm.convert(tmp_path / "bart", tmp_path / "bart.hgm", bits=8, check=False)
    assert made.report.unchecked
    answer = hg.Generator(made).generate(encoder_inputs=[[5, 6, 7]], max_tokens=4)
    assert len(answer[0].ids) == 4
    whole = hg.llm.convert(model, tmp_path / "whole.hgm", check=False)
    assert whole.report.unchecked
    assert os.path.getsize(tmp_path / "bart.hgm") < os.path.getsize(tmp_path / "whole.hgm")


def test_refusals(files):
    model, path = files
    library = hg.load(path)
    with pytest.raises(hg.UnsupportedError, match="comes from an encoder; generate with the model of both entries"):
        hg.Generator(library.decode)
    generator = hg.Generator(library)
    with pytest.raises(ValueError, match="the encoder got 0 .* for 1 prompt"):
        generator.generate([3])
    takes_features = model.main_input_name in SHAPES
    other = [5, 6] if takes_features else np.zeros((1, 8, 40), np.float32)
    with pytest.raises(ValueError, match="the encoder reads (features, not token ids|token ids, not features)"):
        generator.generate(encoder_inputs=other)
    wrong = np.zeros((1, 8, 39), np.float32) if takes_features else [5, WORDS]
    with pytest.raises(ValueError, match=r"but the encoder reads f32\[batch, (8, 40|samples)\]|has the id 97"):
        generator.generate(encoder_inputs=wrong)
