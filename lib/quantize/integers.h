// SPDX-License-Identifier: Apache-2.0
// Turns float products and convolutions into those of 8-bit integers, if the ranges of their inputs
// are known. Values passed between them stay in 8 bits.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/graph/access.h"
#include "lib/graph/disjoint_sets.h"
#include "lib/quantize/levels.h"
#include "lib/quantize/observe.h"

namespace hg {

// linear or conv with constant weights, and a following batch_norm.
struct IntegerLayer {
  Node node, norm;  // norm has no op if there is no batch_norm
  std::string name;
  ValueId x = kNoValue;
  ValueId y = kNoValue;         // result of the last of the two
  ValueId weight = kNoValue;    // a state
  bool by_column = false;       // weight of linear as [in, out]
  ValueId clamped = kNoValue;   // result of a clamp, if it is the only reader of y
  double low = 0, high = 0;     // of that clamp
  std::string stays;            // why it stays in floats; empty if quantized
  ValueId in_bytes = kNoValue;  // y or `clamped`, if that is u8
  std::string in_bytes_name = {};
  IntegerSum sum = {};
  ValueId made_weight = kNoValue;  // the state of its levels
};

class Integers {
 public:
  // Finds layers whose weight may be quantized.
  Integers(Graph& graph, const std::function<bool(const IntegerLayer&)>& may_change);

  // The values whose ranges apply() needs.
  std::vector<ValueId> wanted() const;
  // Leaves layers in floats: those with a reason, by the index of the layer.
  void leave(const std::vector<std::string>& reasons);
  // Rewrites the graph. Keeps states that are no longer read.
  Status apply(const std::unordered_map<ValueId, Range>& ranges);
  const std::vector<IntegerLayer>& layers() const { return layers_; }
  // After apply(): the outcome for each layer.
  std::vector<CalibratedLayer> report();

 private:
  struct Reader {
    size_t node = 0, input = 0;
  };

  // -- Analysis --
  void find_layer(const Node& node);
  bool take_weight(IntegerLayer& layer) const;
  void take_norm(IntegerLayer& layer) const;
  void take_clamp(IntegerLayer& layer) const;
  const Tensor* fixed(ValueId id) const;
  const Node* producer(ValueId id) const;
  const Node* sole_reader(ValueId id) const;
  bool is_read(ValueId id) const { return is_outside_[at(id)] || !readers_[at(id)].empty(); }
  static size_t at(ValueId id) { return static_cast<size_t>(id); }

  // -- Decisions --
  void spread();
  bool takes_bytes(const Reader& reader) const;
  bool goes_in_bytes(ValueId id) const;
  bool is_carried(const Node& node) const;
  void join_groups();
  void find_levels(const std::unordered_map<ValueId, Range>& ranges);
  bool refuse_clamps();
  Result<bool> make_sums();
  Result<AffineLayer> affine_of(const IntegerLayer& layer) const;
  Levels levels_of_value(ValueId id) { return levels_.at(groups_.root(at(id))); }

  // -- Rewriting --
  Result<std::optional<std::vector<Value>>> visit(const Node& node);
  Result<Value> integer_layer(IntegerLayer& layer, const Value& x);
  Value weight_of(IntegerLayer& layer);
  Value as_bytes(ValueId id, const Value& now);
  std::optional<std::vector<Value>> widened(const Node& now);
  Value carried(const Node& now);
  Value zero(int level);

  Graph& graph_;
  std::vector<Node> nodes_;  // before the rewrite, and the producers of values
  std::vector<int32_t> node_of_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<bool> is_outside_;  // outputs and assigned values
  std::vector<bool> is_changed_;  // states that runs change, by index
  std::vector<IntegerLayer> layers_;
  std::unordered_map<ValueId, size_t> layer_of_;  // by the result of its first node
  std::vector<bool> in_bytes_;                    // values that are produced as u8
  std::set<ValueId> refused_;                     // results of clamps that levels cannot express
  DisjointSets groups_;                           // of values that share levels
  std::unordered_map<size_t, Levels> levels_;     // by the root of a group
  std::unordered_map<ValueId, Value> bytes_;      // values rounded to u8
  std::unordered_map<ValueId, Value> floats_;     // u8 values widened to floats
  std::map<int, Value> zeros_;
};

}  // namespace hg
