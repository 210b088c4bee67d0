// SPDX-License-Identifier: Apache-2.0
// Prints sizes. An atom whose key is a digest is printed by name.
#include "lib/graph/dim_text.h"

#include <bit>

#include "lib/graph/access.h"
#include "lib/graph/atom.h"

namespace hg {
namespace {

using Kind = Atom::Kind;

constexpr size_t kLongestKey = 128;

uint64_t magnitude(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// append(out, atom) prints an atom.
template <class Append>
void append_sum(std::string& out, const Dim& dim, const Append& append) {
  bool first = true;
  for (const auto& [product, coefficient] : DimAlgebra::sum(dim)) {
    if (first)
      out.append(coefficient < 0 ? "-" : "");
    else
      out.append(coefficient < 0 ? " - " : " + ");
    if (magnitude(coefficient) != 1) {
      append_text(out, magnitude(coefficient));
      out.push_back('*');
    }
    for (size_t i = 0; i < product.size(); ++i) {
      if (i > 0) out.push_back('*');
      append(out, *product[i]);
    }
    first = false;
  }
  const int64_t constant = DimAlgebra::constant(dim);
  if (first) {
    append_text(out, constant);
  } else if (constant != 0) {
    out.append(constant < 0 ? " - " : " + ");
    append_text(out, magnitude(constant));
  }
}

template <class Append>
void append_call(std::string& out, Kind kind, const Dim& a, const Dim& b, const Append& append) {
  out.append(to_string(kind)).push_back('(');
  append_sum(out, a, append);
  if (kind != Kind::sum) {
    out.append(", ");
    append_sum(out, b, append);
  }
  out.push_back(')');
}

constexpr auto kAppendKey = [](std::string& out, const Atom& atom) { out.append(atom.key); };

uint64_t mixed(uint64_t h) {  // the finalizer of MurmurHash3
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccd;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53;
  return h ^ (h >> 33);
}

// Two different texts have equal digests with a probability of 2^-128.
std::string digest(std::string_view text) {
  uint64_t a = mixed(text.size()), b = ~a;
  for (size_t i = 0; i < text.size(); i += 8) {
    uint64_t word = 0;
    for (size_t k = i; k < std::min(i + 8, text.size()); ++k)
      word = word << 8 | static_cast<unsigned char>(text[k]);
    a = mixed(a ^ word) + std::rotl(b, 23);
    b = mixed(b + word * 0x9e3779b97f4a7c15) ^ std::rotl(a, 41);
  }
  std::string out = "#";
  for (const uint64_t half : {mixed(a + b), mixed(b ^ std::rotl(a, 32))})
    for (int shift = 60; shift >= 0; shift -= 4)
      out.push_back("0123456789abcdef"[half >> shift & 15]);
  return out;
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::floordiv:
      return "floordiv";
    case Kind::mod:
      return "mod";
    case Kind::min:
      return "min";
    case Kind::max:
      return "max";
    case Kind::sum:
      return "sum";
    case Kind::symbol:
      break;
  }
  return "symbol";
}

std::string key_of(const Dim& dim) {
  std::string out;
  append_sum(out, dim, kAppendKey);
  return out;
}

std::string key_of(Kind kind, const Dim& a, const Dim& b) {
  std::string out;
  append_call(out, kind, a, b, kAppendKey);
  return out.size() <= kLongestKey ? out : digest(out);
}

void SizeNames::add(const Dim& dim) {
  if (dim.is_constant()) return;
  bool is_new = false;
  for (const Atom* atom : post_order(dim)) {
    if (!atom->is_long() || !indices_.try_emplace(atom->key, definitions_.size()).second) continue;
    is_new = true;
    std::string& definition = definitions_.emplace_back();
    append_call(definition, atom->kind, atom->a, atom->b,
                [&](std::string& out, const Atom& operand) { append_atom(out, operand); });
  }
  if (is_new) named_.push_back(dim);
}

void SizeNames::add(const Shape& dims) {
  for (const Dim& dim : dims) add(dim);
}

void SizeNames::add(const Attr& attr) {
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) add(*dim);
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value)) add(*dims);
}

void SizeNames::add(const Graph& graph) {
  for (const Guard& guard : graph.guards()) {
    add(guard.left);
    add(guard.right);
  }
  const GraphBody& body = GraphAccess::body(graph);
  for (const ValueInfo& value : body.values) add(value.type.shape);
  for (const Guard& guard : body.guards) {
    add(guard.left);
    add(guard.right);
  }
  for (const Node& node : body.nodes) {
    for (const Attr& attr : node.attrs) add(attr);
    for (const auto& subgraph : node.subgraphs) add(*subgraph);
  }
}

void SizeNames::append_atom(std::string& out, const Atom& atom) const {
  const auto append_operand = [&](std::string& to, const Atom& operand) {
    append_atom(to, operand);
  };
  if (atom.is_long())
    append_text(out.append("@"), uint64_t{indices_.find(atom.key)->second});
  else if (atom.key.find('#') == atom.key.npos)
    out.append(atom.key);
  else  // the size holds a long atom
    append_call(out, atom.kind, atom.a, atom.b, append_operand);
}

void SizeNames::append(std::string& out, const Dim& dim) const {
  append_sum(out, dim, [&](std::string& to, const Atom& atom) { append_atom(to, atom); });
}

void SizeNames::append(std::string& out, const Shape& dims) const {
  out.push_back('[');
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out.append(", ");
    append(out, dims[i]);
  }
  out.push_back(']');
}

void SizeNames::append(std::string& out, const TensorType& type) const {
  append_text(out, type.dtype);
  append(out, type.shape);
}

void SizeNames::append(std::string& out, const Attr& attr) const {
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) return append(out, *dim);
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value)) return append(out, *dims);
  append_text(out, attr);
}

void SizeNames::append_definitions(std::string& out) const {
  for (size_t i = 0; i < definitions_.size(); ++i) {
    out.append(i == 0 ? " where @" : ", @");
    append_text(out, uint64_t{i});
    out.append(" = ").append(definitions_[i]);
  }
}

void append_text(std::string& out, const Dim& dim) {
  SizeNames names;
  names.add(dim);
  names.append(out, dim);
  names.append_definitions(out);
}

void append_text(std::string& out, const Shape& shape) {
  SizeNames names;
  names.add(shape);
  names.append(out, shape);
  names.append_definitions(out);
}

void append_text(std::string& out, const TensorType& type) {
  append_text(out, type.dtype);
  append_text(out, type.shape);
}

}  // namespace hg
