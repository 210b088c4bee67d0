# SPDX-License-Identifier: Apache-2.0
"""Runs programs through PyTorch, hg-convert and hg-run, and gives each a verdict."""
from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import points
import truth
from generate import Program
from tools import DIED, Tools

EQUAL, REFUSED, MISMATCH, UNSTEADY, USELESS = "equal", "refused", "mismatch", "unsteady", "useless"
NARROW, PECULIAR, UNDEFINED = "narrow", "peculiar", "undefined"
WRONG, CRASH, UNLOADABLE = "WRONG", "CRASH", "UNLOADABLE"
FATAL = (WRONG, CRASH, UNLOADABLE)
AT = "at"  # the file with the program that PyTorch runs now


@dataclass
class Verdict:
    kind: str
    reason: str = ""  # with equal words for similar programs
    detail: str = ""
    stopped: Counter = field(default_factory=Counter)  # runs that hg-run rejects, though PyTorch has a result
    unraised: Counter = field(default_factory=Counter)  # runs with a result, though PyTorch raises an error that a graph need not raise


def general(message: str) -> str:
    """The message without names and numbers."""
    message = re.sub(r"^\S+\.pt2?: ", "", message)
    message = re.sub(r" ?\((in |at )?<string>[^)]*\)", "", message)
    message = re.sub(r"\S*<string>:\d+", "LINE", message)
    message = re.sub(r"/\S+/", "", message)
    message = re.sub(r"'[^']*'", "'...'", message)
    message = re.sub(r"\[[^\]]*\]", "[...]", message)
    return re.sub(r"-?\b\d+(\.\d+)?(e[+-]?\d+)?\b", "N", message)[:200]


def judge(programs: list[Program], folder: Path, tools: Tools) -> list[Verdict]:
    """A verdict of every program. Useless programs cannot be scripted or exported by PyTorch, or never have a result."""
    verdicts: list[Verdict | None] = [None] * len(programs)
    expected: dict[int, dict] = {}
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "data"
    data.mkdir(parents=True)
    for i, program in enumerate(programs):
        (folder / AT).write_text(str(i))
        try:
            function, wanted = truth.answers(program)
            (folder / str(i)).mkdir()
            function.save(str(folder / str(i) / program.model))
        except Exception as error:  # noqa: BLE001: whatever PyTorch raises
            lines = str(error).strip().splitlines()
            verdicts[i] = Verdict(USELESS, (lines or [""])[0][:100])
            continue
        if all(answer.values is None for answer in wanted.values()):
            verdicts[i] = Verdict(USELESS, "PyTorch never answers")
            continue
        expected[i] = wanted
    chosen = list(expected)
    jobs = [{"model": str(folder / str(i) / programs[i].model), "output_dir": str(folder / str(i)),
             "inputs": programs[i].options()} for i in chosen]
    runs: list[tuple[int, points.Point]] = []
    for i, answer in zip(chosen, tools.convert(jobs, folder)):
        message = answer["message"]
        if answer["status"] == DIED:
            verdicts[i] = Verdict(CRASH, "hg-convert: " + general(message), message)
        elif answer["status"] == "mismatch" and "elements that it also writes" in message:
            verdicts[i] = Verdict(UNDEFINED, general(message), message)
        elif answer["status"] == "mismatch":
            verdicts[i] = Verdict(MISMATCH, general(message), message)
        elif answer["status"] != "ok":
            verdicts[i] = Verdict(REFUSED, general(message), message)
        else:
            runs += [(i, point) for point in expected[i]]
    jobs = []
    for k, (i, point) in enumerate(runs):
        out = folder / f"out{k}"
        out.mkdir()
        jobs.append({"model": str(folder / str(i) / "model.hgm"), "output_dir": str(out),
                     "inputs": points.files(data, programs[i], point)})
    found: dict[int, dict] = {}
    for k, ((i, point), answer) in enumerate(zip(runs, tools.run(jobs, folder))):
        found.setdefault(i, {})[point] = (answer, folder / f"out{k}")
    for i, results in found.items():
        (folder / AT).write_text(str(i))
        verdicts[i] = compare(programs[i], expected[i], results)
    return [verdict or Verdict(USELESS) for verdict in verdicts]


def load(folder: Path) -> list[np.ndarray]:
    count = sum(1 for path in folder.iterdir() if re.fullmatch(r"output_\d+\.npy", path.name))
    return [np.load(folder / f"output_{k}.npy") for k in range(count)]


def compare(program: Program, expected: dict, results: dict) -> Verdict:
    verdict = Verdict(EQUAL)
    guarded = True
    for point, wanted in expected.items():
        answer, folder = results[point]
        where = f"at {point}"
        if answer["status"] == DIED:
            return Verdict(CRASH, "hg-run: " + general(answer["message"]), f"{where}: {answer['message']}")
        if answer["status"] != "ok":
            if wanted.values is not None:
                verdict.stopped[general(answer["message"])] += 1
                # torch.export fixes some sizes to numbers.
                guarded &= any(words in answer["message"] for words in ("the model was converted for", ": dimension "))
            continue
        values = load(folder)
        if wanted.values is None:
            if wanted.excuse:
                verdict.unraised[wanted.excuse] += 1
                continue
            reason, detail = "answers where PyTorch raises: " + general(wanted.raised), f"PyTorch raises {wanted.raised!r}"
        else:
            reason = detail = truth.difference(values, wanted.values)
        if not reason:
            continue
        if truth.same(values, truth.ask_eager(program, point).values):
            verdict.kind = PECULIAR
        elif wanted.values is None and truth.same(values, truth.ask_optimized(program, point).values):
            verdict.kind = PECULIAR
        elif wanted.values is not None and truth.is_unsteady(program, point, values):
            verdict.kind = UNSTEADY
        elif truth.overlaps(program, point):
            verdict.kind = UNDEFINED
        else:
            return Verdict(WRONG, general(reason), f"{where}: {detail}")
    answered = sum(wanted.values is not None for wanted in expected.values())
    if answered and sum(verdict.stopped.values()) == answered:
        message = verdict.stopped.most_common(1)[0][0]
        return Verdict(NARROW if guarded else UNLOADABLE, message, message)
    return verdict
