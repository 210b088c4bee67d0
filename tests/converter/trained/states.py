# SPDX-License-Identifier: Apache-2.0
"""The states in a .hgm file by name, through the library's C interface."""
import ctypes
from ctypes import byref, c_char_p, c_int32, c_int64, c_uint32, c_void_p

import numpy

RANK = 12
DTYPES = {0: numpy.float32, 1: numpy.float64}
KINDS = ["parameter", "buffer", "constant"]


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("dtype", c_int32), ("data", c_void_p), ("rank", c_int32),
                ("reserved", c_int32), ("shape", c_int64 * RANK), ("strides", c_int64 * RANK)]


class StateInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("kind", c_int32), ("name", c_char_p), ("requires_grad", c_int32),
                ("reserved", c_int32), ("tensor", Tensor)]


class Library:
    def __init__(self, path):
        self.dll = ctypes.CDLL(str(path))
        self.dll.hg_status_message.restype = c_char_p
        for name in ("hg_model_load", "hg_model_state"):
            getattr(self.dll, name).restype = c_void_p
        self.dll.hg_status_message.argtypes = [c_void_p]

    def check(self, status):
        if status is not None:
            raise RuntimeError(self.dll.hg_status_message(status).decode())

    def states(self, path):
        """Returns name -> (kind, requires_grad, array) for float states."""
        model = c_void_p()
        self.check(self.dll.hg_model_load(str(path).encode(), None, byref(model)))
        found = {}
        for i in range(self.dll.hg_model_state_count(model)):
            info = StateInfo(struct_size=ctypes.sizeof(StateInfo))
            info.tensor.struct_size = ctypes.sizeof(Tensor)
            self.check(self.dll.hg_model_state(model, i, byref(info)))
            tensor = info.tensor
            if tensor.dtype not in DTYPES:
                continue
            dtype, shape = numpy.dtype(DTYPES[tensor.dtype]), tuple(tensor.shape[:tensor.rank])
            count = int(numpy.prod(shape, dtype=numpy.int64))
            bytes_of = ctypes.string_at(tensor.data, count * dtype.itemsize)
            found[info.name.decode()] = (KINDS[info.kind], bool(info.requires_grad), numpy.frombuffer(bytes_of, dtype).reshape(shape))
        self.dll.hg_model_free(model)
        return found
