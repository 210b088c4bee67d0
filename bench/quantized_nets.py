#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times 8-bit networks of ONNX Runtime's quantizer beside ONNX Runtime and OpenVINO, in turn, and the float networks.

  bench/quantized_nets.py WORK --hg-bin build/bin [--vision-python python3] [--nets resnet18 ...] [--threads 1 2] [--emit FILE]

With --bf16, the float networks with `--precision bf16`, beside OpenVINO's hint bf16 and ONNX Runtime in f32, which has no bf16.

Exports the networks with random weights to the folder WORK (--vision-python: a Python with torch and torchvision; transformers
need torch, onnx, onnxscript and transformers here), quantizes them with `quantize_static` (pairs of QuantizeLinear and
DequantizeLinear, u8 inputs, i8 weights per channel, 8 random samples), and converts them with hg-convert. A turn is 0.5 s of calls
of each system. Milliseconds are medians over the turns of each turn's median. `error` is the root of the mean squared difference
from the float network, divided by the root of the mean square of its outputs.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import measurements  # noqa: E402

VISION = ["resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "vit_b_16"]
TEXT = {"minilm": (6, 384, 12, 1536), "bert_base": (12, 768, 12, 3072)}  # layers, width, heads, inner width
WORDS = 128

EXPORT_VISION = """
import sys, torch, torchvision
torch.manual_seed(0)
model = getattr(torchvision.models, sys.argv[1])(weights=None)
for module in model.modules():  # as after training: activations keep their size
    if isinstance(module, torch.nn.BatchNorm2d):
        module.momentum = None
    if isinstance(module, torch.nn.Linear) and not module.weight.any():  # vit_b_16 would answer 0
        torch.nn.init.normal_(module.weight, std=0.02)
with torch.no_grad():
    model.train()
    for _ in range(4):
        model(torch.randn(8, 3, 224, 224))
model.eval()  # with gradients: without them, attention is one op that ONNX does not have
torch.onnx.export(model, torch.randn(1, 3, 224, 224), sys.argv[2], input_names=["x"], output_names=["y"], opset_version=13)
"""


def export_text(name, path):
    import torch
    import transformers
    layers, width, heads, inner = TEXT[name]
    torch.manual_seed(0)
    config = transformers.BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner,
                                     attn_implementation="eager")
    model = transformers.BertModel(config).eval()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x).last_hidden_state

    torch.onnx.export(Net(), (torch.randint(0, 30000, (1, WORDS)),), str(path), input_names=["x"], output_names=["y"], dynamo=True,
                      external_data=False)


def sample(name, seed):
    import numpy as np
    rng = np.random.default_rng(seed)
    if name in TEXT:
        return rng.integers(0, 30000, (1, WORDS))
    return rng.standard_normal((1, 3, 224, 224)).astype(np.float32)


def make(given, name):
    floats, quantized = given.work / f"{name}.onnx", given.work / f"{name}.int8.onnx"
    if given.bf16:
        quantized = floats
    if not floats.exists():
        if name in TEXT:
            export_text(name, floats)
        else:
            subprocess.run([given.vision_python, "-c", EXPORT_VISION, name, floats], check=True)
    if not quantized.exists():
        import onnxruntime.quantization as q
        from onnxruntime.quantization.shape_inference import quant_pre_process

        class Samples(q.CalibrationDataReader):
            def __init__(self):
                self.left = [{"x": sample(name, 100 + i)} for i in range(8)]

            def get_next(self):
                return self.left.pop() if self.left else None

        ready = given.work / f"{name}.ready.onnx"
        quant_pre_process(str(floats), str(ready), skip_symbolic_shape=True)
        q.quantize_static(str(ready), str(quantized), Samples(), per_channel=True, activation_type=q.QuantType.QUInt8,
                          weight_type=q.QuantType.QInt8)
        ready.unlink()
    for path in (floats, quantized):
        if not path.with_suffix(".hgm").exists():
            subprocess.run([given.hg_bin / "hg-convert", path, "-o", path.with_suffix(".hgm")], check=True, capture_output=True)
    return floats, quantized


class OnnxRuntime:
    def __init__(self, path, threads):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, x):
        return self.session.run(None, {"x": x})[0]


class OpenVino:
    def __init__(self, path, threads, precision="f32"):
        import openvino
        self.request = openvino.Core().compile_model(str(path), "CPU", {
            "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": 1}).create_infer_request()

    def __call__(self, x):
        return self.request.infer({0: x})[0]


class OpenVinoBf16(OpenVino):
    def __init__(self, path, threads):
        super().__init__(path, threads, "bf16")


PEERS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino, "openvino_bf16": OpenVinoBf16}


def serve(kind, path, threads, name):
    """Answers a line with the number of seconds to measure by the median of the calls."""
    import numpy as np
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(threads)])
    run, x = PEERS[kind](path, int(threads)), sample(name, 0)
    np.save(pathlib.Path(path).with_suffix(f".{kind}.npy"), run(x))
    for line in sys.stdin:
        times, end = [], time.perf_counter() + float(line)
        while time.perf_counter() < end or len(times) < 3:
            begin = time.perf_counter()
            run(x)
            times.append(time.perf_counter() - begin)
        print(statistics.median(times) * 1e3, flush=True)


def timed_peer(kind, path, threads, name):
    process = subprocess.Popen([sys.executable, __file__, "--serve", kind, str(path), str(threads), name], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)

    def run(seconds):
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
        return float(process.stdout.readline())
    return run


def timed_hologram(given, path, threads, name, precision="f32"):
    import numpy as np
    x = given.work / f"{name}.npy"
    np.save(x, sample(name, 0))
    model, cores = path.with_suffix(".hgm"), ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))

    def call(repeat):
        answer = subprocess.run(["taskset", "-c", cores, given.hg_bin / "hg-bench", model, "--input", f"x={x}", "--threads", str(threads),
                                 "--precision", precision, "--repeat", str(repeat), "--json", "-o", given.work / "out"],
                                check=True, capture_output=True, text=True)
        return json.loads(answer.stdout)["latency_ms"]["median"]
    last = call(5)

    def run(seconds):
        nonlocal last
        last = call(max(3, int(seconds * 1e3 / last)))
        return last
    return run


def difference(one, other):
    import numpy as np
    return float(np.sqrt(np.mean((one - other) ** 2) / np.mean(other ** 2)))


def measure(given, name, threads):
    import numpy as np
    floats, quantized = make(given, name)
    precision, kind = ("bf16", "openvino_bf16") if given.bf16 else ("f32", "openvino")
    systems = {"Hologram": timed_hologram(given, quantized, threads, name, precision),
               "ONNX Runtime": timed_peer("onnxruntime", quantized, threads, name),
               "OpenVINO": timed_peer(kind, quantized, threads, name),
               "Hologram f32": timed_hologram(given, floats, threads, name)}
    times = {system: [] for system in systems}
    for _ in range(given.turns):
        for system, run in systems.items():
            times[system].append(run(given.seconds))
    best = {system: statistics.median(each) for system, each in times.items()}
    want = OnnxRuntime(floats, 1)(sample(name, 0))
    timed_hologram(given, quantized, threads, name, precision)
    out = np.load(given.work / "out" / "y.npy")
    peer = np.load(quantized.with_suffix(f".{kind}.npy" if given.bf16 else ".onnxruntime.npy"))
    of_peer = best["Hologram"] / min(best["ONNX Runtime"], best["OpenVINO"])
    return [name, threads, *(round(best[s], 2) for s in systems), round(of_peer, 2), round(best["Hologram"] / best["Hologram f32"], 2),
            round(difference(out, want), 4), round(difference(peer, want), 4)]


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--hg-bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--vision-python", default="python3")
    parser.add_argument("--nets", nargs="+", choices=[*VISION, *TEXT], default=[*VISION, *TEXT])
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))} cores")
    parser.add_argument("--emit", type=pathlib.Path, metavar="FILE", help="write docs/measurements/quantized_nets.json or bf16_nets.json")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in given.nets:
        for threads in given.threads:
            rows.append(measure(given, name, threads))
            print(*(str(cell).rjust(12) for cell in rows[-1]), flush=True)
    title, how, option, runtime, peer = (
        ("Networks in bf16 beside OpenVINO", "with precision bf16", " --bf16", "ONNX Runtime f32", "OpenVINO") if given.bf16 else
        ("8-bit networks beside ONNX Runtime and OpenVINO", "quantized by ONNX Runtime's quantize_static", "", "ONNX Runtime",
         "ONNX Runtime"))
    measurements.emit({
        "title": title, "date": str(datetime.date.today()), "machine": given.machine,
        "what": f"ms of a call (one image of 224 x 224, or {WORDS} tokens), networks with random weights {how}; error: relative to the "
                "float network",
        "command": f"bench/quantized_nets.py WORK{option}",
        "columns": ["network", "threads", "Hologram", runtime, "OpenVINO", "Hologram f32", "of the best peer", "of f32", "error",
                    f"error of {peer}"],
        "rows": rows}, given.emit)


if __name__ == "__main__":
    main()
