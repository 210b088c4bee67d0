// SPDX-License-Identifier: Apache-2.0
// Tracks which lists, dicts and objects of the script may be identical, and which body of a loop or
// branch made them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "converter/core/item.h"
#include "converter/memory/alias.h"

namespace hg::convert {

// Thrown if the body of data-dependent control flow changes the elements of a list or dict from
// outside. The loop or branch starts over and carries the container.
struct Changing {
  Item container;
};

class Identities {
 public:
  explicit Identities(const Memory& memory) : memory_(memory) {}

  void made(const Item& item);  // the current body owns the container
  // Call before changing a container in place. If it is from outside the current body, throws
  // Changing, so that the loop or branch returns it. Refuses objects.
  void check_change(const Item& container);
  // Throws Refusal if another container may be identical, or if a list contains a copy. Containers
  // that may be identical must not be used from now on.
  void check_frozen(const Item& container);
  // Whether the list or dict is from outside the current body.
  bool is_outer(const void* container) const { return depth_of(container) < memory_.depth(); }
  // Whether the list is from outside the current body, so that appending makes it a grown list.
  bool may_grow(const void* list) const { return !marks_.frozen.contains(list) && is_outer(list); }
  // Records that a grown list has a copy of the lists and dicts in the element, which must not
  // change from now on.
  void store(const Item& element);
  // Throws Refusal for a list or dict that may have been changed under another name.
  void check_stale(const Item& item) const;
  // Makes check_stale() throw from now on for everything that may be identical to the container,
  // except the container itself.
  void make_stale(const void* container);

  // Returns Memory::depth() of the body that made the container; 0 if outside all bodies.
  int depth_of(const void* container) const;
  // Returns the previous depth.
  int set_depth(const void* container, int depth);
  // Returns the containers that a result of control flow may be, including itself; does not follow
  // those in `known`.
  std::set<const void*> origins_of(const void* container,
                                   const std::vector<const void*>& known = {}) const;
  // The loop's own copy may be every container that the one from before the loop may be.
  void inherit(const Item& copy, const Item& known);
  // Merges the results `a` and `b` of two branches, which have these leaves. Returns the container
  // that both are, or a new one. In the latter case none of the three may change afterwards.
  struct Merge {
    std::vector<Item> leaves;
    size_t next = 0;
    std::map<const void*, Item> given;  // for containers made in the branches
  };
  Item merged(const Item& a, const Item& b, Merge& merge);

  // What is known about possibly identical containers. A body that is interpreted again starts with
  // the marks from before it.
  struct Marks {
    std::set<const void*> frozen;  // containers that may be identical to others, as data decides
    std::set<const void*> stored;  // frozen because lists have copies
    std::set<const void*> stale;   // containers that may have been changed under other names
    std::map<const void*, std::vector<const void*>> merged_from;  // the containers that each may be
    void add(const Marks& other);
  };
  Marks& marks() { return marks_; }

 private:
  void freeze(const Item& container);

  const Memory& memory_;
  Marks marks_;
  std::map<const void*, int> depths_;
  std::vector<std::shared_ptr<void>> held_;  // keeps their addresses unique
};

}  // namespace hg::convert
