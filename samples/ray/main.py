# SPDX-License-Identifier: Apache-2.0
"""Classifies handwritten digits in batches on Ray Data, with two workers that each load the model once.

    python main.py MODEL.hgm FOLDER     FOLDER has test_images.npy and test_labels.npy, as in ../digits
"""

import pathlib
import sys

import numpy as np
import ray

import hologram as hg


def main():
    model, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    images, labels = np.load(folder / "test_images.npy"), np.load(folder / "test_labels.npy")
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=200_000_000)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True  # otherwise blocks arrive in the order of completion
    context.enable_progress_bars = False

    items = [{"image": image, "label": int(label)} for image, label in zip(images, labels)]
    read = ray.data.from_items(items, override_num_blocks=8).map_batches(
        hg.distributed.Predictor,
        fn_constructor_args=[model],
        fn_constructor_kwargs={"inputs": {"image": "image"}, "prefix": "score_", "batch_size": 32, "threads": 1},
        batch_size=32,
        compute=ray.data.ActorPoolStrategy(size=2),
    )
    right = count = 0
    for batch in read.iter_batches(batch_format="numpy"):
        (scores,) = (values for name, values in batch.items() if name.startswith("score_"))
        right += int((scores.argmax(1) == batch["label"]).sum())
        count += len(scores)
    print(f"{right} of {count} images are classified correctly")


if __name__ == "__main__":
    main()
