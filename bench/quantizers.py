#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares errors of weight quantizers at 4 and 8 bits: hg-quantize, ONNX Runtime, NNCF (OpenVINO) and llama.cpp's formats.

  bench/quantizers.py WORK --hg-bin build/bin [--nets mobilenet_v2 minilm ...] [--emit FILE]

The networks are those of quantized_nets.py, exported to WORK. Only weights are quantized. In transformers, these are the constant
matrices of products, with a scale per 32 input channels; embeddings stay floats. In the others, they are all convolutions and products,
with a scale per output channel. ONNX Runtime has no such quantizer for convolutions; NNCF and llama.cpp have none with 4 bits.

`error` is the norm of the difference from the float network's output divided by the norm of that output, over 4 inputs that no quantizer
saw. Quantizers with data get 8 others. Each system runs its own model in f32; llama.cpp's weights (package gguf) run in ONNX Runtime.
"""
import argparse
import datetime
import json
import logging
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.path.insert(0, str(ROOT / "bench"))
import measurements  # noqa: E402
import quantized_nets as nets  # noqa: E402

GROUP = 32
SEEN = range(100, 108)
UNSEEN = range(200, 204)


def floats_of(given, name):
    path = given.work / f"{name}.onnx"
    if not path.exists():
        if name in nets.TEXT:
            nets.export_text(name, path)
        else:
            subprocess.run([given.vision_python, "-c", nets.EXPORT_VISION, name, path], check=True)
    if not path.with_suffix(".hgm").exists():
        subprocess.run([given.hg_bin / "hg-convert", path, "-o", path.with_suffix(".hgm")], check=True, capture_output=True)
    return path


def run_onnx(model, xs):
    import onnxruntime as ort
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    return [session.run(None, {session.get_inputs()[0].name: x})[0] for x in xs]


def error(ys, wanted):
    off = sum(float(np.square(y.astype(np.float64) - w).sum()) for y, w in zip(ys, wanted))
    return (off / sum(float(np.square(w.astype(np.float64)).sum()) for w in wanted)) ** 0.5


def hologram(given, name, path, bits, rounding, xs):
    out, seen = given.work / f"{name}.q.hgm", given.work / "seen.npy"
    np.save(seen, np.concatenate([nets.sample(name, i) for i in SEEN]))
    words = [given.hg_bin / "hg-quantize", path.with_suffix(".hgm"), "-o", out, "--bits", str(bits), "--rounding", rounding, "--json"]
    if rounding == "second_order":
        words += ["--input", seen]
    if name in nets.TEXT:
        words += ["--group", str(GROUP)]
        for table in tables(path):
            words += ["--keep", table]
    made = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    ys = []
    for x in xs:
        np.save(given.work / "x.npy", x)
        subprocess.run([given.hg_bin / "hg-run", out, "--input", given.work / "x.npy", "--output-dir", given.work / "out"], check=True,
                       capture_output=True)
        ys.append(np.load(next((given.work / "out").glob("*.npy"))))
    out.unlink()
    count = sum(w["elements"] for w in made["weights"])
    return ys, 8 * sum(w["bytes"] for w in made["weights"]) / count


def tables(path):
    """The constants that Gather reads: embeddings."""
    import onnx
    graph = onnx.load(path).graph
    constants = {t.name for t in graph.initializer}
    return sorted({n.input[0] for n in graph.node if n.op_type == "Gather" and n.input[0] in constants})


def onnx_runtime(name, path, bits, xs):
    if name not in nets.TEXT:
        return None
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
    config = DefaultWeightOnlyQuantConfig(block_size=GROUP, is_symmetric=True, bits=bits)
    quantizer = MatMulNBitsQuantizer(onnx.load(path), algo_config=config)
    logging.disable(logging.INFO)
    quantizer.process()
    return run_onnx(quantizer.model.model.SerializeToString(), xs)


def nncf(name, path, bits, xs):
    if bits == 4 and name not in nets.TEXT:
        return None
    import nncf as quantizer
    import openvino
    core = openvino.Core()
    modes = quantizer.CompressWeightsMode
    options = {"mode": modes.INT8_SYM} if bits == 8 else {"mode": modes.INT4_SYM, "group_size": GROUP, "ratio": 1.0, "all_layers": False}
    model = quantizer.compress_weights(core.read_model(path), **options)
    request = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32",
                                                "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}).create_infer_request()
    return [request.infer({0: x})[0].copy() for x in xs]


def llama_cpp(name, path, bits, xs):
    if name not in nets.TEXT:
        return None
    import gguf
    import onnx
    from onnx import numpy_helper
    kind = gguf.GGMLQuantizationType.Q8_0 if bits == 8 else gguf.GGMLQuantizationType.Q4_0
    model = onnx.load(path)
    products = {n.input[1] for n in model.graph.node if n.op_type == "MatMul"}
    products |= {n.input[1] for n in model.graph.node if n.op_type == "Gemm"}
    for tensor in model.graph.initializer:
        w = numpy_helper.to_array(tensor)
        if tensor.name in products and w.ndim == 2:
            rows = np.ascontiguousarray(w.T)
            rounded = gguf.quants.dequantize(gguf.quants.quantize(rows, kind), kind).reshape(rows.shape)
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(rounded.T.astype(np.float32)), tensor.name))
    return run_onnx(model.SerializeToString(), xs)


def row(given, name, bits):
    path = floats_of(given, name)
    xs = [nets.sample(name, i) for i in UNSEEN]
    wanted = run_onnx(str(path), xs)
    ours, size = [], None
    for rounding in ("nearest", "least_squares", "second_order"):
        ys, size = hologram(given, name, path, bits, rounding, xs)
        ours.append(error(ys, wanted))
    peers = [peer(name, path, bits, xs) for peer in (onnx_runtime, nncf, llama_cpp)]
    return [name, bits, round(size, 2)] + [float(f"{e:.3g}") for e in ours] + [
        None if ys is None else float(f"{error(ys, wanted):.3g}") for ys in peers]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path, metavar="WORK")
    parser.add_argument("--hg-bin", type=pathlib.Path, required=True)
    parser.add_argument("--vision-python", default=sys.executable)
    parser.add_argument("--nets", nargs="+", default=["resnet18", "efficientnet_b0", "mobilenet_v2", "minilm"])
    parser.add_argument("--bits", nargs="+", type=int, default=[4, 8], choices=[4, 8])
    parser.add_argument("--emit", type=pathlib.Path, metavar="FILE", help="write docs/measurements/quantizers.json")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in given.nets:
        for bits in given.bits:
            rows.append(row(given, name, bits))
            print(rows[-1], file=sys.stderr)
    measurements.emit({
        "title": "Errors of weight quantizers",
        "date": datetime.date.today().isoformat(),
        "machine": "any: errors, not times",
        "what": "the norm of the difference from the f32 network's output as a part of its norm, on inputs that no quantizer saw; only "
                f"weights are quantized, and the networks are random; transformers with a scale per {GROUP} inputs (ours and ONNX "
                "Runtime's in f32, NNCF's and llama.cpp's in f16), others with one per output channel; bits are ours, with scales",
        "peers": "ONNX Runtime's MatMulNBitsQuantizer; nncf.compress_weights (8 bits: a scale per output channel, also of embeddings); "
                 "Q4_0 and Q8_0 of gguf",
        "command": "bench/quantizers.py WORK --hg-bin build/bin",
        "columns": ["network", "levels", "bits per weight", "nearest", "least squares", "second order", "ONNX Runtime", "NNCF",
                    "llama.cpp"],
        "rows": rows,
    }, given.emit)


if __name__ == "__main__":
    main()
