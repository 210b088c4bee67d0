// SPDX-License-Identifier: Apache-2.0
#include "lib/run/tuning.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "lib/graph/checksum.h"
#include "lib/plan/planner.h"
#include "lib/run/engine.h"

namespace hg {
namespace {

constexpr std::string_view kMagic = "HGTUNE01";
constexpr double kLeastFlops = 200000;  // below this, all kernels take microseconds
constexpr int kMostRuns = 12;
constexpr double kMostMs = 15;        // no further run of a kernel starts after this
constexpr double kMuchFaster = 0.97;  // of the time of a preferred kernel

std::string processor() {
#if defined(__x86_64__)
  unsigned words[12] = {};
  for (unsigned i = 0; i < 3; ++i)
    if (__get_cpuid(0x80000002u + i, words + 4 * i, words + 4 * i + 1, words + 4 * i + 2,
                    words + 4 * i + 3) == 0)
      return "x86-64";
  return std::string(reinterpret_cast<const char*>(words), sizeof(words));
#else
  return "";
#endif
}

// A graph of one node, with constants and numeric sizes.
struct Alone {
  Graph graph;
  double flops = 0;
  uint64_t key = 0;
};

std::optional<Alone> alone(const PlanRequest& request, const Node& node,
                           std::string_view processor) {
  const Graph& graph = *request.graph;
  if (node.op->def.flops == nullptr || node.op->def.view != nullptr ||
      (node.op->def.traits & (kControl | kRandom | kDataDependent)))
    return std::nullopt;
  Alone made{Graph(*request.registry)};
  std::string all = str_cat(node.op->name(), ";", request.threads, ";", processor, ";",
                            int(request.options->precision), request.options->low_memory, ";");
  std::vector<Value> inputs;
  std::vector<Sizes> in, out;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) {
      inputs.emplace_back();
      all += "-;";
      continue;
    }
    const ValueInfo& info = graph.value_info(id);
    const Result<Sizes> sizes = evaluate(info.type.shape, *request.bindings);
    if (!sizes.ok()) return std::nullopt;
    in.push_back(*sizes);
    const bool is_fixed = info.state >= 0 && !(*request.mutable_states)[info.state];
    all += str_cat(info.type.dtype, *sizes, is_fixed ? "=;" : ";");
    const std::string name = str_cat("x", int64_t(inputs.size()));
    inputs.push_back(is_fixed ? made.graph.constant(graph.states()[info.state].data, name)
                              : made.graph.input(name, info.type.dtype, to_shape(*sizes)));
  }
  std::vector<Attr> numbers;
  NamedAttrs attrs;
  for (size_t i = 0; i < node.attrs.size(); ++i) {
    numbers.push_back(with_numbers(node.attrs[i], *request.bindings));
    attrs.push_back({node.op->signature.attributes[i].name, numbers.back()});
    all += str_cat(attrs.back().name, "=", numbers.back(), ";");
  }
  int k = 0;
  for (const Value& y : made.graph.calls(node.op->name(), inputs, attrs)) {
    if (!made.graph.status().ok()) return std::nullopt;
    made.graph.output(str_cat("y", k++), y);
    const Result<Sizes> sizes = evaluate(y.shape(), Bindings());
    if (!sizes.ok()) return std::nullopt;
    out.push_back(*sizes);
  }
  if (!made.graph.status().ok()) return std::nullopt;
  made.flops = node.op->def.flops(in, out, AttrReader(node.op, numbers));
  made.key = checksum_of(std::as_bytes(std::span(all)));
  return made;
}

// The least time of several runs on zeros.
Result<double> measure(const Graph& graph, const PlanRequest& request, const KernelDef& kernel) {
  SessionOptions options;
  options.threads = request.threads;
  options.parallel_for = request.options->parallel_for;
  options.allocator = request.options->allocator;
  options.low_memory = request.options->low_memory;
  options.precision = request.options->precision;
  options.keep_all_values = true;  // so that no pass changes the node
  options.kernels = {str_cat(kernel.op, "=", kernel.name)};
  HG_TRY_ASSIGN(const std::unique_ptr<Engine> engine,
                Engine::create(graph, options, *request.registry));
  HG_TRY_ASSIGN(const std::vector<TensorData> zeros, engine->give_zeros(Bindings()));
  HG_TRY(engine->plan({}));
  // If the kernel rejects the node, it may have been expanded; the time is then not the kernel's.
  const std::vector<ProfileRow> rows = engine->profile();
  if (std::none_of(rows.begin(), rows.end(), [&](const ProfileRow& row) {
        return row.op == kernel.op && row.kernel == kernel.name;
      }))
    return unsupported(kernel.op, ": '", kernel.name, "' refuses");
  return engine->least_ms(kMostRuns, kMostMs);
}

// All kernels except fallbacks, in order of preference.
std::vector<const KernelDef*> measurable(const PlanRequest& request, const Node& node) {
  std::vector<const KernelDef*> kernels;
  for (const KernelDef* kernel : request.registry->kernels(node.op->name(), Device::cpu))
    if (!kernel->is_fallback) kernels.push_back(kernel);
  return kernels;
}

// The fastest kernel, preferring earlier ones if equally fast; empty if none is usable.
std::string fastest(const Graph& graph, const PlanRequest& request,
                    std::span<const KernelDef* const> kernels) {
  std::string name;
  double best = std::numeric_limits<double>::infinity();
  for (const KernelDef* kernel : kernels) {
    const Result<double> ms = measure(graph, request, *kernel);
    if (!ms.ok() || *ms > best * kMuchFaster) continue;
    best = *ms;
    name = kernel->name;
  }
  return name;
}

void append(std::vector<std::byte>& blob, const void* data, size_t size) {
  const size_t at = blob.size();
  blob.resize(at + size);
  if (size > 0) std::memcpy(blob.data() + at, data, size);
}

}  // namespace

// The magic number, a checksum of the rest, and for each node its key, the length of the kernel's
// name, and the name.
std::vector<std::byte> Tuning::blob() const {
  std::vector<std::byte> rows;
  for (const auto& [key, name] : known_) {
    const auto length = static_cast<uint8_t>(name.size());
    append(rows, &key, sizeof key);
    append(rows, &length, sizeof length);
    append(rows, name.data(), name.size());
  }
  const uint64_t checksum = checksum_of(rows);
  std::vector<std::byte> blob;
  append(blob, kMagic.data(), kMagic.size());
  append(blob, &checksum, sizeof checksum);
  append(blob, rows.data(), rows.size());
  return blob;
}

Tuning::Tuning(std::span<const std::byte> blob) {
  uint64_t checksum = 0, key = 0;
  if (blob.size() < kMagic.size() + sizeof(checksum) ||
      std::memcmp(blob.data(), kMagic.data(), kMagic.size()) != 0)
    return;
  std::memcpy(&checksum, blob.data() + kMagic.size(), sizeof(checksum));
  std::span<const std::byte> rows = blob.subspan(kMagic.size() + sizeof(checksum));
  if (checksum_of(rows) != checksum) return;
  while (rows.size() > sizeof(key)) {
    std::memcpy(&key, rows.data(), sizeof(key));
    const auto length = static_cast<size_t>(rows[sizeof(key)]);
    rows = rows.subspan(sizeof(key) + 1);
    if (rows.size() < length) return;
    known_[key] = std::string(reinterpret_cast<const char*>(rows.data()), length);
    rows = rows.subspan(length);
  }
}

NodeKernels Tuning::choose(const PlanRequest& request, bool may_measure) {
  NodeKernels chosen;
  if (known_.empty() && !may_measure) return chosen;
  const std::vector<Node>& nodes = request.graph->nodes();
  const std::string here = processor();  // this query is slow in a virtual machine
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<const KernelDef*> kernels = measurable(request, nodes[i]);
    if (kernels.size() < 2) continue;
    const std::optional<Alone> node = alone(request, nodes[i], here);
    if (!node || node->flops < kLeastFlops) continue;
    auto found = known_.find(node->key);
    if (found == known_.end()) {
      if (!may_measure) continue;
      found = known_.emplace(node->key, fastest(node->graph, request, kernels)).first;
    }
    if (!found->second.empty()) chosen[static_cast<int32_t>(i)] = found->second;
  }
  return chosen;
}

}  // namespace hg
