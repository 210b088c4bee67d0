#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""options.py WORK [OPTION_OF_CMAKE...]: the option table in README.md lists each CMake option of this project with the default that
CMake uses in the new folder WORK."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def defaults(work, options):
    shutil.rmtree(work, ignore_errors=True)
    done = subprocess.run(["cmake", "-S", ROOT, "-B", work, *options], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"cmake gives {done.returncode}:\n{done.stdout}{done.stderr}")
    return dict(re.findall(r"^(HG_\w+):(?:BOOL|STRING)=(.*)$", (work / "CMakeCache.txt").read_text(), re.M))


def rows():
    """The default of each option according to the table."""
    found = {}
    for names, default in re.findall(r"^\| (`HG_[^|]*) \| ([^|]*) \|", (ROOT / "README.md").read_text(), re.M):
        names = re.findall(r"HG_\w+", names)
        given = default.replace("`", "").split(", ")
        found |= dict(zip(names, given if len(given) == len(names) else given * len(names)))
    return found


def main():
    known, said = defaults(pathlib.Path(sys.argv[1]), sys.argv[2:]), rows()
    errors = [f"README.md has no row of {name}" for name in sorted(known.keys() - said.keys())]
    errors += [f"README.md has a row of {name}, which is no option" for name in sorted(said.keys() - known.keys())]
    for name in sorted(known.keys() & said.keys()):
        allowed = {"where found": ("ON", "OFF"), "without ccache": ("ON", "OFF"), "none": ("",), "all": ("",)}.get(said[name], (said[name],))
        if known[name] not in allowed:
            errors.append(f"README.md says that {name} is {said[name]}, CMake that it is '{known[name]}'")
    print("\n".join(errors) or f"{len(said)} options have the defaults of README.md")
    return 1 if errors or len(said) < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
