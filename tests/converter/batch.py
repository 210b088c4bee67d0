# SPDX-License-Identifier: Apache-2.0
"""Runs many jobs in one process of hg-convert or hg-run."""
import json
import subprocess
import sys


def batch(tool, jobs, folder):
    """Runs the tool on the jobs, and returns its answers."""
    path = folder / f"{tool.name}.json"
    path.write_text(json.dumps(jobs))
    done = subprocess.run([tool, "--batch", path], capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(answers) != len(jobs):
        sys.exit(f"{tool} ended with {done.returncode} after {len(answers)} of {len(jobs)} jobs: {done.stderr[-300:]}")
    return answers
