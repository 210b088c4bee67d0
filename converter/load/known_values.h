// SPDX-License-Identifier: Apache-2.0
// The values of a program that the file states: constants and attributes that nothing changes. A
// write to a tensor of unknown origin may change every tensor of the file.
#pragma once

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
  bool may_change(ScriptId id) const;
  // A number, or the only element of such a tensor.
  std::optional<double> number(ScriptId id) const;

 private:
  void find_changes(const ScriptBlock& block);
  void note_write(ScriptId to);
  std::optional<int32_t> memory_of(const ScriptNode& node, size_t output) const;
  std::optional<bool> comparison(const ScriptNode& node) const;

  const ScriptProgram& program_;
  std::map<ScriptId, Item> items_;
  std::set<std::string> changed_;  // names of attributes
  // The tensor of the file whose memory a value may share; kFresh: memory of its own. Others are of
  // unknown origin.
  static constexpr int32_t kFresh = -1;
  std::map<ScriptId, int32_t> memory_;
  std::set<int32_t> written_;
  bool any_written_ = false;
};

// Returns the argument with this name of the node's schema.
std::optional<ScriptId> argument_of(const ScriptNode& node, std::string_view name);

// Whether the op writes to its first argument.
bool is_in_place(const ScriptNode& node);

}  // namespace hg::convert
