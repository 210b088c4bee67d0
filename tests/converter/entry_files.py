# SPDX-License-Identifier: Apache-2.0
"""Makes random files of several formats entries of one file, and compares them with PyTorch.

  python3 tests/converter/entry_files.py build/bin FOLDER [--count 24] [--seed 1]

Each case has two to four programs that share a pool of weights under their own names: exported programs, TorchScript
and ONNX files. `hg-convert --batch` makes one file of them, and `hg-run --batch` runs each entry at n = 0, 1 and 3.
Outputs must equal those of the modules, and the file must contain each weight of the pool at most once. Skipped without
torch or onnx.
"""
import os
import random
import sys
import warnings

from batch import converted, equal_runs, options, with_hg_run

try:
    import numpy as np
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("no Python with torch, numpy and onnx: entries of several files are left out")
    sys.exit(77)
if not hasattr(torch, "export") or not hasattr(torch.export, "save"):
    print("this torch has no torch.export: entries of several files are left out")
    sys.exit(77)
warnings.simplefilter("ignore")

WIDTH = 64
WEIGHT_BYTES = 4 * WIDTH * WIDTH
OVERHEAD = 8000  # per entry: its graph and vectors


class Program(torch.nn.Module):
    """Steps on tensors of [n, WIDTH]; `last` is a buffer that a run overwrites."""

    def __init__(self, steps, pool):
        super().__init__()
        self.steps = steps
        for _, *own in steps:
            for name, key in own:
                setattr(self, name, torch.nn.Parameter(pool[key].clone()))
        if any(step[0] == "keep" for step in steps):
            self.register_buffer("last", torch.ones(WIDTH))

    def forward(self, x):
        for kind, *own in self.steps:
            values = [getattr(self, name) for name, _ in own]
            if kind == "linear":
                x = torch.nn.functional.linear(x, *values)
            elif kind == "matmul":
                x = x @ values[0]
            elif kind == "add":
                x = x + values[0]
            elif kind == "mul":
                x = x * values[0]
            elif kind == "keep":
                x = x + self.last
                self.last.copy_(x.sum(0))
            else:
                x = getattr(torch, kind)(x)
        return x


def random_steps(rng, prefix, stateful):
    kinds = ["linear", "matmul", "add", "mul", "relu", "tanh"] + (["keep"] if stateful else [])
    steps = []
    for i in range(rng.randint(1, 6)):
        kind = rng.choice(kinds)
        matrices, vectors = [f"m{rng.randrange(3)}"], [f"v{rng.randrange(3)}"]
        keys = {"linear": matrices + vectors, "matmul": matrices, "add": vectors, "mul": vectors}.get(kind, [])
        steps.append((kind, *[(f"{prefix}{i}_{k}", key) for k, key in enumerate(keys)]))
    return steps


def write_onnx(steps, pool, path):
    nodes, weights, x = [], [], "x"

    def node(op, *inputs, **attributes):
        nodes.append(helper.make_node(op, list(inputs), [f"t{len(nodes)}"], **attributes))
        return f"t{len(nodes) - 1}"

    for kind, *own in steps:
        for name, key in own:
            weights.append(numpy_helper.from_array(pool[key].numpy(), name))
        names = [name for name, _ in own]
        if kind == "linear":
            x = node("Gemm", x, names[0], names[1], transB=1)
        elif kind in ("matmul", "add", "mul"):
            x = node({"matmul": "MatMul", "add": "Add", "mul": "Mul"}[kind], x, names[0])
        else:
            x = node(kind.capitalize(), x)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "program", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def write(module, steps, pool, kind, path):
    module.eval()
    example = torch.randn(2, WIDTH)
    if kind == "onnx":
        write_onnx(steps, pool, path)
    elif kind == "pt":
        traced = torch.jit.trace(module, example, check_trace=False)
        if hasattr(module, "last"):
            traced.last.fill_(1)  # tracing has run it
        traced.save(path)
    else:
        size = torch.export.Dim("n", min=0)
        torch.export.save(torch.export.export(module, (example,), dynamic_shapes=({0: size},)), path)


def main():
    given = with_hg_run(options(__doc__, 24))
    cases, jobs = [], []
    for seed in range(given.seed, given.seed + given.count):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        folder = given.folder / str(seed)
        folder.mkdir(parents=True, exist_ok=True)
        pool = {f"m{k}": torch.randn(WIDTH, WIDTH) / 6 for k in range(3)}
        pool.update({f"v{k}": torch.randn(WIDTH) for k in range(3)})
        entries, files, inputs, used = {}, {}, [], set()
        for k in range(rng.randint(2, 4)):
            name, kind = f"e{k}", rng.choice(["pt2", "pt2", "pt", "onnx"])
            steps = random_steps(rng, rng.choice("abc"), kind != "onnx")
            module = Program(steps, pool).eval()
            path = str(folder / f"{name}.{kind}")
            write(Program(steps, pool), steps, pool, kind, path)
            if kind == "pt":
                inputs.append(f"{name}/x:f32[n,{WIDTH}]")
            # Two parameters of one program stay separate, even if their values are equal.
            counts = {}
            for _, *own in steps:
                for _, key in own:
                    counts[key] = counts.get(key, 0) + (key[0] == "m")
            used |= {(key, i) for key, most in counts.items() for i in range(most)}
            entries[name], files[name] = module, path
        jobs.append({"entries": files, "output_dir": str(folder), "inputs": inputs})
        cases.append((seed, folder, entries, len(used)))
    files, runs, wanted = 0, [], []
    for seed, folder, entries, matrices in converted(given, jobs, cases):
        size, most = os.path.getsize(folder / "model.hgm"), WEIGHT_BYTES * matrices + OVERHEAD * len(entries)
        files += size <= most
        if size > most:
            print(f"seed {seed}: the file has {size} bytes; {matrices} matrices and {len(entries)} entries need at most {most}")
        for name, module in entries.items():
            for n in (0, 1, 3):
                torch.manual_seed(seed + n)
                x = torch.randn(n, WIDTH)
                np.save(folder / f"x{n}.npy", x.numpy())
                if hasattr(module, "last"):
                    module.last.fill_(1)
                wanted.append((f"seed {seed}: {name} at n = {n}", module(x).detach().numpy()))
                runs.append({"model": str(folder / "model.hgm"), "entry": name, "inputs": [str(folder / f"x{n}.npy")],
                             "output_dir": str(folder / f"{name}_{n}")})
    equal = equal_runs(given, runs, wanted, "*.npy")  # one output, possibly under two names
    print(f"{files} of {len(cases)} files, {equal} of {len(runs)} runs of entries")
    return 0 if files == len(cases) and runs and equal == len(runs) else 1


sys.exit(main())
