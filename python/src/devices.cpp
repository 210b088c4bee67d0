// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include <thread>

#include "hg/gpu.h"
#include "python/src/bind.h"
#include "python/src/errors.h"

namespace hg::python {

void bind_devices(nb::module_& m) {
  // One dict per Vulkan device; none without a driver.
  m.def("vulkan_devices", [] {
    nb::list out;
    const Result<std::vector<DeviceInfo>> devices = list_devices();
    if (!devices.ok()) {
      if (devices.status().code() != Code::unsupported) raise(devices.status());
      return out;
    }
    for (const DeviceInfo& info : *devices) {
      nb::dict row;
      row["index"] = info.index;
      row["name"] = info.name;
      row["type"] = std::string(to_string(info.type));
      row["driver"] = info.driver;
      row["memory_bytes"] = info.memory_bytes;
      row["float64"] = info.f64;
      row["int64"] = info.i64;
      row["float16"] = info.f16;
      row["subgroup_size"] = info.subgroup_size;
      out.append(row);
    }
    return out;
  });
  // Why there is no device; empty if there is one.
  m.def("why_no_vulkan", [] {
    const Result<std::vector<DeviceInfo>> devices = list_devices();
    return devices.ok() ? std::string() : std::string(devices.status().message());
  });
  m.def("cores", [] { return std::thread::hardware_concurrency(); });
}

}  // namespace hg::python
