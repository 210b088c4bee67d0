// SPDX-License-Identifier: Apache-2.0
// Layers that can have an adapter: products whose weight is a state, also through views, casts and
// the nodes that dequantize it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hg/graph.h"
#include "hg/model.h"
#include "lib/graph/border.h"

namespace hg {

struct Adaptable {
  ValueId result = kNoValue;   // of the product
  std::string module;          // of the product; may be empty
  int32_t state = -1;          // behind the weight; the levels of a quantized one
  ValueId base = kNoValue;     // the weight in floats, before casts and transpositions
  std::vector<size_t> views;   // nodes of these casts and transpositions, in order
  bool is_transposed = false;  // whether they transpose
  bool is_matmul = false;      // the weight is [in, out], not [out, in, kernel...]
  Sizes weight;                // shape of the weight that the product reads
  DType dtype = f32;           // of that weight

  // [rank, in, kernel...] and [out, rank, 1...]
  Sizes a_shape(int64_t rank) const;
  Sizes b_shape(int64_t rank) const;
  DType adapter_dtype() const { return dtype == f64 ? f64 : f32; }
};

// In node order.
std::vector<Adaptable> find_layers(const Graph& graph);

// Names of the layers that read the state: its names without ".weight". That of the module comes
// first, such as "lm_head" of a weight that is tied to an embedding.
std::vector<std::string> layer_names(const State& state, std::string_view module = "");

// "'embed.weight' is read by embedding 'embed'", for a state that the pattern matches, or empty.
std::string other_reader(const Graph& graph, std::string_view pattern);

// Whether the pattern of AdapterOptions::layers matches.
bool matches_layer(std::string_view pattern, std::string_view layer);

// Returns a copy of the model, all of whose graphs `change` has changed.
template <class Change>
Result<Model> with_graphs(const Model& model, Change&& change) {
  Model made;
  const std::vector<std::string> entries = model.entries();
  for (const std::string& name : entries) {
    HG_TRY_ASSIGN(const Model entry, model.entry(name));
    HG_TRY(entry.graph().status());
    Graph graph = entry.graph();
    HG_TRY(change(graph));
    HG_TRY(made.add_entry(name, std::move(graph)));
  }
  if (entries.empty()) {
    HG_TRY(model.graph().status());
    Graph graph = model.graph();
    HG_TRY(change(graph));
    HG_TRY_ASSIGN(made, Model::from_graph(std::move(graph)));
  }
  made.set_info(model.info());
  return made;
}

}  // namespace hg
