# SPDX-License-Identifier: Apache-2.0
"""What hologram raises beside Python's own ValueError, TypeError, FileNotFoundError and MemoryError."""


class HologramError(Exception):
    """Base of the errors that Python has no name for."""


class UnsupportedError(HologramError, NotImplementedError):
    """Meaningful, but this build, device or version cannot do it.

    ``ops`` lists what is missing, where ops are: dicts with ``op``, ``count``, ``module``, ``source``,
    ``reason`` and ``suggestion``, or names.
    """

    def __init__(self, message="", ops=()):
        super().__init__(message)
        self.ops = list(ops)


class CorruptModelError(HologramError, ValueError):
    """The bytes are not a valid model."""


class NotFoundError(HologramError, FileNotFoundError, LookupError):
    """There is no such file or name."""

    def __str__(self):
        return self.args[0] if self.args else ""


class DeviceLostError(HologramError, RuntimeError):
    """The device stopped answering; make a new session."""


class MismatchError(HologramError, ValueError):
    """A converted model does not answer as the module does.

    ``report`` is the report of the conversion.
    """

    def __init__(self, message="", report=None):
        super().__init__(message)
        self.report = report
