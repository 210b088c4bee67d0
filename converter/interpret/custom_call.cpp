// SPDX-License-Identifier: Apache-2.0
#include "converter/interpret/custom_call.h"

namespace hg::convert {

namespace {

// Returns the name of an argument's type in a signature.
std::string_view type_of(const Item& item) {
  if (item.is_bool()) return "bool";
  if (item.is_int()) return "int";
  if (item.is_real()) return "float";
  if (item.is_string()) return "str";
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value))
    return !(*list)->items.empty() && (*list)->items[0].is_real() ? "float[]" : "int[]";
  return "int?";
}

bool is_tensor(const Item& item) {
  return item.is_tensor() && !std::get<TensorRef>(item.value)->is_number();
}

bool has_name(std::string_view argument) { return !argument.starts_with("argument_"); }

// Returns a signature that fits this call.
std::string fitting(const NodeCall& call, const Op& op) {
  std::string inputs, attributes;
  for (int i = 0; i < call.argument_count(); ++i) {
    const std::string& given = call.node().argument_names.at(i);
    const Item& item = call.argument(i);
    if (is_tensor(item))
      inputs += str_cat(inputs.empty() ? "" : ", ", has_name(given) ? given : str_cat("x", i));
    else
      attributes += str_cat(", ", has_name(given) ? given : str_cat("a", i), ": ", type_of(item));
  }
  const std::string first = inputs.substr(0, inputs.find(','));
  return str_cat("--custom '", op.name(), "(", inputs, attributes, ") -> like ", first,
                 "', with the names that the application's op has");
}

Attr attribute(const NodeCall& call, std::string_view argument, AttrType type) {
  switch (type) {
    case AttrType::boolean:
      return Attr(call.flag(argument));
    case AttrType::integer:
      return Attr(call.integer(argument));
    case AttrType::real:
      return Attr(call.real(argument));
    case AttrType::string:
      return Attr(call.string(argument));
    case AttrType::dtype:
      return Attr(call.dtype(argument));
    case AttrType::integers:
      return Attr(call.integers(argument));
    case AttrType::reals:
      return Attr(call.reals(argument));
    case AttrType::strings:
      break;
  }
  call.refuse(argument, "is a list of strings, which --custom does not take");
}

// Assigns the arguments of a call to the parameters of the signature.
class Arguments {
 public:
  Arguments(NodeCall& call, const Op& op)
      : call_(call),
        op_(op),
        signature_(op.signature),
        inputs_(signature_.inputs.size()),
        given_(signature_.inputs.size()) {}

  void place(const std::string& argument, const Item& item) {
    const int input = signature_.find_input(argument);
    const int attr = signature_.find_attribute(argument);
    if (input >= 0) return set_input(static_cast<size_t>(input), argument, item);
    if (attr >= 0) return set_attr(static_cast<size_t>(attr), argument, item);
    const bool variadic = !signature_.inputs.empty() && signature_.inputs.back().variadic;
    if (has_name(argument) && !(variadic && is_tensor(item))) refuse(argument, "has no place");
    if (is_tensor(item)) {
      if (next_input_ >= inputs_.size()) {
        if (!variadic) refuse(argument, "is one tensor too many");
        rest_.push_back(call_.tensor(argument));
        return;
      }
      return set_input(next_input_++, argument, item);
    }
    if (item.is_none() && next_input_ < inputs_.size() && signature_.inputs[next_input_].optional)
      return set_input(next_input_++, argument, item);
    if (next_attr_ >= signature_.attributes.size()) refuse(argument, "has no place");
    set_attr(next_attr_++, argument, item);
  }

  std::vector<Value> inputs() {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (!given_[i] && !signature_.inputs[i].optional)
        throw Refusal{str_cat("the call gives no input '", signature_.inputs[i].name, "'"),
                      fitting(call_, op_)};
    inputs_.insert(inputs_.end(), rest_.begin(), rest_.end());
    return inputs_;
  }
  const NamedAttrs& attrs() const { return attrs_; }

 private:
  [[noreturn]] void refuse(std::string_view argument, std::string_view what) const {
    throw Refusal{str_cat("argument '", argument, "' ", what, " in the signature ",
                          op_.def.signature.substr(0, op_.def.signature.find(" ->"))),
                  fitting(call_, op_)};
  }
  void set_input(size_t index, const std::string& argument, const Item& item) {
    if (given_[index]) refuse(argument, "is given twice");
    given_[index] = true;
    if (!item.is_none())
      inputs_[index] = call_.tensor(argument);
    else if (!signature_.inputs[index].optional)
      refuse(argument, "is None, but is not optional");
  }
  void set_attr(size_t index, const std::string& argument, const Item& item) {
    const Signature::Attribute& attr = signature_.attributes[index];
    if (item.is_none() && !attr.optional) refuse(argument, "is None, but is not optional");
    attrs_.push_back({attr.name, item.is_none() ? Attr() : attribute(call_, argument, attr.type)});
  }

  NodeCall& call_;
  const Op& op_;
  const Signature& signature_;
  std::vector<Value> inputs_, rest_;
  std::vector<bool> given_;
  NamedAttrs attrs_;
  size_t next_input_ = 0, next_attr_ = 0;
};

}  // namespace

void call_custom(NodeCall& call, const Op& op) {
  Arguments arguments(call, op);
  for (int i = 0; i < call.argument_count(); ++i)
    arguments.place(call.node().argument_names.at(i), call.argument(i));
  const std::vector<Value> inputs = arguments.inputs();
  if (inputs.empty()) throw Refusal{"the call gives no tensor that the result could be like", ""};
  call.returns(call.graph().calls(op.name(), inputs, arguments.attrs()));
}

}  // namespace hg::convert
