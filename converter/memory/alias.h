// SPDX-License-Identifier: Apache-2.0
// Functionalization: script tensors that share memory, represented by graph values that never
// change. A root tensor has the current value. A view recomputes its value if the root was written
// since. A write through a chain of views becomes a new value of the root. A choice is one of two
// tensors, and data decides which one. A write to a choice writes to either tensor, under the
// choice's condition.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "converter/core/failure.h"
#include "converter/core/layout.h"
#include "converter/core/script.h"
#include "converter/memory/known.h"

namespace hg::convert {

// Thrown when a value of an unsupported op is used. Only the unsupported op is reported to the
// user.
struct Poisoned {};

class Memory;
// A function of Memory that returns a number as a term of sizes.
using TermOf = std::optional<Dim> (Memory::*)(const TensorRef& number);

class TensorCell {
 public:
  // A Python number whose value only the graph has. It counts as a number in type promotion.
  bool is_number() const { return number_; }
  DType number_dtype() const { return known() ? known()->dtype : value_.dtype(); }
  bool is_poisoned() const;
  // A column of a list whose length depends on data or sizes; not a tensor of the script
  // (core/grown.h).
  bool is_column() const { return column_; }
  bool has_value() const { return static_cast<bool>(value_); }
  bool is_written() const { return version_ > 0; }  // for roots
  // Elements are pairs of reals: the value has a last dim of 2 that the script does not see.
  bool is_complex() const { return complex_; }
  std::optional<Packed> packed() const {
    return packed_ && packed_version_ == version_ ? packed_ : std::nullopt;
  }
  std::optional<Nested> nested() const {
    return nested_version_ == version_ ? nested_ : std::nullopt;
  }
  bool is_root() const { return base_ == nullptr && !is_choice(); }
  bool is_choice() const { return yes_ != nullptr || no_ != nullptr; }
  bool may_share() const { return !twins_.empty(); }  // for roots
  const std::optional<Known>& known() const;

 private:
  friend class Memory;
  friend class Leaving;
  TensorRef base_;  // of a view
  Forward forward_;
  Inverse inverse_;
  Value condition_;  // of a choice
  TensorRef yes_, no_;
  std::vector<TensorRef> roots_;
  int64_t serial_ = 0;          // of a choice; greater than those of the choices it leads to
  Value value_;                 // invalid if not made yet
  int64_t version_ = 0;         // for roots: number of writes; otherwise the version of value_
  int region_ = 0;              // depth of the control flow body that made the tensor
  int32_t script_tensor_ = -1;  // for a root that is ScriptProgram::tensors[i]
  std::optional<Known> known_;
  bool number_ = false;
  bool poisoned_ = false;
  bool complex_ = false;
  bool column_ = false;
  std::optional<Packed> packed_;  // valid for packed_version_
  int64_t packed_version_ = 0;
  std::optional<Nested> nested_;  // valid for nested_version_
  int64_t nested_version_ = 0;
  std::function<std::optional<Dim>(TermOf)> term_;  // for a number computed from others
  std::optional<Layout> layout_;
  MemoryOrder order_ = MemoryOrder::unknown;  // for a root without a layout
  // For roots: other roots that may share the memory, and the reason why the value is unknown since
  // one of them was written.
  std::vector<std::weak_ptr<TensorCell>> twins_;
  std::string invalid_because_;
  std::vector<TensorRef> lists_;                     // for roots: grown lists with this element
  std::vector<std::weak_ptr<TensorCell>> elements_;  // for such a list
};

// All tensors of one import, and the graph under construction: a stack of subgraphs while bodies of
// data-dependent control flow are interpreted.
class Memory {
 public:
  Memory(Graph& graph, const ScriptProgram& program);

  Graph& graph() { return *regions_.back().graph; }
  int depth() const { return static_cast<int>(regions_.size()) - 1; }

  TensorRef make(Value value);
  TensorRef make_number(Value value);  // rank 0
  TensorRef make_known(Known known, bool number = false);
  TensorRef make_view(const TensorRef& base, Forward forward, Inverse inverse,
                      const Relayout& relayout);
  // Makes a view of known numbers whose own numbers are known.
  TensorRef make_known_view(const TensorRef& base, Known known, Forward forward, Inverse inverse);
  // Makes a tensor that is `yes` if the condition is true, and otherwise `no`. Either is null if it
  // will not be used. `value` is the current value.
  TensorRef make_choice(Value condition, TensorRef yes, TensorRef no, Value value);
  // Makes a tensor, a number or a complex tensor, depending on `like`.
  TensorRef make_like(const TensorRef& like, Value value);
  void set_packed(const TensorRef& tensor, Packed packed);
  void set_nested(const TensorRef& tensor, Nested nested);
  void set_complex(const TensorRef& tensor) { tensor->complex_ = true; }
  void set_column(const TensorRef& tensor) { tensor->column_ = true; }
  TensorRef make_poison();
  TensorRef of_script(int32_t index);
  bool is_taken(int32_t index) const { return script_tensors_.at(index) != nullptr; }
  // Makes another tensor the value of a buffer or parameter from now on.
  void rebind(int32_t index, const TensorRef& tensor);

  Value read(const TensorRef& tensor);  // a value of graph()
  TensorType type(const TensorRef& tensor);
  void write(const TensorRef& tensor, Value value);  // of the same type
  void write(const TensorRef& tensor, Known known);  // a root with known numbers
  void poison(const TensorRef& tensor);
  // Tensors that were poisoned since the mark are restored when an attempt is undone.
  size_t poison_mark() const { return poisoned_.size(); }
  void undo_poison(size_t mark);

  std::optional<Layout> layout(const TensorRef& tensor);
  void set_row_major(const TensorRef& root);
  void set_layout(const TensorRef& root, Layout layout) { root->layout_ = std::move(layout); }
  MemoryOrder order(const TensorRef& tensor);
  void set_order(const TensorRef& root, MemoryOrder order);
  // Return a data-dependent integer as a term of sizes; nothing if it is not an integer. size_of()
  // returns a symbol that becomes known when the graph runs; the run fails if it is negative.
  std::optional<Dim> size_of(const TensorRef& number);
  // An integer of any sign is the difference of two such symbols.
  std::optional<Dim> integer_of(const TensorRef& number);
  // Returns the result of both for numbers computed from nonnegative numbers; nothing for others.
  std::optional<Dim> term_of(const TensorRef& number);
  // Sets how the number follows from its operands; `term` computes its term from their terms.
  using Term = std::function<std::optional<Dim>(TermOf)>;
  void set_term(const TensorRef& number, Term term);
  // Records that the value is nonnegative in every run that succeeds.
  void set_nonnegative(const Value& value);
  bool is_nonnegative(const Value& value);
  // Records the signs that follow from a condition, if every run fails in which it is not `wanted`.
  void learn_signs(const Value& condition, bool wanted);
  // Sizes or unknown layouts decide whether `a` shares memory with `b`. A write to either makes the
  // value of the other unknown.
  void may_share(const TensorRef& a, const TensorRef& b);
  // Adds `element` to the grown list: a write to it makes the list's value unknown.
  void add_to_list(const TensorRef& element, const TensorRef& list);
  // Adds `to` to the lists that contain `from`; if `from` is a column, also makes `to` a column for
  // its elements. Returns whether this is new.
  bool share_lists(const TensorRef& from, const TensorRef& to);
  // Return the lists that contain the tensor, and the tensors that a list contains.
  std::vector<TensorRef> lists_of(const TensorRef& tensor) const;
  std::vector<TensorRef> elements_of(const TensorRef& list) const;
  // For squeeze_ and similar ops: `tensor` becomes the tensor that `view` shows.
  void become(const TensorRef& tensor, const TensorRef& view);

  // Returns a constant of graph() with these numbers, or a node that computes them from sizes.
  Value materialize(const Known& known);

  // The effects of a control flow body.
  struct Write {
    TensorRef root;
    Value value;  // in the body's graph
  };
  struct Region {
    std::shared_ptr<Graph> graph;
    std::vector<Value> captured;  // values of the graph around, for each input of the body
    std::vector<Write> writes;
    std::vector<TensorRef> invalidated;  // tensors from outside that became unknown
  };
  // Starts a body whose first inputs are copies of `inputs`, values of the current graph. The sizes
  // in `changing` (input, dim) get new symbols.
  std::vector<Value> enter(const std::vector<Value>& inputs,
                           const std::set<std::pair<size_t, size_t>>& changing = {});
  // Adds an input with the type of `outer` to the current body.
  Value capture(Value outer);
  // Ends the body: undoes all writes to tensors from outside, and returns them.
  Region leave();
  // Returns the sizes that the graphs around the current body know.
  const std::set<std::string>& symbols_outside();
  // Makes the tensors unknown, because a body may have written memory that they share.
  void invalidate(const std::vector<TensorRef>& roots);
  bool is_known(const TensorRef& tensor) const { return why_invalid(tensor).empty(); }
  // In a body: sets the value of the root from now on.
  void set_root(const TensorRef& root, Value value);
  std::vector<TensorRef> roots_of(const TensorRef& tensor) const;
  // Returns the roots, and all roots that may share memory with them.
  std::vector<TensorRef> twins_of(const TensorRef& tensor) const;
  // Whether the tensor was made before the current control flow body.
  bool is_outer(const TensorRef& tensor) const { return tensor->region_ < depth(); }
  // A tensor that another one is: itself, or one to which choices made in the current body lead.
  struct Place {
    Value condition;  // invalid: always
    TensorRef tensor;
  };
  std::vector<Place> places_of(const TensorRef& tensor);
  // Combine conditions of places; an invalid condition is always true. Equal conditions have one
  // Value.
  Value both(const Value& a, const Value& b);
  Value either(const Value& a, const Value& b);
  Value negated(const Value& a);
  // The ops of a view on its base. They use nothing else but sizes that the graphs around the
  // current body know. Nothing if the view needs more. A view without steps is its base.
  struct Step {
    const Op* op;
    std::vector<Attr> attrs;
    std::vector<int> inputs;  // the base is 0
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::optional<std::vector<Step>> steps_of(const TensorRef& view);
  const TensorRef& base_of(const TensorRef& view) const { return view->base_; }
  // Returns the same view of another base; null if it needs values of a body that has ended.
  TensorRef again(const TensorRef& view, const TensorRef& base);

  // Adds the assignments to buffers that were written.
  void finish();

 private:
  friend class Leaving;
  struct Saved {
    TensorRef root;
    Value value;
    std::optional<Known> known;
    bool poisoned;
    std::string invalid_because;
  };
  struct Body {
    std::shared_ptr<Graph> owner;
    Graph* graph = nullptr;
    std::vector<Value> captured;
    std::map<ValueId, Value> inside;  // by id in the graph around
    std::vector<Saved> saved;
    std::optional<std::set<std::string>> symbols_outside;
  };
  bool is_open(const Graph* graph) const;
  Value here(Value value);  // brings a value of an open graph into graph()
  Value capture_into(size_t level, Value outer);
  void save(const TensorRef& root);
  void invalidate_aliases(const TensorRef& root);
  const std::string& why_invalid(const TensorRef& tensor) const;
  int64_t version(const TensorRef& tensor) const;
  std::vector<Place> places_of(const TensorRef& tensor, int region);
  Value choose(const Value& condition, const Value& yes, const Value& no);
  Value written(const Value& condition, const Value& value, const Value& place);
  void write_choice(const TensorRef& tensor, const Value& value);
  Value create_state(int32_t index);
  std::optional<Value> integer_value(const TensorRef& number);
  Dim extent_of(const Value& number);

  const ScriptProgram& program_;
  std::vector<Body> regions_;
  std::vector<TensorRef> script_tensors_;
  std::set<int32_t> rebound_;        // script tensors whose names belong to other tensors now
  std::vector<TensorRef> poisoned_;  // in the order in which they were poisoned
  std::vector<Value> state_values_;
  std::vector<std::weak_ptr<TensorCell>> views_, choices_;
  int64_t choice_count_ = 0;
  std::map<std::tuple<const Graph*, char, ValueId, ValueId>, Value> conditions_;
  std::map<std::pair<const Graph*, ValueId>, Dim> extents_;
  std::set<std::pair<const Graph*, ValueId>> nonnegative_;
  // Keeps bodies alive while values may refer to them, so that their addresses are unique.
  std::vector<std::shared_ptr<Graph>> kept_;
};

}  // namespace hg::convert
