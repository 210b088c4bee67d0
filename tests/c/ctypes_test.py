#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libhologram_c from Python's ctypes: loads, inspects, runs with bound outputs, trains; compares numbers with plain loops. Needs only
the standard library."""
import argparse
import ctypes
import pathlib
import random
import subprocess
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p

RANK = 12


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("dtype", c_int32), ("data", c_void_p), ("rank", c_int32),
                ("reserved", c_int32), ("shape", c_int64 * RANK), ("strides", c_int64 * RANK)]


class ValueInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("dtype", c_int32), ("rank", c_int32), ("reserved", c_int32),
                ("name", c_char_p), ("type", c_char_p), ("shape", c_int64 * RANK), ("dims", c_char_p * RANK)]


class Optimizer(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("kind", c_int32)] + [
        (name, c_double) for name in ("lr", "weight_decay", "momentum", "dampening", "beta1", "beta2", "alpha", "eps")
    ] + [(name, c_int32) for name in ("nesterov", "amsgrad", "centered", "maximize")]


class TrainOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("mode", c_int32), ("losses", c_void_p), ("loss_count", c_size_t),
                ("metrics", c_void_p), ("metric_count", c_size_t), ("rules", c_void_p), ("rule_count", c_size_t),
                ("optimizer", POINTER(Optimizer)), ("schedule", c_void_p), ("session", c_void_p),
                ("clip_norm", c_double), ("clip_value", c_double), ("accumulate", c_int32), ("compute", c_int32),
                ("resume", c_int32), ("reserved", c_int32)]


class Dataset(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_int32), ("inputs", POINTER(Tensor)),
                ("input_count", c_size_t), ("targets", POINTER(Tensor)), ("target_count", c_size_t)]


class Failure(Exception):
    pass


class Library:
    """The functions of hg/c.h; one that returns an hg_status* raises Failure."""

    def __init__(self, path):
        self.dll = ctypes.CDLL(str(path))
        self.dll.hg_status_message.restype = self.dll.hg_code_name.restype = self.dll.hg_version.restype = c_char_p
        self.dll.hg_status_message.argtypes = self.dll.hg_status_code.argtypes = [c_void_p]
        self.dll.hg_status_free.argtypes = self.dll.hg_status_free.argtypes = [c_void_p]

    def call(self, name, *arguments):
        function = getattr(self.dll, name)
        function.restype = c_void_p
        status = function(*arguments)
        if status is None:
            return
        code = self.dll.hg_code_name(self.dll.hg_status_code(status)).decode()
        message = self.dll.hg_status_message(status).decode()
        self.dll.hg_status_free(status)
        raise Failure(f"{code}: {message}")


def tensor(library, values, shape):
    made = Tensor()
    library.call("hg_tensor_view", byref(made), c_size_t(ctypes.sizeof(made)), values, c_int32(0),
                 c_int32(len(shape)), (c_int64 * len(shape))(*shape))
    return made


def linear(w, b, x, rows):
    return [b[j] + sum(x[i * 3 + k] * w[j * 3 + k] for k in range(3)) for i in range(rows) for j in range(2)]


def is_near(a, b):
    return len(a) == len(b) and all(abs(u - v) <= 1e-4 * max(1, abs(v)) for u, v in zip(a, b))


def fails(library, code, name, *arguments):
    try:
        library.call(name, *arguments)
    except Failure as failure:
        assert str(failure).startswith(code + ": "), failure
        return
    raise AssertionError(f"{name} did not fail with {code}")


def check_runs(library, model, seed):
    w, b = [0.5, -1, 2, 0.25, 3, -0.75], [0.125, -2]
    rng = random.Random(seed)
    session = c_void_p()
    library.call("hg_session_create", model, None, byref(session))
    for _ in range(50):
        rows = rng.randrange(0, 9)
        x = (c_float * (rows * 3))(*(rng.uniform(-2, 2) for _ in range(rows * 3)))
        y = (c_float * (rows * 2))()
        given, bound, out = tensor(library, x, (rows, 3)), tensor(library, y, (rows, 2)), Tensor()
        out.struct_size = ctypes.sizeof(out)
        is_bound = rng.random() < 0.5
        library.call("hg_session_set_input", session, b"x", byref(given))
        library.call("hg_session_set_output", session, b"y", byref(bound) if is_bound else None)
        library.call("hg_session_run", session, None)
        library.call("hg_session_output", session, b"y", byref(out))
        assert list(out.shape[:2]) == [rows, 2]
        count = rows * 2
        got = list((c_float * count).from_address(out.data)) if count else []
        assert is_near(got, linear(w, b, list(x), rows)), (got, rows)
        assert not is_bound or list(y) == got
    fails(library, "not_found", "hg_session_set_input", session, b"nothing", byref(given))
    fails(library, "invalid_argument", "hg_session_run", None, None)
    library.dll.hg_session_free(session)


def check_training(library, model, work):
    rng = random.Random(3)
    x = (c_float * 48)(*(rng.uniform(-1, 1) for _ in range(48)))
    t = (c_float * 32)(*linear([1, 2, -1, 0, 0.5, 1], [1, -1], list(x), 16))
    inputs, targets = tensor(library, x, (16, 3)), tensor(library, t, (16, 2))
    optimizer, options, data = Optimizer(), TrainOptions(), Dataset()
    library.dll.hg_optimizer_init(byref(optimizer), c_size_t(ctypes.sizeof(optimizer)), c_int32(2))
    assert optimizer.weight_decay == 0.01 and optimizer.beta2 == 0.999  # torch's defaults of AdamW
    optimizer.lr, optimizer.weight_decay = 0.05, 0
    library.dll.hg_train_options_init(byref(options), c_size_t(ctypes.sizeof(options)))
    options.optimizer = ctypes.pointer(optimizer)
    library.dll.hg_dataset_init(byref(data), c_size_t(ctypes.sizeof(data)))
    data.inputs, data.targets = ctypes.pointer(inputs), ctypes.pointer(targets)
    data.input_count = data.target_count = 1
    trainer, loss = c_void_p(), c_double()
    library.call("hg_trainer_create", model, byref(options), byref(trainer))
    losses = []
    for _ in range(400):
        library.call("hg_trainer_step", trainer, byref(data), None, byref(loss))
        losses.append(loss.value)
    assert losses[-1] < 1e-3 < losses[0], (losses[0], losses[-1])
    path = str(work / "ctypes_trained.hgm").encode()
    library.call("hg_trainer_save", trainer, path)
    library.dll.hg_trainer_free(trainer)
    trained = c_void_p()
    library.call("hg_model_load", path, None, byref(trained))
    library.dll.hg_model_free(trained)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("library", "make-model", "work"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    args = parser.parse_args()
    library = Library(args.library)
    path = args.work / "ctypes_test.hgm"
    subprocess.run([args.make_model, path], check=True)
    model = c_void_p()
    fails(library, "not_found", "hg_model_load", b"/nowhere.hgm", None, byref(model))
    library.call("hg_model_load", str(path).encode(), None, byref(model))
    info = ValueInfo()
    info.struct_size = ctypes.sizeof(info)
    library.call("hg_model_input", model, c_int32(0), byref(info))
    assert (info.name, info.type, info.shape[0], info.dims[0]) == (b"x", b"f32[n, 3]", -1, b"n")
    check_runs(library, model, seed=1)
    check_training(library, model, args.work)
    library.dll.hg_model_free(model)
    print("ctypes:", library.dll.hg_version().decode())


if __name__ == "__main__":
    sys.exit(main())
