#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of hg-convert for models of one ONNX node of everyday size, 1e5 to 1e6 elements; lists the slow ones.

usage: onnx_check.py HG-CONVERT WORK [--only REGEX] [--above SECONDS]
"""
import argparse, pathlib, re, resource, subprocess

import numpy as np
import onnx
from onnx import helper, numpy_helper

RNG = np.random.default_rng(1)


def f(*shape):
    return RNG.normal(0, 1, shape).astype(np.float32)


def ints(high, *shape, dtype=np.int64):
    return RNG.integers(0, high, shape).astype(dtype)


class N:
    """A node, its open inputs and its constants."""

    def __init__(self, op, inputs, fixed=(), outputs=1, opset=21, domain="", **attributes):
        self.op, self.inputs, self.fixed, self.outputs, self.opset, self.domain, self.attributes = op, inputs, list(fixed), outputs, opset, domain, attributes

    def model(self):
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        cs = [f"c{i}" if c is not None else "" for i, c in enumerate(self.fixed)]
        node = helper.make_node(self.op, names + cs, [f"y{i}" for i in range(self.outputs)], domain=self.domain, **self.attributes)
        made = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in zip(names, self.inputs) if x is not None]
        given = [numpy_helper.from_array(np.asarray(c), n) for n, c in zip(cs, self.fixed) if c is not None]
        graph = helper.make_graph([node], "g", made, [helper.make_empty_tensor_value_info(f"y{i}") for i in range(self.outputs)], given)
        opsets = [helper.make_opsetid("", 17 if self.domain else self.opset)] + ([helper.make_opsetid(self.domain, 1)] if self.domain else [])
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


image = lambda c=16, s=64, n=1: f(n, c, s, s)
i64 = lambda *v: np.array(v, np.int64)
NODES = {}
for op in "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Neg Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Elu Celu Mish Gelu Shrink Softmax LogSoftmax Hardmax Flatten Size Shape LpNormalization GlobalAveragePool GlobalMaxPool GlobalLpPool NonZero MeanVarianceNormalization".split():
    NODES[op] = N(op, [image()])
for op in "Add Sub Mul Div Max Min Mean Sum".split():
    NODES[op] = N(op, [image(), image()])
    NODES[op + "_broadcast"] = N(op, [f(4, 64, 64, 64), f(64, 1, 1)])
for op in "Equal Greater GreaterOrEqual Less LessOrEqual".split():
    NODES[op] = N(op, [image(), image()])
NODES["Pow"] = N("Pow", [np.abs(image())], [np.float32(1.5)])
NODES["PRelu"] = N("PRelu", [image()], [f(16, 1, 1)])
for op in "And Or Xor".split():
    NODES[op] = N(op, [image() > 0, image() > 0])
NODES["Not"] = N("Not", [image() > 0])
for op in "BitwiseAnd BitwiseOr BitwiseXor".split():
    NODES[op] = N(op, [ints(99, 400, 400, dtype=np.int32), ints(99, 400, 400, dtype=np.int32)])
NODES["BitwiseNot"] = N("BitwiseNot", [ints(99, 400, 400, dtype=np.int32)])
NODES["BitShift"] = N("BitShift", [ints(9, 400, 400, dtype=np.uint8), ints(3, 400, 400, dtype=np.uint8)], direction="LEFT")
NODES["Mod"] = N("Mod", [ints(99, 400, 400)], [i64(7)])
NODES["Where"] = N("Where", [image() > 0, image(), image()])
NODES["Clip"] = N("Clip", [image()], [np.float32(-1), np.float32(1)])
NODES["Cast"] = N("Cast", [image()], to=7)
NODES["CastLike"] = N("CastLike", [image()], [i64(1)])
for op in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare".split():
    NODES[op] = N(op, [image(64)], [i64(2, 3)])
    NODES[op + "_0"] = N(op, [image(64)], [i64(1)])
NODES["ArgMax"] = N("ArgMax", [image(64)], axis=1)
NODES["ArgMin"] = N("ArgMin", [image(64)], axis=3)
NODES["CumSum"] = N("CumSum", [f(512, 512)], [i64(1)[0]])
NODES["TopK"] = N("TopK", [f(64, 4096)], [i64(10)], outputs=2)
NODES["Unique"] = N("Unique", [ints(1000, 100000)], outputs=4)
NODES["Conv"] = N("Conv", [image(16, 112)], [f(32, 16, 3, 3), f(32)], pads=[1] * 4)
NODES["Conv_first"] = N("Conv", [f(1, 3, 224, 224)], [f(64, 3, 7, 7), f(64)], pads=[3] * 4, strides=[2, 2])
NODES["Conv_depthwise"] = N("Conv", [image(64, 112)], [f(64, 1, 3, 3)], pads=[1] * 4, group=64)
NODES["Conv_1d"] = N("Conv", [f(1, 80, 3000)], [f(384, 80, 3)], pads=[1, 1])
NODES["Conv_3d"] = N("Conv", [f(1, 3, 16, 56, 56)], [f(16, 3, 3, 3, 3)], pads=[1] * 6)
NODES["Conv_1x1"] = N("Conv", [image(256, 56)], [f(64, 256, 1, 1)])
NODES["ConvTranspose"] = N("ConvTranspose", [image(32, 64)], [f(32, 16, 2, 2)], strides=[2, 2])
NODES["ConvInteger"] = N("ConvInteger", [ints(255, 1, 3, 224, 224, dtype=np.uint8)], [ints(127, 16, 3, 3, 3, dtype=np.uint8)])
NODES["QLinearConv"] = N("QLinearConv", [ints(255, 1, 16, 112, 112, dtype=np.uint8)], [np.float32(.1), np.uint8(3), ints(127, 16, 16, 3, 3, dtype=np.uint8), np.float32(.1), np.uint8(3), np.float32(50), np.uint8(3)])
NODES["DeformConv"] = N("DeformConv", [image(16, 56)], [f(16, 16, 3, 3), f(1, 18, 54, 54)], opset=19)
NODES["MaxPool"] = N("MaxPool", [image(64, 112)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
NODES["MaxPool_indices"] = N("MaxPool", [image(64, 112)], kernel_shape=[2, 2], strides=[2, 2], outputs=2)
NODES["AveragePool"] = N("AveragePool", [image(64, 112)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
NODES["AveragePool_big"] = N("AveragePool", [image(16, 112)], kernel_shape=[31, 31], pads=[15] * 4)
NODES["LpPool"] = N("LpPool", [image(64, 56)], kernel_shape=[3, 3])
NODES["MaxUnpool"] = N("MaxUnpool", [image(16, 64)], [np.arange(16 * 64 * 64).reshape(1, 16, 64, 64) * 4], kernel_shape=[2, 2], strides=[2, 2])
NODES["BatchNormalization"] = N("BatchNormalization", [image(64, 112)], [f(64), f(64), f(64), np.abs(f(64))])
NODES["InstanceNormalization"] = N("InstanceNormalization", [image(64, 112)], [f(64), f(64)])
NODES["LayerNormalization"] = N("LayerNormalization", [f(1, 512, 768)], [f(768), f(768)])
NODES["GroupNormalization"] = N("GroupNormalization", [image(64, 112)], [f(64), f(64)], num_groups=8)
NODES["RMSNormalization"] = N("RMSNormalization", [f(1, 512, 768)], [f(768)], opset=23)
NODES["LRN"] = N("LRN", [image(64, 56)], size=5)
NODES["MatMul"] = N("MatMul", [f(1, 512, 768)], [f(768, 768)])
NODES["MatMul_batch"] = N("MatMul", [f(12, 256, 64), f(12, 64, 256)])
NODES["Gemm"] = N("Gemm", [f(256, 1024)], [f(1024, 1024), f(1024)])
NODES["Einsum"] = N("Einsum", [f(8, 128, 64), f(8, 128, 64)], equation="bid,bjd->bij")
NODES["MatMulInteger"] = N("MatMulInteger", [ints(255, 256, 512, dtype=np.uint8)], [ints(255, 512, 256, dtype=np.uint8)])
NODES["QLinearMatMul"] = N("QLinearMatMul", [ints(255, 256, 512, dtype=np.uint8)], [np.float32(.1), np.uint8(3), ints(255, 512, 256, dtype=np.uint8), np.float32(.1), np.uint8(3), np.float32(50), np.uint8(3)])
NODES["Det"] = N("Det", [f(12, 12)])
NODES["Det_many"] = N("Det", [f(1000, 10, 10)])
NODES["Det_big"] = N("Det", [f(300, 300)])
NODES["LSTM"] = N("LSTM", [f(100, 4, 128)], [f(1, 512, 128) * .05, f(1, 512, 128) * .05], hidden_size=128, outputs=3)
NODES["GRU"] = N("GRU", [f(100, 4, 128)], [f(1, 384, 128) * .05, f(1, 384, 128) * .05], hidden_size=128, outputs=2)
NODES["RNN"] = N("RNN", [f(100, 4, 128)], [f(1, 128, 128) * .05, f(1, 128, 128) * .05], hidden_size=128, outputs=2)
NODES["Attention"] = N("Attention", [f(1, 12, 256, 64), f(1, 12, 256, 64), f(1, 12, 256, 64)], opset=23)
NODES["RotaryEmbedding"] = N("RotaryEmbedding", [f(1, 12, 256, 64)], [f(256, 32), f(256, 32), np.arange(256)[None]], opset=23)
for mode in ("nearest", "linear", "cubic"):
    for coordinates in ("half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", "pytorch_half_pixel"):
        roi = f(8) * 0 + np.array([0, 0, .1, .1, 1, 1, .9, .8], np.float32) if coordinates == "tf_crop_and_resize" else None
        NODES[f"Resize_{mode}_{coordinates}"] = N("Resize", [f(1, 19, 128, 128)], [roi, np.array([1, 1, 2, 2], np.float32)], mode=mode, coordinate_transformation_mode=coordinates)
    if mode != "nearest":
        NODES[f"Resize_{mode}_antialias"] = N("Resize", [f(1, 19, 256, 256)], [None, None, i64(1, 19, 100, 90)], mode=mode, antialias=1)
        NODES[f"Resize_{mode}_outside"] = N("Resize", [f(1, 19, 128, 128)], [None, np.array([1, 1, 2, 2], np.float32)], mode=mode, exclude_outside=1)
NODES["Resize_1d"] = N("Resize", [f(1, 4, 50000)], [None, np.array([1, 1, 2], np.float32)], mode="linear")
NODES["Resize_3d"] = N("Resize", [f(1, 2, 32, 64, 64)], [None, np.array([1, 1, 2, 2, 2], np.float32)], mode="linear")
NODES["Upsample"] = N("Upsample", [f(1, 19, 128, 128)], [np.array([1, 1, 2, 2], np.float32)], opset=9, mode="linear")
for mode in ("linear", "nearest", "cubic"):
    for padding in ("zeros", "border", "reflection"):
        NODES[f"GridSample_{mode}_{padding}"] = N("GridSample", [f(1, 16, 64, 64), f(1, 64, 64, 2)], mode=mode, padding_mode=padding)
NODES["GridSample_big"] = N("GridSample", [f(1, 3, 256, 256), f(1, 256, 256, 2)])
NODES["GridSample_3d"] = N("GridSample", [f(1, 4, 16, 32, 32), f(1, 16, 32, 32, 3)])
NODES["AffineGrid"] = N("AffineGrid", [f(4, 2, 3)], [i64(4, 3, 224, 224)])
NODES["RoiAlign"] = N("RoiAlign", [image(64, 56), np.abs(f(100, 4)) * np.array([5, 5, 20, 20], np.float32)], [np.zeros(100, np.int64)], output_height=7, output_width=7, sampling_ratio=2)
NODES["RoiAlign_0"] = N("RoiAlign", [image(64, 56), np.abs(f(100, 4)) * np.array([5, 5, 20, 20], np.float32)], [np.zeros(100, np.int64)], output_height=7, output_width=7)
NODES["RoiAlign_max"] = N("RoiAlign", [image(64, 56), np.abs(f(100, 4)) * np.array([5, 5, 20, 20], np.float32)], [np.zeros(100, np.int64)], output_height=7, output_width=7, mode="max")
NODES["MaxRoiPool"] = N("MaxRoiPool", [image(64, 56)], [np.concatenate([np.zeros((100, 1)), np.abs(f(100, 4)) * [5, 5, 40, 40]], 1).astype(np.float32)], pooled_shape=[7, 7])
NODES["NonMaxSuppression"] = N("NonMaxSuppression", [f(1, 2000, 4), f(1, 1, 2000)], [i64(100), np.float32(.5), np.float32(0)])
NODES["NonMaxSuppression_classes"] = N("NonMaxSuppression", [f(1, 1000, 4), f(1, 80, 1000)], [i64(100), np.float32(.5), np.float32(0)])
NODES["Concat"] = N("Concat", [image(), image()], axis=1)
NODES["Concat_many"] = N("Concat", [f(1, 1000) for _ in range(200)], axis=0)
NODES["Split"] = N("Split", [image()], axis=1, outputs=4, num_outputs=4)
NODES["Slice"] = N("Slice", [image(64, 112)], [i64(1, 1), i64(100, 100), i64(2, 3)])
NODES["Gather"] = N("Gather", [f(30000, 128)], [ints(30000, 512)])
NODES["Gather_1"] = N("Gather", [f(128, 3000)], [ints(3000, 512)], axis=1)
NODES["GatherElements"] = N("GatherElements", [f(512, 512)], [ints(512, 512, 512)], axis=1)
NODES["GatherND"] = N("GatherND", [f(512, 512)], [ints(512, 5000, 2)])
NODES["ScatterElements"] = N("ScatterElements", [f(512, 512)], [ints(512, 512, 512), f(512, 512)], axis=1, reduction="add")
NODES["ScatterND"] = N("ScatterND", [f(512, 512)], [ints(512, 500, 1), f(500, 512)], reduction="add")
NODES["OneHot"] = N("OneHot", [ints(1000, 512)], [i64(1000)[0], np.array([0, 1], np.float32)])
NODES["Transpose"] = N("Transpose", [image(64, 112)], perm=[0, 2, 3, 1])
NODES["Reshape"] = N("Reshape", [image(64, 112)], [i64(1, -1)])
NODES["Squeeze"] = N("Squeeze", [image(64, 112)], [i64(0)])
NODES["Unsqueeze"] = N("Unsqueeze", [image(64, 112)], [i64(0)])
NODES["Expand"] = N("Expand", [f(1, 64, 1, 1)], [i64(4, 64, 64, 64)])
NODES["Tile"] = N("Tile", [f(64, 64)], [i64(8, 16)])
for mode in ("constant", "reflect", "edge", "wrap"):
    NODES[f"Pad_{mode}"] = N("Pad", [image(64, 112)], [i64(0, 0, 3, 3, 0, 0, 3, 3)], mode=mode)
NODES["Trilu"] = N("Trilu", [f(512, 512)])
NODES["DepthToSpace"] = N("DepthToSpace", [image(64, 56)], blocksize=2)
NODES["SpaceToDepth"] = N("SpaceToDepth", [image(64, 56)], blocksize=2)
NODES["ReverseSequence"] = N("ReverseSequence", [f(100, 64, 64)], [ints(100, 64) + 1])
NODES["Compress"] = N("Compress", [f(512, 512)], [ints(2, 512) > 0], axis=0)
NODES["CenterCropPad"] = N("CenterCropPad", [image(16, 112)], [i64(1, 16, 100, 130)])
NODES["Col2Im"] = N("Col2Im", [f(1, 16 * 9, 54 * 54)], [i64(56, 56), i64(3, 3)])
NODES["EyeLike"] = N("EyeLike", [f(512, 512)])
NODES["Range"] = N("Range", [], [i64(0)[0], i64(200000)[0], i64(1)[0]])
NODES["ConstantOfShape"] = N("ConstantOfShape", [], [i64(400, 500)])
NODES["DFT"] = N("DFT", [f(16, 1024, 1)], [None, i64(1)[0]], opset=20)
NODES["DFT_long"] = N("DFT", [f(1, 100000, 1)], [None, i64(1)[0]], opset=20)
NODES["STFT"] = N("STFT", [f(1, 48000, 1)], [i64(160)[0], f(400), i64(400)[0]])
NODES["HannWindow"] = N("HannWindow", [], [i64(100000)[0]])
NODES["MelWeightMatrix"] = N("MelWeightMatrix", [], [i64(80)[0], i64(400)[0], i64(16000)[0], np.float32(0), np.float32(8000)])
NODES["QuantizeLinear"] = N("QuantizeLinear", [image(64, 112)], [np.float32(.1), np.uint8(128)])
NODES["DequantizeLinear"] = N("DequantizeLinear", [ints(255, 1, 64, 112, 112, dtype=np.uint8)], [np.float32(.1), np.uint8(128)])
NODES["DynamicQuantizeLinear"] = N("DynamicQuantizeLinear", [image(64, 112)], outputs=3)
NODES["NegativeLogLikelihoodLoss"] = N("NegativeLogLikelihoodLoss", [f(4, 21, 128, 128)], [ints(21, 4, 128, 128)])
NODES["SoftmaxCrossEntropyLoss"] = N("SoftmaxCrossEntropyLoss", [f(4, 21, 128, 128)], [ints(21, 4, 128, 128)])
NODES["Dropout"] = N("Dropout", [image()])
for op, inputs, fixed, more in [("FusedMatMul", [f(256, 512)], [f(512, 256)], {}), ("BiasGelu", [f(1, 512, 768)], [f(768)], {}),
                                ("SkipLayerNormalization", [f(1, 128, 768), f(1, 128, 768)], [f(768), f(768)], {}),
                                ("FastGelu", [f(1, 512, 768)], [], {})]:
    NODES["ms_" + op] = N(op, inputs, fixed, domain="com.microsoft", **more)


def seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--above", type=float, default=3)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    all_times, refused = [], []
    for name, node in NODES.items():
        if not re.search(given.only, name):
            continue
        onnx.save(node.model(), given.work / "m.onnx")
        start = seconds()
        try:
            done = subprocess.run([given.tool, given.work / "m.onnx", "-o", given.work / "m.hgm"], capture_output=True, text=True, timeout=200)
            code, err = done.returncode, done.stderr.strip()
        except subprocess.TimeoutExpired:
            code, err = -1, "timeout"
        took = seconds() - start
        all_times.append((took, name))
        if code:
            refused.append(name)
            print(f"{name}: exit {code}: {err[-300:]}", flush=True)
        if took > given.above:
            print(f"{name}: {took:.1f} s", flush=True)
    all_times.sort(reverse=True)
    print(f"{len(all_times)} nodes, {len(refused)} refused; slowest:", ", ".join(f"{n} {t:.1f}" for t, n in all_times[:12]))


main()
