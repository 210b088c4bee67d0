# SPDX-License-Identifier: Apache-2.0
"""Exceptions of hologram, in addition to ValueError, TypeError, FileNotFoundError and MemoryError."""


class HologramError(Exception):
    """Base class of hologram's own exceptions."""


class UnsupportedError(HologramError, NotImplementedError):
    """A valid request that this build, device or version does not support.

    ``ops`` lists the missing ops, if any: dicts with ``op``, ``count``, ``module``, ``source``, ``reason`` and
    ``suggestion``, or names.
    """

    def __init__(self, message="", ops=()):
        super().__init__(message)
        self.ops = list(ops)


class CorruptModelError(HologramError, ValueError):
    """The bytes are not a valid model."""


class NotFoundError(HologramError, FileNotFoundError, LookupError):
    """No such file or name."""

    def __str__(self):
        return self.args[0] if self.args else ""


class DeviceLostError(HologramError, RuntimeError):
    """The device stopped responding; create a new session."""


class MismatchError(HologramError, ValueError):
    """A converted model and its module give different results.

    ``report`` is the report of the conversion.
    """

    def __init__(self, message="", report=None):
        super().__init__(message)
        self.report = report


def one_line(error):
    """The kind and the first line of an exception of other code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
