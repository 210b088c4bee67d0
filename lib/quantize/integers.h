// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of floats become those of 8-bit integers, where the ranges of their
// inputs are known, and what passes between them stays in 8 bits.
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

// linear or conv with constant weights, and the batch_norm behind it.
struct IntegerLayer {
  Node node, norm;  // norm has no op if there is none
  std::string name;
  ValueId x = kNoValue;
  ValueId y = kNoValue;         // of the last of the two
  ValueId weight = kNoValue;    // a state
  bool by_column = false;       // a weight of linear that is turned: [in, out]
  ValueId clamped = kNoValue;   // what a clamp makes of y, where nobody else reads y
  double low = 0, high = 0;     // of that clamp
  std::string stays;            // why it is computed in floats; empty where it is not
  ValueId in_bytes = kNoValue;  // y or `clamped`, where that is u8
  std::string in_bytes_name = {};
  IntegerSum sum = {};
  ValueId made_weight = kNoValue;  // the state of its levels
};

class Integers {
 public:
  // Looks for layers whose weight may be quantized.
  Integers(Graph& graph, const std::function<bool(const IntegerLayer&)>& may_change);

  // What apply() needs to know the ranges of.
  std::vector<ValueId> wanted() const;
  // Rewrites the graph. States that nobody reads any more stay.
  Status apply(const std::unordered_map<ValueId, Range>& ranges);
  const std::vector<IntegerLayer>& layers() const { return layers_; }
  // After apply(): what became of each.
  std::vector<CalibratedLayer> report();

 private:
  struct Reader {
    size_t node = 0, input = 0;
  };

  // -- What there is --
  void find_layer(const Node& node);
  bool take_weight(IntegerLayer& layer) const;
  void take_norm(IntegerLayer& layer) const;
  void take_clamp(IntegerLayer& layer) const;
  const Tensor* fixed(ValueId id) const;
  const Node* producer(ValueId id) const;
  const Node* sole_reader(ValueId id) const;
  bool is_read(ValueId id) const { return is_outside_[at(id)] || !readers_[at(id)].empty(); }
  static size_t at(ValueId id) { return static_cast<size_t>(id); }

  // -- What becomes of it --
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
  std::vector<Node> nodes_;  // as they were, and where values come from
  std::vector<int32_t> node_of_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<bool> is_outside_;  // outputs, and what is assigned
  std::vector<bool> is_changed_;  // states that runs change, by index
  std::vector<IntegerLayer> layers_;
  std::unordered_map<ValueId, size_t> layer_of_;  // by the result of its first node
  std::vector<bool> in_bytes_;                    // values that are u8 where they are made
  std::set<ValueId> refused_;                     // results of clamps that no levels stand for
  DisjointSets groups_;                           // of values that share levels
  std::unordered_map<size_t, Levels> levels_;     // by the root of a group
  std::unordered_map<ValueId, Value> bytes_;      // what values were rounded to
  std::unordered_map<ValueId, Value> floats_;     // and what is u8 was widened to
  std::map<int, Value> zeros_;
};

}  // namespace hg
