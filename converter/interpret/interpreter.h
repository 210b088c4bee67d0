// SPDX-License-Identifier: Apache-2.0
// Internals of import_program: the environment of script values, and the ops that the interpreter
// runs without a row: containers, numbers, shapes and control flow.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "converter/interpret/attributes.h"
#include "converter/interpret/interpret.h"
#include "converter/memory/alias.h"

namespace hg::convert {

class Interpreter;
struct Pattern;  // columns.h
struct Tried;

// One node of the script with its arguments. For prim nodes arguments have positions only.
class NodeCall final : public Call {
 public:
  // `kind` is the row's, without the underscore of in-place ops.
  NodeCall(Interpreter& interpreter, const ScriptNode& node, std::string_view kind)
      : interpreter_(interpreter), node_(node), kind_(kind) {}

  using Call::returns;
  Graph& graph() override;
  std::string_view kind() const override { return kind_; }
  std::string_view overload() const override { return node_.overload; }
  const Item* find(std::string_view argument) const override;
  const Item& argument(int index) const override;
  int argument_count() const override { return static_cast<int>(node_.inputs.size()); }
  Value read(const TensorRef& tensor) override;
  TensorRef make_tensor(Value value) override;
  TensorRef make_view(const TensorRef& base, Forward forward, Inverse inverse,
                      Relayout relayout) override;
  std::optional<Layout> layout(const TensorRef& tensor) const override;
  MemoryOrder order(const TensorRef& tensor) const override;
  void may_share(const TensorRef& copy, const TensorRef& base) override;
  std::function<Value()> keep(Value value) override;
  void write(const TensorRef& tensor, Value value) override;
  void returns(std::vector<Item> outputs) override;
  void note(std::string text) override;
  bool is_complex(const TensorRef& tensor) const override { return tensor->is_complex(); }
  TensorRef as_complex(TensorRef tensor) override;
  std::optional<Packed> packed(const TensorRef& tensor) const override { return tensor->packed(); }
  void set_packed(const TensorRef& tensor, Packed packed) override;
  Dim size_of(const Value& number) override;
  Dim integer_of(const Value& number) override;
  bool is_one(const Dim& size, std::string_view reason, bool expects_one) override;

  Interpreter& interpreter() const { return interpreter_; }
  Memory& memory() const;
  const ScriptNode& node() const { return node_; }
  bool returned() const { return returned_; }
  std::vector<Item>& results() { return results_; }

  // Arguments by position; throws Refusal when there are fewer, or of another kind.
  const Item& at(int index) const;
  Dim integer_at(int index) const;
  int64_t number_at(int index) const;
  const std::string& string_at(int index) const;
  std::shared_ptr<List> list_at(int index) const;
  std::shared_ptr<Dict> dict_at(int index) const;
  // Other arguments than the node's, for the real or the imaginary parts of complex ones.
  struct Part {
    std::vector<Item> arguments;
    std::vector<std::pair<TensorRef, TensorRef>> stand_ins;  // and the complex tensors they are of
  };
  void set_part(const Part* part) { part_ = part; }
  void give(Item item) { returns(std::vector<Item>{std::move(item)}); }

 private:
  Interpreter& interpreter_;
  const ScriptNode& node_;
  std::string_view kind_;
  TensorRef make_complex_view(const TensorRef& base, Forward forward, Inverse inverse);

  bool returned_ = false;
  const Part* part_ = nullptr;
  std::vector<Item> results_;
};

// An op of ONNX: its name, and what it does (converter/onnx).
struct Builtin {
  std::string_view kind;
  bool (*run)(NodeCall&);
};
std::span<const std::span<const Builtin>> onnx_builtins();  // converter/onnx/rows.cpp
// Whether an op takes nested tensors.
bool takes_nested(std::string_view kind);

// numbers.cpp: numbers as script values.
std::optional<Scalar> scalar_of(const Item& item);  // also of tensors that hold one known number
Item item_of(Memory& memory, const Scalar& scalar);
// The number as a tensor of rank 0: i64, f64 or bool.
Value number_value(Memory& memory, const Item& item);
// An op on tensors of which the import knows the numbers; false when it is not such.
bool run_known(NodeCall& call);
// Equality as Python has it; no value when only sizes or data decide.
std::optional<bool> equal(const Item& a, const Item& b);
std::string describe(const Item& item);  // for messages
// op of apply() on two numbers; the graph computes with graph_op what data decides.
Item combine(NodeCall& call, std::string_view op, std::string_view graph_op, const Item& a,
             const Item& b);

// The type of the object that stands for a value that is never read.
inline constexpr std::string_view kUndefined = "undefined";
// The type of the object that stands for text of which sizes or data decide a part.
inline constexpr std::string_view kUnknownText = "text that sizes or data decide";

// Thrown where a body that data decides changes the elements of a list or dict from outside; the
// loop or branch starts over and carries them.
struct Changing {
  Item container;
};
// complex.cpp: a call of an op with complex tensors, numbers or dtypes.
bool is_complex_call(const NodeCall& call);
// Whether the op takes complex tensors as what they are: sizes, containers.
bool passes_complex(std::string_view kind);
void run_complex(NodeCall& call, const Row* row);

// Whether the item is, or holds, a list whose length data or sizes decide.
bool has_grown(const Item& item);
// An op on such a list; throws Refusal when the op needs the elements one by one.
void run_on_grown(NodeCall& call);

// ranks.cpp: what the report says of the ways that were not imported.
std::vector<std::string> notes_of_forks(const std::vector<Fork>& forks);

// Thrown by prim::RaiseException.
struct Raised {
  std::string text;
};

// Thrown where a condition of sizes decides on ranks and types, and the nodes that follow may
// become an `if`.
struct Splitting {
  Scalar condition;
};

class Interpreter {
 public:
  // `turned` are ways of forks that are taken instead of the likely ones, by their keys.
  using Turned = std::map<std::string, bool>;
  Interpreter(const ScriptProgram& program, std::span<const InputSpec> inputs, const Turned& turned,
              Graph& graph, Imported& result);
  void run();

  Memory& memory() { return memory_; }
  Attributes& attributes() { return *attributes_; }
  const ScriptProgram& program() const { return program_; }
  // An op that the program does not have itself, as one of its nodes would run; its results.
  std::vector<Item> run_op(std::string_view kind,
                           std::vector<std::pair<std::string, Item>> arguments, int results,
                           const Origin& origin);
  const Item& get(ScriptId id) const { return values_[id]; }
  void set(ScriptId id, Item item) { values_[id] = std::move(item); }
  void run_block(const ScriptBlock& block);
  void run_if(const ScriptNode& node);
  void run_loop(const ScriptNode& node);
  void note(const std::string& text);
  void warn(const std::string& text);
  // From here on the graph is for sizes of which the condition is what is wanted, or fails.
  void assume(const Scalar& condition, bool wanted, std::string_view reason);
  // What the script raises an exception for otherwise: a guard where sizes decide, a node that
  // fails the run where data does.
  void require(const Item& condition, bool wanted, std::string_view message);
  // Whether a size is 1, on which the rank of a result depends: known, or assumed under a guard.
  bool is_one(const Dim& size, std::string_view reason, bool expects_one);
  // A container is about to be changed in place: one from outside of the present body becomes what
  // the loop or branch gives back, by Changing. Objects are refused.
  void check_change(const Item& container);
  // Throws Refusal if another container may be the same object, or if a list holds a copy.
  // Containers that may be the same object must not be used from now on.
  void check_frozen(const Item& container);
  // The list or dict is from outside the present body.
  bool is_outer(const void* container) const { return depth_of(container) < memory_.depth(); }
  // The list is from outside the present body: what appends to it makes it grow.
  bool may_grow(const void* list) const { return !marks_.frozen.contains(list) && is_outer(list); }
  // A list whose length data or sizes decide has a copy of the lists and dicts in the element,
  // which must not change from now on.
  void store(const Item& element);
  // Throws Refusal for a list or dict that may have been changed under another name.
  void check_stale(const Item& item) const;
  void make_stale(const void* container);
  void made(const Item& item);  // the container belongs to the present body
  // The tensor, or the tensors of a new list or tuple, as constants for gradients.
  Item detached(const Item& item);
  // While gradients are off all results are detached. Blocks of `with` nest.
  void begin_gradients(bool on) { gradients_.push_back(on && gradients_.back()); }
  void end_gradients() { gradients_.pop_back(); }
  // The script asks whether a mask is left-aligned before it makes nested tensors.
  void ask_alignment() { asked_alignment_ = true; }
  bool asked_alignment() const { return asked_alignment_; }
  void set_gradients(bool on) { gradients_.back() = on; }

 private:
  class ChangedContainers;  // changed_containers.h
  class LoopNode;           // loop_node.h
  class BranchNode;         // branch_node.h
  class Attempt;            // attempt.h
  class Given;              // attempt.h
  void bind_inputs();
  Item bind_input(const std::string& name, const std::string& type, size_t& next, size_t spare);
  Item bind_by_path(const std::string& name, const std::string& type, size_t& next);
  Item input_tensor(const std::string& name, size_t& next);
  void add_output(const std::string& name, const Item& item);
  void run_nodes(const ScriptBlock& block);
  void run_node(const ScriptNode& node);
  size_t run_split(const ScriptBlock& block, size_t first, const Scalar& condition);
  size_t where_ranks_meet(const ScriptBlock& block, size_t first, const Scalar& condition);
  // Takes one of two ways that give other ranks, under a guard: that of the sizes that the program
  // was made with or that are asked for, or else `likely`.
  bool take_fork(const Scalar& condition, bool likely, std::string_view reason);
  // What sizes decide, where it is known in the present body.
  std::optional<bool> given(const Scalar& condition) const;
  Tried try_alone(const ScriptBlock& block);
  void dispatch(const ScriptNode& node);
  bool run_script_op(NodeCall& call);
  bool run_row(const ScriptNode& node);
  Item copied(const Item& item);
  void settle_layout(const Row& row, NodeCall& call);
  void finish_call(const ScriptNode& node, NodeCall& call);
  void write_back(const TensorRef& self, const Item& result);
  void record(const ScriptNode& node, const Refusal& refusal);
  void poison_outputs(const ScriptNode& node);
  void list_missing(const ScriptBlock& block);
  void if_on_sizes(const ScriptNode& node, const Item& item, const Scalar& condition);
  void if_on_data(const ScriptNode& node, const Item& item, const Scalar* sizes);
  void take(const ScriptNode& node, int side);
  // A list of parts becomes a list of so many elements, or of the usual number where that is 0.
  void settle_pieces(const Item& item, int64_t expected = 0);
  bool has_round(const Scalar& condition, bool may_split);
  bool while_on_sizes(const ScriptNode& node, const Item& trips, const Dim& done,
                      const Item& condition);
  void while_on_data(const ScriptNode& node, const Item& trips, const Dim& done,
                     const Item& condition);
  int depth_of(const void* container) const;
  // What control flow gives for results that were `a` on one way and `b` on the other, with these
  // leaves: the same container, or a new one, and then none of the three may be changed.
  struct Merge {
    std::vector<Item> leaves;
    size_t next = 0;
    std::map<const void*, Item> given;  // for containers made inside
  };
  Item merged(const Item& a, const Item& b, Merge& merge);
  void freeze(const Item& container);
  // The item with the containers of the pattern; lists in it that become others are frozen.
  Item fit(const Item& item, const Pattern& pattern);
  // The containers that one given by control flow may be, with itself; not those behind `known`.
  std::set<const void*> origins_of(const void* container,
                                   const std::vector<const void*>& known = {}) const;
  // A loop's own copy may be what the one from before the loop may be.
  void inherit(const Item& copy, const Item& known);
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
  Imported& result_;
  Memory memory_;
  std::optional<Attributes> attributes_;
  std::vector<Item> values_;
  std::map<std::string, std::string, std::less<>> row_kinds_;
  std::map<const void*, int> container_depth_;
  std::vector<std::shared_ptr<void>> containers_;
  // What is known of containers that may be others. A body that is interpreted again starts with
  // what was known before it.
  struct Marks {
    std::set<const void*> frozen;  // containers that others may be, as data decides
    std::set<const void*> stored;  // of those: lists have copies of them
    std::set<const void*> stale;   // containers that may have been changed under other names
    std::map<const void*, std::vector<const void*>> merged_from;  // what a container may be
    void add(const Marks& other);
  };
  Marks marks_;
  std::set<std::string> said_;
  int64_t sequence_ = 0;
  std::vector<bool> gradients_ = {true};
  bool asked_alignment_ = false;
  bool tracks_memory_;                       // some op of the program writes in place
  std::vector<std::pair<Dim, bool>> given_;  // conditions of sizes, known in the present body
  bool may_split_ = false;     // the node that runs may become an `if` with those after it
  bool is_splitting_ = false;  // and is being made one
  bool kept_control_ = false;  // the loop or branch that ran last is one node of the graph
};

}  // namespace hg::convert
