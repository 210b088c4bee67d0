# SPDX-License-Identifier: Apache-2.0
"""Trains the small network of this sample and writes these files next to itself:

  digits.pt           the traced network, float32, batch size 1 in the trace
  test_images.npy     f32[n, 1, 8, 8], values in [0, 1]
  test_labels.npy     i64[n]
  pytorch.json        PyTorch's results on these images: accuracy and each prediction

  python3 train.py [--digits FOLDER]

Needs torch, and scikit-learn for its 1797 handwritten digits; FOLDER may hold them as images.npy and labels.npy instead. Made with
PyTorch 1.13, so that every later libtorch can load the file.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
TEST = 360
EPOCHS = 40


class Residual(nn.Module):
    """Two convolutions with a skip connection, as in a ResNet."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(y)))


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.block = Residual(16)
        self.pool = nn.MaxPool2d(2)
        self.widen = nn.Conv2d(16, 32, 3, padding=1)
        self.head = nn.Linear(32, 10)

    def forward(self, image):
        x = self.block(torch.relu(self.stem(image)))
        x = torch.relu(self.widen(self.pool(x)))
        return self.head(x.mean(dim=(2, 3)))


def load(folder):
    if folder:
        return np.load(folder / "images.npy"), np.load(folder / "labels.npy")
    from sklearn.datasets import load_digits
    digits = load_digits()
    return digits.images, digits.target


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--digits", type=Path, help="folder with images.npy and labels.npy")
    images, labels = load(parser.parse_args().digits)
    torch.manual_seed(0)
    order = torch.randperm(len(images))
    images = torch.tensor(images, dtype=torch.float32)[order, None] / 16
    labels = torch.tensor(labels, dtype=torch.int64)[order]
    test_images, test_labels = images[:TEST], labels[:TEST]
    images, labels = images[TEST:], labels[TEST:]

    model = Digits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for epoch in range(EPOCHS):
        model.train()
        for batch in torch.randperm(len(images)).split(64):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        scores = model(test_images)
        predictions = scores.argmax(1)
        correct = int((predictions == test_labels).sum())
        traced = torch.jit.trace(model, test_images[:1])
    traced.save(str(HERE / "digits.pt"))
    np.save(HERE / "test_images.npy", test_images.numpy())
    np.save(HERE / "test_labels.npy", test_labels.numpy())
    report = {"torch": torch.__version__, "images": TEST, "correct": correct,
              "accuracy": round(correct / TEST, 6), "predictions": predictions.tolist()}
    (HERE / "pytorch.json").write_text(json.dumps(report) + "\n")
    print(f"loss {loss.item():.4f}, {correct} of {TEST} test images right")


if __name__ == "__main__":
    main()
