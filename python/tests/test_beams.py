# SPDX-License-Identifier: Apache-2.0
"""Beam search gives the beams of transformers."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import hologram as hg  # noqa: E402
from nets import spread_weights  # noqa: E402

WORDS = 61
OPTIONS = [
    {"num_beams": 2},
    {"num_beams": 4, "num_return_sequences": 4},
    {"num_beams": 4, "length_penalty": 0.3, "num_return_sequences": 2},
    {"num_beams": 4, "length_penalty": -1.5},
    {"num_beams": 4, "early_stopping": True, "num_return_sequences": 3},
    {"num_beams": 3, "early_stopping": "never", "length_penalty": 2.0, "num_return_sequences": 3},
    {"num_beams": 2, "repetition_penalty": 1.7},
]


def randomized(model):
    torch.manual_seed(3)
    spread_weights(model)
    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=3)
    return model.eval()


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    config = transformers.Qwen2Config(
        vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    model = randomized(transformers.Qwen2ForCausalLM(config))
    return model, hg.llm.convert(model, tmp_path_factory.mktemp("beams") / "decoder.hgm", check=False)


@pytest.fixture(scope="module")
def encoder_decoder(tmp_path_factory):
    config = transformers.BartConfig(
        vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=96, forced_eos_token_id=None,
    )  # fmt: skip
    model = randomized(transformers.BartForConditionalGeneration(config))
    return model, hg.llm.convert(model, tmp_path_factory.mktemp("beams") / "bart.hgm", check=False)


def wanted(model, options, stop_ids, **given):
    config = transformers.GenerationConfig(
        do_sample=False, max_new_tokens=24, pad_token_id=0, eos_token_id=stop_ids, output_scores=True, decoder_start_token_id=3,
        return_dict_in_generate=True, **options,
    )  # fmt: skip
    with torch.no_grad():
        result = model.generate(**given, generation_config=config)
    prompt = 1 if model.config.is_encoder_decoder else given["input_ids"].shape[1]
    rows = []
    for row in result.sequences[:, prompt:].tolist():
        end = next((i for i, token in enumerate(row) if token in stop_ids), None)
        rows.append(row[:end])
    return rows, result.sequences_scores.numpy()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_beams_are_those_of_transformers(request, kind, options):
    model, made = request.getfixturevalue(kind)
    generator, draws, ended = hg.Generator(made), np.random.default_rng(0), 0
    for lengths in [(5,), (1, 9, 4)]:
        for stop_ids in [[7], [7, 8, 9, 10, 11]]:
            texts = [draws.integers(12, WORDS, count).tolist() for count in lengths]
            longest = max(lengths)
            pads = [[0] * (longest - len(text)) for text in texts]
            if kind == "decoder":
                rows, masks = [p + t for p, t in zip(pads, texts)], [p + [1] * len(t) for p, t in zip(pads, texts)]
            else:
                rows, masks = [t + p for p, t in zip(pads, texts)], [[1] * len(t) + p for p, t in zip(pads, texts)]
            ids, scores = wanted(model, options, stop_ids, input_ids=torch.tensor(rows), attention_mask=torch.tensor(masks))
            given = {"prompts": texts} if kind == "decoder" else {"encoder_inputs": texts}
            got = generator.generate(**given, max_tokens=24, stop_ids=stop_ids, log_probabilities=True, **options)
            assert [each.ids for each in got] == ids
            assert np.allclose([each.score for each in got], scores, rtol=1e-4, atol=1e-4)
            assert all(len(each.log_probabilities) == len(each.ids) for each in got)
            ended += sum(each.finish == "stop" for each in got)
    assert ended > 0 or kind == "encoder_decoder" or options.get("length_penalty") == 2.0


def test_several_answers_draw_their_own_tokens(decoder):
    generator = hg.Generator(decoder[1])
    options = {"max_tokens": 8, "temperature": 1.0, "seed": 5}
    got = generator.generate([5, 6], num_return_sequences=3, **options)
    assert len({tuple(each.ids) for each in got}) == 3
    both = generator.generate([[5, 6], [5, 6, 7]], num_return_sequences=3, **options)
    assert [each.ids for each in both[:3]] == [each.ids for each in got] and len(both) == 6


def test_refusals(decoder):
    generator = hg.Generator(decoder[1])
    for options, message in [
        ({"num_beams": 0}, "expected 1 to 1024"),
        ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences is 3, but num_beams is 2"),
        ({"num_beams": 2, "temperature": 1.0}, "a beam search does not sample"),
        ({"num_beams": 2, "length_penalty": float("inf")}, "length_penalty is inf, expected a finite number"),
        ({"num_beams": 2, "early_stopping": "perhaps"}, "early_stopping is True, False or 'never'"),
    ]:
        with pytest.raises(ValueError, match=message):
            generator.generate([5], **options)
    with pytest.raises(ValueError, match="use generate"):
        generator.stream([5], num_beams=2)
