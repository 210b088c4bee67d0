// SPDX-License-Identifier: Apache-2.0
// A call as the script states it: the node, its arguments by position, and the environment in which
// it runs. Ops on script values and ONNX rows see a NodeCall; rows of aten ops see only the Call.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "converter/core/script.h"
#include "converter/memory/identities.h"
#include "converter/memory/item_values.h"
#include "converter/rows/rows.h"

namespace hg::convert {

// Thrown by prim::RaiseException.
struct Raised {
  std::string text;
};

// The values of the script while it runs, and the services of the import that ops need in addition
// to their arguments. The interpreter implements it.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual Memory& memory() = 0;
  virtual Identities& identities() = 0;
  virtual const ScriptProgram& program() const = 0;
  virtual const Item& get(ScriptId id) const = 0;
  // Runs an op that is not in the program, as if it were one of its nodes. Returns its results.
  virtual std::vector<Item> run_op(std::string_view kind,
                                   std::vector<std::pair<std::string, Item>> arguments, int results,
                                   const Origin& origin) = 0;
  virtual void note(const std::string& text) = 0;
  // Records that the node with the result `value` reads an attribute of an object.
  virtual void note_attribute(const Object& object, const std::string& name, const Item& item,
                              ScriptId value) = 0;
  // Requires a condition whose violation makes the script raise an exception. If sizes decide, it
  // becomes a guard; if data decides, a node that fails the run.
  virtual void require(const Item& condition, bool wanted, std::string_view message) = 0;
  // Returns whether a size is 1, for a result whose rank depends on it: known, or assumed with a
  // guard.
  virtual bool is_one(const Dim& size, std::string_view reason, bool expects_one) = 0;
  // Returns the tensor, or a new list or tuple of its tensors, without gradients.
  virtual Item detached(const Item& item) = 0;
  // While gradients are off, all results are detached. `with` blocks nest.
  virtual void begin_gradients(bool on) = 0;
  virtual void end_gradients() = 0;
  virtual void set_gradients(bool on) = 0;
  // Records that the script checks whether a mask is left-aligned before it makes nested tensors.
  virtual void ask_alignment() = 0;
  virtual bool asked_alignment() const = 0;
  // Records that a size of an input, a symbol, is another size in every run. The program is then
  // imported again with this size.
  virtual void equate(const Dim& symbol, const Dim& size) = 0;
  virtual bool has_equations() const = 0;
  // Records why outputs for equal inputs are not those of the original.
  virtual void note_difference(const std::string& why) = 0;
  // Records that an input marks tokens with 1 and padding with 0.
  virtual void note_mask(const std::string& input) = 0;
};

// One node of the script with its arguments. Arguments of prim nodes have positions but no names.
class NodeCall final : public Call {
 public:
  // `kind` is the name of the row, without the underscore of in-place ops. `row` is the row of that
  // name, or null.
  NodeCall(Environment& environment, const ScriptNode& node, std::string_view kind, const Row* row)
      : environment_(environment), node_(node), kind_(kind), row_(row) {}

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

  Environment& environment() const { return environment_; }
  Memory& memory() const;
  Identities& identities() const { return environment_.identities(); }
  const ScriptNode& node() const { return node_; }
  const Row* row() const { return row_; }
  bool returned() const { return returned_; }
  std::vector<Item>& results() { return results_; }

  // Arguments by position; throw Refusal if the argument is missing or of another kind.
  const Item& at(int index) const;
  Dim integer_at(int index) const;
  int64_t number_at(int index) const;
  const std::string& string_at(int index) const;
  std::shared_ptr<List> list_at(int index) const;
  std::shared_ptr<Dict> dict_at(int index) const;
  // Replaces the node's arguments, to run the op on the real or the imaginary parts of complex
  // ones.
  struct Part {
    std::vector<Item> arguments;
    std::vector<std::pair<TensorRef, TensorRef>> stand_ins;  // replaced tensor, and its complex one
  };
  void set_part(const Part* part) { part_ = part; }
  void give(Item item) { returns(std::vector<Item>{std::move(item)}); }

 private:
  Environment& environment_;
  const ScriptNode& node_;
  std::string_view kind_;
  const Row* row_;
  TensorRef make_complex_view(const TensorRef& base, Forward forward, Inverse inverse);

  bool returned_ = false;
  const Part* part_ = nullptr;
  std::vector<Item> results_;
};

}  // namespace hg::convert
