// SPDX-License-Identifier: Apache-2.0
// Tracks which tensors the results of a control flow body share memory with: tensors from outside,
// or each other.
#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "converter/memory/alias.h"

namespace hg::convert {

// The results of one side of an `if`. Construct it at the end of the side; call the other functions
// outside.
class Leaving {
 public:
  // Null results are not tensors.
  Leaving(Memory& memory, std::vector<TensorRef> results);
  // Conditions and tensors of the side that are needed outside, and their types.
  const std::vector<Value>& told() const { return told_; }
  const std::vector<TensorType>& types() const { return types_; }

  // `told` are these values as outputs of the `if`.
  void arrive(std::span<const Value> told);
  // Returns the tensor that a result is outside; null if it is a separate tensor, as far as is
  // known.
  TensorRef outside(size_t result) const { return outside_[result]; }
  // Records that a result without a tensor outside became this one.
  void became(size_t result, const TensorRef& tensor);
  // Records which memory the results may share; call it when all of them are tensors.
  void share();

 private:
  void look_at(const TensorRef& tensor, bool chosen);
  TensorRef moved(const TensorRef& tensor);

  Memory& memory_;
  int region_;  // depth of the side
  std::vector<TensorRef> results_, outside_;
  std::map<TensorRef, int> uses_;  // of the side's roots, by number of results
  std::set<std::pair<TensorRef, bool>> seen_;
  std::vector<TensorRef> order_;  // the choices and roots in `told_`
  std::vector<Value> told_;
  std::vector<TensorType> types_;
  std::vector<MemoryOrder> orders_;                     // of `told_`
  std::set<TensorRef> fixed_;                           // views that can be rebuilt outside
  std::map<TensorRef, TensorRef> arrived_;              // the side's tensors, as outside
  std::map<TensorRef, Value> conditions_;               // of choices, as values outside
  std::vector<std::pair<TensorRef, TensorRef>> vague_;  // tensors outside, and roots of the side
};

}  // namespace hg::convert
