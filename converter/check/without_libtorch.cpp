// SPDX-License-Identifier: Apache-2.0
// Replaces load.cpp and reference.cpp in a build without libtorch: load/exported reads exported
// programs, and there is no reference to compare with.
#include "converter/check/reference.h"
#include "converter/load/load.h"

namespace hg::convert {
namespace {

constexpr char kReason[] = "this hg-convert is built without libtorch";

}  // namespace

std::vector<Loaded> load_script(const std::string& path, const std::vector<CustomOp>&,
                                const std::vector<std::string>&) {
  throw Failure{Exit::unsupported,
                path + " is a TorchScript file, which needs libtorch, and " + kReason +
                    "; build it with one, or save the model as an exported program: "
                    "torch.export.save(torch.export.export(model, inputs), \"model.pt2\")"};
}

std::string libtorch_version() { return ""; }
std::string libtorch_file() { return ""; }

std::vector<TensorData> run_reference(const Loaded&, std::span<const ReferenceInput>, uint64_t,
                                      int) {
  throw ReferenceFailure{"", {}, kReason};
}

std::vector<TensorData> run_reference_nodes(const Loaded&, std::span<const ReferenceInput>,
                                            uint64_t, const Observer&, int64_t) {
  throw ReferenceFailure{"", {}, kReason};
}

std::vector<TensorData> run_reference_moved(const Loaded&, std::span<const ReferenceInput>,
                                            uint64_t, double, uint64_t) {
  throw ReferenceFailure{"", {}, kReason};
}

class ReferenceSequence::Body {};
ReferenceSequence::ReferenceSequence(std::span<const Loaded* const>) {}
ReferenceSequence::~ReferenceSequence() = default;
std::vector<TensorData> ReferenceSequence::run(size_t, std::span<const ReferenceInput>, uint64_t) {
  throw ReferenceFailure{"", {}, kReason};
}
TensorData ReferenceSequence::state(const std::string&) const { return {}; }

bool may_vary(const Loaded&) { return false; }
bool has_uninitialised(const Loaded&) { return false; }

}  // namespace hg::convert
