// SPDX-License-Identifier: Apache-2.0
// emit_ops STYLE FILE: writes C++ that calls each op of the op table on a handle of tensors, from
// the op's signature alone. A Style defines the form; a new handle needs one more Style. A file
// whose content would not change is not rewritten, so nothing is recompiled.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "hg/op.h"
#include "hg_op_texts.h"

namespace {

using hg::AttrType;
using hg::Signature;

struct Style {
  std::string_view name;
  std::string_view before, after;  // the rest of the file
  std::string_view handle;         // type of an input; default-constructed: not given
  std::string_view list;           // type of any number of inputs
  std::string_view prefix;         // prefix of a declaration whose type fits every result
  // Functions to call with (name, inputs, attributes), for ops with one output, a fixed number, or
  // any number.
  std::string_view one, several, any;
};

constexpr Style kStyles[] = {
    {.name = "methods",
     .before = R"(// SPDX-License-Identifier: Apache-2.0
// Runs ops immediately on arrays: one method for each op of the op table, generated from its
// signature when the library is built. hg/eager.h describes what all methods have in common.
//
//   HG_TRY_ASSIGN(hg::Executor ex, hg::Executor::create());
//   HG_TRY_ASSIGN(hg::Array y, ex.softmax(ex.linear(x, weight, bias), -1));
#pragma once

#include "hg/eager.h"

namespace hg {

// Inputs come first; optional inputs follow the required attributes. The result is a Result<Array>.
// For an op with several outputs, it is a Result of an array of Arrays; if the inputs determine
// their number, of a vector.
template <class Self>
class ExecutorMethods {
 public:
)",
     .after = R"(
 private:
  Self& self() { return static_cast<Self&>(*this); }
};

// Calls whose result is written to the memory passed to into().
class Into : public ExecutorMethods<Into>, public IntoBase {
 public:
  using IntoBase::IntoBase;
};

class Executor : public ExecutorMethods<Executor>, public ExecutorBase {
 public:
  static Result<Executor> create(const ExecutorOptions& options = {}) {
    HG_TRY_ASSIGN(ExecutorBase base, ExecutorBase::create(options));
    return Executor(std::move(base));
  }
  // ex.into(y).add(a, b): y has the shape and dtype of the result, and may be an input.
  Into into(Array& out) { return Into(*this, std::span(&out, 1)); }
  // The same for an op with several outputs.
  Into into(std::span<Array> outs) { return Into(*this, outs); }

 private:
  explicit Executor(ExecutorBase base) : ExecutorBase(std::move(base)) {}
};

}  // namespace hg
)",
     .handle = "const Operand&",
     .list = "const Operands&",
     .prefix = "  auto ",
     .one = "self().one(",
     .several = "self().template several<",
     .any = "self().any("},
    {.name = "functions",
     .before = R"(// SPDX-License-Identifier: Apache-2.0
// Ops as lazy expressions: one function for each op of the op table, generated from its signature
// when the library is built. hg/var.h describes expressions.
//
//   hg::Var y = hg::lazy::softmax(hg::lazy::linear(x, weight, bias), -1);
#pragma once

#include "hg/var.h"

// Inputs come first; optional inputs follow the required attributes. The result is a Var. For an op
// with several outputs, it is an array of them; if the inputs determine their number, a vector.
namespace hg::lazy {

)",
     .after = R"(
}  // namespace hg::lazy
)",
     .handle = "const Var&",
     .list = "const Vars&",
     .prefix = "inline auto ",
     .one = "Var::one(",
     .several = "Var::several<",
     .any = "Var::any("},
};

// An input or an attribute as a C++ parameter.
struct Parameter {
  std::string text;  // "int64_t dim"
  std::string fallback;
};

std::string between(char begin, std::string_view text, char end) {
  std::string out(1, begin);
  out += text;
  out += end;
  return out;
}

std::string in_quotes(std::string_view text) { return between('"', text, '"'); }

std::string_view type_of(AttrType type) {
  switch (type) {
    case AttrType::boolean:
      return "bool";
    case AttrType::integer:
      return "int64_t";
    case AttrType::real:
      return "double";
    case AttrType::string:
      return "const Word&";
    case AttrType::dtype:
      return "DType";
    case AttrType::integers:
      return "const Ints&";
    case AttrType::reals:
      return "const Reals&";
    case AttrType::strings:
      break;
  }
  return "";
}

// A default in C++ syntax: 1e-05, {1, 1}, "mean", DType::f32.
std::string literal(const Signature::Attribute& attribute) {
  if (attribute.fallback.is_none()) return "{}";
  std::string text;
  append_text(text, attribute.fallback);
  switch (attribute.type) {
    case AttrType::string:
      return text.starts_with('"') ? text : in_quotes(text);
    case AttrType::dtype:
      return "DType::" + (text == "bool" ? std::string("bool_") : text);
    case AttrType::integers:
    case AttrType::reals:
      return between('{', std::string_view(text).substr(1, text.size() - 2), '}');
    default:
      return text;
  }
}

Parameter parameter_of(const Signature::Attribute& attribute) {
  std::string type(type_of(attribute.type));
  // An absent list is an empty list in C++; no op distinguishes them.
  if (attribute.optional && attribute.type != AttrType::integers &&
      attribute.type != AttrType::reals)
    type = attribute.type == AttrType::string ? "const std::optional<Word>&"
                                              : "const std::optional<" + type + ">&";
  Parameter parameter{type + " " + attribute.name, ""};
  if (!attribute.required) parameter.fallback = attribute.optional ? "{}" : literal(attribute);
  return parameter;
}

// Order: required inputs; attributes up to the last one without a default; optional inputs; other
// attributes. Omits a default if a parameter without one follows.
std::string parameters_of(const Signature& signature, const Style& style) {
  std::vector<Parameter> required, optional, attributes, all;
  for (const Signature::Input& input : signature.inputs) {
    const std::string_view type = input.variadic ? style.list : style.handle;
    auto& part = input.optional ? optional : required;
    part.push_back({std::string(type) + " " + input.name, input.optional ? "{}" : ""});
  }
  size_t last = 0;
  for (const Signature::Attribute& attribute : signature.attributes) {
    attributes.push_back(parameter_of(attribute));
    if (attribute.required) last = attributes.size();
  }
  all = required;
  for (size_t i = 0; i < last; ++i) all.push_back({attributes[i].text, ""});
  all.insert(all.end(), optional.begin(), optional.end());
  for (size_t i = last; i < attributes.size(); ++i) all.push_back(attributes[i]);
  std::string text;
  for (const Parameter& parameter : all) {
    text += (text.empty() ? "" : ", ") + parameter.text;
    if (!parameter.fallback.empty()) text += " = " + parameter.fallback;
  }
  return text;
}

std::string element_of(std::string_view handle) {  // "const Operand&" -> "Operand"
  if (handle.starts_with("const ")) handle.remove_prefix(6);
  if (handle.ends_with("&")) handle.remove_suffix(1);
  return std::string(handle);
}

// The inputs as a span, in signature order.
std::string inputs_of(const Signature& signature, const Style& style, std::string& setup) {
  const std::string element = element_of(style.handle);
  if (signature.inputs.empty()) return "{}";
  std::string given;
  bool variadic = false;
  for (const Signature::Input& input : signature.inputs) {
    if (!input.variadic) given += (given.empty() ? "" : ", ") + input.name;
    variadic |= input.variadic;
  }
  if (!variadic) {
    setup += "    const " + element + " call_inputs[] = {" + given + "};\n";
    return "call_inputs";
  }
  const std::string& last = signature.inputs.back().name;
  if (signature.inputs.size() == 1) return last + ".values()";
  setup += "    const auto call_inputs = " + last + ".after({" + given + "});\n";
  return "call_inputs";
}

// The text about an op as comment lines.
std::string comment_of(std::string_view op) {
  std::string lines;
  for (const hg::OpText& row : hg::kOpTexts) {
    if (row.op != op || row.text.empty()) continue;
    std::string_view rest = row.text;
    while (true) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      lines += (end == 0 ? "  //" : "  // ") + std::string(rest.substr(0, end)) + "\n";
      if (end == rest.size()) break;
      rest.remove_prefix(end + 1);
    }
  }
  return lines;
}

bool print(const hg::Op& op, const Style& style, std::string& out) {
  const Signature& signature = op.signature;
  std::string setup;
  const std::string inputs = inputs_of(signature, style, setup);
  std::string attributes;
  for (const Signature::Attribute& attribute : signature.attributes) {
    if (type_of(attribute.type).empty()) {
      std::fprintf(stderr, "emit_ops: %s: no C++ type for the lists of texts of '%s'\n",
                   signature.name.c_str(), attribute.name.c_str());
      return false;
    }
    attributes += (attributes.empty() ? "{" : ", {") + in_quotes(attribute.name) + ", " +
                  attribute.name + "}";
  }
  if (!attributes.empty())
    setup += "    const Argument call_attributes[] = {" + attributes + "};\n";
  const std::string call = in_quotes(signature.name) + ", " + inputs + ", " +
                           (attributes.empty() ? "{}" : "call_attributes") + ");\n";
  out += comment_of(signature.name) + "  // " + std::string(op.def.signature) + "\n";
  out += std::string(style.prefix) + signature.name + "(" + parameters_of(signature, style) +
         ") {\n" + setup + "    return ";
  if (signature.variadic_outputs)
    out += std::string(style.any) + call;
  else if (signature.outputs.size() == 1)
    out += std::string(style.one) + call;
  else
    out += std::string(style.several) + std::to_string(signature.outputs.size()) + ">(" + call;
  out += "  }\n";
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc == 3 ? argv[1] : "";
  for (const Style& style : kStyles) {
    if (style.name != wanted) continue;
    std::string text(style.before);
    for (const hg::Op* op : hg::Registry::built_in().ops())
      if (!(op->def.traits & hg::kControl) && !print(*op, style, text)) return 2;
    text += style.after;
    std::ifstream before(argv[2], std::ios::binary);
    if (std::string(std::istreambuf_iterator<char>(before), {}) == text) return 0;
    std::ofstream file(argv[2], std::ios::binary);
    file << text;
    file.close();
    return file.good() ? 0 : 2;
  }
  std::fprintf(stderr, "usage: emit_ops methods|functions FILE\n");
  return 1;
}
