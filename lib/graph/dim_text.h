// SPDX-License-Identifier: Apache-2.0
// Prints sizes with each long atom defined once: @0, @1, ... followed by their definitions.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hg/graph.h"

namespace hg {

struct Atom;

class SizeNames {
 public:
  // Names the long atoms of the size, operands first.
  void add(const Dim& dim);
  void add(const Shape& dims);
  void add(const Attr& attr);
  // Names the long atoms of the whole graph and its subgraphs.
  void add(const Graph& graph);

  // Definitions of @0, @1, ...; each uses only earlier names.
  const std::vector<std::string>& definitions() const { return definitions_; }

  // Text of a size that was added before.
  void append(std::string& out, const Dim& dim) const;
  void append(std::string& out, const Shape& dims) const;
  void append(std::string& out, const TensorType& type) const;
  void append(std::string& out, const Attr& attr) const;
  // " where @0 = ..., @1 = ..."; empty without names.
  void append_definitions(std::string& out) const;

 private:
  void append_atom(std::string& out, const Atom& atom) const;

  std::unordered_map<std::string_view, size_t> indices_;  // by key
  std::vector<Dim> named_;                                // keeps the keys alive
  std::vector<std::string> definitions_;
};

// Definitions of @0, @1, ... while sizes are parsed. Each use counts against a budget, because its
// expansion could be as long as the definition.
struct NamedSizes {
  std::vector<Dim> sizes;
  uint64_t summands_left = uint64_t{1} << 20;
};
// Defines the next name.
Status define_size(std::string_view text, NamedSizes& named);
Result<Dim> parse_size(std::string_view text, NamedSizes& named);
// Whether the size of an input is valid: not a negative number, and all symbols are identifiers,
// which files need.
bool is_size(const Dim& dim);

}  // namespace hg
