// SPDX-License-Identifier: Apache-2.0
// Views of arrays, made with the shape and view rules of the view ops.
#include <algorithm>

#include "hg/op.h"
#include "lib/array/access.h"
#include "lib/graph/access.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

// Applies the op to the array without copying. Returns nothing if the op needs a copy.
Result<std::optional<Array>> viewed(const Array& x, std::string_view name,
                                    const NamedAttrs& given) {
  HG_CHECK(x, name, ": an array that is empty or freed has no elements");
  const Op* const op = Registry::built_in().find(name);
  HG_TRY_ASSIGN(const std::vector<Attr> attrs, GraphAccess::normalize_attrs(*op, given));
  const TensorType type{f32, to_shape(x.shape())};  // view rules do not depend on the dtype
  GraphAccess::InferCall call;
  call.op = op;
  call.attrs = attrs;
  call.inputs = {&type};
  call.constants = {nullptr};
  HG_TRY_ASSIGN(const std::vector<TensorType> types, GraphAccess::infer(call));
  Sizes shape;
  for (const Dim& dim : types[0].shape) shape.push_back(dim.constant());
  ViewContext context(AttrReader(op, attrs), x.shape(), x.strides(), shape);
  if (!op->def.view(context)) return std::optional<Array>();
  Tensor tensor = x.tensor();
  tensor.data = tensor.as<std::byte>() + context.offset() * size_of(x.dtype());
  tensor.shape = shape;
  tensor.strides = context.out_strides();
  return std::optional(ArrayAccess::make(tensor, ArrayAccess::memory(x)));
}

// For ops that never need a copy.
Result<Array> view_of(const Array& x, std::string_view name, const NamedAttrs& attrs) {
  HG_TRY_ASSIGN(std::optional<Array> made, viewed(x, name, attrs));
  if (!made) return internal_error(name, " of ", x.shape(), " is no view");
  return *std::move(made);
}

std::vector<Dim> dims_of(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

}  // namespace

Result<Array> Array::reshape(const Sizes& shape) const {
  return or_no_memory([&]() -> Result<Array> {
    Sizes wanted = shape;
    const auto open = std::find(wanted.begin(), wanted.end(), -1);
    if (open != wanted.end()) {
      *open = 1;
      const int64_t others = wanted.count();
      HG_CHECK(others > 0 && count() % others == 0 &&
                   std::find(wanted.begin(), wanted.end(), -1) == wanted.end(),
               "reshape: ", this->shape(), " does not become ", shape);
      *open = count() / others;
    }
    const NamedAttrs attrs = {{"shape", dims_of(wanted)}};
    HG_TRY_ASSIGN(std::optional<Array> made, viewed(*this, "reshape", attrs));
    if (made) return *std::move(made);
    HG_TRY_ASSIGN(const Array dense, contiguous());
    return view_of(dense, "reshape", attrs);
  });
}

Result<Array> Array::permute(const Sizes& dims) const {
  return or_no_memory([&]() -> Result<Array> {
    return view_of(*this, "permute", {{"dims", dims_of(dims)}});
  });
}

Result<Array> Array::transpose(int64_t dim0, int64_t dim1) const {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY_ASSIGN(const int a, normalize_axis(dim0, rank()));
    HG_TRY_ASSIGN(const int b, normalize_axis(dim1, rank()));
    if (rank() == 0) return *this;
    Sizes dims;
    for (int d = 0; d < rank(); ++d) dims.push_back(d == a ? b : d == b ? a : d);
    return permute(dims);
  });
}

Result<Array> Array::select(int64_t dim, int64_t index) const {
  return or_no_memory([&]() -> Result<Array> {
    HG_CHECK(rank() > 0, "select: a tensor of rank 0 has no dim to select from");
    HG_TRY_ASSIGN(const int d, normalize_axis(dim, rank()));
    const int64_t size = shape()[d], at = index < 0 ? index + size : index;
    HG_CHECK(at >= 0 && at < size, "select: index ", index, " is not within dim ", dim,
             " of shape ", shape());
    HG_TRY_ASSIGN(Array made, narrow(d, at, 1));
    made.tensor_.shape.erase(d);
    made.tensor_.strides.erase(d);
    return made;
  });
}

Result<Array> Array::narrow(int64_t dim, int64_t start, int64_t length) const {
  return or_no_memory([&]() -> Result<Array> {
    HG_CHECK(rank() > 0, "narrow: a tensor of rank 0 has no dim");
    HG_TRY_ASSIGN(const int d, normalize_axis(dim, rank()));
    const int64_t size = shape()[d], from = start < 0 ? start + size : start;
    HG_CHECK(from >= 0 && length >= 0 && length <= size && from <= size - length,
             "narrow: ", length, " from ", start, " on do not lie within dim ", dim, " of shape ",
             shape());
    return slice(d, from, from + length);
  });
}

Result<Array> Array::slice(int64_t dim, int64_t start, int64_t end, int64_t step) const {
  return or_no_memory([&]() -> Result<Array> {
    HG_CHECK(rank() > 0, "slice: a tensor of rank 0 has no dim");
    HG_TRY_ASSIGN(const int d, normalize_axis(dim, rank()));
    const int64_t size = shape()[d];
    const auto clamped = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const int64_t from = clamped(start), to = std::max(from, clamped(end));
    return view_of(*this, "slice", {{"dim", d}, {"start", from}, {"end", to}, {"step", step}});
  });
}

Result<Array> Array::expand(const Sizes& shape) const {
  return or_no_memory([&]() -> Result<Array> {
    Sizes wanted = shape;
    for (int k = 1; k <= std::min(wanted.rank(), rank()); ++k)
      if (int64_t& size = wanted[wanted.rank() - k]; size == -1) size = this->shape()[rank() - k];
    return view_of(*this, "expand", {{"shape", dims_of(wanted)}});
  });
}

}  // namespace hg
