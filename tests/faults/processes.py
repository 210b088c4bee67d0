#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""File and disk failures around the tools as programs. kill -9 at random moments leaves the old or the new file complete. A full or
read-only disk is an error with a sentence, and the old file stays. A truncated model is rejected. Needs only the standard library;
--convert adds hg-convert with a model for it."""
import argparse
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tools"))
from npy_file import write_npy  # noqa: E402

BIN = WORK = None


def is_whole(path):
    return subprocess.run([BIN / "hg-info", path, "--verify"], capture_output=True).returncode == 0


def train_command(out, epochs):
    return [BIN / "hg-train", WORK / "model.hgm", "--input", WORK / "x.npy", "--target", WORK / "t.npy", "--loss", "mse",
            "--optimizer", "sgd", "--lr", "0.01", "--epochs", str(epochs), "--batch", "8", "--out", out]


def kill_at_random(name, command, out, old, times, rng):
    """Kills the program at its start, after its end, and `times` times between these moments. Only the first and the last round have a
    known result, because the time that the program needs varies."""
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    whole = time.monotonic() - begin
    kept = new = 0
    for round_ in range(times + 2):
        shutil.copy(old, out)
        before = out.read_bytes()
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if round_ == times + 1:
            process.wait()
        elif round_ > 0:  # most moments are near the end, when the file is written
            time.sleep(whole * (1.2 * rng.random() if rng.random() < 0.3 else 0.8 + 0.4 * rng.random()))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if out.read_bytes() == before:
            kept += 1
        else:
            new += 1
            assert is_whole(out), f"{name} left a file that is neither the old nor the new one"
    # The last round, which ends, removes what the others left.
    assert not list(out.parent.glob(out.name + ".partial*")), f"{name} left a part"
    print(f"{name} killed {times + 2} times: the old file {kept}, the new one {new}")
    assert new > 0, f"{name} ended and left the old file"


def limited_files(bytes_each):
    def begin():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_each, bytes_each))
    return begin


def expect_refused(name, command, out, before, begin=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, preexec_fn=begin)
    assert done.returncode not in (0, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS), (name, done)
    assert "cannot" in done.stderr and done.stderr.count("\n") == 1, (name, done.stderr)
    assert (out.read_bytes() if out.exists() else None) == before, f"{name} changed the old file"
    assert not list(out.parent.glob(out.name + ".partial*")), f"{name} left a part"


def check_disks(old):
    out = WORK / "trained.hgm"
    shutil.copy(old, out)
    before = out.read_bytes()
    for limit in (0, 64, 200, 1000):
        expect_refused(f"a disk with room for {limit} bytes", train_command(out, 1), out, before, limited_files(limit))
    expect_refused("a folder that is not there", train_command(WORK / "none" / "x.hgm", 1), WORK / "none" / "x.hgm", None)
    folder = WORK / "tmpfs"
    folder.mkdir(exist_ok=True)
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", folder],
                                          capture_output=True).returncode != 0:
        return print("no tmpfs can be mounted: real disks that are full or read-only were not tried")
    try:
        out = folder / "trained.hgm"
        shutil.copy(old, out)
        before = out.read_bytes()
        (folder / "filler").write_bytes(b"0" * 4096 * max(0, 2 - (len(before) + 4095) // 4096))
        expect_refused("a full disk", train_command(out, 1), out, before)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        expect_refused("a read-only disk", train_command(out, 1), out, before)
    finally:
        subprocess.run(["umount", folder], check=True)


def check_cut_off(model):
    whole = model.read_bytes()
    cut = WORK / "cut.hgm"
    lengths = sorted({0, 1, 63, 64, 65, len(whole) - 1, *range(0, len(whole), max(1, len(whole) // 60))})
    for length in lengths:
        cut.write_bytes(whole[:length])
        done = subprocess.run([BIN / "hg-info", cut], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, (length, done)
    print(f"cut off at {len(lengths)} places: refused")


def main():
    global BIN, WORK
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bin", "work", "make-model"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--convert", type=pathlib.Path, help="a TorchScript file for hg-convert")
    parser.add_argument("--convert-input", default="image:f32[n,1,8,8]")
    args = parser.parse_args()
    BIN, WORK, rng = args.bin.resolve(), args.work.resolve(), random.Random(args.seed)
    WORK.mkdir(parents=True, exist_ok=True)
    model = WORK / "model.hgm"
    subprocess.run([args.make_model, model], check=True)
    write_npy(WORK / "x.npy", [rng.uniform(-1, 1) for _ in range(240)], (80, 3))
    write_npy(WORK / "t.npy", [rng.uniform(-1, 1) for _ in range(160)], (80, 2))
    kill_at_random("hg-train", train_command(WORK / "out.hgm", 20), WORK / "out.hgm", model, args.times, rng)
    out = WORK / "quantized.hgm"  # the output replaces the model that it reads
    shutil.copy(model, out)
    kill_at_random("hg-quantize", [BIN / "hg-quantize", out, "-o", out, "--least", "0"], out, model, args.times, rng)
    if args.convert:
        command = [BIN / "hg-convert", args.convert, "-o", WORK / "out.hgm", "--input", args.convert_input, "--no-check"]
        kill_at_random("hg-convert", command, WORK / "out.hgm", model, args.times, rng)
    check_disks(model)
    check_cut_off(model)


if __name__ == "__main__":
    sys.exit(main())
