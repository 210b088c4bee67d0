// SPDX-License-Identifier: Apache-2.0
// One script node as a row sees it: its arguments and results.
#include "converter/rows/node_call.h"

namespace hg::convert {

Graph& NodeCall::graph() { return memory().graph(); }
Memory& NodeCall::memory() const { return environment_.memory(); }
Value NodeCall::read(const TensorRef& tensor) { return memory().read(tensor); }

TensorRef NodeCall::make_tensor(Value value) {
  // Rows continue after an op has failed; stop at the first value that does not exist.
  if (!value) {
    Status status = graph().take_status();
    throw Refusal{status.ok() ? "an op gives no value" : std::string(status.message()), ""};
  }
  return memory().make(value);
}

std::optional<Layout> NodeCall::layout(const TensorRef& tensor) const {
  return memory().layout(tensor);
}

MemoryOrder NodeCall::order(const TensorRef& tensor) const { return memory().order(tensor); }

void NodeCall::may_share(const TensorRef& copy, const TensorRef& base) {
  memory().may_share(copy, base);
}

TensorRef NodeCall::make_view(const TensorRef& base, Forward forward, Inverse inverse,
                              Relayout relayout) {
  if (part_ != nullptr)
    for (const auto& [stand_in, complex] : part_->stand_ins)
      if (stand_in == base)
        return make_complex_view(complex, std::move(forward), std::move(inverse));
  TensorRef view = memory().make_view(base, std::move(forward), std::move(inverse), relayout);
  require_ok(graph().take_status());
  return view;
}

std::function<Value()> NodeCall::keep(Value value) {
  return [&memory = memory(), tensor = make_tensor(value)] { return memory.read(tensor); };
}

void NodeCall::write(const TensorRef& tensor, Value value) { memory().write(tensor, value); }

void NodeCall::returns(std::vector<Item> outputs) {
  returned_ = true;
  results_ = std::move(outputs);
  for (size_t i = 0; i < results_.size() && i < node_.output_types.size(); ++i) {
    const std::string& type = node_.output_types[i];
    if (type != "int" && type != "float" && type != "bool" && type != "Scalar" && type != "number")
      continue;
    // A number whose value only the graph has.
    if (const auto* tensor = std::get_if<TensorRef>(&results_[i].value);
        tensor && !(*tensor)->is_number() && !(*tensor)->is_complex() &&
        !(*tensor)->is_poisoned()) {
      if (const auto scalar = scalar_of(results_[i]))
        results_[i] = item_of(memory(), *scalar);
      else
        results_[i] = Item(memory().make_number(memory().read(*tensor)));
    }
  }
}

void NodeCall::note(std::string line) { environment_.note(line); }

void NodeCall::set_packed(const TensorRef& tensor, Packed packed) {
  memory().set_packed(tensor, std::move(packed));
}

bool NodeCall::is_one(const Dim& size, std::string_view reason, bool expects_one) {
  return environment_.is_one(size, reason, expects_one);
}

Dim NodeCall::size_of(const Value& number) {
  const auto size = memory().size_of(memory().make_number(number));
  if (!size) throw Refusal{str_cat("a size is ", number.dtype(), number.shape()), ""};
  return *size;
}

Dim NodeCall::integer_of(const Value& number) {
  const auto term = memory().integer_of(memory().make_number(number));
  if (!term) throw Refusal{str_cat("an integer is ", number.dtype(), number.shape()), ""};
  return *term;
}

TensorRef NodeCall::as_complex(TensorRef tensor) {
  memory().set_complex(tensor);
  return tensor;
}

const Item* NodeCall::find(std::string_view name) const {
  for (size_t i = 0; i < node_.argument_names.size() && i < node_.inputs.size(); ++i)
    if (node_.argument_names[i] == name) return &argument(static_cast<int>(i));
  return nullptr;
}

const Item& NodeCall::argument(int index) const {
  if (part_ != nullptr) return part_->arguments.at(index);
  return environment_.get(node_.inputs.at(index));
}

const Item& NodeCall::at(int index) const {
  if (index >= argument_count()) refuse(str_cat(index), "is missing");
  return argument(index);
}

Dim NodeCall::integer_at(int index) const {
  const auto scalar = scalar_of(at(index));
  if (!scalar || !scalar->is_integral())
    refuse(str_cat(index), str_cat("is ", describe(at(index)), ", not an integer"));
  return scalar->top;
}

int64_t NodeCall::number_at(int index) const {
  const Dim value = integer_at(index);
  if (!value.is_constant())
    refuse(str_cat(index), str_cat("depends on the size ", value, ", but must be a constant"));
  return value.constant();
}

const std::string& NodeCall::string_at(int index) const {
  const auto* value = std::get_if<std::string>(&at(index).value);
  if (value == nullptr) refuse(str_cat(index), "is not a string");
  return *value;
}

std::shared_ptr<List> NodeCall::list_at(int index) const {
  const auto* value = std::get_if<std::shared_ptr<List>>(&at(index).value);
  if (value == nullptr) refuse(str_cat(index), "is not a list");
  return *value;
}

std::shared_ptr<Dict> NodeCall::dict_at(int index) const {
  const auto* value = std::get_if<std::shared_ptr<Dict>>(&at(index).value);
  if (value == nullptr) refuse(str_cat(index), "is not a dict");
  return *value;
}

}  // namespace hg::convert
