#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conversions with --sandbox: the file and the report are the same as without it. Also models that write or read files,
or request more memory than allowed, when libtorch loads them. tests/converter/sandbox.py HG_CONVERT FOLDER; exits with
77 without torch or Landlock."""
import ctypes
import json
import pathlib
import shutil
import subprocess
import sys

try:
    import torch
except ImportError:
    sys.exit(77)

TOOL, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
LANDLOCK_CREATE_RULESET = 444
if ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1) < 0:
    print("this system has no Landlock")
    sys.exit(77)


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)

    def forward(self, x):
        return torch.relu(self.layer(x))


# __setstate__ runs when a file is loaded.
class Writes(torch.nn.Module):
    def __init__(self, path: str):
        super().__init__()
        self.path = path

    def forward(self, x):
        return torch.relu(x)

    @torch.jit.export
    def __getstate__(self):
        return (self.path, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]):
        self.path = state[0]
        self.training = state[1]
        torch.save(torch.ones(3), state[0])


class Reads(Writes):
    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]):
        self.path = state[0]
        self.training = state[1]
        print(torch.from_file(state[0], False, 6, dtype=torch.uint8))


class Takes(Writes):
    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]):
        self.path = state[0]
        self.training = state[1]
        print(torch.ones([3 << 28]).sum())  # 3 GiB


def convert(*arguments, code=0, stdin=None):
    done = subprocess.run([TOOL, *map(str, arguments)], stdin=stdin or subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == code, (arguments, done)
    return done


def files():
    return sorted(path.name for path in FOLDER.iterdir())


def check_same(model, *options):
    """Requires the same bytes, output and report."""
    out = {}
    for name, sandbox in (("plain", []), ("boxed", ["--sandbox"])):
        out[name] = convert(model, "-o", FOLDER / "out.hgm", "--json", FOLDER / "out.json", *options, *sandbox)
        report = json.loads((FOLDER / "out.json").read_text())
        report.pop("stage_ms")
        out[name] = (out[name].stdout, report, (FOLDER / "out.hgm").read_bytes())
    assert out["plain"] == out["boxed"], model


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    torch.manual_seed(1)
    small, x = FOLDER / "small.pt", "x:f32[n,16]"
    torch.jit.script(Small()).save(str(small))
    check_same(small, "--input", x)

    # From standard input to standard output; from files and pipes.
    plain = (FOLDER / "out.hgm").read_bytes()
    with small.open("rb") as file:
        assert convert("-", "-o", "-", "--input", x, "--sandbox", stdin=file).stdout == plain
    with subprocess.Popen(["cat", small], stdout=subprocess.PIPE) as cat:
        assert convert("-", "-o", "-", "--input", x, "--sandbox", stdin=cat.stdout).stdout == plain

    # A batch: each job runs in its own process, so jobs cannot affect each other.
    secret = FOLDER / "secret"
    secret.write_text("secret")
    made = FOLDER / "made"
    hostile = {"writes": (Writes, made), "reads": (Reads, secret), "takes": (Takes, made)}
    for name, (kind, path) in hostile.items():
        module = torch.jit.script(kind(str(FOLDER / "first")))
        module.path = str(path)
        module.save(str(FOLDER / f"{name}.pt"))
    for name in ("boxed", "again"):
        (FOLDER / name).mkdir()
    (FOLDER / "first").unlink(missing_ok=True)
    made.unlink(missing_ok=True)
    jobs = [{"model": str(FOLDER / "takes.pt"), "output_dir": str(FOLDER / "boxed"), "inputs": [x]},
            {"model": str(small), "output_dir": str(FOLDER / "boxed"), "inputs": [x]},
            {"model": str(FOLDER / "missing.pt"), "output_dir": str(FOLDER / "again"), "inputs": [x]}]
    (FOLDER / "jobs.json").write_text(json.dumps(jobs))
    before = files()
    said = convert("--batch", FOLDER / "jobs.json", "--sandbox", "--sandbox-memory", "3000", code=1).stdout
    answers = [json.loads(line) for line in said.splitlines()]
    assert [answer["status"] for answer in answers] == ["unsupported", "ok", "unreadable"], answers
    assert "3000 MiB of --sandbox-memory" in answers[0]["message"], answers
    assert (FOLDER / "boxed" / "model.hgm").read_bytes() == plain
    assert files() == before and not list((FOLDER / "again").iterdir())

    # Outside a sandbox the first two succeed; without that, their failure in a sandbox would prove nothing.
    for name, sandbox in (("writes", True), ("writes", False), ("reads", True), ("reads", False)):
        done = subprocess.run([TOOL, FOLDER / f"{name}.pt", "-o", FOLDER / "hostile.hgm", "--input", x,
                               "--json", FOLDER / "hostile.json"] + ["--sandbox"] * sandbox, capture_output=True, check=False)
        if sandbox:
            # libtorch ignores that the write fails.
            assert done.returncode == {"writes": 0, "reads": 2}[name], done
            assert json.loads((FOLDER / "hostile.json").read_text())["exit_code"] == done.returncode
            assert not made.exists(), "a sandboxed model wrote a file"
            assert b"115" not in done.stderr + done.stdout, "a sandboxed model read a file"
        elif name == "writes":
            assert made.exists(), done
            made.unlink()
        else:
            assert b"115" in done.stderr + done.stdout, done  # the letter s of secret

    # Limits that are too small, invalid options, and an output that cannot be written.
    tight = convert(small, "-o", FOLDER / "tight.hgm", "--input", x, "--sandbox", "--sandbox-memory", "64", code=1)
    assert b"allow at least" in tight.stderr, tight
    assert b"needs --sandbox" in convert(small, "--input", x, "--sandbox-memory", "64", code=1).stderr
    said = convert(small, "--input", x, "--sandbox", "--onnxruntime", code=1).stderr
    assert b"--sandbox does not allow" in said, said
    convert(small, "-o", FOLDER / "none" / "x.hgm", "--input", x, "--sandbox", code=2)
    convert(small, "-o", FOLDER / "boxed", "--input", x, "--sandbox", code=1)
    assert not (FOLDER / "tight.hgm").exists()
    missing = convert(FOLDER / "missing.pt", "--input", x, "--sandbox", code=2)
    assert b"missing.pt" in missing.stderr, missing

    try:
        exported = torch.export.export(Small(), (torch.zeros(2, 16),))
    except (AttributeError, RuntimeError):
        return
    torch.export.save(exported, FOLDER / "small.pt2")
    check_same(FOLDER / "small.pt2")
    external_weights()


def external_weights():
    """An ONNX model with its weights in a separate file in the same folder."""
    try:
        import onnx
    except ImportError:
        return
    weight = onnx.numpy_helper.from_array(torch.rand(16, 4).numpy(), "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 16])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 4])], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, FOLDER / "small.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    check_same(FOLDER / "small.onnx")
    # A model on standard input has no folder.
    with open(FOLDER / "small.onnx", "rb") as model:
        ran = subprocess.run([TOOL, "-", "-o", FOLDER / "none.hgm"], stdin=model, capture_output=True, text=True)
    assert ran.returncode == 2 and "'weights.bin'" in ran.stderr and "instead of -" in ran.stderr, ran.stderr


if __name__ == "__main__":
    main()
