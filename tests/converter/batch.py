# SPDX-License-Identifier: Apache-2.0
"""What the random tests of hg-convert share: their options, and many jobs in one process of hg-convert or hg-run."""
import argparse
import json
import subprocess
import sys
from pathlib import Path


def options(doc, count, seed=1):
    """A parser of BIN FOLDER [--count N] [--seed S]."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=seed)
    return parser


def with_hg_run(parser):
    """The options; ends with 77 if the build has no hg-run."""
    given = parser.parse_args()
    if not (given.bin / "hg-run").exists():
        print(f"{Path(sys.argv[0]).name}: skipped, because this build has no hg-run")
        sys.exit(77)
    given.folder.mkdir(parents=True, exist_ok=True)
    return given


def batch(tool, jobs, folder):
    """Runs the tool on the jobs, and returns its answers."""
    path = folder / f"{tool.name}.json"
    path.write_text(json.dumps(jobs))
    done = subprocess.run([tool, "--batch", path], capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(answers) != len(jobs):
        sys.exit(f"{tool} ended with {done.returncode} after {len(answers)} of {len(jobs)} jobs: {done.stderr[-300:]}")
    return answers


def converted(given, jobs, cases):
    """The cases, each beginning with its seed, whose jobs hg-convert converts; prints the others."""
    for case, answer in zip(cases, batch(given.bin / "hg-convert", jobs, given.folder)):
        if answer["status"] == "ok":
            yield case
        else:
            print(f"seed {case[0]}: {answer}")


def equal_runs(given, jobs, wanted, output):
    """How many jobs of hg-run write the output that belongs to (what, array); prints the others."""
    import numpy as np

    equal = 0
    for (what, want), job, answer in zip(wanted, jobs, batch(given.bin / "hg-run", jobs, given.folder)):
        paths = sorted(Path(job["output_dir"]).glob(output))
        got = np.load(paths[0]) if answer["status"] == "ok" and paths else None
        if got is not None and got.shape == want.shape and np.allclose(got, want, 1e-4, 1e-4):
            equal += 1
        else:
            print(f"{what}: {answer}")
    return equal
