// SPDX-License-Identifier: Apache-2.0
// Inputs of an engine: the tensors set by the host, and the memory that kernels read.
// Non-contiguous inputs are copied: data(i) is contiguous after gather().
#pragma once

#include <span>
#include <vector>

#include "hg/graph.h"
#include "lib/run/memory.h"

namespace hg {

class Inputs {
 public:
  // `graph` must outlive this object and keep its inputs.
  Inputs(const Graph& graph, const Allocator& allocator);

  Status set(size_t index, const ConstTensor& tensor);
  // Sets an input that is on a device. Reserves memory at data(index) for CPU kernels that read it.
  Status reserve(size_t index, DType dtype, const Sizes& shape);
  void forget();

  size_t size() const { return tensors_.size(); }
  // As set by the host; null data if not set.
  std::span<const Tensor> tensors() const { return tensors_; }
  void* data(size_t index) const { return data_[index]; }  // null: not set
  // Copies non-contiguous inputs. Fails if an input is not set.
  Status gather() const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (data_[i] == nullptr) [[unlikely]]
        return not_set(i);
      if (tensors_[i].data != data_[i]) [[unlikely]]
        copy_elements(tensors_[i], view(data_[i], tensors_[i].dtype, tensors_[i].shape));
    }
    return {};
  }
  // Whether a shape has changed since settle().
  bool has_new_shapes() const { return has_new_shapes_; }
  void settle() { has_new_shapes_ = false; }

 private:
  const ValueInfo& info(size_t index) const;
  Status check(const ValueInfo& info, DType dtype, const Sizes& shape) const;
  Status not_set(size_t index) const;
  void note_shape(size_t index, const Sizes& shape);

  const Graph* graph_;
  Allocator allocator_;
  std::vector<Tensor> tensors_;
  std::vector<void*> data_;  // the host's memory or a copy
  std::vector<Memory64> copies_;
  bool has_new_shapes_ = true;
};

}  // namespace hg
