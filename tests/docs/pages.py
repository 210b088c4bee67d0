#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs every code block in README.md and docs/*.md: C++ and C, CMake, and commands.

usage: pages.py BUILD WORK [--cxx c++] [--cc cc] [--link=LIBRARY,FLAG...] [--converter] [--vulkan] [--text]
A block is fenced, with its language, or indented by four spaces; an indented block that starts with a command is run. C++ and C
blocks are whole files, and run if they have a main(). pytest runs Python blocks (python/tests/test_docs.py).
"""
import argparse, os, pathlib, re, shutil, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "docs/python/cpp.md"]
COMMANDS = ("hg-", "cc ")  # scripts/ and cmake: .ci/run runs those of the README
MODELS = """
import numpy as np, torch
from torch import nn
torch.manual_seed(0)
class Rows(nn.Sequential):
    def forward(self, row): return super().forward(row)
net = nn.Sequential(nn.Conv2d(3, 8, 16, 16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
example = torch.randn(1, 3, 224, 224)
torch.jit.trace(net.eval(), example).save("model.pt")
torch.jit.trace(Rows(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).eval(), torch.randn(1, 16)).save("net.pt")
np.save("images.npy", torch.randn(60, 16).numpy())
np.save("labels.npy", torch.randint(10, (60,)).numpy())
for name in ("image.npy", "x.npy"): np.save(name, example.numpy())
open("codec.py", "w").write('''
import torch
class Codec(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(8))
    @torch.jit.export
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        z = x[:, :8] * 2
        self.last.copy_(z[0])
        return z
    @torch.jit.export
    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return z + self.last
    @torch.jit.export
    def reset(self) -> None:
        self.last.zero_()
''')
from codec import Codec
torch.jit.script(Codec()).save("codec.pt")
class Stream(nn.Module):
    def forward(self, x, cache): return {"y": x + cache, "cache_out": x[-1] * 2}
torch.jit.trace(Stream(), (torch.randn(4, 8), torch.randn(8)), strict=False).save("stream.pt")
torch.jit.trace(nn.Linear(64, 8), (torch.randn(1, 64),)).save("encoder.pt")
torch.jit.trace(nn.Linear(8, 64), (torch.randn(1, 8),)).save("decoder.pt")
"""


def blocks(page):
    """Each block of a page: its line, its language, or "commands" or "", and its text."""
    text = page.read_text()
    for found in re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```|(?:(?<=\n\n)|\A)((?:    [^\n]*\n(?:\n(?=    ))?)+)", text, re.M | re.S):
        line = text[: found.start()].count("\n") + 1
        if found[3] is None:
            yield line, found[1], found[2]
        else:
            body = re.sub(r"^    ", "", found[3], flags=re.M)
            yield line, "commands" if body.startswith(COMMANDS) else "", body


def run(command, where, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{where}: {command if isinstance(command, str) else ' '.join(map(str, command))} gives {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Work:
    def __init__(self, given):
        self.given = given
        self.folder = given.work.resolve()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.prefix = self.folder / "prefix"
        run(["cmake", "--install", given.build, "--prefix", self.prefix], "the installation")
        pc = next(self.prefix.rglob("hologram.pc"))
        self.environment = {
            **os.environ, "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}", "PKG_CONFIG_PATH": str(pc.parent),
            "LIBRARY_PATH": str(pc.parents[1]), "LD_LIBRARY_PATH": str(pc.parents[1]),
        }  # fmt: skip

    def compile(self, where, language, text):
        compiler, flags = {"cpp": (self.given.cxx, ["-std=c++20"]), "c": (self.given.cc, ["-std=c99", "-pedantic", "-Werror"])}[language]
        source = self.folder / f"main.{language}"
        source.write_text(text)
        command = [compiler, *flags, "-I", self.prefix / "include", source]
        if "int main(" not in text:
            return run([*command, "-fsyntax-only"], where)
        program = self.folder / "program"
        libraries = self.given.link.split(",") if language == "cpp" else ["-lhologram_c"]
        run([*command, *libraries, "-o", program], where, env=self.environment)
        run([program], where, cwd=self.folder, env=self.environment)

    def cmake(self, where, text):
        """The lines link a separate application."""
        project = self.folder / "project"
        project.mkdir(exist_ok=True)
        (project / "main.cpp").write_text('#include "hg/hg.h"\nint main() { return hg::Model::load("none.hgm").ok(); }\n')
        begin = "cmake_minimum_required(VERSION 3.22)\nproject(app LANGUAGES CXX)\nadd_executable(app main.cpp)\n"
        (project / "CMakeLists.txt").write_text(begin + text)
        run(["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={self.given.cxx}"], where)
        run(["cmake", "--build", project / "build"], where)
        run([project / "build" / "app"], where)

    def commands(self, where, text):
        for command in re.sub(r"\\\n", " ", text).strip().splitlines():
            run(["bash", "-e", "-c", command], where, cwd=self.folder, env=self.environment)

    def make_files(self):
        run([self.given.models_python, "-c", MODELS], "the models of the pages", cwd=self.folder)
        self.commands("the models of the pages", "hg-convert net.pt -o net.hgm --input 'row:f32[n,16]'")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--models-python", default=sys.executable, help="a Python with torch")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--link", default="", help="what programs are linked with, between commas")
    parser.add_argument("--converter", action="store_true", help="the build has tools and converter: run the commands")
    parser.add_argument("--vulkan", action="store_true", help="there is a Vulkan device")
    parser.add_argument("--text", action="store_true", help="the build has libhologram_text")
    given = parser.parse_args()
    work = Work(given)
    if given.converter:
        work.make_files()
    counts = {}
    for page in PAGES:
        for line, language, text in blocks(page):
            where = f"{page.relative_to(ROOT)}:{line}"
            if language in ("cpp", "c"):
                if not text.startswith("#include"):
                    sys.exit(f"{where}: this is no whole file: it begins without an #include")
                if "hg/text/" in text and not given.text:
                    continue
                work.compile(where, language, text)
            elif language == "cmake":
                work.cmake(where, text)
            elif language == "commands":
                if not given.converter or ("--device vulkan" in text and not given.vulkan):
                    continue
                if "MODEL.hgm" in text:
                    shutil.copy(work.folder / "model.hgm", work.folder / "MODEL.hgm")
                work.commands(where, text)
            elif language not in ("", "python"):
                sys.exit(f"{where}: nothing here knows how to run '{language}'")
            else:
                continue
            counts[language] = counts.get(language, 0) + 1
    print("ran " + ", ".join(f"{count} of {language}" for language, count in counts.items()))


if __name__ == "__main__":
    main()
