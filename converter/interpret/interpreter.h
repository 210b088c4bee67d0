// SPDX-License-Identifier: Apache-2.0
// Internals of import_program: runs nodes one after another, through rows or as control flow.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "converter/interpret/attributes.h"
#include "converter/interpret/interpret.h"
#include "converter/interpret/state.h"
#include "converter/rows/node_call.h"

namespace hg::convert {

class Interpreter;
struct Pattern;  // core/grown.h
struct Tried;

// complex.cpp: a call of an op with complex tensors, numbers or dtypes.
bool is_complex_call(const NodeCall& call);
// Returns whether the op accepts complex tensors as they are, such as ops on sizes and containers.
bool passes_complex(std::string_view kind);
void run_complex(NodeCall& call, const Row* row);

// ranks.cpp: report lines about the sides of forks that were not imported.
std::vector<std::string> notes_of_forks(const std::vector<Fork>& forks);

class Interpreter final : public Environment {
 public:
  // `turned` are sides of forks, by key, that replace the likely sides.
  using Turned = std::map<std::string, bool>;
  Interpreter(const ScriptProgram& program, std::span<const InputSpec> inputs, const Turned& turned,
              Graph& graph, Imported& result);
  void run();

  Memory& memory() override { return memory_; }
  Identities& identities() override { return identities_; }
  void note_attribute(const Object& object, const std::string& name, const Item& item,
                      ScriptId value) override {
    attributes_->note_read(object, name, item, value);
  }
  const ScriptProgram& program() const override { return program_; }
  std::vector<Item> run_op(std::string_view kind,
                           std::vector<std::pair<std::string, Item>> arguments, int results,
                           const Origin& origin) override;
  const Item& get(ScriptId id) const override { return values_.get(id); }
  void set(ScriptId id, Item item) { values_.set(id, std::move(item)); }
  void run_block(const ScriptBlock& block);
  void run_if(const ScriptNode& node);
  void run_loop(const ScriptNode& node);
  void note(const std::string& text) override { report_.note(text); }
  // From here on, the graph requires sizes for which the condition is `wanted`, or fails.
  void assume(const Scalar& condition, bool wanted, std::string_view reason);
  void require(const Item& condition, bool wanted, std::string_view message) override;
  bool is_one(const Dim& size, std::string_view reason, bool expects_one) override;
  Item detached(const Item& item) override;
  void begin_gradients(bool on) override { gradients_.begin(on); }
  void end_gradients() override { gradients_.end(); }
  void set_gradients(bool on) override { gradients_.set(on); }
  void ask_alignment() override { asked_alignment_ = true; }
  bool asked_alignment() const override { return asked_alignment_; }
  void equate(const Dim& symbol, const Dim& size) override {
    report_.result().equations.emplace_back(symbol.symbol(), size);
  }
  bool has_equations() const override { return !report_.result().equations.empty(); }
  void note_difference(const std::string& why) override { report_.result().difference = why; }
  void note_mask(const std::string& input) override { report_.result().masks.insert(input); }

 private:
  class ChangedContainers;  // changed_containers.h
  class LoopNode;           // loop_node.h
  class BranchNode;         // branch_node.h
  class Attempt;            // attempt.h
  using Given = KnownConditions::Given;
  void bind_inputs();
  Item bind_input(const std::string& name, const std::string& type, size_t& next, size_t spare);
  Item bind_by_path(const std::string& name, const std::string& type, size_t& next);
  Item input_tensor(const std::string& name, size_t& next);
  void add_output(const std::string& name, const Item& item);
  void run_nodes(const ScriptBlock& block);
  void run_node(const ScriptNode& node);
  size_t run_split(const ScriptBlock& block, size_t first, const Splitting& found);
  size_t where_ranks_meet(const ScriptBlock& block, size_t first, const Splitting& found);
  // Takes one of two sides whose results differ in rank, with a guard: the side for the program's
  // example sizes or the requested sizes, or otherwise `likely`.
  bool take_fork(const Scalar& condition, bool likely, std::string_view reason);
  Tried try_alone(const ScriptBlock& block);
  void dispatch(const ScriptNode& node);
  bool run_script_op(NodeCall& call);
  // data_choices.cpp: false if data decides no dim and no order of a matrix norm.
  bool run_at_data_choice(const ScriptNode& node);
  bool give_parts(const ScriptNode& node, TensorRef dim);
  bool run_row(const ScriptNode& node);
  Item copied(const Item& item);
  void settle_layout(const Row& row, NodeCall& call);
  void finish_call(const ScriptNode& node, NodeCall& call);
  void write_back(const TensorRef& self, const Item& result);
  void poison_outputs(const ScriptNode& node);
  void list_missing(const ScriptBlock& block);
  void if_on_sizes(const ScriptNode& node, const Item& item, const Scalar& condition);
  void if_or_split(const ScriptNode& node, const Item& item);
  void if_on_data(const ScriptNode& node, const Item& item, const Scalar* sizes);
  void take(const ScriptNode& node, int side);
  bool has_round(const Scalar& condition, bool may_split);
  bool while_on_sizes(const ScriptNode& node, const Item& trips, const Dim& done,
                      const Item& condition);
  std::optional<Refusal> while_on_data(const ScriptNode& node, const Item& trips, const Dim& done,
                                       const Item& condition);
  // Returns the item with the containers of the pattern; freezes lists in it that are replaced.
  Item fit(const Item& item, const Pattern& pattern);
  std::vector<Item> block_items(const std::vector<ScriptId>& ids) const;
  std::vector<Item> block_results(const ScriptBlock& block) const {
    return block_items(block.outputs);
  }
  Item run_round(const ScriptBlock& block, int64_t counter);
  bool ends_in_raise(const ScriptBlock& block) const;
  TensorRef data_condition(const Item& item);

  const ScriptProgram& program_;
  std::span<const InputSpec> inputs_;
  const Turned& turned_;
  Graph& top_;
  const bool tracks_memory_;  // an op of the program writes in place
  ImportReport report_;
  Memory memory_;
  Identities identities_;
  std::optional<Attributes> attributes_;
  Values values_;
  std::set<std::string, std::less<>> row_kinds_;  // kinds of rows other than their nodes'
  KnownConditions known_;
  GradientMode gradients_;
  Splits splits_;
  bool asked_alignment_ = false;
  bool kept_control_ = false;  // the last loop or branch became one graph node
};

}  // namespace hg::convert
