# SPDX-License-Identifier: Apache-2.0
"""Classifies handwritten digits in batches on Spark, in a local cluster of two executors whose workers load the model once.

    python main.py MODEL.hgm FOLDER     FOLDER has test_images.npy and test_labels.npy, as in ../digits
"""

import os
import pathlib
import sys

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

import hologram as hg


def main():
    model, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    images, labels = np.load(folder / "test_images.npy"), np.load(folder / "test_labels.npy")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    # A row is flat; the model's input has the shape.
    frame = pd.DataFrame({"image": list(images.reshape(len(images), -1)), "label": labels})
    rows = spark.createDataFrame(frame, "image array<float>, label long").repartition(8)
    output = hg.load(model).outputs[0].name
    run = hg.distributed.map_in_pandas(model, {"image": "image"}, batch_size=32, threads=1)
    read = rows.mapInPandas(run, f"image array<float>, label long, {output} array<float>").toPandas()
    right = sum(int(np.argmax(scores)) == label for scores, label in zip(read[output], read["label"]))
    print(f"{right} of {len(read)} images are classified correctly")

    # The same as a function of columns.
    scores = hg.distributed.pandas_udf(model, "array<float>", batch_size=32, threads=1)
    print(len(rows.select(scores("image")).collect()), "rows of scores")
    spark.stop()


if __name__ == "__main__":
    main()
