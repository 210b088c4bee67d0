# SPDX-License-Identifier: Apache-2.0
"""Judges programs in separate processes: PyTorch may die, or never end."""
from __future__ import annotations

import multiprocessing
import pickle
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import truth
from generate import Program
from judge import AT, USELESS, Verdict, judge
from tools import Tools

AT_ONCE = 100


def work(programs: list[Program], tools: Tools, folder: Path) -> None:
    truth.prepare()
    (folder / "verdicts").write_bytes(pickle.dumps(judge(programs, folder / "jobs", tools)))


class Chunk:
    def __init__(self, chosen: list[int], programs: list[Program], tools: Tools, root: Path):
        self.chosen = chosen
        self.folder = Path(tempfile.mkdtemp(dir=root))
        self.process = multiprocessing.Process(target=work, args=([programs[i] for i in chosen], tools, self.folder))
        self.process.start()

    def verdicts(self) -> list[Verdict] | None:
        self.process.join()
        found = self.folder / "verdicts"
        value = pickle.loads(found.read_bytes()) if found.exists() else None
        if value is None:
            self.at = int((self.folder / "jobs" / AT).read_text())
        shutil.rmtree(self.folder, ignore_errors=True)
        return value


def judge_apart(programs: list[Program], root: Path, tools: Tools, jobs: int) -> Iterator[tuple[int, Verdict]]:
    """Yields index and verdict of every program. A chunk that dies continues after the program at which it died."""
    waiting = [list(range(start, min(start + AT_ONCE, len(programs)))) for start in range(0, len(programs), AT_ONCE)][::-1]
    running: list[Chunk] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Chunk(waiting.pop(), programs, tools, root))
        done = [chunk for chunk in running if not chunk.process.is_alive()]
        running = [chunk for chunk in running if chunk not in done]
        if not done:
            time.sleep(0.02)
        for chunk in done:
            verdicts = chunk.verdicts()
            if verdicts is not None:
                yield from zip(chunk.chosen, verdicts)
                continue
            culprit = chunk.chosen[chunk.at]
            yield culprit, Verdict(USELESS, "PyTorch dies, or does not end")
            if rest := [i for i in chunk.chosen if i != culprit]:
                waiting.append(rest)
