#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows per second of one batch inference job on Ray Data, on Spark and in one process, with Hologram and ONNX Runtime.

  PYTHONPATH=build/python build/venv/bin/python bench/engines.py [--rounds 5] [--json FILE]

Two workers with one thread each. Engines are started first, and the job has run once, so that workers have loaded their models. The
contenders take turns; the median of the rounds is shown. Needs torch (to make the models), onnx, onnxruntime, and ray or pyspark.
"""
import argparse
import datetime
import importlib.util
import os
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

import numpy as np

import hologram as hg

BATCH = 64
# Name, rows, shape of a row.
JOBS = [("mlp", 8192, (784,)), ("cnn", 2048, (3, 32, 32))]


def network(name):
    from torch import nn

    def stage(inputs, outputs):
        return nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)

    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(*stage(3, 32), *stage(32, 64), *stage(64, 128), nn.Flatten(), nn.Linear(2048, 10))


def prepare(folder, name, shape):
    """The model as both runtimes read it."""
    import torch

    torch.manual_seed(0)
    net, x = network(name).eval(), torch.randn(4, *shape)
    hg.convert(net, x, dynamic="n", output=os.path.join(folder, f"{name}.hgm"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (x,), os.path.join(folder, f"{name}.onnx"), dynamo=False, input_names=["x"],
                          output_names=["y"], dynamic_axes={"x": {0: "n"}})  # fmt: skip


class Hologram:
    def __init__(self, stem, shape):
        self.predict = hg.distributed.Predictor(stem + ".hgm", batch_size=BATCH, threads=1)
        (self.input,), (self.output,), self.shape = self.predict.inputs, self.predict.outputs, shape

    def __call__(self, rows):
        return self.predict({self.input: rows})[self.output]


class OnnxRuntime:
    def __init__(self, stem, shape):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session, self.shape = onnxruntime.InferenceSession(stem + ".onnx", options, providers=["CPUExecutionProvider"]), shape

    def __call__(self, rows):
        rows = np.ascontiguousarray(rows, np.float32).reshape(len(rows), *self.shape)
        parts = [self.session.run(None, {"x": rows[i : i + BATCH]})[0] for i in range(0, len(rows), BATCH)]
        return np.concatenate(parts)


RUNTIMES = {"Hologram": Hologram, "ONNX Runtime": OnnxRuntime}
_made = {}


def made(runtime, stem, shape):
    """One model in each worker."""
    if (runtime, stem) not in _made:
        _made[runtime, stem] = RUNTIMES[runtime](stem, shape)
    return _made[runtime, stem]


def alone(stem, rows):
    data = {"x": rows}

    def job(runtime):
        return made(runtime, stem, rows.shape[1:])(data["x"])

    return job


def on_ray(stem, rows):
    import ray

    shape = rows.shape[1:]

    def run(batch, runtime):
        import engines  # this file, in the worker

        return {"y": engines.made(runtime, stem, shape)(batch["x"])}

    if not ray.is_initialized():
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=500_000_000, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    data = ray.data.from_numpy(np.array_split(rows, 16)).rename_columns({"data": "x"}).materialize()

    def job(runtime):
        done = data.map_batches(run, fn_args=[runtime], batch_size=4 * BATCH)
        return np.concatenate([batch["y"] for batch in done.iter_batches(batch_format="numpy", batch_size=None)])

    return job


def on_spark(stem, rows):
    import pandas
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local-cluster[2,1,2048]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", 4 * BATCH)
    builder = builder.config("spark.rpc.message.maxSize", 512)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    shape = rows.shape[1:]
    frame = pandas.DataFrame({"x": list(rows.reshape(len(rows), -1))})
    data = spark.createDataFrame(frame, "x array<float>").repartition(16).cache()
    data.count()

    def job(runtime):
        def run(frames):
            import engines  # this file, in the worker

            model = engines.made(runtime, stem, shape)
            for part in frames:
                yield pandas.DataFrame({"y": list(model(np.stack(part["x"])))})

        return data.mapInPandas(run, "y array<float>").toPandas()

    return job


PLACES = {"one process, 1 thread": (alone, None), "Ray Data, 2 workers": (on_ray, "ray"),
          "Spark, 2 executors": (on_spark, "pyspark")}  # fmt: skip


def measure(rounds):
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name, count, shape in JOBS:
            prepare(folder, name, shape)
            rows = np.random.default_rng(0).standard_normal((count, *shape)).astype(np.float32)
            stem = os.path.join(folder, name)
            np.testing.assert_allclose(*(made(r, stem, shape)(rows[:100]) for r in RUNTIMES), rtol=1e-3, atol=1e-4)
            for place, (begin, module) in PLACES.items():
                if module is not None and importlib.util.find_spec(module) is None:
                    print(f"{place} is left out: {module} is not installed", file=sys.stderr)
                    continue
                job = begin(stem, rows)
                times = {runtime: [] for runtime in RUNTIMES}
                for turn in range(rounds + 1):
                    for runtime in RUNTIMES:
                        start = time.perf_counter()
                        assert len(job(runtime)) == count
                        if turn:
                            times[runtime].append(time.perf_counter() - start)
                speed = [round(count / statistics.median(times[r])) for r in RUNTIMES]
                table.append([name, place, count, *speed, round(speed[0] / speed[1], 2)])
                print(*table[-1], file=sys.stderr, flush=True)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="write a file for docs/measurements")
    parser.add_argument("--machine", default="a machine that is not named", help="description of the machine for the file")
    options = parser.parse_args()
    import onnxruntime

    # Workers run in their own folders; Spark's workers import this file.
    places = [pathlib.Path(hg.__file__).parents[1], pathlib.Path(__file__).resolve().parent]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, places), os.environ.get("PYTHONPATH", "")])
    table = measure(options.rounds)
    data = {
        "title": "Batch inference on engines",
        "date": datetime.date.today().isoformat(),
        "machine": options.machine,
        "what": f"rows a second of a whole job, batches of {BATCH} rows, the median of {options.rounds} rounds in turn; "
        "workers and their models are kept from round to round",
        "peers": f"ONNX Runtime {onnxruntime.__version__}",
        "command": "bench/engines.py",
        "columns": ["model", "where", "rows", *RUNTIMES, "ratio"],
        "rows": table,
    }
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
    import measurements

    measurements.emit(data, options.json)


if __name__ == "__main__":
    main()
