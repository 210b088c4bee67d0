#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inspects models with the tools as programs: hg-diff, hg-quantize, hg-run --plugin, hg-info --html, hg-bench --trace, man pages and
completions. Needs only the standard library; opens a page if Chromium is installed."""
import argparse
import json
import math
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys

from npy_file import read_npy, write_npy

WORK = BIN = None


def run(*command, code=0, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr if code else done.stdout


def check_diff(model):
    assert run(BIN / "hg-diff", model, model) == ""
    assert json.loads(run(BIN / "hg-diff", model, model, "--json")) == {"equal": True, "graph": [], "weights": []}
    write_npy(WORK / "x.npy", [i / 7 - 1 for i in range(24)], (8, 3))
    write_npy(WORK / "t.npy", [i / 5 - 2 for i in range(16)], (8, 2))
    trained = WORK / "trained.hgm"
    run(BIN / "hg-train", model, "--input", WORK / "x.npy", "--target", WORK / "t.npy", "--loss", "mse", "--optimizer", "sgd",
        "--lr", "0.1", "--epochs", "1", "--batch", "8", "--out", trained)
    said = run(BIN / "hg-diff", model, trained, code=4)
    assert "~ w: 6 elements differ, by at most" in said and "differ in" in said, said
    found = json.loads(run(BIN / "hg-diff", model, trained, "--json", code=4).splitlines()[0])
    changed = {row["name"]: row for row in found["weights"] if row["change"] == "values"}
    assert set(changed) == {"w", "b"} and changed["w"]["elements"] == 6 and changed["w"]["largest"] > 0, found
    assert any(row["change"] == "added" for row in found["weights"]), found  # the optimizer's
    back = json.loads(run(BIN / "hg-diff", trained, model, "--json", code=4).splitlines()[0])
    assert {row["line"] for row in back["graph"] if row["change"] == "removed"} == {
        row["line"] for row in found["graph"] if row["change"] == "added"}
    said = run(BIN / "hg-diff", model, WORK / "none.hgm", code=2)
    assert "cannot open" in said and said.count("none.hgm") == 1, said
    run(BIN / "hg-diff", model, code=1)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def check_quantised(model):
    """The error of a weight in the model's description, compared with the same rounding in Python."""
    rows = [[0.5, -1, 2], [0.25, 3, -0.75]]  # tests/c/model.cpp
    for bits, most in ((8, 127), (4, 7)):
        small, page = WORK / "quantised.hgm", WORK / "quantised.html"
        said = json.loads(run(BIN / "hg-quantize", model, "-o", small, "--bits", bits, "--least", "0", "--json"))
        off = whole = 0
        for row in rows:
            scale = f32(max(map(abs, row)) / most)
            for x in row:
                off += (f32(math.floor(abs(x) / scale + 0.5) * math.copysign(scale, x)) - x) ** 2
                whole += x * x
        error = math.sqrt(off / whole)
        assert [weight["name"] for weight in said["weights"]] == ["w"], said
        assert abs(said["weights"][0]["error"] - error) < 1e-12 and error > 0, (said, error)
        run(BIN / "hg-info", small, "--html", page)
        shown = {row["name"]: row.get("error") for row in data_of(page)["weights"]}
        assert shown["w"] == said["weights"][0]["error"] and shown["b"] is None and shown["w_scale"] is None, shown
        assert {row["name"]: row["error"] for row in json.loads(run(BIN / "hg-info", small, "--json"))["quantized"]} == {
            "w": shown["w"]}
        percent = f"off by {100 * error:.3g} % at most ('w')"
        assert percent in run(BIN / "hg-info", small), percent
        browser = chromium()
        if browser is not None:
            assert "quantized: off by" in dom(browser, page)
    run(BIN / "hg-info", model, "--html", page)
    assert all("error" not in row for row in data_of(page)["weights"])
    assert "quantized" not in json.loads(run(BIN / "hg-info", model, "--json"))


def check_plugin(own_ops, plugin, other):
    """x + 0.5 sin x, from a shared library."""
    write_npy(WORK / "x.npy", [0.5, -1, 2, 0], (1, 4))
    said = run(BIN / "hg-run", own_ops, "--input", WORK / "x.npy", "--output-dir", WORK / "out", code=3)
    assert "acme.wave" in said, said
    run(BIN / "hg-run", own_ops, "--plugin", plugin, "--input", WORK / "x.npy", "--output-dir", WORK / "out")
    got = read_npy(WORK / "out" / "output_0.npy")
    expected = [0.5 + 0.5 * 0.479425539, -1 - 0.5 * 0.841470985, 2 + 0.5 * 0.909297427, 0]
    assert all(abs(a - b) < 1e-6 for a, b in zip(got, expected)) and len(got) == 4, got
    # By a file name without a folder, in the plugin's folder.
    run(BIN / "hg-run", own_ops, "--plugin", plugin.name, "--input", WORK / "x.npy", "--output-dir", WORK / "out", cwd=plugin.parent)
    twice = run(BIN / "hg-run", own_ops, "--plugin", plugin, "--plugin", plugin, "--input", WORK / "x.npy", "--output-dir",
                WORK / "out", code=4)
    assert "acme.wave" in twice, twice
    assert "no HG_PLUGIN" in run(BIN / "hg-run", own_ops, "--plugin", other, "--input", WORK / "x.npy", "--output-dir",
                                 WORK / "out", code=3)
    run(BIN / "hg-run", own_ops, "--plugin", WORK / "none.so", "--input", WORK / "x.npy", "--output-dir", WORK / "out", code=2)


def chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def check_page(model, large):
    trace, page = WORK / "trace.json", WORK / "page.html"
    run(BIN / "hg-bench", model, "--dim", "n=4", "--repeat", "2", "--trace", trace)
    events = json.loads(trace.read_text())["traceEvents"]  # as Perfetto reads them
    assert events and all(event["ph"] == "X" and event["dur"] >= 0 and "name" in event for event in events)
    run(BIN / "hg-info", model, "--dim", "n=4", "--compiled", "--trace", trace, "--html", page)
    text = page.read_text()
    assert not re.search(r"(src|href)=", text), "the page needs another file"
    data = data_of(page)
    linear = next(node for node in data["nodes"] if "linear" in node["op"])
    assert linear["outputs"][0].endswith("f32[n, 2]") or linear["outputs"][0].endswith("f32[4, 2]"), linear
    assert linear["module"] == "head" and linear["ms"] >= 0, linear
    weights = {row["name"]: row for row in data["weights"]}
    assert sum(weights["w"]["bins"]) == 6 and weights["w"]["low"] == -1 and weights["w"]["high"] == 3, weights
    browser = chromium()
    if browser is None:
        return print("no Chromium: the page was not opened")
    script = f"<script>pick({data['nodes'].index(linear)}, true)</script></body>"
    click = WORK / "click.html"
    click.write_text(text.replace("</body>", script))
    shown = dom(browser, click)
    details = re.search(r'<div id="details">(.*?)</div><', shown, re.S).group(1) if 'id="details"' in shown else ""
    assert "<h2>linear" in shown and "f32[" in shown[shown.index("<h2>linear"):], details
    opening_time(browser, large)


def dom(browser, page, virtual_time=True):
    return run(browser, "--headless", "--no-sandbox", "--disable-gpu", *["--virtual-time-budget=2000"] * virtual_time, "--dump-dom",
               f"--user-data-dir={WORK / 'chromium'}", page.as_uri())


def data_of(page):
    return json.loads(re.search(r"const data = (.*);\n", page.read_text()).group(1))


def check_weights(odd):
    """Compares the counts of each histogram with Python's, for weights with all kinds of elements."""
    page = WORK / "odd.html"
    run(BIN / "hg-info", odd, "--html", page)
    rows = {row["name"]: row for row in data_of(page)["weights"]}
    inf, nan = float("inf"), float("nan")
    tenth = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    known = {"bad": [nan, inf, -inf, 1, 2], "nan": [nan], "</script>'\"&": [-1, 0, 0.5, 3], "far": [1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3],
             "large": [-1.5e308, 0, 1.5e308], "close": [1, 1 + 1e-9, 1 + 2e-9], "half": [-1, 0.5], "whole": [-3, 4, 5],
             "flags": [1, 0, 1], "tenth": [tenth] * 32}
    assert set(known) <= set(rows), set(rows)
    for name, values in known.items():
        row, finite = rows[name], [x for x in values if abs(x) < inf]
        assert row["not_finite"] == len(values) - len(finite), row
        assert ("bins" in row) == bool(finite), row
        if not finite:
            continue
        assert sum(row["bins"]) == len(finite) and (row["low"], row["high"]) == (min(finite), max(finite)), row
        parts = [x / 1e308 if name == "large" else x for x in finite]
        unit = 1e308 if name == "large" else 1
        mean = statistics.fmean(parts)
        assert abs(row["mean"] / unit - mean) <= 1e-15 * max(map(abs, parts)), row
        deviation = math.sqrt(statistics.fmean((x - mean) ** 2 for x in parts))
        assert abs(row["deviation"] / unit - deviation) <= 1e-6 * deviation, (row, deviation)
        low, high = min(parts), max(parts)
        for x in parts:  # each element in its bin
            assert row["bins"][min(int((x - low) / (high - low) * 40), 39) if high > low else 0] > 0, (row, x)
    assert rows["</script>'\"&"]["bf16_largest"] == 0 and "bf16_largest" not in rows["large"]
    # bf16 has 8 bits of precision: it rounds 1e6 by at most 4096 / 2.
    bf16 = [struct.unpack("<f", struct.pack("<I", (struct.unpack("<I", struct.pack("<f", x))[0] + 0x8000) & 0xffff0000))[0]
            for x in known["far"]]
    off = [abs(a - b) for a, b in zip(bf16, known["far"])]
    assert rows["far"]["bf16_largest"] == max(off) and rows["far"]["bf16_rms"] > 0, (rows["far"], off)


def check_arena(odd):
    """The rectangles show the plan: numbers equal those of --json, none overlaps another, and each is drawn where its title says."""
    page = WORK / "odd.html"
    plan = json.loads(run(BIN / "hg-info", odd, "--compiled", "--html", page, "--json"))["memory"]
    text = page.read_text()
    drawing = text[text.index('<div id="memory"'):text.index('<div id="time"')]
    number = r"(-?[\d.]+)"
    shown = re.findall(rf'<rect x="{number}" y="{number}" width="{number}" height="{number}"[^>]*><title>(.*?): (\d+) bytes at (\d+), '
                       r"steps (\d+) to (\d+)</title>", drawing)
    assert len(shown) >= 3 and f"{len(shown)} blocks" in drawing, len(shown)
    blocks = [(int(size), int(offset), int(first), int(last)) for *_, size, offset, first, last in shown]
    for i, (size, offset, first, last) in enumerate(blocks):
        assert size > 0 and 0 <= first <= last
        for other_size, other_offset, other_first, other_last in blocks[:i]:
            assert (last < other_first or other_last < first or offset + size <= other_offset
                    or other_offset + other_size <= offset), (shown[i], shown)
    assert max(offset + size for size, offset, *_ in blocks) == plan["arena_bytes"], plan
    alive = [sum(size for size, _, first, last in blocks if first <= step <= last) for step in range(1 + max(b[3] for b in blocks))]
    assert max(alive) == plan["arena_lower_bound_bytes"], (alive, plan)
    whole, wide = max(plan["arena_bytes"], plan["arena_lower_bound_bytes"]), max(36 * len(alive), 640)
    for (x, y, width, height, *_), (size, offset, first, last) in zip(shown, blocks):
        wanted = (first * wide / len(alive), 560 - 560 * (offset + size) / whole, (last - first + 1) * wide / len(alive),
                  560 * size / whole)
        assert all(abs(float(a) - b) < 0.06 for a, b in zip((x, y, width, height), wanted)), (x, y, width, height, wanted)
    rows = {row["name"]: row for row in data_of(page)["weights"]}
    packed = [row for row in rows.values() if row.get("is_packed")]
    assert packed and all(row["name"].startswith("conv") and "bins" not in row for row in packed), rows


def check_times(odd):
    trace, page = WORK / "odd.json", WORK / "odd.html"
    run(BIN / "hg-bench", odd, "--repeat", "2", "--trace", trace)
    run(BIN / "hg-info", odd, "--compiled", "--trace", trace, "--html", page)
    known = {event["args"]["node"]: event["dur"] / 1e3 for event in json.loads(trace.read_text())["traceEvents"]}
    nodes = [node for node in data_of(page)["nodes"] if "ms" in node]
    assert {node["name"]: node["ms"] for node in nodes} == known, (nodes, known)
    for words in ("", "[]", "{}", '{"traceEvents": {}}'):
        trace.write_text(words)
        assert "is not a trace" in run(BIN / "hg-info", odd, "--compiled", "--trace", trace, "--html", WORK / "none.html", code=2), words
    for words in ("null", '"x"', "[]"):  # such an event has no description
        trace.write_text('{"traceEvents": [1, {}, {"args": 1, "dur": 1}, {"args": {"node": "x"}, "dur": %s}]}' % words)
        run(BIN / "hg-info", odd, "--compiled", "--trace", trace, "--html", WORK / "none.html")
        assert not any("ms" in node for node in data_of(WORK / "none.html")["nodes"])
    browser = chromium()
    if browser is None:
        return
    shown = dom(browser, page)
    times = shown[shown.index('<div id="time"'):shown.index('<div id="weights"')]
    listed = [(float(ms), words) for ms, words in re.findall(r"<span> ([\d.]+) ms (.*?)</span>", times)]
    assert len(listed) == len(known) and listed == sorted(listed, key=lambda row: -row[0]), listed
    assert sorted(ms for ms, _ in listed) == sorted(round(ms, 4) for ms in known.values()), (listed, known)
    modules = shown[shown.index('<div id="modules"'):shown.index('<div id="details"')]
    assert "<summary>constructor</summary>" in modules, modules
    weights = shown[shown.index('<div id="weights"'):]
    assert "&lt;/script&gt;'\"&amp; f32[4]" in weights and "not finite" in weights and "packed" in weights, weights
    assert "<b>" not in shown and weights.count("<h3>") == len(data_of(page)["weights"])


def opening_time(browser, large):
    """A page of 2,000 nodes loads and a click shows a shape; prints the time. docs/measurements/reliability.json has a figure."""
    page = WORK / "large.html"
    run(BIN / "hg-info", large, "--html", page)
    # By the page's own clock, from the start of loading until the picked node is laid out.
    page.write_text(page.read_text().replace("</body>", """<script>addEventListener("load", () => {
      pick(1000, true);
      document.body.getBoundingClientRect();
      document.body.setAttribute("opened", performance.now());
    })</script></body>"""))
    times = []
    for _ in range(3):  # the best time, because others also use this machine
        shown = dom(browser, page, virtual_time=False)
        assert shown.count('id="box') >= 2000 and re.search("<h2>.*f32\\[", shown, re.S)
        times.append(float(re.search('opened="([0-9.]+)"', shown).group(1)))
    print(f"a page of {shown.count('id=' + chr(34) + 'box')} boxes opens in {min(times):.0f} ms")


def check_pages(pages):
    for name in ("hg-run", "hg-info", "hg-bench", "hg-train", "hg-embed", "hg-diff", "hg-quantize", "hg-generate"):
        help_text = run(BIN / name, "--help")
        options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", help_text, re.M))
        assert "--version" in options
        man = (pages / "man1" / f"{name}.1").read_text()
        assert man.startswith(".TH " + name.upper())
        for shell, file in (("bash", name), ("zsh", "_" + name), ("fish", name + ".fish")):
            text = (pages / shell / file).read_text()
            for option in options:
                shown = option if shell != "fish" else f"-l {option[2:]} "
                assert shown in text, f"{shell} does not complete {name} {option}"
        for option in options:
            assert option.replace("-", "\\-") in man, f"{name}.1 lacks {option}"
    complete = ("source {0}/bash/hg-run; COMP_WORDS=(hg-run --plu); COMP_CWORD=1; _hg_run; echo ${{COMPREPLY[@]}}").format(pages)
    assert run("bash", "-c", complete) == "--plugin\n"
    for shell, file in (("zsh", "zsh/_hg-run"), ("fish", "fish/hg-run.fish")):
        if shutil.which(shell):
            run(shell, "-n", pages / file)
    if shutil.which("man"):
        said = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", pages / "man1" / "hg-run.1"],
                              capture_output=True, text=True)
        assert said.returncode == 0 and not said.stderr, said.stderr


def main():
    global WORK, BIN
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bin", "work", "make-model", "own-ops", "plugin", "other", "pages"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    args = parser.parse_args()
    WORK, BIN = args.work.resolve(), args.bin
    WORK.mkdir(parents=True, exist_ok=True)
    model, own_ops, large, odd = (WORK / name for name in ("model.hgm", "own_ops.hgm", "large.hgm", "odd.hgm"))
    run(args.make_model, model)
    run(args.own_ops, own_ops, large, odd)
    check_diff(model)
    check_quantised(model)
    check_plugin(own_ops, args.plugin, args.other)
    check_page(model, large)
    check_weights(odd)
    check_arena(odd)
    check_times(odd)
    check_pages(args.pages)
    print("diff, plugin, page, trace, man pages and completions")


if __name__ == "__main__":
    sys.exit(main())
