# SPDX-License-Identifier: Apache-2.0
"""Random streaming models with `hg-convert --loop`, against the modules with a host that passes states on.

  python3 tests/converter/loops.py build/bin FOLDER [--count 24] [--seed 1]

Each case has one to four states: a recurrent cell, the frames before a convolution, a delay line whose states move on
together, a running sum, or keys that grow. TorchScript, ONNX and exported programs; `hg-run --batch` runs two streams
in turns. Skipped without torch.
"""
import random
import sys
import warnings

from batch import converted, equal_runs, options, with_hg_run

try:
    import numpy as np
    import torch
except ImportError:
    print("no Python with torch and numpy: loops are left out")
    sys.exit(77)
warnings.simplefilter("ignore")

WIDTH, FRAMES, CAPACITY, RUNS = 6, 4, 32, 7
SHAPES = {"cell": [(1, WIDTH)], "conv": [(2, WIDTH)], "delay": [(WIDTH,), (WIDTH,)], "sum": [(WIDTH,)], "keys": [("p", WIDTH)]}


def streaming(kinds):
    """A module of layers on x [FRAMES, WIDTH], each with one or two states, and the shapes of its states by name."""
    shapes = {f"s{i}_{k}": shape for i, kind in enumerate(kinds) for k, shape in enumerate(SHAPES[kind])}

    class Streaming(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / 3) for _ in kinds])
            self.convs = torch.nn.ModuleList([torch.nn.Conv1d(WIDTH, WIDTH, 3) for _ in kinds])

        def run(self, x, mask, states):
            x, after = x + mask.mean(), []
            for i, kind in enumerate(kinds):
                s = states.pop(0)
                if kind == "cell":
                    s = [torch.tanh(x.mean(0, keepdim=True) @ self.weights[i] + s)]
                    x = x + s[0]
                elif kind == "conv":
                    joined = torch.cat([s, x])
                    x, s = self.convs[i](joined.t()[None])[0].t(), [joined[-2:]]
                elif kind == "delay":
                    x, s = x * 0.5 + states.pop(0), [x[0] + 0, s]
                elif kind == "sum":
                    s = [s + x.sum(0)]
                    x = x / (1 + s[0].abs())
                else:
                    s = [torch.cat([s, x @ self.weights[i]])]
                    x = torch.softmax(x @ s[0].t() + mask, 1) @ s[0]
                after += s
            return {"y": x, **{f"{name}_out": value for name, value in zip(shapes, after)}}

    arguments = ", ".join(f"{name}_in" for name in shapes)
    scope = {}
    exec(f"def forward(self, x, mask, {arguments}):\n    return self.run(x, mask, [{arguments}])", scope)
    Streaming.forward = scope["forward"]
    return Streaming().eval(), shapes


def zeros_of(shapes, past):
    return [torch.zeros([past if size == "p" else size for size in shape]) for shape in shapes.values()]


def write(module, shapes, kind, path):
    past = 5
    args = (torch.randn(FRAMES, WIDTH), torch.zeros(FRAMES, past + FRAMES), *zeros_of(shapes, past))
    names, outputs = ["x", "mask", *(f"{name}_in" for name in shapes)], ["y", *(f"{name}_out" for name in shapes)]
    if kind == "onnx":
        axes = {"mask": {1: "all"}, **{f"{name}_in": {0: "p"} for name, shape in shapes.items() if shape[0] == "p"}}
        torch.onnx.export(module, args, path, input_names=names, output_names=outputs, dynamic_axes=axes, opset_version=14)
    elif kind == "pt":
        torch.jit.trace(module, args, check_trace=False, strict=False).save(path)
    else:
        sizes = {"x": None, "mask": {1: torch.export.Dim.AUTO}}
        sizes |= {f"{name}_in": {0: torch.export.Dim.AUTO} if shape[0] == "p" else None for name, shape in shapes.items()}
        torch.export.save(torch.export.export(module, args, dynamic_shapes=sizes, strict=False), path)


def inputs_of(shapes, kind):
    """The types of the inputs. The mask holds zeros, as in every run here."""
    grows = any(shape[0] == "p" for shape in shapes.values())
    if kind == "pt2":
        return []
    if kind == "onnx":  # the file does not say that the mask has the positions of the keys
        return [f"mask:f32[{FRAMES},p+4]"] if grows else []
    states = [f"{name}_in:f32[{','.join(map(str, shape))}]" for name, shape in shapes.items()]
    return [f"x:f32[{FRAMES},{WIDTH}]", f"mask:f32[{FRAMES},{'p+4' if grows else 9}]", *states]


def loops_of(shapes, rng):
    """Options for each state, one for all whose second number is equal, or one that finds all by their names."""
    if rng.random() < 0.3:
        return ["auto"]
    if rng.random() < 0.5:
        return [f"{name}_out={name}_in" for name in shapes]
    return [f"s{{i}}_{k}_out=s{{i}}_{k}_in" for k in (0, 1) if any(name.endswith(f"_{k}") for name in shapes)]


def main():
    given = with_hg_run(options(__doc__, 24))
    # Newer versions export ONNX files by torch.export.
    kinds_of_files = ["pt", "pt2" if hasattr(getattr(torch, "export", None), "save") else "onnx"]
    cases, jobs, tight = [], [], []
    for seed in range(given.seed, given.seed + given.count):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        folder = given.folder / str(seed)
        folder.mkdir(parents=True, exist_ok=True)
        kind = rng.choice(kinds_of_files)
        module, shapes = streaming([rng.choice(list(SHAPES)) for _ in range(rng.randint(1, 4))])
        with torch.no_grad():
            write(module, shapes, kind, str(folder / f"model.{kind}"))
        job = {"model": str(folder / f"model.{kind}"), "output_dir": str(folder), "inputs": inputs_of(shapes, kind), "loops": loops_of(shapes, rng), "strict": kind != "onnx"}
        if any(shape[0] == "p" for shape in shapes.values()):
            job["capacity"] = CAPACITY
            # The check starts again when a state is full.
            tight.append({**job, "capacity": rng.randint(FRAMES, 2 * FRAMES), "output_dir": str(folder / "tight")})
            (folder / "tight").mkdir(exist_ok=True)
        jobs.append(job)
        cases.append((seed, folder, module, shapes))
    files, runs, wanted = 0, [], []
    small = [(f"{job['output_dir']} with capacity {job['capacity']}",) for job in tight]
    small_files = len(list(converted(given, tight, small)))
    for seed, folder, module, shapes in converted(given, jobs, cases):
        files += 1
        rng = random.Random(seed)
        torch.manual_seed(seed)
        grows = any(shape[0] == "p" for shape in shapes.values())
        begun = {stream: (zeros_of(shapes, 0), 0) for stream in "ab"}
        for run in range(RUNS):
            stream = rng.choice("ab")
            states, past = begun[stream]
            x, mask = torch.randn(FRAMES, WIDTH), torch.zeros(FRAMES, past + FRAMES if grows else 9)
            with torch.no_grad():
                y, *states = module(x, mask, *states).values()
            begun[stream] = states, past + FRAMES
            wanted.append((f"seed {seed}: run {run}", y.numpy()))
            inputs = [f"x={folder / f'x{run}.npy'}", f"mask={folder / f'mask{run}.npy'}"]
            np.save(folder / f"x{run}.npy", x.numpy())
            np.save(folder / f"mask{run}.npy", mask.numpy())
            runs.append({"model": str(folder / "model.hgm"), "stream": stream, "inputs": inputs, "output_dir": str(folder / f"run{run}")})
    equal = equal_runs(given, runs, wanted, "y.npy")
    print(f"{files} of {len(cases)} files, {small_files} of {len(tight)} with small capacities, {equal} of {len(runs)} runs")
    return 0 if files == len(cases) and small_files == len(tight) and runs and equal == len(runs) else 1


sys.exit(main())
