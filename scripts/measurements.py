#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints docs/measurements/*.json as Markdown tables: all of them, or the named ones.

  scripts/measurements.py [NAME...]     such as latency_2
  scripts/measurements.py --check       reports errors in the files and wrong numbers in README.md

A file is one measurement: its title, date, machine, what was measured, often the command, and a table. It is replaced when measured
again, and never edited.
"""
import datetime
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "measurements"


def text(data):
    """The text of a measurement's file, with one row per line."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in data.items() if key != "rows"]
    rows = ",\n".join(f"    {json.dumps(row)}" for row in data["rows"])
    return "{\n" + ",\n".join(lines) + ',\n  "rows": [\n' + rows + "\n  ]\n}\n"


def emit(data, path=None):
    """Writes a measurement of a benchmark to the file, or prints it."""
    if path:
        path.write_text(text(data))
    else:
        print(text(data), end="")


def cell(value):
    return "-" if value is None else str(value)


def markdown(data):
    lines = [f"## {data['title']}", "", f"{data['date']}, {data['machine']}: {data['what']}."]
    for key in ("peers", "command"):
        if key in data:
            lines.append(f"{key.capitalize()}: `{data[key]}`." if key == "command" else f"Peers: {data[key]}.")
    right = ["--:" if all(not isinstance(r[i], str) for r in data["rows"]) else "---" for i in range(len(data["columns"]))]
    lines += ["", "| " + " | ".join(c.strip() for c in data["columns"]) + " |", "|" + "|".join(right) + "|"]
    lines += ["| " + " | ".join(cell(v) for v in row) + " |" for row in data["rows"]]
    return "\n".join(lines) + "\n"


def faults(path):
    """Errors in the form of a file."""
    data = json.loads(path.read_text())
    for key in ("title", "date", "machine", "what", "columns", "rows"):
        if not data.get(key):
            yield f"{path.name} has no {key}"
            return
    try:
        datetime.date.fromisoformat(data["date"])
    except ValueError:
        yield f"{path.name}: '{data['date']}' is no date"
    for row in data["rows"]:
        if len(row) != len(data["columns"]):
            yield f"{path.name}: {row[0]} has {len(row)} cells, the table {len(data['columns'])} columns"


def readme_faults():
    """Rows of README.md's latency table that differ from latency_2."""
    data = json.loads((FOLDER / "latency_2.json").read_text())
    rows = {row[0]: row[1:7] for row in data["rows"]}
    lines = (ROOT / "README.md").read_text().splitlines()
    names = {"minilm": "minilm, 128 tokens", "lstm_2x128": "LSTM, 2 layers of 128"}
    found = 0
    for model, values in rows.items():
        shown = [line for line in lines if line.startswith(f"| {names.get(model, model)} |")]
        for line in shown:
            found += 1
            cells = [c.strip().strip("*") for c in line.strip("|").split("|")[1:]]
            if [None if c == "-" else float(c) for c in cells] != values:
                yield f"README.md: {model} is {cells}, measured were {[cell(v) for v in values]}"
    if found == 0:
        yield "README.md shows no latencies"


def main():
    names = sys.argv[1:]
    if names[:1] in (["--help"], ["-h"]):
        print(__doc__.strip())
        return 0
    if names == ["--check"]:
        wrong = [fault for path in sorted(FOLDER.glob("*.json")) for fault in faults(path)]
        wrong += readme_faults()
        print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
        return 1 if wrong else 0
    paths = [FOLDER / f"{name}.json" for name in names] or sorted(FOLDER.glob("*.json"))
    for path in paths:
        if not path.exists():
            print(f"{path.name}: no such measurement; there are {', '.join(sorted(p.stem for p in FOLDER.glob('*.json')))}", file=sys.stderr)
            return 2
        print(markdown(json.loads(path.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
