// SPDX-License-Identifier: Apache-2.0
// Lists whose length depends on data or sizes. All elements have the same containers. Each tensor
// or number in them becomes one tensor for all elements: a column.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "converter/containers/patterns.h"
#include "converter/rows/node_call.h"

namespace hg::convert {

inline TensorRef cell_of(const Item& item) { return std::get<TensorRef>(item.value); }

// Returns the item with the containers of the pattern; the item itself if it already has them.
Item fitted(Memory& memory, const Item& item, const Pattern& pattern);

// The pattern that a list must have for a loop or branch that starts over.
struct Growing {
  std::shared_ptr<List> list;
  Pattern wanted;
  bool is_element = true;  // `wanted` is an element, not a list
};
// Returns the pattern of the list after `growing`. Throws Refusal if no list can contain both.
Pattern grown_pattern(Memory& memory, const Growing& growing);
// Turns a list into a grown list.
void start_growing(Environment& environment, const Growing& growing);
// The same. If the list is from outside the current body, the loop or branch starts over.
void grow(Environment& environment, const Growing& growing);

// Lists that became grown lists for a loop or branch, which may start over several times.
class Growths {
 public:
  explicit Growths(Environment& environment) : environment_(environment) {}
  Growths(const Growths&) = delete;
  Growths& operator=(const Growths&) = delete;
  ~Growths();  // undoes the changes unless keep() was called
  void grow(const Growing& growing);
  void keep() { known_.clear(); }

 private:
  struct Known {
    std::shared_ptr<List> list;
    List before;
    std::shared_ptr<const Grown> grown;
  };
  Environment& environment_;
  std::vector<Known> known_;
};

// Returns the list that unbind() returns for a tensor [length, ...].
Item list_of_parts(Memory& memory, const TensorRef& parts);
Dim length_of(Memory& memory, const Grown& grown);
// Returns an element; the index is a nonnegative i64 scalar.
Item element_at(Memory& memory, const Grown& grown, const Value& index);
// Returns the elements of a list that must have this many.
std::vector<Item> as_elements(Memory& memory, const Grown& grown, int64_t count);
// Values of columns, in the order of the leaves in collect().
using Columns = std::vector<Value>;
Columns read_columns(Memory& memory, const Grown& grown);
// Returns the elements at these indices, i64[n].
Columns taken(Memory& memory, const Grown& grown, const Value& indices);
// Returns the element as columns of length 1; nothing if it does not fit.
std::optional<Columns> as_columns(Memory& memory, const Grown& grown, const Item& element);
Columns concatenated(const Grown& grown, const std::vector<Columns>& parts);
// Returns a new list like `grown` with these columns.
std::shared_ptr<List> list_like(Memory& memory, const Grown& grown, const Columns& columns);
// Records that a write to a tensor of the element makes the columns unknown.
void link_element(Memory& memory, const Grown& grown, const Item& element);

}  // namespace hg::convert
