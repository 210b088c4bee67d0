# SPDX-License-Identifier: Apache-2.0
"""Random TorchScript programs: converted once, run at many sizes and scales, and compared with PyTorch.

    python3 tests/nightly/programs --hg-bin build/bin --count 20000 --seed 1 --jobs 2
    python3 tests/nightly/programs --hg-bin build/bin --count 20000 --traced
    python3 tests/nightly/programs --hg-bin build/bin --count 20000 --exported
    python3 tests/nightly/programs --hg-bin build/bin --count 20000 --single
    python3 tests/nightly/programs --hg-bin build/bin --count 5000 --lists
    python3 tests/nightly/programs --hg-bin build/bin --count 2000 --device vulkan

Every program is scripted, traced at one size with --traced, or exported with --exported, converted with symbolic
sizes, and run at sizes 0, 1, 2, 3 and 6 with small, large, negated and zero inputs. Verdicts:

- equal: hg-run returns PyTorch's result wherever PyTorch has one, or stops with a sentence (counted per run);
- refused, mismatch: hg-convert exits with 3 or 4, counted by reason;
- narrow: the guards of the file exclude every size at which PyTorch has a result here;
- unsteady: PyTorch itself returns the other result when inputs change by a few roundings;
- undefined: an in-place op reads, for other elements, elements that it also writes, and PyTorch does not reject it;
- peculiar: eager PyTorch, or libtorch with its passes, returns the other result; its interpreter alone does not;
- WRONG: another result, or a result where PyTorch raises (a write between overlapping memory is counted separately);
  CRASH: a tool died; UNLOADABLE: the file never runs.

Fails if one of the last three occurs; these programs are shrunk and printed as scripts that repeat them alone. Needs
torch and numpy, and a Vulkan device if requested; without them nothing runs, and the output says so.
"""
from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

try:
    import numpy  # noqa: F401
    import torch  # noqa: F401
except ImportError:
    print("no Python with torch and numpy: the programs are left out")
    sys.exit(77)

from apart import judge_apart
from generate import Program, generate
from judge import FATAL, MISMATCH, NARROW, REFUSED, USELESS, Verdict
from shrink import script, shrink
from tools import Tools


def judge_all(seeds: list[str], options: argparse.Namespace, root: Path):
    """Yields verdicts as they arrive."""
    programs = [generate(seed, options.traced, options.exported, options.single, options.lists) for seed in seeds]
    for index, verdict in judge_apart(programs, root, options.tools, options.jobs):
        yield seeds[index], programs[index], verdict


def show(counts: Counter, most: int) -> None:
    for reason, count in counts.most_common(most):
        print(f"    {count:6}  {reason}")


def report(verdicts: list[tuple[str, Program, Verdict]], options: argparse.Namespace) -> None:
    kinds = Counter(verdict.kind for _, _, verdict in verdicts)
    useful = max(sum(kinds.values()) - kinds[USELESS], 1)
    converted = useful - kinds[REFUSED] - kinds[MISMATCH] - sum(v.kind == "CRASH" and "convert" in v.reason for _, _, v in verdicts)
    print(f"{useful} programs that PyTorch answers, {100 * converted / useful:.1f} % convert: "
          + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    for kind in (*FATAL, MISMATCH, NARROW, REFUSED, USELESS):
        reasons = Counter(verdict.reason for _, _, verdict in verdicts if verdict.kind == kind)
        if reasons:
            print(f"  {kind}:")
            show(reasons, options.reasons)
    stopped = sum((verdict.stopped for _, _, verdict in verdicts), Counter())
    print(f"  runs that hg-run stops where PyTorch answers: {stopped.total()}, in "
          f"{sum(bool(verdict.stopped) for _, _, verdict in verdicts)} programs")
    show(stopped, options.reasons)
    unraised = sum((verdict.unraised for _, _, verdict in verdicts), Counter())
    print(f"  runs that answer where PyTorch raises what a graph does not: {unraised.total()}")
    show(unraised, options.reasons)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hg-bin", type=Path, required=True, help="the folder of hg-convert and hg-run")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program of the seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--traced", action="store_true", help="programs that jit.trace takes, with open sizes")
    parser.add_argument("--exported", action="store_true", help="the same as programs of torch.export, with open sizes")
    parser.add_argument("--device", default="cpu", help="where the models run: cpu or vulkan")
    parser.add_argument("--threads", type=int, default=1, help="of each run")
    parser.add_argument("--single", action="store_true", help="programs of one op, of any dtype")
    parser.add_argument("--lists", action="store_true", help="programs with lists in loops of open length")
    parser.add_argument("--json", type=Path, help="writes the verdicts to this file")
    parser.add_argument("--reasons", type=int, default=12, help="reasons to print of each kind")
    parser.add_argument("--shrink", type=int, default=8, help="findings to shrink, one of each reason first")
    parser.add_argument("--also", nargs="*", default=[], metavar="KIND", help="kinds to shrink besides the fatal ones")
    parser.add_argument("--match", default="", help="shrink only what has this text in its reason")
    parser.add_argument("--show", action="store_true", help="print the programs and verdicts")
    parser.add_argument("--findings", type=Path, help="a folder for the scripts of the findings")
    options = parser.parse_args()
    options.tools = Tools(options.hg_bin.resolve(), options.device, options.threads)
    options.tools.require()
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="programs-", dir=memory if memory.is_dir() else None))
    try:
        return run(options, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run(options: argparse.Namespace, root: Path) -> int:
    seeds = [f"{options.seed}:{number}" for number in range(options.first, options.first + options.count)]
    verdicts = []
    for seed, program, verdict in judge_all(seeds, options, root):
        if "there is no Vulkan" in verdict.reason:
            print("there is no Vulkan device: the programs are left out")
            return 77
        verdicts.append((seed, program, verdict))
        if options.show:
            print(f"--- {seed}: {verdict.kind} {verdict.detail or verdict.reason}\n{program.source}")
        elif verdict.kind in FATAL:
            print(f"{seed}: {verdict.kind} {verdict.detail or verdict.reason}", flush=True)
        if len(verdicts) % 1000 == 0:
            kinds = Counter(each.kind for _, _, each in verdicts)
            print(f"... {len(verdicts)}: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()), flush=True)
    verdicts.sort(key=lambda each: int(each[0].split(":")[1]))
    report(verdicts, options)
    if options.json:
        options.json.write_text(json.dumps([
            {"seed": seed, "verdict": verdict.kind, "reason": verdict.reason, "detail": verdict.detail,
             "stopped": dict(verdict.stopped), "unraised": dict(verdict.unraised), "inputs": program.options(), "source": program.source}
            for seed, program, verdict in verdicts], indent=1))
    failed = [each for each in verdicts if each[2].kind in FATAL]
    asked = [each for each in verdicts if each[2].kind in (*FATAL, *options.also) and options.match in each[2].reason]
    seen: Counter = Counter()
    order = []
    for seed, program, verdict in asked:
        order.append((seen[verdict.reason], verdict.kind not in FATAL, len(program.source), seed, program, verdict))
        seen[verdict.reason] += 1
    for *_, seed, program, verdict in sorted(order, key=lambda each: each[:4])[:options.shrink]:
        small, verdict = shrink(program, verdict, root, options.tools, options.jobs)
        text = script(small, verdict)
        print(f"\n#### {seed}\n{text}", flush=True)
        if options.findings:
            options.findings.mkdir(parents=True, exist_ok=True)
            (options.findings / f"{verdict.kind}_{'exported_' if small.exported else 'traced_' if small.traced else ''}{seed.replace(':', '_')}.py").write_text(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
