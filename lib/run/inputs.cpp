// SPDX-License-Identifier: Apache-2.0
#include "lib/run/inputs.h"

#include <algorithm>

#include "lib/graph/access.h"
#include "lib/graph/readable.h"

namespace hg {

Inputs::Inputs(const Graph& graph, const Allocator& allocator)
    : graph_(&graph),
      allocator_(allocator),
      tensors_(graph.inputs().size()),
      data_(tensors_.size(), nullptr),
      copies_(tensors_.size()) {}

const ValueInfo& Inputs::info(size_t index) const {
  return graph_->value_info(graph_->inputs()[index]);
}

Status Inputs::check(const ValueInfo& info, DType dtype, const Sizes& shape) const {
  HG_CHECK(dtype == info.type.dtype, "input '", info.name, "' takes ", info.type,
           ", not a tensor of ", dtype);
  HG_CHECK(shape.rank() == info.type.rank(), "input '", info.name, "' takes ", info.type,
           " of rank ", info.type.rank(), ", not a tensor of shape ", shape);
  for (int d = 0; d < shape.rank(); ++d) {
    const Dim& dim = info.type.shape[d];
    HG_CHECK(shape[d] >= 0 && (!dim.is_constant() || dim.constant() == shape[d]), "input '",
             info.name, "' takes ", info.type, ", not ", shape, ": dimension ", d, " is ", shape[d],
             ", not ", dim);
  }
  return {};
}

Status Inputs::not_set(size_t index) const {
  return invalid_argument("input '", info(index).name, "' is not set");
}

void Inputs::note_shape(size_t index, const Sizes& shape) {
  if (!(tensors_[index].shape == shape) || data_[index] == nullptr) has_new_shapes_ = true;
}

Status Inputs::reserve(size_t index, DType dtype, const Sizes& shape) {
  HG_TRY(check(info(index), dtype, shape));
  note_shape(index, shape);
  const int64_t bytes = std::max<int64_t>(shape.count() * size_of(dtype), 1);
  if (copies_[index].bytes() < bytes && !copies_[index].allocate(allocator_, bytes))
    return out_of_memory("no memory for a copy of input '", info(index).name, "'");
  data_[index] = copies_[index].data();
  tensors_[index] = view(data_[index], dtype, shape);
  return {};
}

Status Inputs::set(size_t index, const ConstTensor& tensor) {
  HG_TRY(check(info(index), tensor.dtype, tensor.shape));
  HG_CHECK(is_readable(tensor), "input '", info(index).name, "' is given ",
           unreadable_part(tensor));
  note_shape(index, tensor.shape);
  Tensor& own = tensors_[index];
  // Kernels never write to inputs.
  own = {const_cast<void*>(tensor.data), tensor.dtype, tensor.shape, tensor.strides};
  static std::byte empty[64];  // address of inputs without elements
  if (tensor.data == nullptr) own.data = empty;
  if (tensor.is_contiguous()) {
    data_[index] = own.data;
    return {};
  }
  Memory64& copy = copies_[index];
  if (copy.bytes() < tensor.bytes() && !copy.allocate(allocator_, tensor.bytes()))
    return out_of_memory("no memory for a contiguous copy of input '", info(index).name, "'");
  data_[index] = copy.data();
  return {};
}

void Inputs::forget() {
  std::fill(tensors_.begin(), tensors_.end(), Tensor());
  std::fill(data_.begin(), data_.end(), nullptr);
  has_new_shapes_ = true;
}

}  // namespace hg
