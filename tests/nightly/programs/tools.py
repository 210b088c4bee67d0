# SPDX-License-Identifier: Apache-2.0
"""hg-convert and hg-run as programs that may die: each job gets its answer all the same."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

DIED = "died"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


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
    """Programs print as they run: only an answer counts."""
    if not line.startswith("{"):
        return None
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and "status" in answer else None


def require(folder: Path) -> None:
    for name in ("hg-convert", "hg-run"):
        if not (folder / name).exists():
            sys.exit(f"{folder / name} is missing; --hg-bin names the folder of the tools")
