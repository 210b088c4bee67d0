#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests abi_test.py, and takes the same arguments. abi_test.py fails if part of an older version is gone or has moved, and --write then
changes no file. It adds new parts only to the file of the current version."""
import pathlib
import re
import shutil
import subprocess
import sys

TEST = pathlib.Path(__file__).with_name("abi_test.py")


def main():
    given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    work = pathlib.Path(given["--work"]) / "abi_refusals"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    header = pathlib.Path(given["--header"]).read_text()
    lists = pathlib.Path(given["--symbols"])

    def run(change=lambda text: text, more="", version=given["--version"], write=False):
        """Exit code, output, and the contents of each list before and after."""
        shutil.rmtree(work / "now", ignore_errors=True)
        (work / "now" / "hg").mkdir(parents=True)
        shutil.copytree(lists, work / "now" / "symbols")
        first = work / "now" / "symbols" / "0.2.0.txt"
        first.write_text(first.read_text() + more)
        (work / "now" / "hg" / "c.h").write_text(change(header))
        now = {**given, "--header": work / "now" / "hg" / "c.h", "--symbols": first.parent, "--work": work / "now",
               "--version": version}
        before = {file.name: file.read_text() for file in first.parent.iterdir()}
        done = subprocess.run([sys.executable, TEST, *[str(word) for pair in now.items() for word in pair], *["--write"] * write],
                              capture_output=True, text=True)
        return done.returncode, done.stdout, before, {file.name: file.read_text() for file in first.parent.iterdir()}

    def changed(old, new):
        assert header.count(old) == 1
        return lambda text: text.replace(old, new)

    swapped = changed("  int32_t rank;\n  int32_t reserved;\n  int64_t shape", "  int32_t reserved;\n  int32_t rank;\n  int64_t shape")
    end = "int64_t strides[HG_C_MAX_RANK];\n} hg_tensor;"
    shorter = changed(end, "int64_t strides[HG_C_MAX_RANK - 1];\n} hg_tensor;")
    longer = changed(end, "int64_t strides[HG_C_MAX_RANK], last;\n} hg_tensor;")
    renumbered = changed("HG_BUSY = 9", "HG_BUSY = 10")

    for write in (False, True):
        for change, more, words in (
                (lambda text: text, "hg_that_was_there\n", "'hg_that_was_there' of 0.2.0 is gone"),
                (swapped, "", "'hg_tensor.rank 16' of 0.2.0 is gone"), (renumbered, "", "'HG_BUSY 9' of 0.2.0 is gone"),
                (shorter, "", r"hg_tensor has \d+ bytes; it had \d+ in 0.2.0")):
            code, said, before, after = run(change, more, write=write)
            assert code == 1 and re.search(words, said) and before == after, (words, code, said)
    code, said, before, after = run(longer)
    assert code == 1 and "hg_tensor.last" in said and before == after, said
    code, said, before, after = run(longer, version="9.9.9", write=True)
    added = [line for line in after.pop("9.9.9.txt").splitlines() if not line.startswith("#")]
    assert code == 0 and before == after and "hg_tensor.last 216" in added and "sizeof hg_tensor 224" in added, (said, added)
    assert all(line.startswith(("sizeof ", "hg_tensor.last ")) for line in added), added
    code, said, before, after = run()
    assert code == 0 and before == after, said


if __name__ == "__main__":
    sys.exit(main())
