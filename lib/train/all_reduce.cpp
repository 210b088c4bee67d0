// SPDX-License-Identifier: Apache-2.0
#include "lib/train/all_reduce.h"

#include <algorithm>
#include <cstdint>

#include "hg/kernel.h"
#include "lib/graph/access.h"

namespace hg {
namespace {

constexpr std::string_view kBegin = "train.all_reduce_begin", kWait = "train.all_reduce_wait",
                           kEnd = "train.all_reduce_end";

const Reducer& reducer_at(int64_t address) { return *reinterpret_cast<const Reducer*>(address); }

// A token is nothing but the order of nodes.
TensorType token_type() { return {boolean, {}}; }

Status infer_begin(InferContext& c) {
  c.out(0) = c.in(0);
  c.out(1) = token_type();
  return {};
}
Status infer_wait(InferContext& c) {
  c.out(0) = token_type();
  return {};
}
Status infer_end(InferContext& c) {
  c.out(0) = c.in(0);
  return {};
}

constexpr const char* kFailed = "the host's function failed";

struct Begin {
  const Reducer* reducer;
  std::string name;
};

Status prepare_begin(PrepareContext& c) {
  c.make_state(Begin{&reducer_at(c.attrs().integer("host")), c.attrs().string("name")});
  return {};
}
void run_begin(const RunContext& c) noexcept {
  const Begin& begin = c.state<Begin>();
  if (c.in(0).data != c.out(0).data) copy_elements(c.in(0), c.out(0));
  *c.out(1).as<bool>() = true;
  if (!begin.reducer->begin(begin.name, c.out(0))) c.fail(kFailed);
}

Status prepare_wait(PrepareContext& c) {
  c.make_state(&reducer_at(c.attrs().integer("host")));
  return {};
}
void run_wait(const RunContext& c) noexcept {
  *c.out(0).as<bool>() = true;
  if (!c.state<const Reducer*>()->wait()) c.fail(kFailed);
}

void run_end(const RunContext& c) noexcept {
  if (c.in(0).data != c.out(0).data) copy_elements(c.in(0), c.out(0));
}

// In place, so that a sum stays where it is; random, so that no pass drops, merges or repeats it.
constexpr uint32_t kTraits = kNoGradient | kInPlace | kRandom;
constexpr OpDef kOps[] = {
    {.name = kBegin,
     .signature = "train.all_reduce_begin(x, after?, name: str, host: int) -> y, token",
     .infer = infer_begin,
     .traits = kTraits},
    {.name = kWait,
     .signature = "train.all_reduce_wait(after, host: int) -> token",
     .infer = infer_wait,
     .traits = kTraits},
    {.name = kEnd,
     .signature = "train.all_reduce_end(x, after) -> y",
     .infer = infer_end,
     .traits = kTraits},
};
constexpr KernelDef kKernels[] = {
    {.op = kBegin, .name = "host", .prepare = prepare_begin, .run = run_begin},
    {.op = kWait, .name = "host", .prepare = prepare_wait, .run = run_wait},
    {.op = kEnd, .name = "copy", .run = run_end},
};

}  // namespace

Result<std::unique_ptr<Reducer>> Reducer::create(const AllReduce& host, const Registry& registry) {
  HG_CHECK(host.ranks >= 1, "all_reduce has ", host.ranks, " ranks, it must be 1 or more");
  HG_CHECK(host.begin != nullptr || host.ranks == 1, "all_reduce has ", host.ranks,
           " ranks and no function that begins a sum");
  if (host.begin == nullptr) return std::unique_ptr<Reducer>();
  auto made = std::unique_ptr<Reducer>(new Reducer(host, registry));
  for (const OpDef& op : kOps) HG_TRY(made->registry_.add(op));
  for (const KernelDef& kernel : kKernels) HG_TRY(made->registry_.add(kernel));
  return made;
}

Status Reducer::add_to(Graph& graph, std::span<const std::pair<std::string, Value*>> values) const {
  GraphAccess::body(graph).registry = &registry_;
  const NamedAttr host = {"host", static_cast<int64_t>(reinterpret_cast<intptr_t>(this))};
  // In the order in which the graph makes them.
  std::vector<std::pair<std::string, Value*>> ordered(values.begin(), values.end());
  std::stable_sort(ordered.begin(), ordered.end(), [&](const auto& a, const auto& b) {
    return graph.value_info(a.second->id()).node < graph.value_info(b.second->id()).node;
  });
  Value token;
  for (auto& [name, value] : ordered) {
    const std::vector<Value> begun = graph.calls(kBegin, {*value, token}, {{"name", name}, host});
    HG_TRY(graph.take_status());
    *value = begun[0];
    token = begun[1];
  }
  token = graph.call(kWait, {token}, {host});
  for (auto& [name, value] : ordered) *value = graph.call(kEnd, {*value, token});
  return graph.take_status();
}

bool Reducer::begin(std::string_view name, const Tensor& data) const {
  failure_ = host_.begin(name, data);
  return failure_.ok();
}

bool Reducer::wait() const {
  if (host_.wait != nullptr) failure_ = host_.wait();
  return failure_.ok();
}

}  // namespace hg
