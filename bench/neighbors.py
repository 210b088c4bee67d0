#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures latency while other programs keep processors busy, beside ONNX Runtime, OpenVINO and ncnn.

  PYTHONPATH=build/python bench/neighbors.py --hg-bin build/bin MODEL.hgm... [training] [eager]

MODEL.onnx beside MODEL.hgm adds ONNX Runtime and OpenVINO, MODEL.ncnn.param with MODEL.ncnn.bin adds ncnn, each if its
package is installed (pip install onnxruntime openvino ncnn). Symbolic sizes are set with --dim n=1.

For each number of busy loops all systems run in turn, A B C A B C, with one thread and with all threads. The table has the
median, p90 and p99 of all calls in ms. `training` is a step of SGD on a small network, `eager` a call of hg.ops.matmul, both from
Python and without peers. A busy loop is a process that computes without pause and may run on any processor.
--sessions K measures K sessions at once in one process, --processes K in K processes.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import measurements  # noqa: E402

QUANTILES = (("median", 0.5), ("p90", 0.9), ("p99", 0.99))


def quantiles(times):
    times = sorted(times)
    return [round(times[int(q * (len(times) - 1))], 3) for _, q in QUANTILES] + [round(times[-1], 3)]


# -- Systems: each a process that answers "SECONDS" with the times of its calls in ms ------------------------------------


def random_inputs(types, dims):
    """Arrays for (name, numpy dtype name, shape) with names or -1 for open sizes."""
    import numpy as np
    random = np.random.default_rng(0)
    arrays = {}
    for name, dtype, shape in types:
        sizes = [d if isinstance(d, int) and d > 0 else dims.get(d, 1) for d in shape]
        if "float" in dtype:
            arrays[name] = random.standard_normal(sizes).astype(dtype)
        else:
            arrays[name] = random.integers(0, 2, sizes).astype(dtype)
    return arrays


def load_onnxruntime(stem, threads, dims):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(f"{stem}.onnx", options, providers=["CPUExecutionProvider"])
    names = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(bool)": "bool", "tensor(int32)": "int32"}
    feed = random_inputs([(i.name, names[i.type], i.shape) for i in session.get_inputs()], dims)
    return lambda: session.run(None, feed)


def load_openvino(stem, threads, dims):
    import openvino
    core = openvino.Core()
    model = core.read_model(f"{stem}.onnx")
    types = [(i.any_name, i.element_type.to_dtype().name, [d.get_length() if d.is_static else -1 for d in i.partial_shape])
             for i in model.inputs]
    feed = random_inputs(types, dims)
    model.reshape({name: list(array.shape) for name, array in feed.items()})
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                                                 "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    return lambda: request.infer(feed)


def load_ncnn(stem, threads, dims):
    import ncnn
    import numpy as np
    net = ncnn.Net()
    net.opt.num_threads = threads
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.load_param(f"{stem}.ncnn.param")
    net.load_model(f"{stem}.ncnn.bin")
    shape = json.loads(pathlib.Path(f"{stem}.ncnn.json").read_text())["shape"]
    image = ncnn.Mat(np.random.default_rng(0).standard_normal(shape[1:]).astype(np.float32))
    names, ends = net.input_names(), net.output_names()

    def call():
        with net.create_extractor() as extractor:
            extractor.input(names[0], image)
            return [np.array(extractor.extract(name)[1]) for name in ends]
    return call


def load_training(_, threads, __):
    """64 images of 1 x 28 x 28 through two convolutions and two linear layers."""
    import hologram as hg
    import numpy as np
    random, g = np.random.default_rng(0), hg.Graph()

    def weight(name, *shape):
        return g.parameter(name, (random.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))).astype(np.float32))

    x = g.input("x", (64, 1, 28, 28))
    for i, (inputs, outputs) in enumerate(((1, 16), (16, 32))):
        x = hg.ops.relu(hg.ops.conv2d(x, weight(f"conv{i}", outputs, inputs, 3, 3), stride=2, padding=1))
    x = hg.ops.relu(hg.ops.linear(hg.ops.reshape(x, (64, 32 * 7 * 7)), weight("linear", 128, 32 * 7 * 7)))
    g.output("y", hg.ops.linear(x, weight("head", 10, 128)))
    trainer = hg.Trainer(g.model(), loss="cross_entropy", optimizer=hg.SGD(lr=0.01), threads=threads)
    images = random.standard_normal((64, 1, 28, 28)).astype(np.float32)
    labels = random.integers(0, 10, 64)
    return lambda: trainer.step(images, labels)


def load_eager(_, threads, __):
    import hologram as hg
    import numpy as np
    a, b = (np.random.default_rng(i).standard_normal((256, 256)).astype(np.float32) for i in range(2))
    executor = hg.Executor("cpu", threads=threads)
    executor.__enter__()  # for the life of this process
    return lambda: hg.ops.matmul(a, b)


LOADERS = {"ONNX Runtime": load_onnxruntime, "OpenVINO": load_openvino, "ncnn": load_ncnn}
FROM_PYTHON = {"training": load_training, "eager": load_eager}
FILES = {"ONNX Runtime": ".onnx", "OpenVINO": ".onnx", "ncnn": ".ncnn.param"}


def work(name, stem, threads, dims):
    call = (LOADERS | FROM_PYTHON)[name](stem, threads, dims)
    for _ in range(3):
        call()
    print("ready", flush=True)
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            times.append((time.perf_counter() - begin) * 1e3)
        print(json.dumps(times), flush=True)


class Peer:
    """A worker process of another runtime."""

    def __init__(self, name, stem, threads, dims):
        command = [sys.executable, __file__, "--work", name, stem, str(threads), json.dumps(dims)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.is_ready = self.process.stdout.readline().strip() == "ready"

    def times(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()


class Hologram:
    """hg-bench, a new process for each turn; it prints the times of all runs."""

    def __init__(self, program, stem, threads, dims, sessions, processes):
        self.command = [str(program), f"{stem}.hgm", "--threads", str(threads), "--json", "--all-times", "--sessions", str(sessions)]
        for name, size in dims.items():
            self.command += ["--dim", f"{name}={size}"]
        self.processes = processes
        self.repeat = 10

    def times(self, seconds):
        command = [*self.command, "--repeat", str(self.repeat)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(self.processes)]
        times = [t for process in running for t in json.loads(process.communicate()[0])["run_ms"]]
        self.repeat = max(10, int(1e3 * seconds / (sum(times) / len(times))))
        return times

    def close(self):
        pass


def systems(arguments, stem, threads):
    if stem in FROM_PYTHON:
        return {"Hologram": Peer(stem, stem, threads, {})}
    made = {"Hologram": Hologram(arguments.hg_bin / "hg-bench", stem, threads, arguments.dim, arguments.sessions, arguments.processes)}
    others = arguments.sessions == arguments.processes == 1
    if others and any(size != 1 for size in arguments.dim.values()):
        others = False
        print("--dim sets sizes of Hologram alone: the other systems are left out", file=sys.stderr)
    if others:
        for name in LOADERS:
            if pathlib.Path(stem + FILES[name]).exists():
                peer = Peer(name, stem, threads, arguments.dim)
                if peer.is_ready:
                    made[name] = peer
                else:
                    print(f"{name} does not run {stem}{FILES[name]}; it is left out", file=sys.stderr)
                    peer.close()
    return made


def measure(arguments, stem, loops):
    """Rows of one model beside this many busy loops."""
    busy, made = [], {}
    try:
        busy += [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
        for threads in sorted({1, arguments.threads}):
            made |= {(name, threads): system for name, system in systems(arguments, stem, threads).items()}
        times = {key: [] for key in made}
        for turn in range(arguments.turns + 1):
            for key, system in made.items():
                new = system.times(arguments.seconds)
                if turn > 0:  # the first one warms up
                    times[key] += new
    finally:
        for process in [*busy, *made.values()]:
            process.kill() if isinstance(process, subprocess.Popen) else process.close()
        for process in busy:
            process.wait()
    return [[pathlib.Path(stem).name, loops, name, threads, *quantiles(all_times)] for (name, threads), all_times in times.items()]


# -- The picture: a panel per model that was timed beside peers; median and p99 over the number of busy loops ----------

COLORS = {"Hologram": "#1f6feb", "ONNX Runtime": "#8250df", "OpenVINO": "#bf8700", "ncnn": "#1a7f37"}
PANEL, GAP, TOP, COLUMNS = (250, 170), 60, 50, 3


def scale(value, low, high):
    """Logarithmic, 0 at the bottom."""
    return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))


def panel(model, rows, x0, y0):
    width, height = PANEL
    values = [v for row in rows for v in row[4:7:2]]
    low, high = min(values) / 1.2, max(values) * 1.2
    loops = sorted({row[1] for row in rows})
    at = {n: x0 + (i + 0.5) * width / len(loops) for i, n in enumerate(loops)}
    out = [f'<text x="{x0}" y="{y0 - 10}" font-weight="bold">{model}</text>',
           f'<rect x="{x0}" y="{y0}" width="{width}" height="{height}" fill="none" stroke="#8c959f"/>']
    for exponent in range(-2, 5):
        for digit in (1, 2, 5):
            tick = digit * 10.0**exponent
            if low < tick < high:
                y = y0 + height * (1 - scale(tick, low, high))
                out.append(f'<line x1="{x0}" y1="{y:.1f}" x2="{x0 + width}" y2="{y:.1f}" stroke="#8c959f" stroke-opacity="0.3"/>')
                out.append(f'<text x="{x0 - 5}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for n in loops:
        out.append(f'<text x="{at[n]:.1f}" y="{y0 + height + 16}" text-anchor="middle">{n}</text>')
    for name, color in COLORS.items():
        for threads in sorted({row[3] for row in rows}):
            mine = [row for row in rows if row[2] == name and row[3] == threads]
            if not mine or (threads == 1 and name != "Hologram"):
                continue
            for column, dash in ((4, ""), (6, ' stroke-dasharray="4 3"')):
                points = " ".join(f"{at[row[1]]:.1f},{y0 + height * (1 - scale(row[column], low, high)):.1f}" for row in mine)
                out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="{1 if threads == 1 else 2}" '
                           f'stroke-opacity="{0.6 if threads == 1 else 1}"{dash}/>')
    return out


def draw(rows):
    beside_peers = {row[0] for row in rows if row[2] != "Hologram"}
    models = [model for model in dict.fromkeys(row[0] for row in rows) if model in beside_peers or not beside_peers]
    width = GAP + min(len(models), COLUMNS) * (PANEL[0] + GAP)
    height = TOP + -(-len(models) // COLUMNS) * (PANEL[1] + GAP) + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    x = GAP
    for name, color in COLORS.items():
        if any(row[2] == name for row in rows):
            out += [f'<line x1="{x}" y1="16" x2="{x + 24}" y2="16" stroke="{color}" stroke-width="2"/>',
                    f'<text x="{x + 30}" y="20">{name}, all threads</text>']
            x += 185
    out.append(f'<line x1="{x}" y1="16" x2="{x + 24}" y2="16" stroke="{COLORS["Hologram"]}" stroke-opacity="0.6"/>'
               f'<text x="{x + 30}" y="20">Hologram, one thread</text>')
    for i, model in enumerate(models):
        row, column = divmod(i, COLUMNS)
        out += panel(model, [each for each in rows if each[0] == model], GAP + column * (PANEL[0] + GAP), TOP + row * (PANEL[1] + GAP))
    out.append(f'<text x="{GAP}" y="{height - 10}">milliseconds over the number of busy loops; solid: median, dashed: p99</text></svg>')
    return "\n".join(out) + "\n"


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(sys.argv[2], sys.argv[3], int(sys.argv[4]), json.loads(sys.argv[5]))
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.hgm")
    parser.add_argument("--hg-bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--loops", type=int, nargs="+", default=sorted({0, 1, cores // 2, cores, 2 * cores}))
    parser.add_argument("--threads", type=int, default=cores)
    parser.add_argument("--dim", action="append", default=[], metavar="n=1")
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn")
    parser.add_argument("--emit", type=pathlib.Path, metavar="FILE", help="write docs/measurements/neighbors.json")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="draw median and p99 over the number of busy loops")
    arguments = parser.parse_args()
    arguments.dim = {name: int(size) for name, size in (pair.split("=") for pair in arguments.dim)}
    rows = []
    for model in arguments.models:
        for loops in arguments.loops:
            new = measure(arguments, model.removesuffix(".hgm"), loops)
            rows += new
            for row in new:
                print("  ".join(str(cell).rjust(width) for cell, width in zip(row, (16, 2, 12, 2, 9, 9, 9, 9))), flush=True)
    if arguments.svg:
        arguments.svg.write_text(draw(rows))
    if arguments.emit:
        measurements.emit({
            "title": "Latency beside busy neighbors", "date": str(datetime.date.today()), "machine": f"{cores} cores",
            "what": "milliseconds of a call, batch 1, f32, beside busy loops; all systems in turn",
            "command": "bench/neighbors.py MODEL.hgm...",
            "columns": ["model", "busy loops", "system", "threads", *(name for name, _ in QUANTILES), "max"], "rows": rows}, arguments.emit)


if __name__ == "__main__":
    main()
