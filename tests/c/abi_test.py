#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ABI of released versions stays: the symbols of libhologram_c, the size and field offsets of hg/c.h's structs, and each constant.
Each file of lib/c/symbols lists what one version added. The test fails if a line of any file is gone, or if something
new is in no file. --write adds that to the file of the current version, at the end of a struct or as a symbol, and removes nothing."""
import argparse
import pathlib
import re
import subprocess
import sys


def exported(library, nm):
    text = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in text.splitlines() if " A " not in line}
    return sorted(names)


def layout(header, compiler, work):
    """Lines such as `hg_tensor.data 8`, printed by a C program that is generated from the header."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    lines = []
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.S):
        lines.append(f'  printf("sizeof {name} %d\\n", (int)sizeof({name}));')
        fields = []
        for declaration in body.split(";"):
            declaration = declaration.strip()
            if pointer := re.search(r"\(\*(\w+)\)", declaration):
                fields.append(pointer.group(1))
                continue
            for part in declaration.split(","):
                if match := re.search(r"(\w+)\s*(\[.*\])?\s*$", part.strip()):
                    fields.append(match.group(1))
        lines += [f'  printf("{name}.{field} %d\\n", (int)offsetof({name}, {field}));' for field in fields]
    for body in re.findall(r"enum \{(.*?)\}", text, re.S):
        lines += [f'  printf("{name} %d\\n", (int){name});' for name in re.findall(r"(\w+)\s*=", body)]
    source = work / "abi_layout.c"
    source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include \"hg/c.h\"\nint main(void) {\n"
                      + "\n".join(lines) + "\n  return 0;\n}\n")
    program = work / "abi_layout"
    subprocess.run([compiler, "-std=c99", "-I", header.parent.parent, source, "-o", program], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("library", "header", "symbols", "work"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--write", action="store_true", help="add what is new to the list")
    args = parser.parse_args()

    shown = exported(args.library, args.nm)
    foreign = [name for name in shown if not name.startswith(("hg_", "HOLOGRAM_"))]
    declared = set(re.findall(r"\b(hg_\w+)\(", re.sub(r"/\*.*?\*/", "", args.header.read_text(), flags=re.S)))
    errors = [f"libhologram_c shows {name}, which is not the library's" for name in foreign]
    errors += [f"{name} is declared, but libhologram_c does not show it" for name in sorted(declared - set(shown))]
    errors += [f"libhologram_c shows {name}, which hg/c.h does not declare"
               for name in shown if name.startswith("hg_") and name not in declared]
    now = [name for name in shown if name.startswith("hg_")] + layout(args.header, args.compiler, args.work)
    kept = {}  # by line: its version
    for file in sorted(args.symbols.glob("*.txt")):
        kept.update({line: file.stem for line in file.read_text().splitlines() if line and not line.startswith("#")})
    # A struct may have grown at its end.
    sizes = {line.split()[1]: int(line.split()[2]) for line in now if line.startswith("sizeof ")}
    for line, version in kept.items():
        if line.startswith("sizeof "):
            _, name, size = line.split()
            if sizes.get(name, 0) < int(size):
                errors.append(f"{name} has {sizes.get(name, 0)} bytes; it had {size} in {version}")
        elif line not in now:
            errors.append(f"'{line}' of {version} is gone")
    new = [line for line in now if line not in kept]
    if args.write and not errors and new:
        file = args.symbols / f"{args.version}.txt"
        before = file.read_text() if file.exists() else f"# What came with {args.version} (tests/c/abi_test.py).\n"
        file.write_text(before + "".join(line + "\n" for line in new))
    elif new:
        errors.append(f"not in {args.symbols.name} (add them to {args.version}.txt with --write): " + ", ".join(new))
    print("\n".join(errors) or f"{len(kept)} lines hold")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
