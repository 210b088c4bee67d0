#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes that each part of the library adds to the smallest program, by source folder.

size_parts.py --build FOLDER [--json FILE]

Links samples/minimal with all of FOLDER's libhologram.a, configured with -DHG_VULKAN=OFF as in docs/size.md, and sums the entries of
the linker's map. Bytes that belong to no library file come from the linker and the compiler.
"""
import argparse
import collections
import datetime
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import measurements  # noqa: E402

PARTS = {
    "kernels/attention": "attention, rotary embedding",
    "kernels/conv": "convolutions: depthwise, channels last, Winograd, direct, products",
    "kernels/fill": "random numbers, constants, control flow",
    "kernels/gemm": "products of matrices: f32, f16, bf16, f64, by BLAS",
    "kernels/image": "images, detection, `grid_sample`",
    "kernels/index": "index, scatter, copies",
    "kernels/linalg": "decompositions, FFT",
    "kernels/norm": "norms",
    "kernels/pointwise": "elementwise ops",
    "kernels/pool": "pooling",
    "kernels/program": "programs of elementwise ops",
    "kernels/recurrent": "recurrent layers",
    "kernels/reduce": "reductions, scans, sort, search",
    "kernels/train": "optimizers, CTC",
    "lib/compile": "passes",
    "lib/device": "devices",
    "lib/expression": "kernels as text",
    "lib/graph": "graph, sizes, checks",
    "lib/model": "the reader of files",
    "lib/ops": "rules, gradients and expansions of all ops",
    "lib/plan": "planner",
    "lib/run": "sessions",
}
LINKER = "relocations, tables of unwinding, of symbols"
# Namespaces in which Highway compiles kernels.
SETS = {"N_AVX3": "AVX-512", "N_AVX2": "AVX2", "N_SSE4": "SSE4", "N_SCALAR": "the plain set"}
# " .text.name  0xaddress  0xsize  file", where a long name has a line of its own.
SECTION = re.compile(r"^ (\.[^\s]+|\*fill\*)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S+)$")


def folder_of(path):
    """kernels/conv of lib/CMakeFiles/hologram_hot.dir/__/kernels/conv/conv.cpp.o; None for files outside the library."""
    found = re.search(r"lib/CMakeFiles/hologram[a-z_]*\.dir/(.*)/[^/]+\.o$", path)
    if not found:
        return None
    inside = found[1]
    return inside[len("__/"):] if inside.startswith("__/") else "lib/" + inside


def parts_of(map_text):
    """Bytes that the linker kept, by folder and by instruction set."""
    kept = map_text[map_text.index("Linker script and memory map"):]
    kept = re.sub(r"\n (\.\S+)\n\s+(0x)", r"\n \1 \2", kept)
    folders, sets = collections.Counter(), collections.Counter()
    for line in kept.splitlines():
        section = SECTION.match(line)
        if not section or int(section[2], 16) == 0 or section[1].startswith((".bss", ".tbss", ".debug", ".comment")):
            continue
        folder = folder_of(section[4])
        if not folder:
            continue
        folders[folder] += int(section[3], 16)
        for name, text in SETS.items():
            if name in section[1] and folder.startswith("kernels/"):
                sets[text] += int(section[3], 16)
    return folders, sets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    build = options.build.resolve()
    if "HG_VULKAN:BOOL=OFF" not in (build / "CMakeCache.txt").read_text():
        parser.error(f"{build} is not configured with -DHG_VULKAN=OFF")
    members = subprocess.run(["ninja", "-C", str(build), "-t", "inputs", "lib/libhologram.a"], check=True,
                             capture_output=True, text=True).stdout.split()
    with tempfile.TemporaryDirectory() as work:
        thin, program, listing = (pathlib.Path(work, name) for name in ("thin.a", "program", "map"))
        # Names the folders of its files, which the library's own archive does not.
        objects = [str(build / member) for member in members if member.endswith(".o")]
        subprocess.run(["ar", "rcsT", thin, *objects], check=True)
        subprocess.run(["c++", "-std=c++20", "-O2", f"-I{ROOT}/lib/include", f"-I{build}/generated/include",
                        ROOT / "samples/minimal/main.cpp", thin, "-fopenmp", "-ldl", "-Wl,--gc-sections",
                        "-Wl,-z,pack-relative-relocs", "-s", f"-Wl,-Map={listing}", "-o", program], check=True)
        total = program.stat().st_size
        folders, sets = parts_of(listing.read_text(errors="replace"))
    rest = collections.Counter()
    for folder, count in folders.items():
        if folder not in PARTS:
            rest[folder] += count
    rows = [[PARTS[folder], folder, count] for folder, count in folders.items() if folder in PARTS]
    rows.append([LINKER, "the linker", total - sum(folders.values())])
    if rest:
        rows.append(["the rest", ", ".join(sorted(rest)), sum(rest.values())])
    rows.sort(key=lambda row: -row[2])
    of_sets = ", ".join(f"{sets[text]:,} for {text}" for text in dict.fromkeys(SETS.values()))
    compiler = subprocess.run(["c++", "-dumpversion"], check=True, capture_output=True, text=True).stdout.strip()
    measurements.emit({
        "title": "Parts of a program",
        "date": datetime.date.today().isoformat(),
        "machine": f"GCC {compiler}, x86-64, HG_VULKAN=OFF",
        "what": f"bytes of the stripped samples/minimal, of {total:,}, by the folder that they come from, as the linker's "
                f"map says; of the kernels' bytes {of_sets}",
        "command": "bench/size_parts.py --build build",
        "columns": ["part", "folder", "bytes"],
        "rows": rows,
    }, options.json)


if __name__ == "__main__":
    main()
