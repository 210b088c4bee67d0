# SPDX-License-Identifier: Apache-2.0
"""Devices that can run a model on this machine."""

from dataclasses import dataclass, field

from . import _core


@dataclass(frozen=True)
class DeviceInfo:
    """One device: ``kind`` is a value for the option ``device``, ``name`` a value for ``gpu_name``."""

    kind: str
    name: str
    type: str = ""
    driver: str = ""
    memory_bytes: int = 0
    details: dict = field(default_factory=dict, compare=False, repr=False)


def _cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "CPU"


def devices():
    """The CPU, then the Vulkan devices in the driver's order."""
    found = [DeviceInfo("cpu", _cpu_name(), "cpu", f"{_core.cores()} threads")]
    for row in _core.vulkan_devices():
        found.append(DeviceInfo("vulkan", row["name"], row["type"], row["driver"], row["memory_bytes"], row))
    return found
