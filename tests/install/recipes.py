#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""recipes.py SOURCE: the recipes in packaging/ have the version of CMakeLists.txt, set options that exist, and are well-formed.
tests/nightly/conan and tests/nightly/vcpkg build them."""
import ast
import json
import pathlib
import re
import sys


def main():
    source = pathlib.Path(sys.argv[1])
    lists = "\n".join(path.read_text() for path in [source / "CMakeLists.txt", source / "lib/CMakeLists.txt",
                                                      *sorted((source / "cmake").glob("*.cmake"))])
    version = re.search(r"project\(hologram VERSION ([\d.]+)", lists).group(1)
    known = set(re.findall(r"(?:option|set|find_program)\((HG_\w+)", lists))
    port = json.loads((source / "packaging/vcpkg/hologram/vcpkg.json").read_text())
    portfile = (source / "packaging/vcpkg/hologram/portfile.cmake").read_text()
    conan = (source / "packaging/conan/conanfile.py").read_text()
    ast.parse(conan)
    errors = []
    if port["version-semver"] != version:
        errors.append(f"vcpkg.json has version {port['version-semver']}, CMakeLists.txt {version}")
    if f'version = "{version}"' not in conan:
        errors.append(f"conanfile.py does not have the version of CMakeLists.txt, {version}")
    named = set(re.findall(r"-D(HG_\w+)", portfile)) | set(re.findall(r"\b(HG_[A-Z]+)\b", portfile))
    names = re.search(r"for name in \((.*?)\)", conan).group(1)
    named |= {"HG_" + name for name in re.findall(r'"(\w+)"', names)} | set(re.findall(r'"(HG_[A-Z]+)"', conan))
    errors += [f"a recipe sets {name}, which CMake does not know" for name in sorted(named - known)]
    print("\n".join(errors) or f"recipes of {version} set {len(named)} options")
    return 1 if errors or len(named) < 8 else 0


if __name__ == "__main__":
    sys.exit(main())
