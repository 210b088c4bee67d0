// SPDX-License-Identifier: Apache-2.0
// Attributes of the module that are no tensors of the file. A run starts with their values at
// conversion: the file does not keep what a run sets.
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
  // `copies` has the interpreter's copy of each container of the program, by the original.
  explicit Attributes(std::map<const void*, Item> copies);

  // The node that gives `value` reads an attribute.
  void note_read(const Object& object, const std::string& name, const Item& item, ScriptId value);
  // Adds what the run read and changed to the result.
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

// Whether the program uses the value of an attribute only to count: for the attribute's own next
// value, as in `self.calls += 1`.
bool only_counts(const ScriptProgram& program, const AttributeRead& read);

}  // namespace hg::convert
