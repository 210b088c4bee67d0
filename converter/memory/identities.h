// SPDX-License-Identifier: Apache-2.0
// Which lists, dicts and objects of the script may be the same object, and which body of a loop or
// branch made them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "converter/core/item.h"
#include "converter/memory/alias.h"

namespace hg::convert {

// Thrown where a body that data decides changes the elements of a list or dict from outside; the
// loop or branch starts over and carries them.
struct Changing {
  Item container;
};

class Identities {
 public:
  explicit Identities(const Memory& memory) : memory_(memory) {}

  void made(const Item& item);  // the container belongs to the present body
  // A container is about to be changed in place: one from outside of the present body becomes what
  // the loop or branch gives back, by Changing. Objects are refused.
  void check_change(const Item& container);
  // Throws Refusal if another container may be the same object, or if a list holds a copy.
  // Containers that may be the same object must not be used from now on.
  void check_frozen(const Item& container);
  // The list or dict is from outside the present body.
  bool is_outer(const void* container) const { return depth_of(container) < memory_.depth(); }
  // The list is from outside the present body: what appends to it makes it grow.
  bool may_grow(const void* list) const { return !marks_.frozen.contains(list) && is_outer(list); }
  // A list whose length data or sizes decide has a copy of the lists and dicts in the element,
  // which must not change from now on.
  void store(const Item& element);
  // Throws Refusal for a list or dict that may have been changed under another name.
  void check_stale(const Item& item) const;
  // Likewise from now on for all that may be the container, but for itself.
  void make_stale(const void* container);

  // Memory::depth() of the body that made the container; 0 outside of all bodies.
  int depth_of(const void* container) const;
  // Returns the depth before.
  int set_depth(const void* container, int depth);
  // The containers that one given by control flow may be, with itself; not those behind `known`.
  std::set<const void*> origins_of(const void* container,
                                   const std::vector<const void*>& known = {}) const;
  // A loop's own copy may be what the one from before the loop may be.
  void inherit(const Item& copy, const Item& known);
  // Merges the results `a` and `b` of two branches, with these leaves: the same container, or a new
  // one. In the second case none of the three may change afterwards.
  struct Merge {
    std::vector<Item> leaves;
    size_t next = 0;
    std::map<const void*, Item> given;  // for containers made inside
  };
  Item merged(const Item& a, const Item& b, Merge& merge);

  // What is known of containers that may be others. A body that is interpreted again starts with
  // what was known before it.
  struct Marks {
    std::set<const void*> frozen;  // containers that others may be, as data decides
    std::set<const void*> stored;  // of those: lists have copies of them
    std::set<const void*> stale;   // containers that may have been changed under other names
    std::map<const void*, std::vector<const void*>> merged_from;  // what a container may be
    void add(const Marks& other);
  };
  Marks& marks() { return marks_; }

 private:
  void freeze(const Item& container);

  const Memory& memory_;
  Marks marks_;
  std::map<const void*, int> depths_;
  std::vector<std::shared_ptr<void>> held_;  // no other container gets the address of one of these
};

}  // namespace hg::convert
