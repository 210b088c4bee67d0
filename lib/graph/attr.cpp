// SPDX-License-Identifier: Apache-2.0
// Attributes: printing, conversion to the signature's types, and reading by name.
#include <algorithm>

#include "lib/graph/access.h"

namespace hg {
namespace {

std::string_view type_name(AttrType type) {
  switch (type) {
    case AttrType::boolean:
      return "bool";
    case AttrType::integer:
      return "int";
    case AttrType::real:
      return "float";
    case AttrType::string:
      return "str";
    case AttrType::dtype:
      return "dtype";
    case AttrType::integers:
      return "int[]";
    case AttrType::reals:
      return "float[]";
    case AttrType::strings:
      return "str[]";
  }
  return "unknown";
}

bool has_type(const Attr& attr, AttrType type) {
  switch (type) {
    case AttrType::boolean:
      return std::holds_alternative<bool>(attr.value);
    case AttrType::integer:
      return std::holds_alternative<Dim>(attr.value);
    case AttrType::real:
      return std::holds_alternative<double>(attr.value);
    case AttrType::string:
      return std::holds_alternative<std::string>(attr.value);
    case AttrType::dtype:
      return std::holds_alternative<DType>(attr.value);
    case AttrType::integers:
      return std::holds_alternative<std::vector<Dim>>(attr.value);
    case AttrType::reals:
      return std::holds_alternative<std::vector<double>>(attr.value);
    case AttrType::strings:
      return std::holds_alternative<std::vector<std::string>>(attr.value);
  }
  return false;
}

// Converts C++ literals: 1 is also a float, and 1 or {} a list.
Attr converted(Attr attr, AttrType type) {
  const Dim* dim = std::get_if<Dim>(&attr.value);
  const auto* dims = std::get_if<std::vector<Dim>>(&attr.value);
  if (type == AttrType::real && dim && dim->is_constant())
    return static_cast<double>(dim->constant());
  if (type == AttrType::integers && dim) return std::vector<Dim>{*dim};
  if (type == AttrType::reals && dims) {
    std::vector<double> reals;
    for (const Dim& d : *dims) {
      if (!d.is_constant()) return attr;
      reals.push_back(static_cast<double>(d.constant()));
    }
    return reals;
  }
  if (type == AttrType::strings && dims && dims->empty()) return std::vector<std::string>();
  return attr;
}

template <class T>
void append_list(std::string& out, const std::vector<T>& list) {
  out.push_back('[');
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out.append(", ");
    append_text(out, Attr(list[i]));
  }
  out.push_back(']');
}

void append_quoted(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
}

}  // namespace

// Defined only here: std::variant generates much code, and most files use attributes.
Attr::Attr() = default;
Attr::Attr(bool v) : value(v) {}
Attr::Attr(int v) : value(Dim(v)) {}
Attr::Attr(int64_t v) : value(Dim(v)) {}
Attr::Attr(Dim v) : value(std::move(v)) {}
Attr::Attr(double v) : value(v) {}
Attr::Attr(const char* v) : value(std::string(v)) {}
Attr::Attr(std::string v) : value(std::move(v)) {}
Attr::Attr(DType v) : value(v) {}
Attr::Attr(std::vector<Dim> v) : value(std::move(v)) {}
Attr::Attr(std::initializer_list<Dim> v) : value(std::vector<Dim>(v)) {}
Attr::Attr(std::vector<double> v) : value(std::move(v)) {}
Attr::Attr(std::vector<std::string> v) : value(std::move(v)) {}
Attr::Attr(const Attr&) = default;
Attr::Attr(Attr&&) noexcept = default;
Attr& Attr::operator=(const Attr&) = default;
Attr& Attr::operator=(Attr&&) noexcept = default;
Attr::~Attr() = default;

bool operator==(const Attr& a, const Attr& b) {  // std::variant's contains code that throws
  if (a.value.index() != b.value.index()) return false;
  bool equal = false;
  visit(a, [&](const auto& value) {
    equal = value == *std::get_if<std::decay_t<decltype(value)>>(&b.value);
  });
  return equal;
}

void append_text(std::string& out, const Attr& attr) {
  struct Printer {
    std::string& out;
    void operator()(std::monostate) { out.append("none"); }
    void operator()(bool v) { append_text(out, v); }
    void operator()(const Dim& v) { append_text(out, v); }
    void operator()(double v) {
      const size_t start = out.size();
      append_text(out, v);
      if (out.find_first_of(".en", start) == std::string::npos) out.append(".0");
    }
    void operator()(const std::string& v) { append_quoted(out, v); }
    void operator()(DType v) { append_text(out, v); }
    void operator()(const std::vector<Dim>& v) { append_list(out, v); }
    void operator()(const std::vector<double>& v) { append_list(out, v); }
    void operator()(const std::vector<std::string>& v) { append_list(out, v); }
  };
  visit(attr, Printer{out});
}

Status GraphAccess::check_attr(const Op& op, size_t index, const Attr& attr) {
  const Signature::Attribute& expected = op.signature.attributes[index];
  if (attr.is_none() && expected.optional) return {};
  HG_CHECK(has_type(attr, expected.type), op.name(), ": attribute '", expected.name, "' is ", attr,
           ", not of type ", type_name(expected.type));
  return {};
}

NamedAttrs named_attrs(const Op& op, std::span<const Attr> attrs) {
  NamedAttrs named;
  for (size_t i = 0; i < attrs.size(); ++i)
    named.push_back({op.signature.attributes[i].name, attrs[i]});
  return named;
}

Result<std::vector<Attr>> GraphAccess::normalize_attrs(const Op& op, const NamedAttrs& attrs) {
  const auto& expected = op.signature.attributes;
  std::vector<Attr> values(expected.size());
  std::vector<bool> given(expected.size(), false);
  for (const NamedAttr& attr : attrs) {
    const int index = op.signature.find_attribute(attr.name);
    HG_CHECK(index >= 0, op.name(), ": there is no attribute '", attr.name, "'; the signature is ",
             op.def.signature);
    const auto i = static_cast<size_t>(index);
    HG_CHECK(!given[i], op.name(), ": attribute '", attr.name, "' is given twice");
    given[i] = true;
    values[i] = converted(attr.value, expected[i].type);
    HG_TRY(check_attr(op, i, values[i]));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (given[i]) continue;
    HG_CHECK(!expected[i].required, op.name(), ": attribute '", expected[i].name, "' is missing");
    values[i] = expected[i].fallback;
  }
  return values;
}

const Attr& AttrReader::raw(std::string_view name) const {
  static const Attr kMissing;
  const int index = op_->signature.find_attribute(name);
  if (index < 0 || static_cast<size_t>(index) >= attrs_.size()) return kMissing;
  return attrs_[index];
}

namespace {

// Returns the attribute as T, or a default if it is none or of another type.
template <class T>
const T& get_or_default(const Attr& attr) {
  static const T kDefault{};
  const T* value = std::get_if<T>(&attr.value);
  return value ? *value : kDefault;
}

}  // namespace

bool AttrReader::has(std::string_view name) const { return !raw(name).is_none(); }
bool AttrReader::flag(std::string_view name) const { return get_or_default<bool>(raw(name)); }
Dim AttrReader::integer(std::string_view name) const { return get_or_default<Dim>(raw(name)); }
double AttrReader::real(std::string_view name) const { return get_or_default<double>(raw(name)); }
DType AttrReader::dtype(std::string_view name) const { return get_or_default<DType>(raw(name)); }
const std::string& AttrReader::string(std::string_view name) const {
  return get_or_default<std::string>(raw(name));
}
std::span<const Dim> AttrReader::integers(std::string_view name) const {
  return get_or_default<std::vector<Dim>>(raw(name));
}
std::span<const double> AttrReader::reals(std::string_view name) const {
  return get_or_default<std::vector<double>>(raw(name));
}

}  // namespace hg
