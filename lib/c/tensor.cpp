// SPDX-License-Identifier: Apache-2.0
// Tensors of hg/c.h.
#include "hg/tensor.h"

#include "lib/c/handles.h"
#include "lib/c/structs.h"

namespace hg::c {
namespace {

bool is_dtype(hg_dtype dtype) { return dtype >= 0 && dtype < kDTypeCount; }

// A smaller struct belongs to no header and would be misread.
Status check_tensor_size(size_t size) {
  return check_size<hg_tensor>(size, "hg_tensor",
                               offsetof(hg_tensor, strides) + sizeof(hg_tensor::strides));
}

// Whether the numbers of elements and bytes do not overflow.
bool can_be_counted(const Sizes& shape, DType dtype) {
  int64_t bytes = size_of(dtype);
  for (const int64_t size : shape)
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) return false;
  return true;
}

}  // namespace

Result<Tensor> read_tensor(const hg_tensor* given, bool needs_data) {
  HG_CHECK(given != nullptr, "the hg_tensor is null");
  HG_TRY(check_tensor_size(given->struct_size));
  HG_TRY_ASSIGN(const hg_tensor all, read_struct(given, hg_tensor(), "hg_tensor"));
  HG_CHECK(is_dtype(all.dtype), "hg_tensor.dtype is ", all.dtype, ", which is not a dtype");
  HG_CHECK(all.rank >= 0 && all.rank <= kMaxRank, "hg_tensor.rank is ", all.rank,
           "; it must be between 0 and ", kMaxRank);
  Tensor tensor;
  tensor.data = all.data;
  tensor.dtype = static_cast<DType>(all.dtype);
  for (int i = 0; i < all.rank; ++i) {
    HG_CHECK(all.shape[i] >= 0, "hg_tensor.shape[", i, "] is ", all.shape[i],
             "; sizes are not negative");
    tensor.shape.push_back(all.shape[i]);
    tensor.strides.push_back(all.strides[i]);
  }
  HG_CHECK(can_be_counted(tensor.shape, tensor.dtype), "a tensor ", tensor.dtype, tensor.shape,
           " has more bytes than 2^63");
  HG_CHECK(!needs_data || tensor.data != nullptr || tensor.count() == 0, "hg_tensor.data of ",
           tensor.dtype, tensor.shape, " is null");
  return tensor;
}

Status write_tensor(hg_tensor* to, const Tensor& from) {
  hg_tensor all{};
  all.dtype = static_cast<hg_dtype>(from.dtype);
  all.data = from.data;
  all.rank = from.rank();
  for (int i = 0; i < from.rank(); ++i) {
    all.shape[i] = from.shape[i];
    all.strides[i] = from.strides[i];
  }
  HG_CHECK(to != nullptr, "the hg_tensor to fill is null");
  HG_TRY(check_tensor_size(to->struct_size));
  return write_struct(to, all, "hg_tensor");
}

}  // namespace hg::c

using hg::c::border;

extern "C" {

const char* hg_dtype_name(hg_dtype dtype) {
  return hg::c::is_dtype(dtype) ? hg::to_string(static_cast<hg::DType>(dtype)).data() : "";
}

int64_t hg_dtype_bytes(hg_dtype dtype) {
  return hg::c::is_dtype(dtype) ? hg::size_of(static_cast<hg::DType>(dtype)) : 0;
}

hg_status* hg_tensor_view(hg_tensor* tensor, size_t struct_size, void* data, hg_dtype dtype,
                          int32_t rank, const int64_t* shape) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(tensor);
    HG_TRY(hg::c::check_tensor_size(struct_size));
    HG_CHECK(rank == 0 || shape != nullptr, "shape is null");
    HG_CHECK(rank >= 0 && rank <= HG_C_MAX_RANK, "rank is ", rank, "; it must be between 0 and ",
             HG_C_MAX_RANK);
    HG_CHECK(hg::c::is_dtype(dtype), "dtype is ", dtype, ", which is not a dtype");
    hg_tensor all{};
    all.struct_size = sizeof all;
    all.dtype = dtype;
    all.data = data;
    all.rank = rank;
    for (int i = 0; i < rank; ++i) all.shape[i] = shape[i];
    HG_TRY_ASSIGN(const hg::Tensor checked, hg::c::read_tensor(&all, false));
    const hg::Sizes strides = hg::contiguous_strides(checked.shape);
    for (int i = 0; i < rank; ++i) all.strides[i] = strides[i];
    hg::c::write_defaults(tensor, struct_size, all);
    return {};
  });
}

int64_t hg_tensor_count(const hg_tensor* tensor) {
  int64_t count = -1;
  hg_status_free(border([&]() -> hg::Status {
    HG_TRY_ASSIGN(const hg::Tensor checked, hg::c::read_tensor(tensor, false));
    count = checked.count();
    return {};
  }));
  return count;
}

}  // extern "C"
