# SPDX-License-Identifier: Apache-2.0
"""Shrinks a failing program: removes everything that the verdict does not need."""
from __future__ import annotations

import ast
import copy
from dataclasses import replace
from pathlib import Path

from apart import judge_apart
from export import CLASS
from generate import Program
from judge import Verdict
from tools import Tools

MOST_AT_ONCE = 60
MOST_ROUNDS = 40


def smaller(source: str) -> list[str]:
    """Programs with one part less, the largest cuts first."""
    tree = ast.parse(source)
    found: list[str] = []

    def keep(changed: ast.Module) -> None:
        try:
            text = ast.unparse(ast.fix_missing_locations(changed)) + "\n"
        except (ValueError, AttributeError):
            return
        if text not in found and text != source:
            found.append(text)

    blocks = [(k, name) for k, node in enumerate(ast.walk(tree)) for name in ("body", "orelse")
              if isinstance(getattr(node, name, None), list)
              and isinstance(node, (ast.FunctionDef, ast.If, ast.For, ast.While))]
    for k, name in blocks:
        count = len(getattr(nth(tree, k), name))
        spans = [(i, i + size) for size in (8, 4, 2, 1) for i in range(0, count - size + 1, max(size // 2, 1))]
        for start, end in spans:
            changed = copy.deepcopy(tree)
            block = getattr(nth(changed, k), name)
            del block[start:end]
            if not block and name == "body":
                block.append(ast.Pass())
            keep(changed)
        for i in range(count):
            inner = getattr(nth(tree, k), name)[i]
            for part in ("body", "orelse"):
                if isinstance(inner, (ast.If, ast.For, ast.While)) and getattr(inner, part):
                    changed = copy.deepcopy(tree)
                    block = getattr(nth(changed, k), name)
                    block[i:i + 1] = getattr(block[i], part)
                    keep(changed)
    for k, node in enumerate(ast.walk(tree)):
        for name, value in ast.iter_fields(node):
            for where in range(len(value)) if isinstance(value, list) else [None]:
                part = value[where] if where is not None else value
                if not isinstance(part, ast.expr) or isinstance(node, (ast.arguments, ast.arg)):
                    continue
                if isinstance(node, ast.Tuple) and len(value) > 1 and isinstance(getattr(node, "ctx", None), ast.Load):
                    changed = copy.deepcopy(tree)
                    del getattr(nth(changed, k), name)[where]
                    keep(changed)
                for other in simpler(part):
                    changed = copy.deepcopy(tree)
                    if where is None:
                        setattr(nth(changed, k), name, other)
                    else:
                        getattr(nth(changed, k), name)[where] = other
                    keep(changed)
    return sorted(found, key=len)


def nth(tree: ast.AST, k: int) -> ast.AST:
    for i, node in enumerate(ast.walk(tree)):
        if i == k:
            return node
    raise IndexError


def simpler(part: ast.expr) -> list[ast.expr]:
    """Expressions that may replace this one."""
    if not isinstance(getattr(part, "ctx", ast.Load()), ast.Load) or isinstance(part, (ast.Constant, ast.Name)):
        return []
    inner = [child for child in ast.walk(part) if child is not part and isinstance(child, ast.expr)
             and isinstance(getattr(child, "ctx", ast.Load()), ast.Load)]
    inner = [child for child in inner if not (isinstance(child, ast.Name) and child.id == "torch")]
    return inner[:8] + [ast.Constant(True), ast.Constant(1)]


def is_like(a: Verdict, b: Verdict) -> bool:
    return a.kind == b.kind and a.reason[:60] == b.reason[:60]


def shrink(program: Program, verdict: Verdict, root: Path, tools: Tools, jobs: int) -> tuple[Program, Verdict]:
    for _ in range(MOST_ROUNDS):
        texts = [text for text in smaller(program.source) if len(text) < len(program.source)]
        better = None
        for start in range(0, len(texts), MOST_AT_ONCE):
            tried = [replace(program, source=text) for text in texts[start:start + MOST_AT_ONCE]]
            found = dict(judge_apart(tried, root, tools, jobs))
            like = next((i for i in range(len(tried)) if is_like(found[i], verdict)), None)
            if like is not None:
                better, verdict = tried[like], found[like]
            if better:
                break
        if better is None:
            return program, verdict
        program = better
    return program, verdict


def script(program: Program, verdict: Verdict) -> str:
    """A file that reproduces the finding by itself."""
    arguments = " ".join(f"--input '{each}'" for each in program.options())
    make = "torch.jit.script(forward)"
    if program.traced:
        sizes = [tuple(int(dim) if dim.isdigit() else {"n": 5, "m": 4, "k": 3}[dim] for dim in dims) for _, dims in program.inputs]
        examples = ", ".join(f"torch.ones({size}, dtype=torch.{'float32' if dtype == 'f32' else 'int64'})"
                             for size, (dtype, _) in zip(sizes, program.inputs))
        make = f"torch.jit.trace(forward, ({examples},))"
    if program.exported:
        opened = ", ".join("{" + ", ".join(f"{d}: torch.export.Dim.AUTO" for d, dim in enumerate(dims) if not dim.isdigit()) + "}"
                           for _, dims in program.inputs)
        names = ", ".join("xy"[:len(program.inputs)])
        return f"""# {verdict.kind}: {verdict.detail or verdict.reason}
# python3 THIS.py && hg-convert model.pt2
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn


{program.source}

{CLASS.format(names=names)}

torch.export.save(torch.export.export(Program(), ({examples},), dynamic_shapes=({opened},)), "model.pt2")
"""
    return f"""# {verdict.kind}: {verdict.detail or verdict.reason}
# python3 THIS.py && hg-convert model.pt {arguments}
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor


{program.source}

{make}.save("model.pt")
"""
