// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/constants.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "converter/cli/options.h"
#include "converter/core/failure.h"
#include "converter/core/type_names.h"
#include "hg/npy.h"

namespace hg::convert {
namespace {

// Splits "[1, 2]", "(1, 2)" or "1, 2".
std::vector<std::string_view> elements_of(std::string_view text, char open, char close) {
  text = tools::trim(text);
  if (text.size() >= 2 && text.front() == open && text.back() == close)
    text = tools::trim(text.substr(1, text.size() - 2));
  std::vector<std::string_view> parts;
  int depth = 0;
  for (size_t i = 0, start = 0; i <= text.size() && !text.empty(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    parts.push_back(tools::trim(text.substr(start, i - start)));
    start = i + 1;
  }
  if (!parts.empty() && parts.back().empty()) parts.pop_back();  // "(1,)"
  return parts;
}

// Parses a value of this type; returns nothing if the text is not one.
std::optional<Item> value_of(const std::string& type, std::string_view text) {
  const std::string_view word = tools::trim(text);
  if (const auto inner = inside_of(type, "Optional"))
    return word == "None" ? std::optional(Item()) : value_of(*inner, text);
  if (type == "str") return Item(std::string(text));
  if (type == "bool") {
    if (word == "True" || word == "true") return Item(true);
    if (word == "False" || word == "false") return Item(false);
    return std::nullopt;
  }
  if (type == "int") {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || error != std::errc() || end != word.data() + word.size())
      return std::nullopt;
    return Item(value);
  }
  if (type == "float") {
    const std::string copy(word);
    char* end = nullptr;
    const double value = std::strtod(copy.c_str(), &end);
    if (copy.empty() || *end != '\0') return std::nullopt;
    return Item(value);
  }
  if (const auto inner = inside_of(type, "List")) {
    auto list = std::make_shared<List>();
    for (const std::string_view part : elements_of(text, '[', ']')) {
      const auto value = value_of(*inner, part);
      if (!value) return std::nullopt;
      list->items.push_back(*value);
    }
    return Item(std::move(list));
  }
  if (const auto inner = inside_of(type, "Tuple")) {
    const std::vector<NamedType> types = split_types(*inner);
    const std::vector<std::string_view> parts = elements_of(text, '(', ')');
    if (parts.size() != types.size()) return std::nullopt;
    auto tuple = std::make_shared<Tuple>();
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto value = value_of(types[i].type, parts[i]);
      if (!value) return std::nullopt;
      tuple->items.push_back(*value);
      if (!types[i].name.empty()) tuple->names.push_back(types[i].name);
    }
    return Item(std::move(tuple));
  }
  return std::nullopt;
}

}  // namespace

bool takes_constant(const std::string& type) {
  for (const char* container : {"Optional", "List"})
    if (const auto inner = inside_of(type, container)) return takes_constant(*inner);
  if (const auto inner = inside_of(type, "Tuple")) {
    const std::vector<NamedType> types = split_types(*inner);
    return std::all_of(types.begin(), types.end(),
                       [](const NamedType& each) { return takes_constant(each.type); });
  }
  return type == "int" || type == "float" || type == "bool" || type == "str";
}

ConstantOption parse_constant(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view name = tools::trim(text.substr(0, equals));
  if (equals == std::string_view::npos || name.empty())
    throw Failure{Exit::usage,
                  str_cat("--constant '", text, "': write it like sr=16000 or mode=mean")};
  return {std::string(name), std::string(text.substr(equals + 1))};
}

namespace {

// Reads a .npy file as the tensor for an input of this type.
Item tensor_of(ScriptProgram& program, const ScriptInput& input, const std::string& path) {
  const auto fail = [&](const auto&... why) {
    throw Failure{Exit::usage, str_cat("--constant ", input.name, ": ", why...)};
  };
  Result<Array> array = read_npy(path);
  if (!array.ok()) fail(path, ": ", array.status().message());
  const Tensor& given = array->tensor();
  if (input.known) {
    const Shape& want = input.known->shape;
    bool fits = given.dtype == input.known->dtype && given.rank() == input.known->rank();
    for (int d = 0; fits && d < given.rank(); ++d)
      fits = !want[d].is_constant() || want[d] == Dim(given.shape[d]);
    if (!fits) fail(path, " is ", given.dtype, given.shape, ", but the model takes ", *input.known);
  }
  Result<TensorData> data = TensorData::copy_of(given);
  if (!data.ok()) fail(data.status().message());
  ScriptTensor made;
  made.data = std::move(*data);
  program.tensors.push_back(std::move(made));
  return Item(ScriptTensorIndex{static_cast<int32_t>(program.tensors.size() - 1)});
}

}  // namespace

void apply_constants(ScriptProgram& program, const std::vector<ConstantOption>& constants,
                     bool takes_tensors) {
  for (const ConstantOption& constant : constants) {
    const auto fail = [&](const auto&... why) {
      throw Failure{Exit::usage, str_cat("--constant ", constant.name, ": ", why...)};
    };
    const auto input =
        std::find_if(program.inputs.begin(), program.inputs.end(),
                     [&](const ScriptInput& each) { return each.name == constant.name; });
    if (input == program.inputs.end()) {
      std::vector<std::string> names;
      for (const ScriptInput& each : program.inputs) names.push_back(each.name);
      const std::string close = closest_name(constant.name, names);
      fail("the model has no such argument", close.empty() ? "" : ", did you mean " + close + "?");
    }
    if (input->is_constant) fail("it is given twice");
    if (takes_tensors && input->type == "Tensor") {
      if (!constant.value.ends_with(".npy"))
        fail("give its elements as ", constant.name, "=FILE.npy");
      input->default_value = tensor_of(program, *input, constant.value);
      input->is_constant = input->has_default = true;
      continue;
    }
    if (!takes_constant(input->type))
      fail("the argument is of type ", input->type, ", which takes an --input");
    const auto value = value_of(input->type, constant.value);
    if (!value) fail("'", constant.value, "' is no value of type ", input->type);
    input->is_constant = input->has_default = true;
    input->default_value = *value;
  }
}

}  // namespace hg::convert
