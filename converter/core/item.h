// SPDX-License-Identifier: Apache-2.0
// A TorchScript value during interpretation: a number, text, a container, or a tensor of the graph
// under construction. Sizes are Dims, so arithmetic on them stays symbolic.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "hg/graph.h"

namespace hg::convert {

class TensorCell;  // memory/alias.h: a tensor that in-place ops may write through its views
using TensorRef = std::shared_ptr<TensorCell>;
struct Item;
struct PartsByData;

// Parts of a tensor along a dim, as from chunk() and split(), whose number depends on sizes. The
// parts have equal sizes, except that the last may be smaller, and the first ones may be larger by
// one.
struct Pieces {
  TensorRef base;
  int dim = 0;
  Dim size;           // of a part
  Dim count;          // of parts
  Dim larger = 0;     // how many of them are larger by one
  int64_t usual = 0;  // the number of parts for most sizes; 0 if unknown
  bool copies = false;
  Graph* home = nullptr;                            // the graph in which the list was made
  std::shared_ptr<const PartsByData> by_data = {};  // set if data decides the dim
};

struct Grown;  // grown.h

struct List {  // shared by reference, as in Python
  std::vector<Item> items;
  // The elements as tensors, if the length depends on data or sizes; `items` is then empty.
  std::shared_ptr<const Grown> grown;
  // Set while only the length and single elements have been read: see pieces.cpp.
  std::shared_ptr<Pieces> pieces;
};
struct Dict {
  std::vector<std::pair<Item, Item>> items;  // in order of insertion
};
struct Object {      // a module, an instance of a scripted class, or a member of an enum
  std::string type;  // "__torch__.torchvision.models.resnet.ResNet"
  std::string path;  // "layer1.0"; empty for the root
  std::vector<std::pair<std::string, Item>> attributes;
  std::string member{};  // of an enum: "RED"; the attribute is "value"
};
inline constexpr char kComplexNumber[] = "complex";  // the type of an Object {real, imag}
struct Tuple {
  std::vector<Item> items;
  std::vector<std::string> names;  // of a NamedTuple; otherwise empty
};

struct ScriptTensorIndex {  // a tensor that the file contains: an index into ScriptProgram::tensors
  int32_t index = -1;
  friend bool operator==(ScriptTensorIndex, ScriptTensorIndex) = default;
};

struct None {
  friend bool operator==(None, None) { return true; }
};

struct Item {
  using Variant = std::variant<None, bool, Dim, double, std::string, TensorRef,
                               std::shared_ptr<List>, std::shared_ptr<Tuple>, std::shared_ptr<Dict>,
                               std::shared_ptr<Object>, ScriptTensorIndex>;
  Variant value;

  Item() = default;
  template <class T>
  requires std::conjunction_v<std::negation<std::is_same<T, Item>>,
                              std::is_constructible<Variant, std::in_place_type_t<T>, T>>
  Item(T v) : value(std::in_place_type<T>, std::move(v)) {}  // NOLINT: implicit
  Item(int64_t v) : value(Dim(v)) {}                         // NOLINT: implicit
  Item(int v) : value(Dim(v)) {}                             // NOLINT: implicit
  Item(const Item&);
  Item(Item&&) noexcept;
  Item& operator=(const Item&);
  Item& operator=(Item&&) noexcept;
  ~Item();

  bool is_none() const { return std::holds_alternative<None>(value); }
  bool is_tensor() const { return std::holds_alternative<TensorRef>(value); }
  bool is_int() const { return std::holds_alternative<Dim>(value); }
  bool is_real() const { return std::holds_alternative<double>(value); }
  bool is_bool() const { return std::holds_alternative<bool>(value); }
  bool is_string() const { return std::holds_alternative<std::string>(value); }
  bool is_number() const { return is_int() || is_real() || is_bool(); }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<List>>(value); }
  bool is_tuple() const { return std::holds_alternative<std::shared_ptr<Tuple>>(value); }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<Dict>>(value); }
  bool is_object() const { return std::holds_alternative<std::shared_ptr<Object>>(value); }
};

// The call that gives the parts of a dim that data decides.
struct PartsByData {
  std::string kind;
  std::vector<std::pair<std::string, Item>> arguments;  // without the dim
  TensorRef dim;
  Origin origin;
};

}  // namespace hg::convert
