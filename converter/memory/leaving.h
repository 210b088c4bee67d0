// SPDX-License-Identifier: Apache-2.0
// Which tensors the results of a control flow body share memory with: tensors from outside, or each
// other.
#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "converter/memory/alias.h"

namespace hg::convert {

// The results of one side of an `if`. Made at the end of the side; the rest is asked outside.
class Leaving {
 public:
  // Null results are no tensors.
  Leaving(Memory& memory, std::vector<TensorRef> results);
  // Conditions and tensors of the side that the outside must know, and their types.
  const std::vector<Value>& told() const { return told_; }
  const std::vector<TensorType>& types() const { return types_; }

  // `told` as the `if` gives it.
  void arrive(std::span<const Value> told);
  // The tensor that a result is outside; null when it is one of its own, as far as is known.
  TensorRef outside(size_t result) const { return outside_[result]; }
  // A result without a tensor outside has become this one.
  void became(size_t result, const TensorRef& tensor);
  // Notes what the results may share memory with, once all have become tensors.
  void share();

 private:
  void look_at(const TensorRef& tensor, bool chosen);
  TensorRef moved(const TensorRef& tensor);

  Memory& memory_;
  int region_;  // of what the side made
  std::vector<TensorRef> results_, outside_;
  std::map<TensorRef, int> uses_;  // of roots of the side, by results
  std::set<std::pair<TensorRef, bool>> seen_;
  std::vector<TensorRef> order_;  // the choices and roots that are told of
  std::vector<Value> told_;
  std::vector<TensorType> types_;
  std::vector<MemoryOrder> orders_;                     // of what is told
  std::set<TensorRef> fixed_;                           // views that are the same outside
  std::map<TensorRef, TensorRef> arrived_;              // tensors of the side, outside
  std::map<TensorRef, Value> conditions_;               // of choices, outside
  std::vector<std::pair<TensorRef, TensorRef>> vague_;  // tensors outside, and roots of the side
};

}  // namespace hg::convert
