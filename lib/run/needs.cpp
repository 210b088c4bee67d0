// SPDX-License-Identifier: Apache-2.0
// Records needs while the model is loaded, compiled with and without each pass, and planned as on
// processors of each instruction set.
#include "hg/needs.h"

#include <algorithm>

#include "hg/kernel.h"
#include "hg/session.h"
#include "lib/compile/passes.h"
#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/graph/registry_watch.h"
#include "lib/platform/instruction_set.h"
#include "lib/table/holds.h"

namespace hg {
namespace {

using SymbolSizes = std::vector<std::pair<std::string, int64_t>>;

// Dtypes, and the ops of fused activations.
void collect(const Graph& graph, Needs& needs) {
  for (const ValueInfo& value : GraphAccess::body(graph).values)
    needs.dtypes.insert(value.type.dtype);
  for (const Node& node : graph.nodes()) {
    if (node.op->signature.find_attribute("activation") >= 0) {
      const auto activation =
          parse_activation(AttrReader(node.op, node.attrs).string("activation"));
      if (activation && *activation != Activation::none) needs.ops.emplace(op_of(*activation));
    }
    for (const auto& subgraph : node.subgraphs) collect(*subgraph, needs);
  }
}

Result<Session> compiled(const Model& model, int threads, std::vector<std::string> without,
                         Needs& needs) {
  HG_TRY_ASSIGN(Session session, Session::create(model, {.threads = threads,
                                                         .disabled_passes = std::move(without)}));
  collect(session.compiled_graph(), needs);
  return session;
}

// At least one of the sizes must be valid.
Status plan(Session& session, const Model& model, const SymbolSizes& dims) {
  Status last;
  bool any = false;
  for (const int64_t size : {1, 2, 8, 32}) {
    SymbolSizes all = dims;
    for (const std::string& symbol : model.graph().symbols())
      if (std::none_of(dims.begin(), dims.end(), [&](const auto& d) { return d.first == symbol; }))
        all.emplace_back(symbol, size);
    const Status planned = session.plan(all);
    any |= planned.ok();
    if (!planned.ok()) last = planned;
    if (all.size() == dims.size()) break;
  }
  return any ? Status() : last;
}

Status add_plans(const Model& model, const SymbolSizes& dims, Needs& needs) {
  for (const int threads : {1, 2, 8}) {
    HG_TRY_ASSIGN(Session session, compiled(model, threads, {}, needs));
    HG_TRY(plan(session, model, dims));
  }
  // Includes ops that one pass creates and a later one removes.
  std::vector<std::string> later;
  const std::span<const Pass> passes = all_passes();
  for (size_t i = passes.size(); i-- > 0;) {
    if (passes[i].required) continue;
    later.emplace_back(passes[i].name);
    HG_TRY(compiled(model, 1, later, needs).status());
  }
  return {};
}

std::vector<Isa> sets_of_processor() {
  std::vector<Isa> sets;
  for (const Isa isa : kIsas)
    if (supports(isa)) sets.push_back(isa);
  return sets;
}

// During its lifetime, no better instruction set is used.
struct LimitedIsa {
  explicit LimitedIsa(Isa isa) { limit_isa(isa); }
  ~LimitedIsa() { limit_isa(kBestIsa); }
};

Status add_needs(const Model& model, const SymbolSizes& dims, RegistryWatch& watch, Needs& needs) {
  collect(model.graph(), needs);
  for (const Isa isa : sets_of_processor()) {
    const LimitedIsa limited(isa);
    HG_TRY(add_plans(model, dims, needs));
    for (const auto& kernel : watch.take_kernels()) needs.kernels[kernel].emplace(to_string(isa));
  }
  return {};
}

// Whether parts of it are planned while it runs.
bool plans_late(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return (node.op->def.traits & (kControl | kDataDependent)) != 0;
  });
}

// Passes ask whether an op has kernels, and whether all of them may be steps of programs. The
// answers must not depend on omitted kernels.
void add_kernels(const Registry& registry, bool all, Needs& needs) {
  for (const std::string& op : needs.ops) {
    const auto kernels = registry.kernels(op, Device::cpu);
    const auto is_taken = [&](const KernelDef* kernel) {
      return needs.kernels.contains({op, std::string(kernel->name)});
    };
    const auto in_programs = [](const KernelDef* kernel) { return kernel->in_programs; };
    const bool is_mixed = std::any_of(kernels.begin(), kernels.end(), in_programs) &&
                          !std::all_of(kernels.begin(), kernels.end(), in_programs);
    if (!all && !is_mixed && std::any_of(kernels.begin(), kernels.end(), is_taken)) continue;
    for (const KernelDef* kernel : kernels)
      for (const Isa isa : sets_of_processor())
        needs.kernels[{op, std::string(kernel->name)}].emplace(to_string(isa));
  }
}

}  // namespace

Result<Needs> needs_of(const std::string& path, const SymbolSizes& dims) {
  return or_no_memory([&]() -> Result<Needs> {
    Needs needs;
    RegistryWatch watch;
    const Result<Model> model = Model::load(path, watch.registry());
    HG_TRY(model.status());
    std::vector<std::string> entries = model->entries();
    if (entries.empty()) entries.emplace_back();
    bool late = false;
    for (const std::string& name : entries) {
      HG_TRY_ASSIGN(const Model entry, model->entry(name));
      HG_TRY(add_needs(entry, dims, watch, needs));
      late |= plans_late(entry.graph());
    }
    const Registry& all = Registry::built_in();
    for (const std::string& name : watch.ops())
      if (all.find(name) != nullptr) needs.ops.insert(name);
    needs.ops.insert("contiguous");  // for inputs with strides
    add_kernels(all, late, needs);
    return needs;
  });
}

}  // namespace hg
