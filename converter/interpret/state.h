// SPDX-License-Identifier: Apache-2.0
// What the interpreter knows while it runs a program, one class per idea.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "converter/core/failure.h"
#include "converter/core/imported.h"
#include "converter/core/item.h"
#include "converter/core/scalar.h"
#include "converter/core/script.h"

namespace hg::convert {

// What the caller is told: notes, each once, rejected ops, and the nodes that ran.
class ImportReport {
 public:
  explicit ImportReport(Imported& result) : result_(result) {}

  void note(const std::string& line) {
    if (said_.insert(line).second) result_.notes.push_back(line);
  }
  void reject(const ScriptNode& node, const Refusal& refusal);
  size_t rejected() const { return result_.unsupported.size(); }

  int64_t next_sequence() { return sequence_++; }
  void ran(Executed executed) { result_.trace.push_back(std::move(executed)); }

  std::vector<Fork>& forks() { return result_.forks; }
  Imported& result() { return result_; }
  const Imported& result() const { return result_; }

 private:
  Imported& result_;
  std::set<std::string> said_;
  int64_t sequence_ = 0;
};

// The items of the program's values, followed by arguments and results of ops that rows run.
// References to items stay valid, because the storage is reserved.
class Values {
 public:
  static constexpr size_t kSpare = 256;  // for arguments and results of ops that rows run

  explicit Values(size_t count) : items_(count) { items_.reserve(count + kSpare); }
  const Item& get(ScriptId id) const { return items_[id]; }
  void set(ScriptId id, Item item) { items_[id] = std::move(item); }

  size_t count() const { return items_.size(); }
  bool has_room(size_t more) const { return items_.size() + more <= items_.capacity(); }
  ScriptId add(Item item) {
    items_.push_back(std::move(item));
    return static_cast<ScriptId>(items_.size() - 1);
  }
  // Drops the values from `first` on.
  void drop(size_t first) { items_.resize(first); }

 private:
  std::vector<Item> items_;
};

// Conditions whose result is known in the current body.
class KnownConditions {
 public:
  std::optional<bool> find(const Scalar& sizes) const;
  std::optional<bool> find(ScriptId data) const;

  // During its lifetime, the condition on sizes or on data has the result `value`, as on one side
  // of an `if`.
  class Given {
   public:
    Given(KnownConditions& known, const Scalar* sizes, ScriptId data, bool value)
        : known_(known), sizes_count_(known.sizes_.size()), data_count_(known.data_.size()) {
      if (sizes != nullptr) known.sizes_.emplace_back(sizes->top, value);
      if (data >= 0) known.data_.emplace_back(data, value);
    }
    ~Given() {
      known_.sizes_.resize(sizes_count_);
      known_.data_.resize(data_count_);
    }
    Given(const Given&) = delete;
    Given& operator=(const Given&) = delete;

   private:
    KnownConditions& known_;
    size_t sizes_count_, data_count_;
  };

 private:
  std::vector<std::pair<Dim, bool>> sizes_;
  std::vector<std::pair<ScriptId, bool>> data_;
};

// Whether ops record gradients, in nested regions such as torch.no_grad().
class GradientMode {
 public:
  bool is_on() const { return modes_.back(); }
  void begin(bool on) { modes_.push_back(on && modes_.back()); }
  void end() { modes_.pop_back(); }
  void set(bool on) { modes_.back() = on; }

  // Ends the regions that a block leaves open, as when a loop starts over.
  class Block {
   public:
    explicit Block(GradientMode& mode) : mode_(mode), count_(mode.modes_.size()) {}
    ~Block() { mode_.modes_.resize(count_); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

   private:
    GradientMode& mode_;
    size_t count_;
  };

 private:
  std::vector<bool> modes_ = {true};
};

// Thrown by a node whose ranks and types a condition decides. The node and those after it may
// become an `if`. It is an exception because rows throw it.
struct Splitting {
  std::optional<Scalar> sizes;  // the condition, if sizes decide
  ScriptId data = -1;           // otherwise the value that decides
  // Otherwise data chooses what the node stands for: one condition for each but the last.
  std::vector<ScriptNode> ways = {};
  std::vector<ScriptId> conditions = {};
};

// Whether the current node may throw Splitting. Splits do not nest.
class Splits {
 public:
  void begin_node() { may_split_ = !is_splitting_; }
  // Returns whether the node may split, and forbids it from now on.
  bool take() { return std::exchange(may_split_, false); }

  // During its lifetime, nodes are converted to an `if`.
  class Conversion {
   public:
    explicit Conversion(Splits& splits) : splits_(splits) {
      splits.is_splitting_ = true;
      splits.may_split_ = false;
    }
    ~Conversion() { splits_.is_splitting_ = false; }
    Conversion(const Conversion&) = delete;
    Conversion& operator=(const Conversion&) = delete;

   private:
    Splits& splits_;
  };

 private:
  bool may_split_ = false, is_splitting_ = false;
};

}  // namespace hg::convert
