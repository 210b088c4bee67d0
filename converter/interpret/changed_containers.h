// SPDX-License-Identifier: Apache-2.0
// Tracks containers that the body of a loop or branch changes while it is interpreted.
#pragma once

#include <vector>

#include "converter/interpret/interpreter.h"
#include "converter/memory/item_tree.h"

namespace hg::convert {

// Lists and dicts from outside that a body changes. During the interpretation of an iteration or a
// side they have its elements; afterwards their own are restored.
class Interpreter::ChangedContainers {
 public:
  ChangedContainers(Interpreter& in, const std::vector<Item>& containers)
      : in_(in), containers_(containers) {
    for (const Item& container : containers_) {
      before_.push_back(snapshot(container));
      depths_.push_back(in_.identities_.set_depth(identity_of(container), in_.memory_.depth()));
    }
  }
  ~ChangedContainers() { release(); }
  ChangedContainers(const ChangedContainers&) = delete;
  ChangedContainers& operator=(const ChangedContainers&) = delete;
  void release() {
    for (size_t i = 0; i < before_.size(); ++i) {
      restore(containers_[i], before_[i]);
      in_.identities_.set_depth(identity_of(containers_[i]), depths_[i]);
    }
    before_.clear();
  }

 private:
  Interpreter& in_;
  const std::vector<Item>& containers_;
  std::vector<Item> before_;
  std::vector<int> depths_;
};

}  // namespace hg::convert
