// SPDX-License-Identifier: Apache-2.0
// What a backend must have before sessions rely on it.
#include "hg/registry.h"
#include "lib/device/backend.h"

namespace hg {
namespace {

Status check_row(const KernelDef& row, const Op& op) {
  const auto check = [&](bool ok, std::string_view what) -> Status {
    return ok ? Status()
              : invalid_argument("the backend's kernel '", row.name, "' of ", op.name(), " ", what);
  };
  HG_TRY(check(row.op == op.name(), str_cat("says that it is of '", row.op, "'")));
  HG_TRY(check(!row.name.empty(), "has no name"));
  HG_TRY(check(row.device == Device::vulkan, "must have Device::vulkan as its device"));
  HG_TRY(check(row.prepare != nullptr, "has no prepare"));
  return check(!row.in_programs, "must not have in_programs");
}

}  // namespace

Status check_backend(const Backend& backend) {
  const DeviceInfo& info = backend.info();
  HG_CHECK(!info.name.empty(), "the backend's info() has no name");
  HG_CHECK(info.max_binding_bytes > 0, "the backend '", info.name, "' has max_binding_bytes ",
           info.max_binding_bytes, "; it must be positive");
  HG_CHECK(info.binding_alignment > 0, "the backend '", info.name, "' has binding_alignment ",
           info.binding_alignment, "; it must be positive");
  const Registry& registry = Registry::built_in();
  bool copies = false;
  for (const Op* op : registry.ops())
    for (const KernelDef* row : backend.kernels(registry, *op)) {
      HG_TRY(check_row(*row, *op));
      copies |= op->name() == "contiguous" && row->strided == kAllStrided;
    }
  HG_CHECK(copies, "the backend '", info.name,
           "' has no kernel for 'contiguous' with any strides (kAllStrided)");
  return {};
}

}  // namespace hg
