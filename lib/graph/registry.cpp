// SPDX-License-Identifier: Apache-2.0
// Ops and kernels by name. CMake generates the lists of built-in tables.
#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "hg/kernel.h"
#include "hg/op.h"
#include "lib/graph/registry_watch.h"

#define HG_TABLE(stem)               \
  namespace hg::ops {                \
  std::span<const hg::OpDef> stem(); \
  }
#include "hg_ops_table.inc"
#undef HG_TABLE

#define HG_TABLE(stem)                   \
  namespace hg::kernels {                \
  std::span<const hg::KernelDef> stem(); \
  }
#include "hg_kernels_table.inc"
#undef HG_TABLE

#if defined(HG_VULKAN)
#define HG_TABLE(stem)                   \
  namespace hg::vulkan {                 \
  std::span<const hg::KernelDef> stem(); \
  }
#include "hg_vulkan_kernels_table.inc"
#undef HG_TABLE
#endif

namespace hg {

std::string_view to_string(Device device) {
  switch (device) {
    case Device::automatic:
      return "auto";
    case Device::cpu:
      return "cpu";
    case Device::vulkan:
      return "vulkan";
  }
  return "unknown";
}

using KernelList = std::vector<const KernelDef*>;

// Ops may be added while other threads read. The built-in body is complete before any thread sees
// it and is read without the lock. Readers exclude each other, because many readers of a shared
// lock could block a writer indefinitely.
struct Registry::Body {
  std::map<std::string_view, std::shared_ptr<const Op>> ops;
  std::map<std::pair<std::string_view, Device>, KernelList> kernels;
  std::vector<KernelList> former;  // lists that kernels() returned before a kernel was added
  bool is_fixed = false;
  RegistryWatch* watch = nullptr;  // records with `mutex` held
  mutable std::mutex mutex;

  std::unique_lock<std::mutex> reading() const {
    return is_fixed ? std::unique_lock<std::mutex>() : std::unique_lock(mutex);
  }
  static std::shared_ptr<Body> copy_of(const Body& other) {
    auto made = std::make_shared<Body>();
    const auto lock = other.reading();
    made->ops = other.ops;
    made->kernels = other.kernels;
    return made;
  }
};

namespace {

std::shared_ptr<const Op> parsed(const OpDef& def, Status& status) {
  Result<Signature> signature = Signature::parse(def.signature);
  if (!signature.ok()) {
    status = signature.status();
    return nullptr;
  }
  Op op{def, *std::move(signature)};
  if (def.name.empty()) op.def.name = def.signature.substr(0, op.signature.name.size());
  if (op.signature.name != op.def.name) {
    status = invalid_argument("the op '", op.def.name, "' has the signature of '",
                              op.signature.name, "'");
    return nullptr;
  }
  return std::make_shared<const Op>(std::move(op));
}

KernelList::iterator first_fallback(KernelList& list) {
  return std::partition_point(list.begin(), list.end(),
                              [](const KernelDef* kernel) { return !kernel->is_fallback; });
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const Registry& Registry::built_in() {
  static const Registry kBuiltIn = [] {
    Registry registry(nullptr);
    registry.body_ = std::make_shared<Body>();
    // Skips a row whose signature does not parse; the table test then reports it as missing.
    const auto add_ops = [&](std::span<const OpDef> rows) {
      for (const OpDef& row : rows) (void)registry.add(row);
    };
    const auto add_kernels = [&](std::span<const KernelDef> rows) {
      for (const KernelDef& row : rows) {
        auto& list = registry.body_->kernels[{row.op, row.device}];
        list.insert(row.is_fallback ? list.end() : first_fallback(list), &row);
      }
    };
#define HG_TABLE(stem) add_ops(ops::stem());
#include "hg_ops_table.inc"
#undef HG_TABLE
#define HG_TABLE(stem) add_kernels(kernels::stem());
#include "hg_kernels_table.inc"
#undef HG_TABLE
#if defined(HG_VULKAN)
#define HG_TABLE(stem) add_kernels(vulkan::stem());
#include "hg_vulkan_kernels_table.inc"
#undef HG_TABLE
#endif
    registry.body_->is_fixed = true;
    return registry;
  }();
  return kBuiltIn;
}

Registry::Registry() : body_(Body::copy_of(*built_in().body_)) {}
Registry::Registry(std::nullptr_t) {}
Registry::~Registry() = default;
Registry::Registry(const Registry& other) : body_(Body::copy_of(*other.body_)) {}
Registry& Registry::operator=(const Registry& other) {
  body_ = Body::copy_of(*other.body_);
  return *this;
}

Status Registry::add(const OpDef& op) {
  Status status;
  std::shared_ptr<const Op> entry = parsed(op, status);
  HG_TRY(status);
  const std::lock_guard lock(body_->mutex);
  const std::string_view name = entry->name();
  HG_CHECK(body_->ops.emplace(name, std::move(entry)).second, "the op '", name,
           "' is registered already");
  return {};
}

Status Registry::add(const KernelDef& kernel) {
  HG_CHECK(find(kernel.op) != nullptr, "the kernel '", kernel.name, "' is for the op '", kernel.op,
           "', which is not registered; add the op first");
  HG_CHECK(kernel.run != nullptr || kernel.device != Device::cpu, "the kernel '", kernel.name,
           "' of '", kernel.op, "' has no run function");
  const std::lock_guard lock(body_->mutex);
  KernelList& list = body_->kernels[{kernel.op, kernel.device}];
  KernelList longer = list;
  longer.insert(kernel.is_fallback ? first_fallback(longer) : longer.begin(), &kernel);
  body_->former.emplace_back();  // may fail, so do it before anything changes
  body_->former.back() = std::exchange(list, std::move(longer));
  return {};
}

RegistryWatch::RegistryWatch() { registry_.body_->watch = this; }
void RegistryWatch::note_kernel(const Registry& registry, std::string_view op,
                                std::string_view kernel) {
  RegistryWatch* const watch = registry.body_->watch;
  if (watch == nullptr) return;
  const std::lock_guard lock(registry.body_->mutex);
  watch->kernels_.emplace(op, kernel);
}

const Op* Registry::find(std::string_view name) const {
  const auto lock = body_->reading();
  if (RegistryWatch* const watch = body_->watch) watch->ops_.emplace(name);
  const auto found = body_->ops.find(name);
  return found == body_->ops.end() ? nullptr : found->second.get();
}

std::vector<const Op*> Registry::ops() const {
  std::vector<const Op*> all;
  const auto lock = body_->reading();
  for (const auto& [name, op] : body_->ops) all.push_back(op.get());
  return all;
}

std::span<const KernelDef* const> Registry::kernels(std::string_view op, Device device) const {
  const auto lock = body_->reading();
  const auto found = body_->kernels.find({op, device});
  if (found == body_->kernels.end()) return {};
  return found->second;
}

std::string_view Registry::closest(std::string_view name) const {
  std::string_view best;
  int best_distance = 1 + static_cast<int>(name.size()) / 2;
  const auto lock = body_->reading();
  for (const auto& [candidate, op] : body_->ops)
    if (const int distance = edit_distance(name, candidate); distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  return best;
}

}  // namespace hg
