// SPDX-License-Identifier: Apache-2.0
// Functionalization: script tensors that share memory, on top of graph values that never change. A
// root tensor holds the current value. A view recomputes its value if the root was written since; a
// write through a chain of views becomes a new value of the root. A choice is one of two tensors,
// and data decides which: a write to it writes to either, under the choice's condition.
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

// Thrown on use of a value that an unsupported op should have made; the user hears of that op only.
struct Poisoned {};

class Memory;
// One of Memory's functions that give a number as a term of sizes.
using TermOf = std::optional<Dim> (Memory::*)(const TensorRef& number);

class TensorCell {
 public:
  // A Python number that only the graph knows: it counts as a number in type promotion.
  bool is_number() const { return number_; }
  DType number_dtype() const { return known() ? known()->dtype : value_.dtype(); }
  bool is_poisoned() const;
  // Of a list whose length data or sizes decide: no tensor of the script (core/grown.h).
  bool is_column() const { return column_; }
  bool has_value() const { return static_cast<bool>(value_); }
  bool is_written() const { return version_ > 0; }  // of a root
  // A pair of reals for each element: the value has a last dim of 2 that the script does not see.
  bool is_complex() const { return complex_; }
  std::optional<Packed> packed() const {
    return packed_ && packed_version_ == version_ ? packed_ : std::nullopt;
  }
  std::optional<Nested> nested() const {
    return nested_version_ == version_ ? nested_ : std::nullopt;
  }
  bool is_root() const { return base_ == nullptr && !is_choice(); }
  bool is_choice() const { return yes_ != nullptr || no_ != nullptr; }
  bool may_share() const { return !twins_.empty(); }  // of a root
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
  int64_t serial_ = 0;          // choices that it leads to have smaller ones
  Value value_;                 // invalid when not yet made
  int64_t version_ = 0;         // of a root: counts writes; of others: when value_ was made
  int region_ = 0;              // the depth of control flow in which the tensor was made
  int32_t script_tensor_ = -1;  // a root that is ScriptProgram::tensors[i]
  std::optional<Known> known_;
  bool number_ = false;
  bool poisoned_ = false;
  bool complex_ = false;
  bool column_ = false;
  std::optional<Packed> packed_;  // of the version that it was set for
  int64_t packed_version_ = 0;
  std::optional<Nested> nested_;  // likewise
  int64_t nested_version_ = 0;
  std::function<std::optional<Dim>(TermOf)> term_;  // of a number that is computed from others
  std::optional<Layout> layout_;
  MemoryOrder order_ = MemoryOrder::unknown;  // of a root without a layout
  // Of a root: others that share its memory or do not, and why its own value is not known since
  // one of them was written.
  std::vector<std::weak_ptr<TensorCell>> twins_;
  std::string invalid_because_;
  std::vector<TensorRef> lists_;  // of a root: grown lists that have it as an element
  std::vector<std::weak_ptr<TensorCell>> elements_;  // of such a list
};

// All tensors of one import, and the graph that is being built: a stack of subgraphs while the body
// of data-dependent control flow is interpreted.
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
  // A view of known numbers whose own numbers are known.
  TensorRef make_known_view(const TensorRef& base, Known known, Forward forward, Inverse inverse);
  // `yes` where the condition holds, and else `no`; null where nobody will ask. `value` is what it
  // is now.
  TensorRef make_choice(Value condition, TensorRef yes, TensorRef no, Value value);
  // A tensor, number or complex tensor as `like` is one.
  TensorRef make_like(const TensorRef& like, Value value);
  void set_packed(const TensorRef& tensor, Packed packed);
  void set_nested(const TensorRef& tensor, Nested nested);
  void set_complex(const TensorRef& tensor) { tensor->complex_ = true; }
  void set_column(const TensorRef& tensor) { tensor->column_ = true; }
  TensorRef make_poison();
  TensorRef of_script(int32_t index);
  bool is_taken(int32_t index) const { return script_tensors_.at(index) != nullptr; }
  // The name of a buffer or parameter is that of another tensor from now on.
  void rebind(int32_t index, const TensorRef& tensor);

  Value read(const TensorRef& tensor);  // a value of graph()
  TensorType type(const TensorRef& tensor);
  void write(const TensorRef& tensor, Value value);  // same type
  void write(const TensorRef& tensor, Known known);  // a root that holds known numbers
  void poison(const TensorRef& tensor);
  // Tensors that become poisoned in an attempt that is given up are what they were before it.
  size_t poison_mark() const { return poisoned_.size(); }
  void undo_poison(size_t mark);

  std::optional<Layout> layout(const TensorRef& tensor);
  void set_row_major(const TensorRef& root);
  void set_layout(const TensorRef& root, Layout layout) { root->layout_ = std::move(layout); }
  MemoryOrder order(const TensorRef& tensor);
  void set_order(const TensorRef& root, MemoryOrder order);
  // An integer that only data decides as a term of sizes; none of these where it is no integer.
  // As a size it is a symbol that is known when the graph runs, which fails where it is negative.
  std::optional<Dim> size_of(const TensorRef& number);
  // As any integer it is one such symbol less another.
  std::optional<Dim> integer_of(const TensorRef& number);
  // What both give of numbers that are computed from what is never negative; none for others.
  std::optional<Dim> term_of(const TensorRef& number);
  // Sets how the number follows from its operands: `term` computes its term from theirs.
  using Term = std::function<std::optional<Dim>(TermOf)>;
  void set_term(const TensorRef& number, Term term);
  // Records that the value is not negative in any run that succeeds.
  void set_nonnegative(const Value& value);
  bool is_nonnegative(const Value& value);
  // Likewise what a condition says of the numbers that it compares, where every run in which it is
  // not `wanted` fails.
  void learn_signs(const Value& condition, bool wanted);
  // `a` is memory of `b` or its own: sizes or layouts that are not known decide. A write to one
  // of them makes the other's value unknown.
  void may_share(const TensorRef& a, const TensorRef& b);
  // `element` is in the grown list from now on: a write to it makes the list's value unknown.
  void add_to_list(const TensorRef& element, const TensorRef& list);
  // `to` is in the lists that `from` is in, and a column of the elements of `from`; whether that is
  // news.
  bool share_lists(const TensorRef& from, const TensorRef& to);
  // The lists that the tensor is in, and the tensors that are in a list.
  std::vector<TensorRef> lists_of(const TensorRef& tensor) const;
  std::vector<TensorRef> elements_of(const TensorRef& list) const;
  // squeeze_ and its like: `tensor` itself becomes what `view` shows of it.
  void become(const TensorRef& tensor, const TensorRef& view);

  // A constant of graph() with these numbers, or a node that computes them from sizes.
  Value materialize(const Known& known);

  // What a body of control flow left behind.
  struct Write {
    TensorRef root;
    Value value;  // inside the body's graph
  };
  struct Region {
    std::shared_ptr<Graph> graph;
    std::vector<Value> captured;  // of the graph around, for each input of the body
    std::vector<Write> writes;
    std::vector<TensorRef> invalidated;  // tensors from outside that are no longer known
  };
  // Starts a body whose first inputs are copies of `inputs`, values of the present graph.
  // Of their sizes, those in `changing` (input, dim) get symbols of their own.
  std::vector<Value> enter(const std::vector<Value>& inputs,
                           const std::set<std::pair<size_t, size_t>>& changing = {});
  // Adds an input to the present body that has the type of `outer`.
  Value capture(Value outer);
  // Ends the body: all writes to tensors from outside are undone, and returned.
  Region leave();
  // The sizes that the graphs around the present body know.
  const std::set<std::string>& symbols_outside();
  // The tensors are no longer known, as a body may have written what they share memory with.
  void invalidate(const std::vector<TensorRef>& roots);
  bool is_known(const TensorRef& tensor) const { return why_invalid(tensor).empty(); }
  // In a body: the root has this value from now on.
  void set_root(const TensorRef& root, Value value);
  std::vector<TensorRef> roots_of(const TensorRef& tensor) const;
  // The roots, and all that may share memory with them.
  std::vector<TensorRef> twins_of(const TensorRef& tensor) const;
  // Made before the present body of control flow.
  bool is_outer(const TensorRef& tensor) const { return tensor->region_ < depth(); }
  // What a tensor is, and where: itself, or what choices made in the present body lead to.
  struct Place {
    Value condition;  // invalid: always
    TensorRef tensor;
  };
  std::vector<Place> places_of(const TensorRef& tensor);
  // Conditions of places, of which an invalid one always holds. The same ones give the same Value.
  Value both(const Value& a, const Value& b);
  Value either(const Value& a, const Value& b);
  Value negated(const Value& a);
  // What a view makes of its base, in nodes that see nothing else and sizes that the graphs around
  // the current body know; empty if it needs more. A view without steps is its base.
  struct Step {
    const Op* op;
    std::vector<Attr> attrs;
    std::vector<int> inputs;  // the base is 0
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::optional<std::vector<Step>> steps_of(const TensorRef& view);
  const TensorRef& base_of(const TensorRef& view) const { return view->base_; }
  // The same view of another base; null where it needs values of a body that has ended.
  TensorRef again(const TensorRef& view, const TensorRef& base);

  // Adds the assignments of buffers that were written.
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
  Value here(Value value);  // a value of an open graph, brought into graph()
  Value capture_into(size_t level, Value outer);
  void save(const TensorRef& root);
  void invalidate_aliases(const TensorRef& root);
  const std::string& why_invalid(const TensorRef& tensor) const;
  int64_t version(const TensorRef& tensor) const;
  std::vector<Place> places_of(const TensorRef& tensor, int region);
  Value choose(const Value& condition, const Value& yes, const Value& no);
  void write_choice(const TensorRef& tensor, const Value& value);
  Value create_state(int32_t index);
  std::optional<Value> integer_value(const TensorRef& number);
  Dim extent_of(const Value& number);

  const ScriptProgram& program_;
  std::vector<Body> regions_;
  std::vector<TensorRef> script_tensors_;
  std::set<int32_t> rebound_;        // of the script's tensors: names of others now
  std::vector<TensorRef> poisoned_;  // in the order in which they became so
  std::vector<Value> state_values_;
  std::vector<std::weak_ptr<TensorCell>> views_, choices_;
  int64_t choice_count_ = 0;
  std::map<std::tuple<const Graph*, char, ValueId, ValueId>, Value> conditions_;
  std::map<std::pair<const Graph*, ValueId>, Dim> extents_;
  std::set<std::pair<const Graph*, ValueId>> nonnegative_;
  // Bodies stay alive as long as values may name them, so that no two have one address.
  std::vector<std::shared_ptr<Graph>> kept_;
};

}  // namespace hg::convert
