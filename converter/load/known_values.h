// SPDX-License-Identifier: Apache-2.0
// The values of a program that the file states: constants and attributes that nothing changes. A
// write to a tensor of unknown origin may change every tensor of the file.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "converter/core/script.h"

namespace hg::convert {

class KnownValues {
 public:
  explicit KnownValues(const ScriptProgram& program);

  void learn(const ScriptNode& node);  // in the order of the program
  void set(ScriptId id, Item item) { items_[id] = std::move(item); }
  // Returns null for an unknown value.
  const Item* find(ScriptId id) const;
  bool is_none(ScriptId id) const;
  // A tensor of the file. Null for others, and for a tensor that the program may write.
  const Tensor* tensor(ScriptId id) const;
  // Whether the program may write to the memory of the value.
  bool may_change(ScriptId id) const;
  // A number, or the only element of such a tensor.
  std::optional<double> number(ScriptId id) const;

 private:
  using Memories = std::set<int64_t>;

  void find_changes(const ScriptBlock& block);
  void note_write(ScriptId to);
  int64_t own_memory(ScriptId id) const;
  std::optional<Memories> memories_of(const ScriptNode& node, size_t output) const;
  std::optional<bool> comparison(const ScriptNode& node) const;

  const ScriptProgram& program_;
  std::map<ScriptId, Item> items_;
  std::set<std::string> changed_;  // names of attributes
  // The memory that a value may share, numbered; values that are not here are of unknown origin.
  std::map<ScriptId, Memories> memories_;
  Memories written_;
  bool writes_ = false;          // to any tensor
  bool writes_unknown_ = false;  // to a tensor of unknown origin
};

bool is_any(const ScriptNode& node, std::initializer_list<std::string_view> kinds);

// Returns the argument with this name of the node's schema.
std::optional<ScriptId> argument_of(const ScriptNode& node, std::string_view name);

// Whether the op writes to its first argument.
bool is_in_place(const ScriptNode& node);

}  // namespace hg::convert
