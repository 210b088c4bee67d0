// SPDX-License-Identifier: Apache-2.0
// Lists whose length data or sizes decide. Their elements have the same containers, and each tensor
// or number in them is one tensor for all elements, a column.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "converter/containers/patterns.h"
#include "converter/rows/node_call.h"

namespace hg::convert {

inline TensorRef cell_of(const Item& item) { return std::get<TensorRef>(item.value); }

// The item with the containers of the pattern; the same one where it has them.
Item fitted(Memory& memory, const Item& item, const Pattern& pattern);

// What a list must be able to hold for a loop or branch that starts over.
struct Growing {
  std::shared_ptr<List> list;
  Pattern wanted;
  bool is_element = true;  // and not a list
};
// The pattern of the list that `growing` makes of its list. Throws Refusal if no list can hold
// both.
Pattern grown_pattern(Memory& memory, const Growing& growing);
// Turns a list into one that grows.
void start_growing(Environment& environment, const Growing& growing);

// Lists that started to grow for a loop or branch, which may start over more than once.
class Growths {
 public:
  explicit Growths(Environment& environment) : environment_(environment) {}
  Growths(const Growths&) = delete;
  Growths& operator=(const Growths&) = delete;
  ~Growths();  // undoes them unless keep() was called
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

// As unbind() gives them, from a tensor [length, ...].
Item list_of_parts(Memory& memory, const TensorRef& parts);
Dim length_of(Memory& memory, const Grown& grown);
// An element, of which the index is an i64 scalar that is not negative.
Item element_at(Memory& memory, const Grown& grown, const Value& index);
// Values of columns, by leaf as collect() gives them.
using Columns = std::vector<Value>;
Columns read_columns(Memory& memory, const Grown& grown);
// The elements at these indices, i64[n].
Columns taken(Memory& memory, const Grown& grown, const Value& indices);
// The element as columns of length 1; none where it does not fit.
std::optional<Columns> as_columns(Memory& memory, const Grown& grown, const Item& element);
Columns concatenated(const Grown& grown, const std::vector<Columns>& parts);
// A new list like `grown` with these columns.
std::shared_ptr<List> list_like(Memory& memory, const Grown& grown, const Columns& columns);
// A write to a tensor of the element makes the columns unknown.
void link_element(Memory& memory, const Grown& grown, const Item& element);

}  // namespace hg::convert
