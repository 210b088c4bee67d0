# SPDX-License-Identifier: Apache-2.0
"""Compares the table of aten's defaults with libtorch, for every op that has a row."""
import json
import re
import subprocess
from pathlib import Path

import torch

IMPLIED = ("dtype", "layout", "device", "pin_memory", "memory_format", "generator")  # None is not listed
TABLE = Path(__file__).parents[3] / "converter/load/exported/aten_defaults.cpp"


def written(value):
    if isinstance(value, list):
        return "[" + ", ".join(written(each) for each in value) + "]"
    return f"'{value}'" if isinstance(value, str) else repr(value)


def troubles(tools):
    rows = re.findall(r'^    \{"([^"]+)",((?:\s+"[^"]*")+)\},$', TABLE.read_text(), re.M)
    table = {f"aten::{name}": defaults for defaults, names in rows for name in names.replace('"', "").split()}
    listed = json.loads(subprocess.run([str(tools / "hg-convert"), "--list-ops", "--json", "-"],
                                       capture_output=True, text=True).stdout)
    rows = {name.split(".")[0] for name in listed["torchscript"]}
    if len(table) < 350 or len(rows) < 400:
        yield f"the table has {len(table)} lines, the rows are {len(rows)}"
    schemas = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        defaults = [(a.name, a.default_value) for a in schema.arguments
                    if a.has_default_value() and not (a.name in IMPLIED and a.default_value is None)]
        schemas[name] = ", ".join(f"{key}={written(value)}" for key, value in defaults)
    for name, defaults in table.items():
        if schemas.get(name) != defaults:
            yield f"{name}: the table has ({defaults}), libtorch ({schemas.get(name)})"
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        if schema.name not in rows or schema.name in ("aten::tensor", "aten::as_tensor") or not schemas[name] or any(a.is_out for a in schema.arguments):
            continue
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
        kinds = str(schema)
        if (packet is None or (schema.overload_name or "default") not in packet.overloads()
                or "Dimname" in kinds or "str self" in kinds or "Tensor" not in kinds
                or schema.overload_name == "hacked_twin"):
            continue  # only in TorchScript, never in an export
        bases = [schema.name] + [schema.name.removesuffix(end) for end in ("_", "_copy")]
        if not any(base + name[len(schema.name):] in table for base in bases):
            yield f"{name} is not in the table: ({schemas[name]})"
