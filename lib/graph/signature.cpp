// SPDX-License-Identifier: Apache-2.0
// Reads an op's signature: "conv(x, weight, bias?, stride: int[] = [1], groups: int = 1) -> y".
#include <cstdlib>

#include "hg/op.h"
#include "lib/platform/chars.h"

namespace hg {
namespace {

class SignatureParser {
 public:
  explicit SignatureParser(std::string_view text) : text_(text) {}

  Result<Signature> parse() {
    Signature signature;
    signature.name = word();
    if (signature.name.empty()) return error("misses the op's name");
    if (!take("(")) return error("misses '('");
    if (!take(")")) {
      do HG_TRY(parameter(signature));
      while (take(","));
      if (!take(")")) return error("misses ')'");
    }
    if (!take("->")) return error("misses '->'");
    do {
      if (signature.variadic_outputs) return error("has an output after a variadic one");
      signature.outputs.push_back(word());
      if (signature.outputs.back().empty()) return error("misses the name of an output");
      signature.variadic_outputs = take("...");
    } while (take(","));
    skip();
    if (at_ != text_.size()) return error("has trailing characters");
    return signature;
  }

 private:
  Status error(std::string_view what) const {
    return invalid_argument("the signature '", text_, "' ", what, " at character ",
                            int64_t(at_ + 1));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  std::string word() {
    skip();
    const size_t start = at_;
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '.';
    };
    while (at_ < text_.size() && is_word(text_[at_]) && text_.substr(at_, 3) != "...") ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  Status parameter(Signature& signature) {
    std::string name = word();
    if (name.empty()) return error("misses the name of a parameter");
    if (take(":")) return attribute(signature, std::move(name));
    if (!signature.attributes.empty()) return error("has an input after an attribute");
    if (!signature.inputs.empty() && signature.inputs.back().variadic)
      return error("has an input after a variadic one");
    Signature::Input input{std::move(name), false, false};
    input.variadic = take("...");
    input.optional = take("?");
    signature.inputs.push_back(std::move(input));
    return {};
  }

  Status attribute(Signature& signature, std::string name) {
    Signature::Attribute attribute;
    attribute.name = std::move(name);
    HG_TRY(type(attribute.type));
    attribute.optional = take("?");
    attribute.required = !take("=");
    if (!attribute.required) {
      HG_TRY_ASSIGN(attribute.fallback, literal(attribute.type));
      if (attribute.fallback.is_none() && !attribute.optional)
        return error("has the default none for an attribute that is not optional");
    } else if (attribute.optional) {
      attribute.required = false;  // none
    }
    signature.attributes.push_back(std::move(attribute));
    return {};
  }

  Status type(AttrType& out) {
    const std::string name = word();
    const bool list = take("[]");
    if (name == "bool" && !list)
      out = AttrType::boolean;
    else if (name == "int")
      out = list ? AttrType::integers : AttrType::integer;
    else if (name == "float")
      out = list ? AttrType::reals : AttrType::real;
    else if (name == "str")
      out = list ? AttrType::strings : AttrType::string;
    else if (name == "dtype" && !list)
      out = AttrType::dtype;
    else
      return error("has an unknown attribute type");
    return {};
  }

  Result<Attr> literal(AttrType type) {
    if (take("none")) return Attr();
    switch (type) {
      case AttrType::boolean:
        if (take("true")) return Attr(true);
        if (take("false")) return Attr(false);
        break;
      case AttrType::integer: {
        HG_TRY_ASSIGN(const double value, number());
        return Attr(static_cast<int64_t>(value));
      }
      case AttrType::real: {
        HG_TRY_ASSIGN(const double value, number());
        return Attr(value);
      }
      case AttrType::string: {
        if (!take("\"")) break;
        const size_t start = at_;
        while (at_ < text_.size() && text_[at_] != '"') ++at_;
        Attr value(std::string(text_.substr(start, at_ - start)));
        if (!take("\"")) break;
        return value;
      }
      case AttrType::dtype: {
        HG_TRY_ASSIGN(const DType value, parse_dtype(word()));
        return Attr(value);
      }
      case AttrType::integers:
      case AttrType::reals: {
        std::vector<double> values;
        if (!take("[")) break;
        if (!take("]")) {
          do {
            HG_TRY_ASSIGN(const double value, number());
            values.push_back(value);
          } while (take(","));
          if (!take("]")) break;
        }
        if (type == AttrType::reals) return Attr(values);
        std::vector<Dim> dims;
        for (const double value : values) dims.emplace_back(static_cast<int64_t>(value));
        return Attr(dims);
      }
      case AttrType::strings:
        if (take("[") && take("]")) return Attr(std::vector<std::string>());
        break;
    }
    return error("has a default that does not fit its type");
  }

  Result<double> number() {
    skip();
    double value = 0;
    const auto [end, problem] = from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem != std::errc()) return error("misses a number");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

template <class List>
int find_named(const List& list, std::string_view name) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace

Result<Signature> Signature::parse(std::string_view text) { return SignatureParser(text).parse(); }

int Signature::find_attribute(std::string_view name) const { return find_named(attributes, name); }
int Signature::find_input(std::string_view name) const { return find_named(inputs, name); }

}  // namespace hg
