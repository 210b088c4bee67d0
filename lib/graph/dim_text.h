// SPDX-License-Identifier: Apache-2.0
// Sizes as text in which each long atom stands once: as @0, @1, ... beside their definitions.
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
  // Gives names to the long atoms of the size, operands first.
  void add(const Dim& dim);
  void add(const Shape& dims);
  void add(const Attr& attr);
  // Of everything in the graph and its subgraphs.
  void add(const Graph& graph);

  // The text of @0, @1, ...; a definition names only those before it.
  const std::vector<std::string>& definitions() const { return definitions_; }

  // Of what was added.
  void append(std::string& out, const Dim& dim) const;
  void append(std::string& out, const Shape& dims) const;
  void append(std::string& out, const TensorType& type) const;
  void append(std::string& out, const Attr& attr) const;
  // " where @0 = ..., @1 = ..."; nothing without names.
  void append_definitions(std::string& out) const;

 private:
  void append_atom(std::string& out, const Atom& atom) const;

  std::unordered_map<std::string_view, size_t> indices_;  // by key
  std::vector<Dim> named_;                                // keep the keys alive
  std::vector<std::string> definitions_;
};

// What @0, @1, ... stand for in the text of sizes. Every use counts against a budget, since each
// could be as long as its definition.
struct NamedSizes {
  std::vector<Dim> sizes;
  uint64_t summands_left = uint64_t{1} << 20;
};
// The next name has this definition.
Status define_size(std::string_view text, NamedSizes& named);
Result<Dim> parse_size(std::string_view text, NamedSizes& named);

}  // namespace hg
