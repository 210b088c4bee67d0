#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_grammars.py --generate PROGRAM --make-model PROGRAM --work DIR [--count N] [--seed S]: texts that hg-generate writes with random
grammars are accepted by a second implementation, a search over the grammar's tree, and texts that are cut begin such a text."""
import argparse
import json
import random
import subprocess
from pathlib import Path

LETTERS = "abcé€😀"


def byte_level_tokenizer():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    of = {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}
    pieces = [of[b] for b in range(256)] + ["ab", "abc", of[0xC3] + of[0xA9], of[0xE2] + of[0x82]]
    merges = [["a", "b"], ["ab", "c"], [of[0xC3], of[0xA9]], [of[0xE2], of[0x82]]]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    end = {"id": len(pieces), "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
             "byte_fallback": False, "vocab": {p: i for i, p in enumerate(pieces)}, "merges": merges}  # fmt: skip
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None, "pre_tokenizer": level,
            "post_processor": None, "decoder": level, "model": model}  # fmt: skip


# Trees: ("text", str), ("set", negated, str), ("rule", name), ("all", [tree]), ("one", [tree]), ("repeat", tree, least, most).


def random_tree(depth, rules, later):
    """`later`: rules that may stand anywhere; the others only behind a character."""
    kind = random.choice(["text", "set", "text", "rule", "all", "one", "repeat"] if depth > 0 else ["text", "set"])
    if kind == "rule":
        if later and random.random() < 0.6:
            return ("rule", random.choice(later))
        return ("all", [("text", random.choice(LETTERS)), ("rule", random.choice(rules))])
    if kind == "text":
        return ("text", "".join(random.choices(LETTERS, k=random.randint(1, 3))))
    if kind == "set":
        return ("set", random.random() < 0.2, "".join(random.sample(LETTERS, random.randint(1, 3))))
    if kind == "repeat":
        inner = ("all", [("text", random.choice(LETTERS)), random_tree(depth - 1, rules, later)])
        least = random.randint(0, 2)
        return ("repeat", inner, least, random.choice([None, least + random.randint(0, 2)]))
    return (kind, [random_tree(depth - 1, rules, later) for _ in range(random.randint(1, 3))] + ([("text", "")] if kind == "one" and random.random() < 0.3 else []))


def written(tree):
    kind = tree[0]
    if kind == "text":
        return json.dumps(tree[1], ensure_ascii=False)
    if kind == "set":
        return f"[{'^' if tree[1] else ''}{tree[2]}]"
    if kind == "rule":
        return tree[1]
    if kind == "all":
        return "(" + " ".join(map(written, tree[1])) + ")"
    if kind == "one":
        return "(" + " | ".join(map(written, tree[1])) + ")"
    _, inner, least, most = tree
    marks = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    return written(inner) + marks.get((least, most), f"{{{least},{'' if most is None else most}}}")


class Reader:
    """Where the texts of a tree that begin at a position end. `cut`: some text goes on behind the end of the input."""

    def __init__(self, rules, text):
        self.rules, self.text, self.known, self.cut = rules, text, {}, False

    def ends(self, tree, at):
        key = (id(tree), at)
        if key not in self.known:
            self.known[key] = frozenset()
            self.known[key] = frozenset(self.found(tree, at))
        return self.known[key]

    def found(self, tree, at):
        kind, text = tree[0], self.text
        if kind == "text":
            if text.startswith(tree[1], at):
                return {at + len(tree[1])}
            self.cut |= tree[1].startswith(text[at:])
            return set()
        if kind == "set":
            self.cut |= at == len(text)
            return {at + 1} if at < len(text) and (text[at] in tree[2]) != tree[1] else set()
        if kind == "rule":
            return self.ends(self.rules[tree[1]], at)
        if kind == "one":
            return set().union(*(self.ends(each, at) for each in tree[1]))
        if kind == "all":
            here = {at}
            for each in tree[1]:
                here = set().union(*(self.ends(each, i) for i in here))
            return here
        _, inner, least, most = tree
        here, out, count = {at}, set(), 0
        while here and (most is None or count <= most):
            if count >= least:
                out |= here
            here = set().union(*(self.ends(inner, i) for i in here))  # an item has at least a character
            count += 1
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generate", required=True)
    parser.add_argument("--make-model", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)
    vocabulary = byte_level_tokenizer()
    words = len(vocabulary["model"]["vocab"]) + 1
    files = [args.work / "tokenizer.json", args.work / "generation_config.json"]
    files[0].write_text(json.dumps(vocabulary))
    files[1].write_text(json.dumps({"eos_token_id": words - 1}))
    model, path = args.work / "random.hgm", args.work / "grammar.gbnf"
    subprocess.run([args.make_model, "random", str(words), model, *files], check=True)
    whole = cut = never = 0
    for number in range(args.count):
        names = [f"rule{i}" for i in range(random.randint(1, 4))]
        rules = {name: random_tree(3, names, names[i + 1 :]) for i, name in enumerate(names)}
        lines = [f"{name} ::= {written(tree)}" for name, tree in rules.items()]
        path.write_text("\n".join([f"root ::= {names[0]} # grammar {number}", *lines]), encoding="utf-8")
        command = [args.generate, model, "--ids=1,2", "--num-return-sequences=6", f"--grammar={path}", "--temperature=1", f"--seed={number}",
                   "--max-tokens=40", "--json"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            assert "no text of the rule 'root' ends" in done.stderr, (done.stderr, path.read_text())
            never += 1
            continue
        for answer in json.loads(done.stdout):
            text = answer["text"].rstrip("\ufffd") if answer["finish"] == "length" else answer["text"]
            reader = Reader(rules, text)
            ends = reader.ends(rules[names[0]], 0)
            if answer["finish"] == "stop":
                whole += 1
                assert len(text) in ends, (text, path.read_text())
            else:
                cut += 1
                assert reader.cut or len(text) in ends, (text, path.read_text())
    assert whole > args.count, (whole, cut, never)
    print(f"{args.count} grammars: {whole} whole texts, {cut} that were cut, {never} grammars without a text")


if __name__ == "__main__":
    main()
