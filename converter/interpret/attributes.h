// SPDX-License-Identifier: Apache-2.0
// Attributes of the module that are not tensors of the file. Every run starts with their values at
// conversion; the file does not store values that a run sets.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "converter/interpret/interpret.h"
#include "converter/memory/alias.h"

namespace hg::convert {

class Attributes {
 public:
  // `copies` maps each container of the program to the interpreter's copy.
  explicit Attributes(std::map<const void*, Item> copies);

  // Records that the node with the result `value` reads an attribute.
  void note_read(const Object& object, const std::string& name, const Item& item, ScriptId value);
  // Adds to the result which attributes the run read and changed.
  void finish(Memory& memory, const ScriptProgram& program, Imported& result) const;

 private:
  struct Known {
    const Object* original;
    std::vector<std::pair<std::string, Item>> first;  // the copy's attributes before the run
  };
  class Comparison;
  std::map<const void*, Item> copies_;
  std::map<const Object*, Known> known_;  // by the copy
  std::set<std::pair<std::string, ScriptId>> reads_;
};

// Returns whether the program uses the attribute's value only to compute its next value, as in
// `self.calls += 1`.
bool only_counts(const ScriptProgram& program, const AttributeRead& read);

}  // namespace hg::convert
