# SPDX-License-Identifier: Apache-2.0
"""Damaged archives: each is converted or rejected with a message, and never crashes the converter."""
import json
import random
import subprocess
import zipfile

import torch
from torch import nn


def rewritten(source, target, change, compress=zipfile.ZIP_STORED):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compress) as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)


def in_json(record, change):
    def apply(name, content):
        if not name.endswith(record):
            return content
        tree = json.loads(content)
        return json.dumps(change(tree) or tree)
    return apply


def weight_meta(key, value):
    def change(tree):
        next(iter(tree["config"].values()))["tensor_meta"][key] = value
    return in_json("model_weights_config.json", change)


def node(change):
    return in_json("models/model.json", lambda tree: change(tree["graph_module"]["graph"]["nodes"][0]))


def guarded(by):
    return in_json("models/model.json", lambda tree: tree.update(guards_code=[by]))


def only(record, value):
    return lambda name, content: value if name.endswith(record) else content


def troubles(tools, scratch):
    folder = scratch / "damage"
    folder.mkdir(parents=True, exist_ok=True)
    good = folder / "good.pt2"
    torch.export.save(torch.export.export(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), (torch.randn(2, 4),)), good)

    def convert(path):
        done = subprocess.run([str(tools / "hg-convert"), str(path), "-o", str(folder / "out.hgm")],
                              capture_output=True, text=True)
        return done.returncode, done.stderr.strip()

    long_guard = "L" + "['x']" * 200000 + ".size()[0] != 1"
    huge = [{"as_int": 2**40}, {"as_int": 2**40}]
    for name, change, exit, words in [
            ("cut_json", lambda n, c: c[:len(c) // 2] if n.endswith("models/model.json") else c, 2, "does not follow its schema"),
            ("no_graph", only("models/model.json", b"{}"), 2, "does not follow its schema"),
            ("no_weight", only("weights/weight_0", None), 2, "weight_0"),
            ("no_config", only("model_weights_config.json", None), 2, "is missing"),
            ("short_weight", only("weights/weight_0", b"1234"), 2, "does not fit into its record"),
            ("huge_sizes", weight_meta("sizes", huge), 2, "absurd size"),
            ("negative", weight_meta("sizes", [{"as_int": -8}, {"as_int": 4}]), 2, "negative"),
            ("huge_stride", weight_meta("strides", [{"as_int": 2**62}, {"as_int": 1}]), 2, "does not fit into its record"),
            ("offset", weight_meta("storage_offset", {"as_int": 2**62}), 2, "does not fit into its record"),
            ("dtype", weight_meta("dtype", 99), 3, "number 99"),
            ("unknown_op", node(lambda n: n.update(target="torch.ops.aten.of_the_future.default")), 3, "of_the_future"),
            ("unknown_function", node(lambda n: n.update(target="math.of_the_future")), 3, "math.of_the_future"),
            ("unknown_value", node(lambda n: n["inputs"][0]["arg"].update(as_tensor={"name": "nobody"})), 2, "'nobody' is used before it is made"),
            ("version", in_json("models/model.json", lambda tree: tree["schema_version"].update(major=12)), 3, "version 12 of the schema"),
            ("long_guard", guarded(long_guard), 3, "guard"),
            ("guard", guarded("2*torch.sym_max(1, L['input'].size()[0]) == 4"), 0, ""),
            ("broken_guard", guarded("torch.sym_min(1, L['input'].size()[0]) == 2"), 3, "the guard of torch.export"),
            ("unknown_guard", guarded("torch.sym_median(1, L['input'].size()[0]) == 1"), 3, "cannot be kept"),
            ("byteorder", only("byteorder", b"big"), 3, "byte order"),
            ("inductor", lambda n, c: None if "/models/" in n else c, 2, "holds no program")]:
        bad = folder / f"{name}.pt2"
        rewritten(good, bad, change)
        got, said = convert(bad)
        if got != exit or words not in said:
            yield f"{name}: exit code {got}, not {exit} with '{words}': {said[-300:]}"
        if "json.exception" in said:
            yield f"{name}: the message has internal text: {said[-300:]}"
    bomb = folder / "bomb.pt2"
    rewritten(good, bomb, only("weights/weight_0", bytes(1 << 28)), zipfile.ZIP_DEFLATED)
    got, said = convert(bomb)
    if got != 2 or "times" not in said:
        yield f"bomb: exit code {got}: {said[-300:]}"
    aoti = folder / "aoti.pt2"
    rewritten(good, aoti, lambda n, c: None if "/models/" in n else c)
    with zipfile.ZipFile(aoti, "a") as archive:
        archive.writestr("good/data/aotinductor/model/x.so", b"\x7fELF")
    got, said = convert(aoti)
    if got != 2 or "AOTInductor" not in said:
        yield f"aotinductor: exit code {got}: {said[-300:]}"

    deep = folder / "deep.pt2"
    rewritten(good, deep, node(lambda n: n["inputs"][0].update(arg="DEEP")))
    rewritten(deep, folder / "deeper.pt2", lambda n, c: c.replace(
        b'"DEEP"', b'{"as_optional_tensor": ' * 200000 + b"1" + b"}" * 200000))
    got, said = convert(folder / "deeper.pt2")
    if got != 3 or "nested too deeply" not in said:
        yield f"deep: exit code {got}: {said[-300:]}"

    yield from random_troubles(tools, folder, good)


def random_troubles(tools, folder, good):
    """Garbles records and bytes; all must be handled in one process."""
    dice = random.Random(1)
    changed = []
    for k in range(30):
        def garbled(name, text):
            if not name.endswith(".json"):
                return text
            text = bytearray(text)
            for _ in range(1 + k % 3):
                text[dice.randrange(len(text))] = dice.choice(b'0123456789{}[]",:aenst')
            return bytes(text)
        changed.append(folder / f"garbled_{k}.pt2")
        rewritten(good, changed[-1], garbled)
    content = good.read_bytes()
    for k in range(60):
        broken = bytearray(content)
        if k % 3 == 0:
            del broken[dice.randrange(len(broken)):]
        else:
            for _ in range(1 + k % 7):
                broken[dice.randrange(len(broken))] = dice.randrange(256)
        changed.append(folder / f"mutated_{k}.pt2")
        changed[-1].write_bytes(broken)
    jobs = folder / "jobs.json"
    jobs.write_text(json.dumps([{"model": str(path), "output_dir": str(folder)} for path in changed]))
    done = subprocess.run([str(tools / "hg-convert"), "--batch", str(jobs)], capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode not in (0, 1) or len(answers) != len(changed):
        yield f"{changed[min(len(answers), len(changed) - 1)].name}: exit code {done.returncode}: {done.stderr[-300:]}"
    for path, answer in zip(changed, answers):
        if answer["status"] != "ok" and not answer["message"]:
            yield f"{path.name}: {answer['status']} without a reason"
