# SPDX-License-Identifier: Apache-2.0
"""The promises in README.md: each test and script named there exists, and each test file is named."""

import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]


def _tests(stem):
    return set(re.findall(r"^def (test_\w+)\(", (HERE / f"test_{stem}.py").read_text(encoding="utf-8"), re.MULTILINE))


def test_what_proves_each_promise_is_there():
    rows = [row for row in (HERE / "README.md").read_text(encoding="utf-8").splitlines() if row.startswith("| ")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[-1])]
    assert len(named) > 100 and all("`" in row.split(" | ")[-1] for row in rows if row != "| promise | test |")
    missing = [name for name in named if "::" in name and name.split("::")[1] not in _tests(name.split("::")[0])]
    assert not missing
    elsewhere = {"eig", "promises"}  # of one op; of the table
    assert {path.stem[5:] for path in HERE.glob("test_*.py")} - {name.split("::")[0] for name in named} == elsewhere
    if not (ROOT / "bench").exists():
        pytest.skip("the tests stand apart from the checkout")
    assert not [name for name in named if "::" not in name and not (ROOT / name).exists()]
