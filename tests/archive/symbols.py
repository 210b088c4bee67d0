#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symbols.py ARCHIVE...: the archives' symbols cannot clash with a host's. Global symbols are in namespace hg or begin
with hg_. All other symbols are inline code of headers (std, flatbuffers): weak, as in every program that includes them, and hidden
unless they belong to the C++ library."""
import argparse
import re
import subprocess
import sys

# A mangled name in hg: _ZN2hg..., _ZNK2hg..., its vtables and similar symbols, templates and operators on its types.
OURS = re.compile(r"^(hg_|_Z[A-Z]*[a-zA-Z]{0,3}?N?[KOR]*2hg|_ZG|_Z[A-Za-z0-9]*N2hg)")
INLINE = set("WVu")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("archives", nargs="+")
    args = parser.parse_args()
    text = subprocess.run([args.nm, "-g", "--defined-only", *args.archives], check=True, capture_output=True, text=True).stdout
    names = [line.split()[-2:] for line in text.splitlines() if len(line.split()) == 3]
    foreign = sorted({name for kind, name in names if kind not in INLINE and not OURS.match(name)})
    print(f"{len(names)} symbols; foreign: {', '.join(foreign) or 'none'}")
    return 1 if foreign or len(names) < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
