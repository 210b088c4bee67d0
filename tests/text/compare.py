#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py PROGRAM WORK [--count 200] [--seed 1] [--kind N]: compares libhologram_text with the package `tokenizers`.

Trains a small tokenizer of each kind, and compares ids, texts and streams for COUNT random texts and COUNT random lists of ids with those
of PROGRAM (text_answers). Exit status 77: the package is not installed."""
import argparse
import pathlib
import random
import subprocess
import sys

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models, normalizers as N, pre_tokenizers as P, processors, trainers
except ImportError:
    print("tokenizers is not installed")
    sys.exit(77)
try:
    import sentencepiece
except ImportError:
    sentencepiece = None

RANGES = [(32, 126)] * 4 + [
    (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x3040, 0x30FF),
    (0x4E00, 0x5200), (0xAC00, 0xAD00), (0x1F600, 0x1F64F), (0x1F1E6, 0x1F1FF), (0x300, 0x36F), (0x2000, 0x206F), (0, 31), (0xFF00, 0xFFEF),
    (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0xE000, 0xE010), (0x10FFF0, 0x10FFFF), (0x2F800, 0x2FA1F), (0xFE00, 0xFE0F), (0x13A0, 0x13FF)]
WORDS = ("aaaaaaa ------ hahahaha "
         "the quick brown fox don't we'll 123 4567 [X] [X]Y <s> </s> hello  world \n\t a b Été İstanbul ß ſ ﬁ 👩‍👩‍👧 Σς .,!? n't "
         "Hello▁World <0x41> ##ing ½ Ⅷ x² ① 한국어 日本語 カー ไทย हिन्दी").split(" ")


def text(draw):
    out = ""
    for _ in range(draw.choice([0, 1, 2, 3, 8, 20])):
        if draw.random() < 0.5:
            out += draw.choice(WORDS) + draw.choice([" ", "", " ", "  ", "\n\n"])
        else:
            first, last = draw.choice(RANGES)
            out += "".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 4)))
    return out


def broken(draw, data):
    """The bytes of a text, some of them damaged."""
    data = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        if data and draw.random() < 0.5:
            data[draw.randrange(len(data))] = draw.randrange(256)
        elif data and draw.random() < 0.5:
            del data[draw.randrange(len(data))]
        else:
            data.insert(draw.randint(0, len(data)), draw.choice([0x80, 0xC0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF]))
    return bytes(data)


BYTES = [f"<0x{i:02X}>" for i in range(256)]


def untrained(model):
    """The model and its trainer."""
    common = {"show_progress": False}
    special = ["<unk>", "<s>", "</s>"]
    if model == "bpe":
        return models.BPE(unk_token="<unk>"), trainers.BpeTrainer(vocab_size=600, special_tokens=special, **common)
    if model == "bpe_affixes":
        return (models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"),
                trainers.BpeTrainer(vocab_size=600, special_tokens=special, continuing_subword_prefix="##", end_of_word_suffix="</w>", **common))
    if model == "bpe_bytes":
        return (models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True),
                trainers.BpeTrainer(vocab_size=700, special_tokens=special + BYTES, limit_alphabet=80, **common))
    if model == "bpe_no_unknown":
        return models.BPE(), trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "</s>"], limit_alphabet=60, **common)
    if model in ("byte_level", "byte_level_whole"):
        return (models.BPE(ignore_merges=model.endswith("whole")),
                trainers.BpeTrainer(vocab_size=700, special_tokens=["<s>", "</s>"], initial_alphabet=P.ByteLevel.alphabet(), **common))
    if model == "unigram":
        return models.Unigram(), trainers.UnigramTrainer(vocab_size=8000, special_tokens=special, unk_token="<unk>", **common)
    if model == "unigram_bytes":
        entries = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)] + [(b, -12.0) for b in BYTES]
        entries += [(w, -3.0 - len(w) % 5) for w in dict.fromkeys("▁ ▁the th he e t h l o ▁w or ld 本 日本 a b ab".split() + list("cdfgijk"))]
        return models.Unigram(entries, 0, True), None
    if model == "word_piece":
        return models.WordPiece(unk_token="<unk>"), trainers.WordPieceTrainer(vocab_size=600, special_tokens=special, limit_alphabet=200, **common)
    return models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=300, special_tokens=special, **common)


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA2 = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])


def byte_level(split=True, space=False):
    return P.ByteLevel(add_prefix_space=space, use_regex=split)


# Model, normalizer, pre-tokenizer, decoder.
KINDS = [
    ("byte_level", None, byte_level(), D.ByteLevel()),
    ("byte_level", N.NFC(), byte_level(space=True), D.ByteLevel()),
    ("byte_level_whole", None, P.Sequence([P.Split(Regex(LLAMA3), "isolated"), byte_level(False)]), D.ByteLevel()),
    ("byte_level", None, P.Sequence([P.Digits(True), byte_level()]), D.ByteLevel()),
    ("byte_level", N.ByteLevel(), P.Split(Regex(r"\w+"), "isolated"), D.ByteLevel()),
    ("bpe_bytes", N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None, LLAMA2),
    ("bpe_bytes", N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"), D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()])),
    ("bpe", N.Lowercase(), P.Whitespace(), D.BPEDecoder()),
    ("bpe_affixes", N.Lowercase(), P.Whitespace(), D.BPEDecoder()),
    ("bpe_no_unknown", N.Replace(Regex(r"\s+"), " "), P.FixedLength(5), D.Fuse()),
    ("bpe", N.NFKD(), P.Punctuation(), None),
    ("bpe", N.Nmt(), P.UnicodeScripts(), None),
    ("bpe", N.StripAccents(), P.WhitespaceSplit(), None),
    ("bpe", N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents()]), P.Punctuation("contiguous"), D.WordPiece()),
    ("bpe", N.Strip(), P.Metaspace(prepend_scheme="first"), D.Metaspace(prepend_scheme="first")),
    ("bpe", N.Strip(left=True, right=False), P.Metaspace(prepend_scheme="never", split=False), D.Metaspace(prepend_scheme="never")),
    ("unigram", N.NFKC(), P.Metaspace(), D.Metaspace()),
    ("unigram", "charsmap", P.Metaspace(), D.Metaspace()),
    ("unigram_bytes", None, P.Metaspace(), D.Sequence([D.ByteFallback(), D.Metaspace()])),
    ("unigram", N.NFD(), P.Sequence([P.WhitespaceSplit(), P.Digits(False)]), None),
    ("word_piece", N.BertNormalizer(), P.BertPreTokenizer(), D.WordPiece()),
    ("word_piece", N.BertNormalizer(lowercase=False), P.BertPreTokenizer(), D.WordPiece(cleanup=False)),
    ("word_piece", N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True), P.BertPreTokenizer(), D.WordPiece()),
    ("word_level", None, P.CharDelimiterSplit(" "), None),
    ("bpe", None, P.Split("e", "merged_with_previous"), D.CTC()),
    ("bpe", None, P.Split(Regex("[aeiou]+"), "removed", True), D.Sequence([D.Fuse(), D.Replace(Regex("e+"), "E")])),
    ("bpe", None, P.Split(" ", "merged_with_next"), D.Strip("e", 0, 1)),
    ("bpe", None, P.Split(Regex(r"\s"), "contiguous"), None),
]


def charsmap(work, corpus):
    """The rules nmt_nfkc of SentencePiece."""
    (work / "corpus.txt").write_text("\n".join(t.replace("\n", " ").replace("\0", "") for t in corpus))
    sentencepiece.SentencePieceTrainer.train(input=str(work / "corpus.txt"), model_prefix=str(work / "sp"), vocab_size=8000,
                                             model_type="unigram", hard_vocab_limit=False, minloglevel=2)
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((work / "sp.model").read_bytes())
    return N.Precompiled(proto.normalizer_spec.precompiled_charsmap)


def trained(kind, draw, corpus, work):
    model, normalizer, splitter, decoder = kind
    model, trainer = untrained(model)
    tokenizer = Tokenizer(model)
    if normalizer == "charsmap":
        normalizer = charsmap(work, corpus)
    if normalizer:
        tokenizer.normalizer = normalizer
    if splitter:
        tokenizer.pre_tokenizer = splitter
    if trainer:
        tokenizer.train_from_iterator(corpus, trainer)
    if decoder:
        tokenizer.decoder = decoder
    chance = lambda: draw.random() < 0.4
    for content in ("[X]", "[X]Y", "hello", "</s>"):
        added = AddedToken(content, lstrip=chance(), rstrip=chance(), normalized=chance(), single_word=chance())
        (tokenizer.add_special_tokens if content == "</s>" or chance() else tokenizer.add_tokens)([added])
    # Spaces that the token before may take with rstrip. The package panics if such a token has lstrip, or is normalized to nothing.
    tokenizer.add_tokens([AddedToken("\n\n", rstrip=chance(), normalized=False)])
    first, last = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
    template = processors.TemplateProcessing(single="<s> $A </s>:1", special_tokens=[("<s>", first), ("</s>", last)])
    tokenizer.post_processor = draw.choice([
        template, processors.BertProcessing(("</s>", last), ("<s>", first)), processors.RobertaProcessing(("</s>", last), ("<s>", first)),
        processors.Sequence([processors.ByteLevel(), template])])
    return tokenizer


def attempt(f):
    try:
        return f()
    except Exception:  # what the package raises
        return None


def expected_ids(tokenizer, data):
    content = data.decode(errors="replace")
    every = []
    for special, plain in ((True, False), (False, False), (False, True)):
        tokenizer.encode_special_tokens = plain
        ids = attempt(lambda: tokenizer.encode(content, add_special_tokens=special).ids)
        every.append("error" if ids is None else " ".join(map(str, ids)))
    tokenizer.encode_special_tokens = False
    return "|".join(every)


def expected_texts(tokenizer, ids):
    every = [tokenizer.decode(ids, skip_special_tokens=skip).encode().hex() for skip in (True, False)]
    return "|".join(every * 2)


def compare(kind, program, work, count, draw):
    corpus = [text(draw) for _ in range(1500)]
    tokenizer = trained(kind, draw, corpus, work)
    path = work / "tokenizer.json"
    tokenizer.save(str(path))
    tokenizer = Tokenizer.from_file(str(path))  # the package reads some scores with an error of an ulp
    lines, expected = [], []
    for i in range(count):
        data = text(draw).encode()
        if i % 5 == 4:
            data = broken(draw, data)
        lines.append("e " + data.hex())
        expected.append(expected_ids(tokenizer, data))
        ids = [draw.randrange(tokenizer.get_vocab_size()) for _ in range(draw.choice([0, 1, 2, 5, 60]))]
        if i % 2:
            ids = [int(word) for word in expected[-1].split("|")[0].split() if word != "error"]
        lines.append(" ".join(["d", *map(str, ids)]))
        expected.append(expected_texts(tokenizer, ids))
    done = subprocess.run([program, path], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode:
        return [f"exit status {done.returncode}: {done.stderr.strip()}"]
    got = done.stdout.split("\n")[:-1]
    if len(got) != len(expected):
        return [f"{len(got)} answers of {len(expected)}"]
    return [f"{line}\n  expected {want}\n  got      {have}" for line, want, have in zip(lines, expected, got) if want != have]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", type=int)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    failed = 0
    for number, kind in enumerate(KINDS):
        if given.kind not in (None, number) or (kind[1] == "charsmap" and sentencepiece is None):
            continue
        errors = compare(kind, given.program, given.work, given.count, random.Random(f"{given.seed} {number}"))
        name = " ".join(part if isinstance(part, str) else type(part).__name__ for part in kind)
        print(f"{number} {name}: {len(errors)} of {2 * given.count} differ", flush=True)
        for error in errors[:3]:
            print(" ", error)
        failed += bool(errors)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
