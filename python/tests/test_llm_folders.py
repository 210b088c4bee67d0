# SPDX-License-Identifier: Apache-2.0
"""hologram.llm: folders that transformers loads without their true weights, and settings of generation_config.json."""

import json
import os
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import quantized_folders as made_by_hand  # noqa: E402
import test_encoder_decoder  # noqa: E402
import test_llm  # noqa: E402

import hologram as hg  # noqa: E402
from hologram.__main__ import main  # noqa: E402
from hologram.llm import _text_files as text_files  # noqa: E402
from hologram.llm import _write  # noqa: E402
from hologram.llm._generation_settings import settings_warnings  # noqa: E402

UP = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("folders") / "small"
    test_llm.small().save_pretrained(path)
    return path


def copied(folder, tmp_path, change=None):
    """A copy of the folder whose tensors ``change`` has edited."""
    from safetensors.torch import load_file, save_file

    made = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
    shutil.copytree(folder, made)
    if change is not None:
        tensors = load_file(made / "model.safetensors")
        change(tensors)
        save_file(tensors, made / "model.safetensors", {"format": "pt"})
    return made


def refuses(folder, tmp_path, kind, message):
    with pytest.raises(kind, match=message):
        hg.llm.convert(folder, tmp_path / "x.hgm", check=False)
    assert not (tmp_path / "x.hgm").exists()


def test_weights_without_their_scales_are_refused(folder, tmp_path):
    """transformers widens them and drops the scales, which its models do not read."""

    def eight_bits(dtype, scale):
        def change(tensors):
            tensors[UP] = (tensors[UP] * 100).to(dtype)
            tensors[f"{UP}{scale}"] = torch.full((1,), 0.01)

        return change

    message = "the tensor '.*' has the type {}, but config.json has no quantization_config"
    refuses(copied(folder, tmp_path, eight_bits(torch.float8_e4m3fn, "_scale_inv")), tmp_path, hg.UnsupportedError, message.format("F8_E4M3"))
    refuses(copied(folder, tmp_path, eight_bits(torch.int8, "_scale")), tmp_path, hg.UnsupportedError, message.format("I8"))
    refuses(copied(folder, tmp_path, eight_bits(torch.int32, "_scale")), tmp_path, hg.UnsupportedError, message.format("I32"))
    masks = copied(folder, tmp_path, lambda tensors: tensors.update({"model.layers.0.self_attn.mask": torch.ones(2, 2, dtype=torch.bool)}))
    made = hg.llm.convert(masks, tmp_path / "masks.hgm", check=False)
    assert "the model does not read 1 tensor of the folder, such as 'model.layers.0.self_attn.mask'" in made.report.warnings


def test_tensors_that_the_model_does_not_read_are_warned_of(folder, tmp_path):
    def add_layer(tensors):
        tensors.update({name.replace("layers.1.", "layers.2."): tensor.clone() for name, tensor in tensors.items() if "layers.1." in name})

    made = hg.llm.convert(copied(folder, tmp_path, add_layer), tmp_path / "x.hgm", check=False)
    assert "the model does not read 12 tensors of the folder, such as 'model.layers.2.input_layernorm.weight'" in made.report.warnings


def test_parts_of_the_weights(tmp_path):
    from safetensors.torch import load_file, save_file

    test_llm.small().save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    first, second = sorted((tmp_path / "parts").glob("*.safetensors"))[:2]
    name, tensor = next(iter(load_file(first).items()))

    def changed(change):
        made = copied(tmp_path / "parts", tmp_path)
        change(made / second.name)
        return made

    def repeat(values):
        return lambda path: save_file({**load_file(path), name: values}, path, {"format": "pt"})

    refuses(changed(lambda path: path.unlink()), tmp_path, hg.CorruptModelError, f"names '{second.name}', which the folder does not have")
    refuses(changed(lambda path: path.write_bytes(path.read_bytes()[:-9])), tmp_path, hg.CorruptModelError, f"{second.name}: .*incomplete")
    refuses(changed(lambda path: path.write_bytes(b"")), tmp_path, hg.CorruptModelError, second.name)
    refuses(changed(repeat(torch.zeros_like(tensor))), tmp_path, hg.CorruptModelError, f"another file of the folder has other values for the tensor '{name}'")
    assert hg.llm.convert(changed(repeat(tensor)), tmp_path / "same.hgm", check=False)
    index = changed(lambda path: None)
    (index / "model.safetensors.index.json").write_text('{"weight_map": [1]}')
    refuses(index, tmp_path, hg.CorruptModelError, "expected a JSON object with a weight_map")


def test_damaged_files_are_refused(folder, tmp_path, capsys):
    data = (folder / "model.safetensors").read_bytes()
    for damaged in data[:-4], data + b"more", b"\xff" * 8 + data[8:], b"", b"version https://git-lfs.github.com/spec/v1\n":
        made = copied(folder, tmp_path)
        (made / "model.safetensors").write_bytes(damaged)
        assert main(["llm", str(made), "-o", f"{tmp_path}/x.hgm"]) == 2
        assert "model.safetensors: " in capsys.readouterr().err
    refuses(copied(folder, tmp_path, lambda tensors: tensors.update({UP: torch.ones(3, 4)})), tmp_path, hg.CorruptModelError, f"wrong size of the tensor '{UP}'")
    made = copied(folder, tmp_path)
    (made / "model.safetensors").unlink()
    (made / "pytorch_model.bin").write_bytes(b"no pickle")
    refuses(made, tmp_path, hg.UnsupportedError, "transformers cannot load the model")


def test_weights_that_are_not_finite_are_refused(folder, tmp_path):
    with pytest.raises(hg.UnsupportedError, match="qwen2: the logits of the module itself are infinite or not a number"):
        hg.llm.convert(copied(folder, tmp_path, lambda tensors: tensors[UP].fill_(torch.nan)), tmp_path / "x.hgm")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_an_error():
    """torch's writer of archives ends the process when it is destroyed after an error."""
    program = torch.export.export(torch.nn.Linear(4, 4), (torch.ones(1, 4),))
    with pytest.raises(OSError, match="cannot write /dev/full: No space left on device"):
        _write(torch, program, "/dev/full")


def test_a_single_file_hides_an_index(tmp_path):
    """As in transformers, for quantized layers too."""
    draws = np.random.default_rng(7)
    plain = test_llm.small(num_hidden_layers=1, layer_types=["full_attention"], sliding_window=None, use_sliding_window=False)
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 16}
    good = made_by_hand.quantize_folder(plain, tmp_path / "good", settings, lambda *layer: made_by_hand.gptq(draws, *layer, group=16))
    (good / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {UP: "old.safetensors"}}))
    (good / "old.safetensors").write_bytes(b"old")
    hg.llm.convert(good, tmp_path / "x.hgm")


def test_adapters_and_code_are_refused(folder, tmp_path, monkeypatch):
    made = copied(folder, tmp_path)
    (made / "adapter_config.json").write_text("{}")
    refuses(made, tmp_path, hg.UnsupportedError, "adapter_config.json says that the folder holds an adapter")
    made = copied(folder, tmp_path)
    config = json.loads((made / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}}
    (made / "config.json").write_text(json.dumps(config))
    (made / "own.py").write_text("raise SystemExit('code of a folder runs')")
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers asks whether to run the code
    refuses(made, tmp_path, hg.UnsupportedError, "trust_remote_code")


def with_words(folder, tmp_path, config, **more):
    """A copy of the folder with a tokenizer of ten words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(10)}, unk_token="w3"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.add_special_tokens(["w1", "w2"])
    made = copied(folder, tmp_path)
    words.save(str(made / "tokenizer.json"))
    config_of_model = {"model_type": "llama"}  # for Qwen2, AutoTokenizer makes another kind of tokenizer
    for name, content in {"config": config_of_model, "tokenizer_config": {"tokenizer_class": "TokenizersBackend", **config}, **more}.items():
        (made / f"{name}.json").write_text(json.dumps(content))
    return made


def files_of(folder):
    return text_files.files_of(transformers, folder, test_llm.small(), None)


def test_the_tokenizer_is_compared_with_transformers(folder, tmp_path):
    made = with_words(folder, tmp_path, {"bos_token": "w1", "eos_token": "w2"})
    files, warnings = files_of(made)
    assert not warnings and files["tokenizer.json"] == (made / "tokenizer.json").read_bytes()
    _, warnings = files_of(with_words(folder, tmp_path, {"eos_token": "<|end|>"}))  # which transformers adds
    assert warnings == ['AutoTokenizer gives other ids than tokenizer.json, which the file has, for texts such as "a <|end|> b<|end|>c"']


def test_special_tokens_of_older_folders_reach_chat_templates(folder, tmp_path):
    files, _ = files_of(with_words(folder, tmp_path, {}, special_tokens_map={"bos_token": {"content": "w1"}, "eos_token": "w2"}))
    config = json.loads(files["tokenizer_config.json"])
    assert (config["bos_token"], config["eos_token"]) == ("w1", "w2")


def test_a_folder_without_a_tokenizer_has_none(folder):
    """Some classes of transformers make a tokenizer without words."""
    files, warnings = files_of(folder)
    assert "tokenizer.json" not in files and warnings == ["there is no tokenizer: the file generates token ids"]


SETTINGS = [
    ({"eos_token_id": [1, 2], "max_length": 20, "temperature": 0.7, "top_k": 20, "forced_bos_token_id": 3}, "", ""),  # generate() does not draw
    ({"do_sample": True, "temperature": 0.6, "top_p": 0.9}, "temperature=0.6, top_k=50 and top_p=0.9", ""),
    ({"do_sample": True, "top_k": 0, "typical_p": 0.5}, "temperature=1.0", "typical_p=0.5"),
    ({"num_beams": 6, "early_stopping": True, "bad_words_ids": [[5]]}, "num_beams=6 and early_stopping=True", "bad_words_ids"),
    ({"length_penalty": 2.0, "repetition_penalty": 1.1, "no_repeat_ngram_size": 3, "min_length": 56}, "repetition_penalty=1.1", "min_length=56 and no_repeat_ngram_size=3"),
    ({"do_sample": True, "num_beams": 2, "suppress_tokens": [1], "begin_suppress_tokens": [2]}, "num_beams=2", "suppress_tokens, begin_suppress_tokens and do_sample=True"),
]  # fmt: skip


@pytest.mark.parametrize("given, options, unknown", SETTINGS, ids=lambda value: str(value)[:40])
def test_settings_that_a_file_does_not_apply(given, options, unknown):
    module = test_llm.small()
    module.generation_config = transformers.GenerationConfig(**given)
    wanted = []
    if options:
        wanted.append(f"generate() of the module uses {options}, as its generation_config says; pass these options to generators")
    if unknown:
        wanted.append(f"generators do not support {unknown} of the generation_config, so tokens can differ from those of generate()")
    assert settings_warnings(module) == wanted


def test_answers_begin_with_the_forced_token(tmp_path):
    model = test_encoder_decoder.small("BartForConditionalGeneration")
    model.generation_config = transformers.GenerationConfig(decoder_start_token_id=3, forced_bos_token_id=9, pad_token_id=0, max_new_tokens=12, suppress_tokens=[5])
    made = hg.llm.convert(model, tmp_path / "x.hgm", check=False)
    assert any("suppress_tokens" in warning for warning in made.report.warnings)
    model.generation_config.suppress_tokens = None
    text = [7, 8, 9, 10]
    with torch.no_grad():
        wanted = model.generate(input_ids=torch.tensor([text]))[0].tolist()
    assert wanted[:2] == [3, 9]
    assert hg.Generator(made, threads=1).generate(encoder_inputs=text, max_tokens=11).ids == wanted[2:]
