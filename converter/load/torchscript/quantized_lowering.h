// SPDX-License-Identifier: Apache-2.0
// The pass of quantized.h, in parts: the walk over the program (quantized.cpp), the nodes that it
// adds (quantized_nodes.cpp), ops of quantized:: (quantized_ops.cpp), recurrent layers
// (quantized_recurrent.cpp), tensors of the file and embeddings (quantized_tensors.cpp), and ops of
// aten:: (quantized_aten.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "converter/core/script.h"
#include "converter/load/known_values.h"

namespace hg::convert::quantized {

// torch's numbers for dtypes.
constexpr int64_t kQInt8 = 12, kQUInt8 = 13, kQInt32 = 14;

// The levels of a quantized tensor.
struct Levels {
  double scale = 1;
  int64_t zero_point = 0;
  int64_t dtype = kQUInt8;

  int64_t integers() const { return dtype == kQUInt8 ? 0 : dtype == kQInt8 ? 1 : 3; }
  int64_t least() const { return dtype == kQUInt8 ? 0 : dtype == kQInt8 ? -128 : INT32_MIN; }
  int64_t most() const { return dtype == kQUInt8 ? 255 : dtype == kQInt8 ? 127 : INT32_MAX; }
  friend bool operator==(const Levels&, const Levels&) = default;
};

// Removes the end of a text if it is this one.
bool removes(std::string& text, std::string_view end);

class Lowering {
 public:
  explicit Lowering(ScriptProgram& program) : program_(program), known_(program) {}

  void run();

 private:
  void lower(ScriptBlock& block);
  ScriptId renamed(ScriptId id) const;
  void lower(ScriptNode&& node);
  bool is_quantized(ScriptId id) const;
  static bool is_on_shape(const ScriptNode& node);

  using Arguments = std::vector<std::pair<std::string, ScriptId>>;

  // ---- nodes
  void keep(ScriptNode&& node);
  void refuse(ScriptNode&& node, std::string why);
  ScriptNode& emit(const ScriptNode& at, std::string kind, const Arguments& arguments,
                   ScriptId result = -1, std::string overload = "");
  ScriptId value(const ScriptNode& at, std::string kind, const Arguments& arguments,
                 std::string overload = "");
  ScriptId constant(const ScriptNode& at, Item item);
  ScriptId list_of(const ScriptNode& at, const std::vector<ScriptId>& parts);
  Arguments arguments_of(const ScriptNode& at, ScriptId input, ScriptId scale, ScriptId zero,
                         const Levels& levels);
  Arguments arguments_of(const ScriptNode& at, ScriptId input, const Levels& levels);
  ScriptId integers_of(const ScriptNode& at, ScriptId x, const Levels& levels,
                       ScriptId result = -1);
  void real_of(const ScriptNode& at, ScriptId integers, const Levels& levels, ScriptId result);
  // Rounds `x` to levels; `result` is their real value.
  void round_to(const ScriptNode& at, ScriptId x, const Levels& levels, ScriptId result);
  std::optional<double> number(const ScriptNode& node, std::string_view name) const;
  // The levels that a call names: as in its arguments, of this dtype.
  std::optional<Levels> given_levels(const ScriptNode& node, int64_t dtype) const;

  // ---- control flow and containers
  void lower_if(ScriptNode&& node);
  void lower_loop(ScriptNode&& node);
  // Makes `to` quantized as `from` is.
  void give(ScriptId to, ScriptId from);
  // The part of a list or tuple that a node with a constant place gives.
  std::optional<ScriptId> part_of(const ScriptNode& node) const;
  // Notes what the node does to the list that is its first argument.
  void follow_list(const ScriptNode& node);
  // The elements of a list; null if they are unknown.
  const std::vector<ScriptId>* elements(ScriptId list) const;
  // Returns whether the node stays as it is.
  bool lower_container(const ScriptNode& node);

  // ---- conversions
  void lower_conversion(ScriptNode&& node);
  // Rounds `x` to levels that its smallest and largest element give.
  void round_dynamic(const ScriptNode& at, ScriptId x, const Levels& levels, bool reduce,
                     ScriptId result);

  // ---- ops
  // The value as an Object of this type; null for other values.
  const Object* object_of(ScriptId id, std::string_view type) const;
  // The first packed weights among the arguments.
  const Object* packed(const ScriptNode& node) const;
  static Item attribute(const Object& object, std::string_view name);
  // The real values of packed weights.
  ScriptId weight(const ScriptNode& at, const Object& packed);
  // A convolution or linear layer of `x` with packed weights.
  ScriptId product(const ScriptNode& at, const std::string& op, ScriptId x, const Object& packed);
  // A linear layer of `x`, rounded to levels that its elements give.
  ScriptId dynamic_linear(const ScriptNode& at, ScriptId x, const Object& packed, bool reduce);
  void lower_quantized_op(ScriptNode&& node);
  // PyTorch multiplies positive elements by 1 rounded to the levels of the slopes (qprelu.cpp).
  void lower_prelu(ScriptNode&& node);
  void finish(const ScriptNode& at, ScriptId y, bool relu, const std::optional<Levels>& levels,
              ScriptId result);
  // A sum or product with a number keeps the levels and moves the scale or zero point (PyTorch's
  // quantized/cpu/qadd.cpp, qmul.cpp).
  void with_number(ScriptNode&& node, const std::string& op, bool relu, ScriptId result);

  // ---- recurrent layers
  // The weights and the formula of one direction.
  struct Cell {
    std::string kind;  // "lstm", "gru", "tanh", "relu"
    const Object *ih = nullptr, *hh = nullptr;
    bool reduce = true;
  };
  // One step from the linear layer of its input: the next h and, for an LSTM, c.
  std::vector<ScriptId> step(const ScriptNode& at, const Cell& cell, ScriptId gates,
                             const std::vector<ScriptId>& states);
  // Returns all steps of x: [time, batch, in], and the last states.
  std::vector<ScriptId> scan(const ScriptNode& at, const Cell& cell, ScriptId x,
                             std::vector<ScriptId> states, bool reverse);
  // The states that a call names: h and, for an LSTM, c.
  std::vector<ScriptId> first_states(const ScriptNode& node);
  void lower_recurrent(ScriptNode&& node);
  void lower_cell(ScriptNode&& node);

  // ---- tensors of the file
  void lower_tensor(const ScriptNode& at, const Object& tensor);
  void lower_embedding(ScriptNode&& node);

  // ---- ops of aten::
  void lower_aten(ScriptNode&& node);
  // An element of a list.
  void keep_item(ScriptNode&& node);

  ScriptProgram& program_;
  KnownValues known_;
  std::map<ScriptId, ScriptId> renamed_;      // results of the only side of a branch
  std::vector<ScriptNode>* nodes_ = nullptr;  // of the block in work
  std::map<ScriptId, Levels> levels_;         // of quantized tensors, and of the parts of a list
  // Tensors quantized by channels: the arguments of dequantize().
  std::map<ScriptId, Arguments> channels_;
  std::map<ScriptId, std::vector<ScriptId>> lists_;
  std::map<ScriptId, const std::vector<ScriptNode>*> built_in_;  // the block that makes a list
  std::set<ScriptId> changed_;  // lists that a branch, a loop or more than append() changes
};

}  // namespace hg::convert::quantized
