#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer.json that hg-convert makes of GGUF files against the package `tokenizers` and SentencePiece, and damaged files.

usage: gguf_text BIN WORK [--count N] [--seed S]
Trains a small tokenizer of each kind, writes its fields as GGUF files have them, and compares the ids of COUNT random texts. Exits with 77
if Python has no numpy or no tokenizers.
"""
import argparse, json, pathlib, random, subprocess, sys

HERE = pathlib.Path(__file__).parent
sys.path += [str(HERE.parent / "gguf"), str(HERE.parent.parent / "text")]
try:
    import numpy as np
    from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models, normalizers as N, pre_tokenizers as P, trainers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import sentencepiece
except ImportError:
    sentencepiece = None

import container
import decoder
from compare import WORDS, broken, text

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
NEMO = (rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+")


def words(split, after=()):
    """Returns pre-tokenizers before and after a byte level that splits words."""
    return P.Sequence([*split, P.ByteLevel(add_prefix_space=False), *after])


def isolated(*patterns):
    return P.Sequence([P.Split(Regex(p), "isolated") for p in patterns] + [P.ByteLevel(add_prefix_space=False, use_regex=False)])


# As in the original tokenizers: pre-tokenizer, normalizer, whether whole words need no merges, and whether <s> is added
# at the start.
KINDS = {
    "gpt-2": (words([]), None, False, False),
    "llama-bpe": (isolated(LLAMA3), None, True, True),
    "dbrx": (isolated(LLAMA3), None, False, False),
    "qwen2": (isolated(LLAMA3.replace("{1,3}", "")), N.NFC(), False, False),
    "tekken": (isolated(NEMO), None, True, True),
    "smollm": (words([P.Digits(True)]), None, False, False),
    "starcoder": (words([P.Digits(True)]), None, False, False),
    "command-r": (words([P.Digits(True)]), N.NFC(), False, False),
    "falcon": (words([P.Punctuation("contiguous")], [P.Digits(False), P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]), None, False, False),
    "deepseek-coder": (P.Sequence([P.Split(Regex(p), "isolated") for p in (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")] + [
        P.Digits(True), P.ByteLevel(add_prefix_space=False, use_regex=False)]), None, False, False),
}


def fields(**more):
    return {f"tokenizer.ggml.{name}": value for name, value in more.items()}


def byte_level(draw, pre):
    """Returns the original tokenizer, and the fields of the file."""
    splits, normalizer, whole, adds = KINDS[pre]
    made = Tokenizer(models.BPE(ignore_merges=whole))
    if normalizer:
        made.normalizer = normalizer
    made.pre_tokenizer = splits
    made.decoder = D.ByteLevel()
    corpus = [text(draw) for _ in range(300)] + [" ".join(draw.choices(WORDS, k=20)) for _ in range(100)]
    special = ["<s>", "</s>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=draw.randint(300, 640), special_tokens=special, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False)
    made.train_from_iterator(corpus, trainer)
    made.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("  ", normalized=False)])
    model = json.loads(made.to_str())["model"]
    tokens = [made.id_to_token(i) for i in range(made.get_vocab_size())]
    called_normal = ["<|im_end|>"] if draw.random() < 0.5 else []  # by mistake, as some files do
    kinds = [CONTROL if t in special and t not in called_normal else USER_DEFINED if t in ("<tool>", "  ") else NORMAL for t in tokens]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    file = fields(model="gpt2", pre=pre, tokens=tokens, token_type=kinds, merges=merges or [""], bos_token_id=0, eos_token_id=1, eot_token_id=2)
    if not merges:
        del file["tokenizer.ggml.merges"]
    adds_bos = adds
    if draw.random() < 0.5:
        adds_bos = file["tokenizer.ggml.add_bos_token"] = draw.random() < 0.5
    adds_eos = file["tokenizer.ggml.add_eos_token"] = draw.random() < 0.3
    return (lambda t: [0] * adds_bos + made.encode(t, add_special_tokens=False).ids + [1] * adds_eos), file


class Scores:
    """SentencePiece's byte-pair algorithm: repeatedly joins the leftmost neighbors with the best score."""

    def __init__(self, draw):
        letters = draw.sample("abcde▁日é", draw.randint(2, 6)) + ["▁"]
        pieces = list(dict.fromkeys(letters))
        while len(pieces) < draw.randint(10, 60):
            joined = draw.choice(pieces) + draw.choice(pieces)
            if joined not in pieces and len(joined) <= 16:
                pieces.append(joined)
        multiple = [p for p in pieces if len(p) > 1]
        draw.shuffle(multiple)
        self.score = {p: -float(i) for i, p in enumerate(multiple)} | {p: -1000.0 for p in pieces if len(p) == 1}
        for run in [p for p in multiple if set(p) == {"▁"}]:
            self.score[run] = -1e9  # as in Llama's vocabulary for runs of spaces
        self.tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + pieces
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.letters = letters
        self.prefix = draw.random() < 0.5

    def encode(self, t):
        parts = list(((" " if self.prefix and t else "") + t).replace(" ", "▁"))
        while True:
            best = max(((self.score[a + b], -i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in self.score), default=None)
            if best is None:
                break
            at = -best[1]
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        out = [1]
        for part in parts:
            out += [self.ids[part]] if part in self.ids else [3 + b for b in part.encode()]
        return out

    def file(self):
        kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
        # Some files call runs of spaces user-defined.
        kinds += [USER_DEFINED if len(t) > 1 and set(t) == {"▁"} and self.prefix else NORMAL for t in self.tokens[259:]]
        return fields(model="llama", pre="default", tokens=self.tokens, token_type=kinds, scores=[self.score.get(t, 0.0) for t in self.tokens],
                      bos_token_id=1, eos_token_id=2, unknown_token_id=0, add_space_prefix=self.prefix)

    def text(self, draw):
        return "".join(draw.choice([*self.letters, " ", "  ", "    ", "z"]) for _ in range(draw.randint(0, 24))).replace("▁", " ")


def sentence_piece(draw, work):
    corpus = work / "corpus.txt"
    corpus.write_text("\n".join(" ".join(draw.choices(WORDS, k=12)).replace("\n", " ") for _ in range(400)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(work / "spm"), model_type="bpe", vocab_size=draw.randint(480, 560), byte_fallback=True, minloglevel=2,
        normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98, hard_vocab_limit=False)
    made = sentencepiece.SentencePieceProcessor(model_file=str(work / "spm.model"))
    count = made.get_piece_size()
    kinds = [UNKNOWN if made.is_unknown(i) else CONTROL if made.is_control(i) else BYTE if made.is_byte(i) else NORMAL for i in range(count)]
    return (lambda t: [made.bos_id()] + made.encode(t)), fields(
        model="llama", tokens=[made.id_to_piece(i) for i in range(count)], token_type=kinds, scores=[made.get_score(i) for i in range(count)],
        bos_token_id=1, eos_token_id=2, unknown_token_id=0)


def convert(bin, work, file, more=None, chat=None):
    """Returns the finished process, and the attached files by name."""
    decoder.VOCABULARY = len(file.get("tokenizer.ggml.tokens", [])) or 61
    small = decoder.Decoder(np.random.default_rng(7), "llama")
    metadata = small.metadata() | file | (more or {})
    if chat:
        metadata["tokenizer.chat_template"] = chat
    path, out = work / "model.gguf", work / "model.hgm"
    path.write_bytes(container.container(metadata, small.tensors))
    out.unlink(missing_ok=True)
    done = subprocess.run([bin / "hg-convert", path, "-o", out, "--no-check"], capture_output=True, text=True, errors="replace")
    files = {}
    if done.returncode == 0:
        data = out.read_bytes()
        at = data.find(b'{"version": "1.0", "truncation": null')
        if at >= 0:
            files["tokenizer.json"] = json.JSONDecoder().raw_decode(data[at:].decode("utf-8", "replace"))[0]
        at = data.find(b'{"bos_token_id": ')
        if at >= 0:
            files["generation_config.json"] = json.JSONDecoder().raw_decode(data[at:].decode("utf-8", "replace"))[0]
        if chat and chat.encode() in data:
            files["chat_template.jinja"] = chat
    return done, files


def compared(bin, work, texts, encode, file):
    done, files = convert(bin, work, file, chat="{{ messages }} é")
    if done.returncode or "tokenizer.json" not in files:
        return f"exit code {done.returncode}: {done.stderr.strip()[:500]}"
    if "chat_template.jinja" not in files:
        return "the chat template is missing"
    ends = [file[f"tokenizer.ggml.{n}_token_id"] for n in ("eos", "eot") if f"tokenizer.ggml.{n}_token_id" in file]
    if files.get("generation_config.json", {}).get("eos_token_id") != ends:
        return f"generation_config.json: {files.get('generation_config.json')}"
    path = work / "tokenizer.json"
    path.write_text(json.dumps(files["tokenizer.json"]), encoding="utf-8")
    made = Tokenizer.from_file(str(path))
    for t in texts:
        if made.encode(t).ids != encode(t):
            return f"{t!r}: {made.encode(t).ids} instead of {encode(t)}"
    answers = bin / "text_answers"
    if answers.exists():
        lines = "".join(f"e {t.encode().hex()}\n" for t in texts)
        ran = subprocess.run([answers, path], input=lines, capture_output=True, text=True)
        for t, line in zip(texts, ran.stdout.splitlines()):
            if [int(i) for i in line.split("|")[0].split()] != encode(t):
                return f"{t!r}: text_answers: {line}"
    return ""


# Tokens of a vocabulary, the ids that the file names, and the ids that end an answer.
ENDS = [
    (["a", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"], {"eos": 2}, [2, 1, 3]),
    (["<|im_end|>", "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|fim_repo|>"], {"eos": 0}, [0, 1, 2, 5, 4]),
    (["a", "b", "<PAD>", "<fim_pad>", "c"], {"eos": 0, "fim_pad": 4}, [0, 4]),
    (["<|return|>", "<|call|>", "<|end|>", "a"], {"eos": 0}, [0, 1]),
    (["<|flush|>", "<|calls|>", "<|end|>"], {"eos": 2}, [0, 1]),
    (["<|call|>", "<|end|>"], {"eos": 0}, [0, 1]),
    (["</s>", "<|tool_response>", "<eos>"], {"eos": 2}, [2, 1]),
    (["a", "<end_of_turn>", "<eos>", "</s>"], {"eos": 2, "eot": 0, "eom": 0}, [2, 0, 1, 3]),
]


def ended(bin, work):
    """Yields what is wrong with the ends of answers in a vocabulary."""
    for tokens, named, want in ENDS:
        file = fields(model="gpt2", tokens=tokens, bos_token_id=0, **{f"{name}_token_id": i for name, i in named.items()})
        done, files = convert(bin, work, file)
        got = files.get("generation_config.json", {}).get("eos_token_id")
        yield "" if got == want else f"{tokens} with {named} end at {got}, expected {want}: {done.stderr.strip()[-300:]}"
    done, files = convert(bin, work, fields(model="llama", tokens=["<unk>", "<s>", "a", "b"]))
    got = files.get("generation_config.json")
    yield "" if got == {"bos_token_id": 1, "eos_token_id": [2]} else f"SentencePiece's ids are {got}: {done.stderr.strip()[-300:]}"


def rejected(draw):
    """Yields (what, fields, exit code, phrase)."""
    _, plain = byte_level(draw, "gpt-2")
    key = "tokenizer.ggml."
    tokens, count = plain[key + "tokens"], len(plain[key + "tokens"])
    yield "no tokens", {key + "model": "gpt2"}, 2, "'tokenizer.ggml.tokens' is missing"
    yield "twice", plain | {key + "tokens": tokens[:-1] + [tokens[0]]}, 2, f"the tokens 0 and {count - 1} are both '<s>'"
    yield "kinds", plain | {key + "token_type": [1, 1]}, 2, f"it has {count} tokens, but 'tokenizer.ggml.token_type' has 2 values"
    yield "a kind", plain | {key + "token_type": [9] * count}, 2, "the token 0 has the type 9"
    yield "texts as kinds", plain | {key + "token_type": ["a"] * count}, 2, "is an array of another type"
    yield "bos", plain | {key + "bos_token_id": count}, 2, f"'tokenizer.ggml.bos_token_id' is {count}, but it has {count} tokens"
    yield "merge of one", plain | {key + "merges": ["ab"]}, 2, "the merge 0 'ab' does not have two parts"
    yield "merge of none", plain | {key + "merges": ["zq qz"]}, 2, "the merge 0 'zq qz' does not join two tokens into a third"
    yield "no merges", {k: v for k, v in plain.items() if not k.endswith("merges")}, 2, "'tokenizer.ggml.merges' is missing"
    yield "pre", plain | {key + "pre": "new-kind"}, 0, "its pre-tokenizer 'new-kind' is not supported"
    yield "no pre", {k: v for k, v in plain.items() if not k.endswith("pre")}, 0, "it does not name its pre-tokenizer"
    yield "model", plain | {key + "model": "t5"}, 0, "its tokenizer 't5' is not supported"
    yield "nothing", {}, 0, "the file has no tokenizer"
    for name in "none", "no_vocab":
        yield name, {key + "model": name}, 0, "the file has no tokenizer"
    scores = Scores(draw).file()
    yield "no scores", {k: v for k, v in scores.items() if not k.endswith("scores")}, 0, "it has no scores"
    yield "few scores", scores | {key + "scores": [0.0]}, 2, "'tokenizer.ggml.scores' has 1 values"
    tied = fields(model="llama", tokens=["<unk>", "a", "b", "ab", "ba"], token_type=[2, 1, 1, 1, 1], scores=[0.0, 0.0, 0.0, -1.0, -1.0])
    yield "ties", tied, 0, "its tokens 3 'ab' and 4 'ba' have the same score"
    yield "a character", tied | {key + "tokens": ["<unk>", "a", "b", "ac", "ab"]}, 0, "has the character 'c', which is not a token"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    job = parser.parse_args()
    job.work.mkdir(parents=True, exist_ok=True)
    wrong = 0

    def report(what, reason):
        nonlocal wrong
        wrong += bool(reason)
        if reason:
            print(f"{what} (--seed {job.seed}): {reason}", flush=True)

    for pre in KINDS:
        draw = random.Random(f"{job.seed}.{pre}")
        encode, file = byte_level(draw, pre)
        texts = [text(draw) for _ in range(job.count)]
        texts += [broken(draw, t.encode()).decode("utf-8", "replace") for t in texts[: job.count // 4]] + ["", "<s>a</s><tool>  b<|im_end|>"]
        report(pre, compared(job.bin, job.work, texts, encode, file))
    for i in range(4):
        draw = random.Random(f"{job.seed}.scores.{i}")
        scores = Scores(draw)
        report(f"scores {i}", compared(job.bin, job.work, [scores.text(draw) for _ in range(job.count)], scores.encode, scores.file()))
    if sentencepiece:
        draw = random.Random(f"{job.seed}.sentencepiece")
        encode, file = sentence_piece(draw, job.work)
        texts = [t for t in (text(draw) for _ in range(job.count)) if "<" not in t and "\0" not in t]
        report("sentencepiece", compared(job.bin, job.work, texts, encode, file))
    for reason in ended(job.bin, job.work):
        report("ends", reason)
    draw = random.Random(job.seed)
    for what, file, code, phrase in rejected(draw):
        done, files = convert(job.bin, job.work, file)
        if done.returncode != code or phrase not in done.stderr + done.stdout or "tokenizer.json" in files:
            report(what, f"exit code {done.returncode}, expected {code} and '{phrase}': {done.stdout.strip()[-500:]} {done.stderr.strip()}")
    print(f"{len(KINDS) + 5} tokenizers, {wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
