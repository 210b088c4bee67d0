#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random GGUF decoders of every architecture and block type against f64 in numpy, and files that must be rejected.

usage: gguf BIN WORK [--count N] [--seed S]
A prompt with padding on the left and then single tokens run with the cache; the answers have none. hg-generate continues prompts of
several lengths. Each architecture comes up once in every 12 cases. Exits with 77 if Python has no numpy.
"""
import argparse, pathlib, shutil, subprocess, sys

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import container
from decoder import KINDS, VOCABULARY, Decoder

TOLERANCE = 2e-4  # of the largest logit: f32 through three layers


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace")


def convert(bin, work, data, *options):
    path, out = work / "model.gguf", work / "model.hgm"
    path.write_bytes(data)
    out.unlink(missing_ok=True)
    return run(bin / "hg-convert", path, "-o", out, *options)


def outputs(bin, work, feeds):
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [bin / "hg-run", work / "model.hgm", "--output-dir", out]
    for name, array in feeds.items():
        np.save(work / f"{name}.npy", array)
        command += ["--input", f"{name}={work / name}.npy"]
    done = run(*command)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return {path.stem: np.load(path) for path in out.glob("*.npy") if not path.stem.startswith("output_")}


def compared(bin, work, rng, architecture):
    """Returns '' if the converted decoder's logits and tokens equal numpy's, otherwise what is wrong."""
    decoder = Decoder(rng, architecture)
    version = int(rng.choice([2, 3]))
    done = convert(bin, work, container.container(decoder.metadata(), decoder.tensors, version))
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    batch, prompt, steps = int(rng.integers(1, 4)), int(rng.choice([1, 2, 7, 19])), 3
    ids = rng.integers(0, VOCABULARY, (batch, prompt + steps))
    seen = np.ones(ids.shape, np.int64)
    for row in seen[1:]:
        row[: rng.integers(0, prompt)] = 0
    positions = np.maximum(seen.cumsum(1) - 1, 0)
    want = decoder.logits(ids, seen, positions)
    got, past = [], {}
    for i in range(decoder.layers):
        for part in ("key", "value"):
            past[f"past_key_values.{i}.{part}"] = np.zeros((batch, decoder.kv_heads, 0, decoder.dim), np.float32)
    ends = [prompt + i for i in range(steps + 1)]
    for begin, end in zip([0] + ends, ends):
        feeds = {"input_ids": ids[:, begin:end], "attention_mask": seen[:, :end], "position_ids": positions[:, begin:end]}
        answer = outputs(bin, work, feeds | past)
        got.append(answer["logits"])
        past = {"past_key_values" + name[len("present") :]: array for name, array in answer.items() if name != "logits"}
    got = np.concatenate(got, 1)
    if got.shape != want.shape:
        return f"logits of shape {got.shape}, expected {want.shape}"
    worst = np.abs(got - want)[seen != 0].max()
    limit = TOLERANCE * max(1, np.abs(want).max())
    # A choice between experts that depends on rounding proves nothing.
    if not decoder.close and worst > limit:
        return f"a logit differs by {worst:.3g}, more than {limit:.3g}"
    return continued(bin, work, rng, decoder)


def continued(bin, work, rng, decoder):
    """Returns '' if hg-generate continues prompts of several lengths with numpy's most likely tokens."""
    lengths = rng.choice([1, 2, 7, 19], rng.integers(1, 4))
    prompts = [rng.integers(0, VOCABULARY, length).tolist() for length in lengths]
    options = [word for prompt in prompts for word in ("--ids", ",".join(map(str, prompt)))]
    done = run(bin / "hg-generate", work / "model.hgm", "--max-tokens", 8, *options)
    if done.returncode:
        return f"hg-generate: exit code {done.returncode}: {done.stderr.strip()}"
    lines = done.stdout.splitlines()
    if len(lines) != len(prompts):
        return f"hg-generate: {len(lines)} lines for {len(prompts)} prompts"
    for prompt, line in zip(prompts, lines):
        new = [int(word) for word in line.split(",")]
        if len(new) != 8:
            return f"hg-generate: {len(new)} tokens instead of 8"
        ids = np.array([prompt + new])
        decoder.close = False
        logits = decoder.logits(ids, np.ones(ids.shape, np.int64), np.arange(ids.shape[1])[None])[0]
        if decoder.close:
            continue
        limit = TOLERANCE * max(1, np.abs(logits).max())
        for at, token in enumerate(new, len(prompt) - 1):
            if logits[at].max() - logits[at][token] > limit:
                return f"hg-generate: prompt {prompt}: {line}: another token than {token} has the largest logit"
    return ""


def windowed(bin, work, architecture):
    """Returns '' if only the window of sliding layers is kept beyond its room, and the tokens are numpy's."""
    rng = np.random.default_rng(3)
    decoder = Decoder(rng, architecture)
    while not decoder.window or decoder.layers < 2 or decoder.experts:
        decoder = Decoder(rng, architecture)
    done = convert(bin, work, container.container(decoder.metadata(), decoder.tensors))
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    prompt, past = rng.integers(0, VOCABULARY, 1100).tolist(), work / "past.hgm"
    past.unlink(missing_ok=True)
    words = ",".join(map(str, prompt))
    done = run(bin / "hg-generate", work / "model.hgm", "--max-tokens", 16, "--ids", words, "--prompt-cache", past)
    if done.returncode:
        return f"hg-generate: exit code {done.returncode}: {done.stderr.strip()}"
    new = [int(word) for word in done.stdout.split(",")]
    ids = np.array([prompt + new])
    logits = decoder.logits(ids, np.ones(ids.shape, np.int64), np.arange(ids.shape[1])[None])[0]
    for at, token in enumerate(new, len(prompt) - 1):
        if logits[at].max() - logits[at][token] > TOLERANCE * max(1, np.abs(logits).max()):
            return f"hg-generate: another token than {token} has the largest logit at {at}"
    # The window, and room for a run and for tokens that are taken back.
    read, kept = len(prompt) + len(new) - 1, decoder.window - 1 + 64 + 512
    slide = sum((i + 1) % decoder.kind["window"] != 0 for i in range(decoder.layers))
    most = 2 * 4 * decoder.kv_heads * decoder.dim * (slide * kept + (decoder.layers - slide) * read)
    if past.stat().st_size > most + 8192:
        return f"the past has {past.stat().st_size} bytes, expected at most {most} and a header"
    return ""


def window_by_default(bin, work, architecture, window):
    """Returns '' if a file that states no window has the logits of one that states `window`."""
    rng = np.random.default_rng(3)
    decoder = Decoder(rng, architecture)
    decoder.window, past = 0, window + 8
    feeds = {"input_ids": [[1]], "attention_mask": np.ones((1, past + 1), np.int64), "position_ids": [[past]]}
    for i in range(decoder.layers):
        for part in ("key", "value"):
            feeds[f"past_key_values.{i}.{part}"] = rng.standard_normal((1, decoder.kv_heads, past, decoder.dim)).astype(np.float32)
    logits = []
    for size in (0, window, window - 1):
        stated = {f"{architecture}.attention.sliding_window": size} if size else {}
        done = convert(bin, work, container.container(decoder.metadata() | stated, decoder.tensors), "--no-check")
        if done.returncode:
            return f"exit code {done.returncode}: {done.stderr.strip()}"
        logits.append(outputs(bin, work, feeds)["logits"])
    return "" if (logits[0] == logits[1]).all() and (logits[0] != logits[2]).any() else "other logits than with the window stated"


def parted(bin, work):
    """Yields what is wrong with the conversion of split models: '' if they equal the whole one, or are rejected."""
    metadata, tensors = small()
    out, feeds = work / "model.hgm", {"input_ids": [[1, 2]], "attention_mask": [[1, 1]], "position_ids": [[0, 1]]}
    decoder = Decoder(np.random.default_rng(7), "llama")
    for i in range(decoder.layers):
        for part in ("key", "value"):
            feeds[f"past_key_values.{i}.{part}"] = np.zeros((1, decoder.kv_heads, 0, decoder.dim), np.float32)
    convert(bin, work, container.container(metadata, tensors))
    whole = outputs(bin, work, feeds)["logits"]
    parts = container.split(metadata, tensors, 3)
    paths = [work / f"part-{i + 1:05}-of-00003.gguf" for i in range(3)]

    def attempt(options=(), first=paths[0], **changes):
        for path, data in zip(paths, parts):
            path.write_bytes(data)
        for name, data in changes.items():
            path = paths[int(name[-1])]
            path.write_bytes(data) if data else path.unlink()
        out.unlink(missing_ok=True)
        return run(bin / "hg-convert", first, "-o", out, *options)

    for options in (), ("--sandbox",):
        done = attempt(options)
        if options and done.returncode == 1:
            continue  # the system has no sandbox
        yield done.stderr.strip() if done.returncode else "" if (outputs(bin, work, feeds)["logits"] == whole).all() else "other logits"
    attempt()
    done = run(bin / "hg-convert", paths[0], "-o", paths[1])
    yield "" if done.returncode == 1 and paths[1].read_bytes() == parts[1] else f"the output may be a part: {done.stderr.strip()}"
    shutil.copy(paths[0], work / "model.gguf")
    last = container.container({"split.no": 2, "split.count": 3}, {"blk.0.attn_norm.weight": tensors["blk.0.attn_norm.weight"]})
    more = container.container({"split.no": 2, "split.count": 3}, {"new.weight": tensors["blk.0.attn_norm.weight"]})
    for phrase, done in (
        ("its name must end with '-00001-of-00003.gguf'", attempt(first=work / "model.gguf")),
        ("is part 2 of 3 of a split model; convert part 1", attempt(first=paths[1])),
        ("part-00003-of-00003.gguf: cannot be read", attempt(file2=b"")),
        ("part-00002-of-00003.gguf: the file is not part 2 of 3", attempt(file1=parts[2])),
        ("'blk.0.attn_norm.weight' is also in an earlier part", attempt(file2=last)),
        ("tensors, but its 3 parts have", attempt(file2=more)),
    ):
        is_rejected = done.returncode == 2 and phrase in done.stderr and not out.exists()
        yield "" if is_rejected else f"exit code {done.returncode}, expected 2 and '{phrase}': {done.stderr.strip()}"


def small(architecture="llama"):
    """Returns the metadata and tensors of a decoder that is always the same."""
    decoder = Decoder(np.random.default_rng(7), architecture)
    return decoder.metadata(), decoder.tensors


def leave(items, end):
    """Returns the items whose keys do not have this end."""
    kept = {key: item for key, item in items.items() if not key.endswith(end)}
    assert kept.keys() != items.keys(), end
    return kept


def rejected():
    """Yields (what, bytes, exit code, phrase of the message, options)."""
    metadata, tensors = small()
    plain = container.container(metadata, tensors)
    name = "blk.0.attn_output.weight"
    kind, shape, content = tensors[name]
    without = {k: v for k, v in tensors.items() if k != name}
    flat = container.tensor(np.random.default_rng(0), 0, shape, 1.0)[0]
    yield "no tensors", b"GGUF" + bytes(20), 3, "GGUF version 0", []
    yield "version 1", container.container(metadata, tensors, 1), 3, "GGUF version 1", []
    mamba = metadata | {"general.architecture": "mamba"}
    yield "architecture", container.container(mamba, tensors), 3, "the architecture 'mamba' is not supported", []
    yield "no architecture", container.container({"general.name": "x"}, tensors), 2, "does not state its architecture", []
    yield "setting", container.container(metadata | {"llama.new": 1}, tensors), 3, "the setting 'llama.new' is not supported", []
    yield "scaling", container.container(metadata | {"llama.rope.scaling.type": "yarn"}, tensors), 3, "'yarn'", []
    yield "kind of a setting", container.container(metadata | {"llama.block_count": "two"}, tensors), 2, "'llama.block_count' is not an integer", []
    yield "layers", container.container(metadata | {"llama.block_count": 9}, tensors), 3, "has no tensor 'blk.", []
    many = container.container(metadata | {"llama.block_count": 1 << 24}, tensors)  # must not take time or memory for each
    yield "many layers", many, 3, f"'llama.block_count' is {1 << 24} with {len(tensors)} tensors", []
    yield "type", container.container(metadata, tensors | {name: (20, shape, bytes(1 << 20))}), 3, "IQ4_NL", []
    biased = Decoder(np.random.default_rng(0), "llama")
    while not biased.bias or biased.heads * biased.dim % 32:
        biased = Decoder(biased.rng, "llama")
    bias = "blk.0.attn_q.bias"
    blocks = container.tensor(biased.rng, 8, (biased.heads * biased.dim,), 1.0)[0]
    yield "type of a bias", container.container(biased.metadata(), biased.tensors | {bias: blocks}), 3, f"'{bias}' has the type Q8_0, but", []
    yield "unknown type", container.container(metadata, tensors | {name: (99, shape, content)}), 3, "type 99 (unknown)", []
    yield "missing tensor", container.container(metadata, without), 3, f"the file has no tensor '{name}'", []
    yield "extra tensor", container.container(metadata, tensors | {"blk.0.new.weight": flat}), 3, "has no tensor 'blk.0.new.weight'", []
    yield "epsilon", container.container(leave(metadata, "epsilon"), tensors), 2, "does not state 'llama.attention.layer_norm_rms_epsilon'", []
    kv_heads = "llama.attention.head_count_kv"
    unequal = container.container(metadata | {"llama.block_count": 2, kv_heads: [1, 2]}, tensors)
    yield "heads of layers", unequal, 3, f"'{kv_heads}' is a list with 1 and 2", []
    yield "heads of more layers", container.container(metadata | {kv_heads: [1] * 9}, tensors), 3, f"'{kv_heads}' is a list of 9 numbers", []
    for architecture, part, new in (("gpt2", "position_embd.weight", ""), ("llama", "", "position_embd.weight"), ("qwen2", "", "rope_freqs.weight"),
                                    ("qwen2", "ffn_gate.weight", ""), ("qwen2moe", "up_shexp.weight", ""), ("qwen2moe", "gate_inp_shexp.weight", ""),
                                    ("gpt2", "attn_qkv.bias", ""), ("starcoder2", "ffn_up.bias", ""),
                                    ("falcon", "output_norm.bias", "")):  # fmt: skip
        other, parts = small(architecture)
        parts = leave(parts, part) if part else parts | {new: parts["output_norm.weight"]}
        yield f"{architecture} {part}{new}", container.container(other, parts), 3, f"has no tensor '{'' if part else new}", []
    yield "shape", container.container(metadata, tensors | {name: (0, shape[::-1] + (1,), flat[2])}), 3, f"the tensor '{name}' is", []
    yield "alignment", container.container(metadata | {"general.alignment": 31}, tensors), 2, "not a power of 2", []
    first, second = list(tensors)[:2]
    moved = container.container(metadata, tensors, moves={second: 32})
    yield "moved data", moved, 2, f"the tensor '{second}' is at offset ", []
    yield "shared data", container.container(metadata, tensors, moves={second: None}), 2, f"the tensor '{second}' is at offset 0, but", []
    yield "an input", plain, 1, "--input does not apply to GGUF files", ["--input", "x:f32[1]"]
    yield "a constant", plain, 1, "--constant does not apply to GGUF files", ["--constant", "x=1"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    job = parser.parse_args()
    job.work.mkdir(parents=True, exist_ok=True)
    wrong = 0

    def report(what, reason):
        nonlocal wrong
        wrong += bool(reason)
        if reason:
            print(f"{what}: {reason}", flush=True)

    names = list(KINDS)
    for i in range(job.seed, job.seed + job.count):
        name = names[i % len(names)]
        try:
            reason = compared(job.bin, job.work, np.random.default_rng(i), name)
        except RuntimeError as error:
            reason = str(error)
        report(f"{name} (--seed {i} --count 1)", reason)

    for name in [name for name in names if "window" in KINDS[name]]:
        report(f"the window of {name}", windowed(job.bin, job.work, name))
    report("the default window of gemma2", window_by_default(job.bin, job.work, "gemma2", 4096))

    for reason in parted(job.bin, job.work):
        report("a split model", reason)

    for what, data, code, phrase, options in rejected():
        done = convert(job.bin, job.work, data, *options)
        if done.returncode != code or phrase not in done.stderr or (job.work / "model.hgm").exists():
            report(what, f"exit code {done.returncode}, expected {code} and '{phrase}': {done.stderr.strip()}")

    # Damage: truncated files, and changed bytes in the header and tensor infos.
    rng = np.random.default_rng(job.seed)
    metadata, tensors = small(names[job.seed % len(names)])
    data = container.container(metadata, tensors)
    head = len(data) - sum(len(content) + -len(content) % 32 for _, _, content in tensors.values())
    for i in range(2 * job.count):
        broken = bytearray(data)
        if i % 2:
            del broken[int(rng.integers(0, len(data) if i % 4 == 1 else head)) :]
        for at in rng.integers(4, head, int(rng.integers(1, 4))) if i % 2 == 0 else []:
            broken[at] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(0, 256)]))
        done = convert(job.bin, job.work, bytes(broken), "--no-check")
        wanted = (2, 3) if i % 2 else (0, 2, 3)
        if done.returncode not in wanted or (job.work / "model.hgm").exists() != (done.returncode == 0):
            (job.work / f"damaged_{i}.gguf").write_bytes(broken)
            report(f"damaged_{i}.gguf", f"exit code {done.returncode}: {done.stderr.strip()[:300]}")
    print(f"{job.count} decoders, {wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
