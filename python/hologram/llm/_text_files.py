# SPDX-License-Identifier: Apache-2.0
"""The files of a folder that a model keeps, compared with AutoTokenizer of transformers."""

import json
import os
import tempfile

from .._errors import one_line

_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "chat_template.jinja",
)  # fmt: skip
_TEXTS = (
    "", "The moon is round.", " two  spaces\n\n\tand lines \n", "don't ÉTÉ ß ﬁ ½ e\u0301 İ", "👩‍👩‍👧 日本語 한국어 हिन्दी ไทย", "x = 12345.67; ##ing ▁ <0x41> [MASK]</s>",
)  # fmt: skip


def files_of(transformers, folder, module, tokenizer):
    """(the attachments by name, warnings)."""
    files, warnings, given = {}, [], tokenizer
    if folder is not None:
        files = _read_files(folder)
        tokenizer = _tokenizer_of(transformers, folder)
    if tokenizer is not None and "tokenizer.json" not in files:  # transformers makes one of older formats, such as tokenizer.model
        with tempfile.TemporaryDirectory() as made:
            tokenizer.save_pretrained(made)
            files = {**_read_files(made), **files}
    if "tokenizer.json" not in files:
        warnings.append("there is no tokenizer: the file generates token ids")
    elif given is None and tokenizer is not None:
        _complete_special_tokens(files, tokenizer)
        warnings += _compare(files, tokenizer)
    files.setdefault("config.json", module.config.to_json_string(use_diff=False).encode())
    config = getattr(module, "generation_config", None)
    if config is not None:
        files.setdefault("generation_config.json", config.to_json_string().encode())
    _take_chat_template(files)
    return {name: files[name] for name in _FILES if name in files}, warnings


def _read_files(folder):
    files = {}
    for name in _FILES:
        if os.path.isfile(os.path.join(folder, name)):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
    return files


def _tokenizer_of(transformers, folder):
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception:  # a folder without a tokenizer fails in many ways
        return None
    # Without any of its files, some classes make a tokenizer that knows no words.
    names = {"tokenizer.json", *tokenizer.vocab_files_names.values()}
    return tokenizer if any(os.path.isfile(os.path.join(folder, name)) for name in names) else None


def _compare(files, tokenizer):
    """A sentence if tokenizer.json gives other ids than the tokenizer, which also follows tokenizer_config.json and code of its class."""
    from tokenizers import Tokenizer

    if not isinstance(getattr(tokenizer, "backend_tokenizer", None), Tokenizer):
        return []
    try:
        made = Tokenizer.from_str(files["tokenizer.json"].decode())
        made.no_truncation()
        made.no_padding()
        added = [str(each) for each in tokenizer.added_tokens_decoder.values()][:64]
        for text in (*_TEXTS, *(f"a {token} b{token}c" for token in added)):
            if made.encode(text).ids != tokenizer(text)["input_ids"]:
                return [f"AutoTokenizer gives other ids than tokenizer.json, which the file has, for texts such as {json.dumps(text, ensure_ascii=False)}"]
    except Exception as error:  # of files of any content
        return [f"tokenizer.json cannot be compared with AutoTokenizer: {one_line(error)}"]
    return []


def _complete_special_tokens(files, tokenizer):
    """Chat templates read these tokens from tokenizer_config.json; older folders have them in special_tokens_map.json."""
    try:
        config = json.loads(files.get("tokenizer_config.json", b"{}"))
        missing = [name for name in ("bos_token", "eos_token") if config.get(name) is None]
    except (ValueError, AttributeError):
        return
    found = {name: str(token) for name in missing if (token := getattr(tokenizer, name)) is not None}
    if found:
        files["tokenizer_config.json"] = json.dumps({**config, **found}, indent=2, ensure_ascii=False).encode()


def _take_chat_template(files):
    """Older folders have the template in tokenizer_config.json."""
    if "chat_template.jinja" in files or "tokenizer_config.json" not in files:
        return
    try:
        template = json.loads(files["tokenizer_config.json"]).get("chat_template")
    except (ValueError, AttributeError):
        return
    if isinstance(template, list):
        template = next((each.get("template") for each in template if each.get("name") == "default"), None)
    if isinstance(template, str):
        files["chat_template.jinja"] = template.encode()
