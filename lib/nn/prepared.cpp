// SPDX-License-Identifier: Apache-2.0
// Variants of a model's graph, and the cache of compiled models.
#include "lib/nn/prepared.h"

#include <algorithm>

#include "hg/train.h"
#include "lib/graph/rewrite.h"
#include "lib/run/lru_cache.h"

namespace hg::nn {

std::string seed_name(std::string_view output) { return str_cat("gradient of ", output); }

namespace {

// Removes inputs that nothing reads.
void drop_unused_inputs(Graph& graph) {
  const std::vector<int> uses = use_counts(graph);
  std::erase_if(GraphAccess::body(graph).inputs, [&](ValueId id) { return uses[id] == 0; });
}

Result<std::vector<Value>> seeds_of(Graph& graph, const VariantKey& key,
                                    std::vector<Value>& outputs) {
  std::vector<Value> ys, seeds;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = graph.outputs()[i].first;
    if (!key.seeds.empty() && !key.seeds[i]) continue;
    const Value& y = outputs[i];
    HG_CHECK(is_float(y.dtype()), "the output '", name, "' is ", y.dtype(),
             "; only floats have gradients");
    ys.push_back(y);
    seeds.push_back(key.seeds.empty() ? Value()
                                      : graph.input(seed_name(name), y.dtype(), y.shape()));
  }
  HG_TRY(graph.status());
  outputs = std::move(ys);
  return seeds;
}

Result<std::shared_ptr<Variant>> make_variant(const Lowered& lowered, const VariantKey& key,
                                              const std::vector<bool>& is_needed) {
  auto variant = std::make_shared<Variant>();
  variant->key = key;
  Graph graph = lowered.graph;
  std::vector<Value> gradients_given;
  if (key.differentiates) {
    std::vector<Value> ys, wrt;
    for (const auto& [name, id] : graph.outputs()) ys.push_back(graph.value(id));
    HG_TRY_ASSIGN(const std::vector<Value> seeds, seeds_of(graph, key, ys));
    for (size_t i = 0; i < lowered.states.size(); ++i)
      if (lowered.states[i].is_trainable && is_needed[i]) {
        variant->trainable.push_back(i);
        wrt.push_back(graph.value(lowered.states[i].value));
      }
    for (const ValueId id : lowered.gradients_of) wrt.push_back(graph.value(id));
    gradients_given = grad(ys, wrt, seeds);
    HG_TRY(graph.take_status());
  }
  size_t extra = 0;
  const auto add = [&](const Value& value) {
    graph.output(str_cat(".", static_cast<int64_t>(extra++)), value);
  };
  for (const Value& gradient : gradients_given) add(gradient);
  for (size_t i = 0; i < lowered.states.size(); ++i)
    if (lowered.states[i].moved != kNoValue) {
      variant->moved.push_back(i);
      add(graph.value(lowered.states[i].moved));
    }
  for (const std::string& path : key.hooks) add(graph.value(lowered.values.find(path)->second));
  HG_TRY(graph.status());
  remove_dead_nodes(graph);
  drop_unused_inputs(graph);
  HG_TRY_ASSIGN(variant->model, Model::from_graph(std::move(graph)));
  return variant;
}

bool same_arrays(const NamedArrays& a, const NamedArrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return Block(Constant(x.first, x.second)) == Block(Constant(y.first, y.second));
  });
}

bool operator==(const LowerOptions& a, const LowerOptions& b) {
  const auto& [dtype, compute, training, frozen, trainable, gradients_of, constants, registry] = a;
  return dtype == b.dtype && compute == b.compute && training == b.training && frozen == b.frozen &&
         trainable == b.trainable && gradients_of == b.gradients_of &&
         same_arrays(constants, b.constants) && registry == b.registry;
}

Result<std::shared_ptr<Prepared>> prepare_new(const Block& model, const LowerOptions& options) {
  auto prepared = std::make_shared<Prepared>();
  HG_TRY_ASSIGN(prepared->lowered, lower(model, options));
  Lowered& lowered = prepared->lowered;
  for (const auto& [name, id] : lowered.graph.outputs()) prepared->outputs.push_back(name);
  HG_TRY_ASSIGN(const std::shared_ptr<Variant> forward, variant_of(*prepared, {}));
  const Graph& graph = forward->model.graph();
  std::vector<bool> is_input(lowered.graph.value_count());
  for (const ValueId id : graph.inputs()) is_input[id] = true;
  for (const std::string& name : lowered.data)
    if (is_input[lowered.values.find(name)->second]) prepared->inputs.push_back(name);
  for (size_t i = 0; i < lowered.states.size(); ++i) {
    const NamedState& state = lowered.states[i];
    if (state.is_constant) continue;
    if (!state.is_parameter)
      prepared->states.push_back(i);
    else if (is_input[state.value])
      prepared->parameters.push_back(i);
  }
  return prepared;
}

}  // namespace

Result<std::shared_ptr<Variant>> variant_of(Prepared& prepared, const VariantKey& key) {
  const std::lock_guard<std::mutex> locked(prepared.mutex);
  for (const auto& known : prepared.variants)
    if (known->key == key) return known;
  std::vector<bool> is_needed(prepared.lowered.states.size());
  for (const size_t i : prepared.parameters) is_needed[i] = true;
  HG_TRY_ASSIGN(std::shared_ptr<Variant> made, make_variant(prepared.lowered, key, is_needed));
  prepared.variants.push_back(made);
  return made;
}

void keep_plans(Prepared& prepared, Variant& variant) {
  const std::lock_guard<std::mutex> locked(prepared.mutex);
  if (!prepared.is_cached) return;
  GraphCompanions& companions = *GraphAccess::body(std::as_const(variant.model).graph()).companions;
  const std::lock_guard<std::mutex> looking(companions.mutex);
  for (const std::weak_ptr<GraphCompanion>& companion : companions.all)
    if (const auto held = companion.lock();
        held != nullptr &&
        std::find(variant.kept.begin(), variant.kept.end(), held) == variant.kept.end())
      variant.kept.push_back(held);
}

// -- The cache ------------------------------------------------------------------------------------

struct PlanCache::Body {
  struct Entry {
    Block model;
    LowerOptions options;
    std::shared_ptr<Prepared> prepared;
  };
  std::mutex mutex;
  LruCache<Entry> entries{32};
  int64_t misses = 0;
};

namespace {

// Copies, so that keys do not change with the caller's arrays.
Status copy_array(Array& array) {
  HG_TRY(array.to_host());
  HG_TRY_ASSIGN(array, Array::copy_of(array.tensor()));
  return {};
}

Status copy_arrays(Block& block) {
  if (block.value) HG_TRY(copy_array(block.value));
  for (Block& inner : block.blocks) HG_TRY(copy_arrays(inner));
  return {};
}

}  // namespace

PlanCache::PlanCache() : body_(std::make_shared<Body>()) {}

PlanCache::Counters PlanCache::counters() const {
  const std::lock_guard<std::mutex> locked(body_->mutex);
  return {.hits = body_->entries.counters().hits, .misses = body_->misses};
}

struct PlanCacheAccess {
  static Result<std::shared_ptr<Prepared>> prepare(const PlanCache& cache, const Block& model,
                                                   const LowerOptions& options) {
    PlanCache::Body& body = *cache.body_;
    const std::lock_guard<std::mutex> locked(body.mutex);
    // The key is only a part of what the graph depends on.
    CacheKey key;
    key.push_back(static_cast<uint64_t>(options.dtype) | uint64_t{options.training} << 8 |
                  static_cast<uint64_t>(model.blocks.size()) << 16);
    const auto known = body.entries.find(key, [&](const PlanCache::Body::Entry& entry) {
      return entry.options == options && entry.model == model;
    });
    if (known != nullptr) return known->prepared;
    ++body.misses;
    HG_TRY_ASSIGN(std::shared_ptr<Prepared> made, prepare_new(model, options));
    made->is_cached = true;
    PlanCache::Body::Entry entry{model, options, made};
    HG_TRY(copy_arrays(entry.model));
    for (auto& [name, array] : entry.options.constants) HG_TRY(copy_array(array));
    body.entries.add(key, std::move(entry));
    return made;
  }
};

Result<std::shared_ptr<Prepared>> prepare(const Block& model, const LowerOptions& options,
                                          const std::optional<PlanCache>& cache) {
  return cache ? PlanCacheAccess::prepare(*cache, model, options) : prepare_new(model, options);
}

}  // namespace hg::nn
