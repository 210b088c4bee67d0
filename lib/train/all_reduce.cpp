// SPDX-License-Identifier: Apache-2.0
#include "lib/train/all_reduce.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "hg/kernel.h"
#include "hg/ops.h"
#include "lib/graph/access.h"

namespace hg {
namespace {

constexpr std::string_view kPack = "train.all_reduce_pack", kBegin = "train.all_reduce_begin",
                           kWait = "train.all_reduce_wait", kEnd = "train.all_reduce_end";

const Reducer& reducer_at(int64_t address) { return *reinterpret_cast<const Reducer*>(address); }

// A token only orders nodes.
TensorType token_type() { return {boolean, {}}; }

Status infer_pack(InferContext& c) {
  c.out(0) = {c.in(1).dtype, {c.attrs().integer("count")}};
  return {};
}
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

Status prepare_pack(PrepareContext& c) {
  c.make_state(c.attrs().integer("at"));
  return {};
}
void run_pack(const RunContext& c) noexcept {
  const Tensor& out = c.out(0);
  if (c.has(0) && c.in(0).data != out.data) copy_elements(c.in(0), out);
  Tensor part = out;
  part.shape = c.in(1).shape;
  part.strides = contiguous_strides(part.shape);
  part.data = static_cast<std::byte*>(out.data) + c.state<int64_t>() * size_of(out.dtype);
  copy_elements(c.in(1), part);
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

// Marked in place, so that the sum stays where it is, and random, so that no pass drops, merges or
// repeats it.
constexpr uint32_t kTraits = kNoGradient | kInPlace | kRandom;
constexpr OpDef kOps[] = {
    {.name = kPack,
     .signature = "train.all_reduce_pack(into?, x, at: int, count: int) -> y",
     .infer = infer_pack,
     .traits = kTraits},
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
    {.op = kPack, .name = "copy", .prepare = prepare_pack, .run = run_pack},
    {.op = kBegin, .name = "host", .prepare = prepare_begin, .run = run_begin},
    {.op = kWait, .name = "host", .prepare = prepare_wait, .run = run_wait},
    {.op = kEnd, .name = "copy", .run = run_end},
};

}  // namespace

Result<std::unique_ptr<Reducer>> Reducer::create(const AllReduce& host, const Registry& registry) {
  HG_CHECK(host.ranks >= 1, "all_reduce: ranks is ", host.ranks, ", but must be 1 or more");
  HG_CHECK(host.begin != nullptr || host.ranks == 1, "all_reduce has ", host.ranks,
           " ranks, but no function begin");
  HG_CHECK(host.bucket_bytes >= 0, "all_reduce: bucket_bytes is ", host.bucket_bytes,
           ", but must be 0 or more");
  if (host.begin == nullptr) return std::unique_ptr<Reducer>();
  auto made = std::unique_ptr<Reducer>(new Reducer(host, registry));
  for (const OpDef& op : kOps) HG_TRY(made->registry_.add(op));
  for (const KernelDef& kernel : kKernels) HG_TRY(made->registry_.add(kernel));
  return made;
}

namespace {

using Named = std::pair<std::string, Value*>;

// The data of one message: one value as it is, or several concatenated.
struct Bucket {
  std::vector<Named> values;
  std::vector<Sizes> shapes;
  int64_t count = 0;  // elements

  DType dtype() const { return values[0].second->dtype(); }
  int64_t bytes() const { return count * size_of(dtype()); }
  std::string names() const {
    std::string all;
    for (const auto& [name, value] : values) all += all.empty() ? name : str_cat(", ", name);
    return all;
  }
};

// In the order in which values become ready. A bucket is ready when the last of its values is.
std::vector<Bucket> buckets_of(std::span<const Named> values, int64_t bytes) {
  std::vector<Bucket> ready, open;
  for (const Named& named : values) {
    const Value& value = *named.second;
    const Result<Sizes> shape = evaluate(value.shape(), Bindings());
    const int64_t own = shape.ok() ? shape->count() * size_of(value.dtype()) : bytes;
    if (own >= bytes) {
      ready.push_back({{named}, {}, 0});
      continue;
    }
    auto bucket = std::find_if(open.begin(), open.end(),
                               [&](const Bucket& b) { return b.dtype() == value.dtype(); });
    if (bucket == open.end()) bucket = open.emplace(open.end());
    bucket->values.push_back(named);
    bucket->shapes.push_back(*shape);
    bucket->count += shape->count();
    if (bucket->bytes() < bytes) continue;
    ready.push_back(std::move(*bucket));
    open.erase(bucket);
  }
  std::move(open.begin(), open.end(), std::back_inserter(ready));
  return ready;
}

Value pack(Graph& graph, const Bucket& bucket) {
  if (bucket.values.size() == 1) return *bucket.values[0].second;
  Value all;
  int64_t at = 0;
  for (size_t i = 0; i < bucket.values.size(); ++i) {
    all = graph.call(kPack, {all, *bucket.values[i].second}, {{"at", at}, {"count", bucket.count}});
    at += bucket.shapes[i].count();
  }
  return all;
}

void unpack(const Value& all, const Bucket& bucket) {
  if (bucket.values.size() == 1) {
    *bucket.values[0].second = all;
    return;
  }
  int64_t at = 0;
  for (size_t i = 0; i < bucket.values.size(); ++i) {
    const Shape shape(bucket.shapes[i].begin(), bucket.shapes[i].end());
    const int64_t end = at + bucket.shapes[i].count();
    *bucket.values[i].second = reshape(slice(all, 0, at, end), shape);
    at = end;
  }
}

}  // namespace

Status Reducer::add_to(Graph& graph, std::span<const std::pair<std::string, Value*>> values) const {
  GraphAccess::body(graph).registry = &registry_;
  const NamedAttr host = {"host", static_cast<int64_t>(reinterpret_cast<intptr_t>(this))};
  // In the order in which the graph computes them.
  std::vector<Named> ordered(values.begin(), values.end());
  std::stable_sort(ordered.begin(), ordered.end(), [&](const Named& a, const Named& b) {
    return graph.value_info(a.second->id()).node < graph.value_info(b.second->id()).node;
  });
  const std::vector<Bucket> buckets = buckets_of(ordered, host_.bucket_bytes);
  std::vector<Value> sums;
  Value token;
  for (const Bucket& bucket : buckets) {
    const std::vector<Value> begun =
        graph.calls(kBegin, {pack(graph, bucket), token}, {{"name", bucket.names()}, host});
    HG_TRY(graph.take_status());
    sums.push_back(begun[0]);
    token = begun[1];
  }
  token = graph.call(kWait, {token}, {host});
  for (size_t i = 0; i < buckets.size(); ++i)
    unpack(graph.call(kEnd, {sums[i], token}), buckets[i]);
  return graph.take_status();
}

bool Reducer::begin(std::string_view name, const Tensor& data) const {
  failure_ = host_.begin(name, data);
  is_summing_ |= failure_.ok();
  return failure_.ok();
}

Status Reducer::take_failure() const {
  if (std::exchange(is_summing_, false) && host_.wait != nullptr)
    static_cast<void>(host_.wait());  // the run reports its own error
  return std::exchange(failure_, {});
}

bool Reducer::wait() const {
  is_summing_ = false;
  if (host_.wait != nullptr) failure_ = host_.wait();
  return failure_.ok();
}

}  // namespace hg
