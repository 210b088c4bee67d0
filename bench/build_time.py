#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a cold build: user CPU seconds per part and per file, compiler phases, headers and templates.

  bench/build_time.py BUILD [PART...]        configures BUILD, builds each part and prints its cost;
                                             parts: library converter samples tools tests (default: all of these)
  bench/build_time.py BUILD --demo           the targets and options of scripts/demo.sh
  bench/build_time.py BUILD --report         prints a finished build again
  bench/build_time.py BUILD --phases FILE... what GCC spends on parsing, instantiating and optimizing each file
  bench/build_time.py BUILD --traces         headers and templates by cost; BUILD was compiled by Clang with
                                             -DCMAKE_CXX_FLAGS=-ftime-trace
  --compare                     prints each part beside the recorded one, and the ten files that grew most
  --emit                        records the parts and files in docs/measurements

CMake runs every compiler and linker through this file, which appends a line per command to BUILD/build_time.jsonl.
Compare user CPU seconds: wall time depends on what else the machine does.
"""
import json
import os
import sys
import time


def record(log, command):
    """Runs a command and appends its cost to log. Returns its exit code."""
    begin = time.monotonic()
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    output = command[command.index("-o") + 1] if "-o" in command else ""
    line = json.dumps({"output": output, "wall": round(time.monotonic() - begin, 2), "user": round(usage.ru_utime, 2),
                       "system": round(usage.ru_stime, 2), "mib": usage.ru_maxrss // 1024})
    with open(log, "a") as file:
        file.write(line + "\n")
    return os.waitstatus_to_exitcode(status)


if len(sys.argv) > 3 and sys.argv[1] == "--record":  # before the imports below, which would cost more than the work
    sys.exit(record(sys.argv[2], sys.argv[3:]))

import argparse
import collections
import datetime
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import measurements  # noqa: E402

# Targets of each part, and how its outputs begin.
PARTS = {
    "library": (["hologram"], ("lib/",)),
    "converter": (["hg-convert"], ("converter/", "kernels/reference/", "bin/hg-convert")),
    "samples": (["digits"], ("samples/", "bin/digits")),
    "tools": (["hg-run", "hg-info", "hg-bench", "hg-train", "hg-embed", "hg-diff", "hg-quantize", "hg-generate"], ("tools/", "bin/hg-")),
    "python": ([], ("python/",)),
    "tests": (["all"], ("",)),
}


def part_of(output):
    return next(part for part, (_, begins) in PARTS.items() if output.startswith(begins))


def load(build):
    """Cost of each output; a file that was compiled again counts with its last run."""
    log = build / "build_time.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return {line["output"]: line for line in lines if line["output"] not in ("", "/dev/null")}


def configure(build, options):
    launcher = f"{sys.executable};-S;-E;{pathlib.Path(__file__).resolve()};--record;{build.resolve() / 'build_time.jsonl'}"
    launchers = [f"-DCMAKE_{language}_{kind}_LAUNCHER={launcher}" for language in ("C", "CXX") for kind in ("COMPILER", "LINKER")]
    subprocess.run([ROOT / "scripts" / "configure.sh", build, *launchers, *options], check=True)


def make(build, targets, jobs):
    """Builds targets. Returns the wall time in seconds."""
    begin = time.monotonic()
    subprocess.run(["cmake", "--build", build, "--parallel", str(jobs), "--target", *targets], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def report(build, walls):
    outputs = load(build)
    rows = []
    for part in PARTS:
        lines = [line for output, line in outputs.items() if part_of(output) == part]
        if lines:
            user, system = (sum(line[key] for line in lines) for key in ("user", "system"))
            rows.append([part, len(lines), round(user), round(system), round(walls[part]) if part in walls else None])
    return rows


def print_table(columns, rows):
    widths = [max(len(str("-" if v is None else v)) for v in column) for column in zip(columns, *rows)]
    for row in [columns, *rows]:
        print("  ".join(str("-" if v is None else v).rjust(w) for v, w in zip(row, widths)))


def slowest(build, count):
    lines = sorted(load(build).values(), key=lambda line: -line["user"])[:count]
    print_table(["user s", "MiB", "file"], [[line["user"], line["mib"], short(line["output"])] for line in lines])


def short(output):
    return re.sub(r"CMakeFiles/(\w[\w-]*)\.dir/", r"\1: ", output).replace("__/", "")


def phases(build, files):
    """GCC's own account of its time, per file: seconds of -ftime-report's phases."""
    listed = subprocess.run(["ninja", "-t", "compdb"], cwd=build, check=True, capture_output=True, text=True).stdout
    commands = {entry["file"]: entry for entry in json.loads(listed)}
    rows = []
    for name in files:
        entry = next((e for path, e in commands.items() if path.endswith(name)), None)
        if entry is None:
            sys.exit(f"build_time.py: {build} compiles no file {name}")
        command = re.sub(r" -o \S+", " -o /dev/null", entry["command"]) + " -ftime-report"
        text = subprocess.run(command, shell=True, cwd=build, capture_output=True, text=True).stderr
        seconds = {m[1].strip(): float(m[2]) for m in re.finditer(r"^ ([^:\n]+):\s+([\d.]+)", text, re.M)}
        rows.append([name, *(seconds.get(key) for key in ("phase parsing", "phase lang. deferred", "phase opt and generate", "TOTAL"))])
    print_table(["file", "parse", "instantiate", "optimize", "total"], rows)


def traces(build):
    """Sums of Clang's -ftime-trace over all files: seconds per header and per template."""
    headers, templates = collections.Counter(), collections.Counter()
    for path in build.rglob("*.json"):
        if "CMakeFiles" not in path.parts:
            continue
        for event in json.loads(path.read_text()).get("traceEvents", []):
            detail = event.get("args", {}).get("detail", "")
            if event.get("name") == "Source":
                headers[detail] += event["dur"] / 1e6
            elif event.get("name") in ("InstantiateClass", "InstantiateFunction"):
                templates[re.sub(r"<.*", "<>", detail)] += event["dur"] / 1e6
    for title, counter in (("header", headers), ("template", templates)):
        print_table(["s", title], [[round(v, 1), k] for k, v in counter.most_common(25)])


def recorded(name):
    path = measurements.FOLDER / f"{name}.json"
    return {row[0]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}


def files_of(build):
    """User seconds of each file that takes at least three seconds."""
    return {short(output): line["user"] for output, line in load(build).items() if line["user"] >= 3}


def compare(build, rows):
    before = recorded("build_time")
    print_table(["part", "user s", "recorded", "ratio"],
                [[row[0], row[2], before[row[0]][2], round(row[2] / before[row[0]][2], 2)] for row in rows if row[0] in before])
    before = {name: row[1] for name, row in recorded("build_time_files").items()}
    grown = sorted(((user - before.get(name, 0), name) for name, user in files_of(build).items()), reverse=True)[:10]
    print_table(["more s", "user s", "file"], [[round(more, 1), files_of(build)[name], name] for more, name in grown if more > 0])


def emit(build, rows, columns):
    shared = {"date": str(datetime.date.today()), "machine": f"{os.cpu_count()} cores", "command": "bench/build_time.py BUILD"}
    what = "a cold build without ccache"
    measurements.emit({"title": "Build time", **shared, "what": what, "columns": columns, "rows": rows},
                      measurements.FOLDER / "build_time.json")
    files = sorted(files_of(build).items(), key=lambda item: -item[1])
    measurements.emit({"title": "Build time of files", **shared, "what": f"{what}, files of three seconds or more",
                       "columns": ["file", "user s"], "rows": [list(item) for item in files]},
                      measurements.FOLDER / "build_time_files.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", metavar="PART")
    for flag in ("--demo", "--report", "--traces", "--compare", "--emit"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--phases", nargs="+", metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--files", type=int, default=15, help="how many files to list")
    arguments = parser.parse_intermixed_args()
    if arguments.phases:
        return phases(arguments.build, arguments.phases)
    if arguments.traces:
        return traces(arguments.build)
    walls = {}
    if not arguments.report:
        shutil.rmtree(arguments.build, ignore_errors=True)
        arguments.build.mkdir(parents=True)
        parts = arguments.parts or (["library", "converter", "samples"] if arguments.demo else [p for p in PARTS if PARTS[p][0]])
        if unknown := {part for part in parts if not PARTS.get(part, ([],))[0]}:
            sys.exit(f"build_time.py: unknown part {', '.join(unknown)}; the parts are {', '.join(p for p in PARTS if PARTS[p][0])}")
        options = subprocess.run([ROOT / "scripts" / "demo.sh", "--options"], check=True, capture_output=True,
                                 text=True).stdout.split() if arguments.demo else ["-DHG_TESTS=ON", "-DHG_BENCH=OFF"]
        configure(arguments.build, options)
        for part in parts:
            walls[part] = make(arguments.build, PARTS[part][0], arguments.jobs)
    rows = report(arguments.build, walls)
    columns = ["part", "commands", "user s", "system s", "wall s"]
    print_table(columns, rows)
    slowest(arguments.build, arguments.files)
    if arguments.compare:
        compare(arguments.build, rows)
    if arguments.emit:
        emit(arguments.build, rows, columns)


if __name__ == "__main__":
    main()
