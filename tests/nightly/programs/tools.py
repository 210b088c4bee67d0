# SPDX-License-Identifier: Apache-2.0
"""Runs hg-convert and hg-run in processes that may die; each job still gets an answer."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DIED = "died"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


@dataclass(frozen=True)
class Tools:
    """The folder of hg-convert and hg-run, and the device and threads that run models."""

    bin: Path
    device: str = "cpu"
    threads: int = 1

    def convert(self, jobs: list[dict], folder: Path) -> list[dict]:
        return batch(self.bin / "hg-convert", jobs, folder, 2)

    def run(self, jobs: list[dict], folder: Path) -> list[dict]:
        where = {"device": self.device, "threads": self.threads}
        return batch(self.bin / "hg-run", [job | where for job in jobs], folder, 1 if self.device == "cpu" else 10)

    def require(self) -> None:
        for name in ("hg-convert", "hg-run"):
            if not (self.bin / name).exists():
                sys.exit(f"{self.bin / name} is missing; --hg-bin names the folder of the tools")


def batch(tool: Path, jobs: list[dict], folder: Path, seconds: float) -> list[dict]:
    """An answer of every job: {"status", "message"}; status "died" where the tool ended, or took too long."""
    answers: list[dict] = []
    path, out, err = folder / "jobs.json", folder / "answers.txt", folder / "errors.txt"
    while len(answers) < len(jobs):
        left = jobs[len(answers):]
        path.write_text(json.dumps(left))
        ended = "in time"
        with open(out, "wb") as output, open(err, "wb") as errors:
            try:
                code = subprocess.run([tool, "--batch", path], stdout=output, stderr=errors, env=ENVIRONMENT,
                                      timeout=60 + seconds * len(left)).returncode
                ended = f"with code {code}"
            except subprocess.TimeoutExpired:
                ended = "no answer in time"
        given = [answer for line in out.read_text(errors="replace").splitlines() if (answer := read(line))]
        answers += given[:len(left)]
        if len(given) < len(left):
            lines = err.read_text(errors="replace").strip().splitlines()
            answers.append({"status": DIED, "message": f"{ended}: {lines[-1] if lines else ''}"})
    return answers


def read(line: str) -> dict | None:
    """Programs print while they run; only an answer counts."""
    if not line.startswith("{"):
        return None
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and "status" in answer else None
