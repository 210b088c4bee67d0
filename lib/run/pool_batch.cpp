// SPDX-License-Identifier: Apache-2.0
#include "lib/run/pool_batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/graph/element.h"

namespace hg {
namespace {

// Rows first, first + 1, ... of a tensor.
Tensor rows_of(const Tensor& tensor, int64_t first, int64_t rows) {
  Tensor part = tensor;
  part.data =
      static_cast<std::byte*>(tensor.data) + first * tensor.strides[0] * size_of(tensor.dtype);
  part.shape[0] = rows;
  return part;
}

// Repeats the last of `rows` rows `times` times; `tensor` must have room.
ConstTensor last_row(const ConstTensor& tensor, int64_t rows, int64_t times) {
  ConstTensor last = tensor;
  last.data = static_cast<const std::byte*>(tensor.data) +
              (rows - 1) * tensor.strides[0] * size_of(tensor.dtype);
  last.shape[0] = times;
  last.strides[0] = 0;
  return last;
}

// Kernels for other sizes may round differently.
constexpr double kRounding = 2e-3;  // of the largest element

double element_of(const Tensor& tensor, int64_t i) { return element(view_as_real(tensor), i); }

// Index of the first element that differs, or -1. Integers next to float outputs, such as an
// argmax, may change with rounding and are not compared.
int64_t first_difference(const Tensor& a, const Tensor& b, bool beside_floats) {
  const bool is_real = is_float(a.dtype) || is_complex(a.dtype);
  if (!is_real && beside_floats) return -1;
  const int64_t count = view_as_real(a).count();
  double largest = 0;
  if (is_real)
    for (int64_t i = 0; i < count; ++i)
      if (const double x = std::abs(element_of(a, i)); std::isfinite(x))
        largest = std::max(largest, x);
  for (int64_t i = 0; i < count; ++i) {
    const double x = element_of(a, i), y = element_of(b, i);
    const bool same =
        x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= kRounding * largest;
    if (!same) return i;
  }
  return -1;
}

Result<bool> are_equal(std::span<const ConstTensor> a, std::span<const ConstTensor> b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i].shape == b[i].shape)) return false;
    HG_TRY_ASSIGN(const TensorData x, TensorData::copy_of(a[i]));
    HG_TRY_ASSIGN(const TensorData y, TensorData::copy_of(b[i]));
    if (std::memcmp(x.tensor.data, y.tensor.data, static_cast<size_t>(x.tensor.bytes())) != 0)
      return false;
  }
  return true;
}

}  // namespace

int64_t padded_rows(int64_t rows, int64_t most) {
  if (rows == 0 || rows >= most) return rows;
  int64_t padded = 1;
  while (padded < rows) padded *= 2;
  return std::min(padded, most);
}

Status BatchRunner::gather(std::span<BatchPart* const> parts) {
  int64_t rows = 0;
  for (const BatchPart* part : parts) rows += part->rows;
  const int64_t all = padded_rows(rows, most_rows_);
  gathered_.resize(static_cast<size_t>(session_.input_count()));
  for (size_t i = 0; i < gathered_.size(); ++i) {
    const ConstTensor& first = parts.front()->inputs[i];
    Sizes shape = first.shape;
    shape[0] = all;
    const int64_t bytes = std::max<int64_t>(shape.count() * size_of(first.dtype), 1);
    if (gathered_[i].empty() || gathered_[i].tensor.bytes() < bytes) {
      gathered_[i] = {};
      HG_TRY_ASSIGN(gathered_[i], TensorData::allocate(u8, {bytes}));
    }
    const Tensor to = view(gathered_[i].tensor.data, first.dtype, shape);
    int64_t at = 0;
    for (const BatchPart* part : parts) {
      copy_elements(part->inputs[i], rows_of(to, at, part->rows));
      at += part->rows;
    }
    const BatchPart& last = *parts.back();
    copy_elements(last_row(last.inputs[i], last.rows, all - rows), rows_of(to, rows, all - rows));
    HG_TRY(session_.set_input(static_cast<int>(i), to));
  }
  return {};
}

Status BatchRunner::run(std::span<BatchPart* const> parts, const std::stop_token& stop) {
  HG_TRY(session_.run(stop));
  int64_t at = 0;
  for (BatchPart* part : parts) {
    HG_TRY(take_outputs(*part, at));
    at += part->rows;
  }
  return {};
}

Status BatchRunner::run_alone(BatchPart& part, const std::stop_token& stop) {
  for (size_t i = 0; i < part.inputs.size(); ++i)
    HG_TRY(session_.set_input(static_cast<int>(i), part.inputs[i]));
  HG_TRY(session_.run(stop));
  return take_outputs(part, -1);
}

// The whole tensor if first_row is negative.
Status BatchRunner::take_outputs(BatchPart& part, int64_t first_row) {
  part.outputs.clear();
  for (int i = 0; i < session_.output_count(); ++i) {
    HG_TRY_ASSIGN(const Tensor made, session_.output(i));
    HG_TRY_ASSIGN(TensorData own,
                  TensorData::copy_of(first_row < 0 ? made : rows_of(made, first_row, part.rows)));
    part.outputs.push_back(std::move(own));
  }
  return {};
}

Status BatchRunner::check_equal(const BatchPart& alone, const BatchPart& part) const {
  bool any_float = false;
  for (const TensorData& output : alone.outputs)
    any_float |= is_float(output.tensor.dtype) || is_complex(output.tensor.dtype);
  for (size_t i = 0; i < alone.outputs.size(); ++i) {
    const Tensor &a = alone.outputs[i].tensor, &b = part.outputs[i].tensor;
    if (!(a.shape == b.shape))
      return unsupported("output '", session_.output_name(static_cast<int>(i)), "' is ", a.shape,
                         " of a request alone and ", b.shape, " of the same in a batch");
    const int64_t at = first_difference(a, b, any_float);
    if (at < 0) continue;
    return unsupported("the model does not compute each row from its own row alone: element ", at,
                       " of output '", session_.output_name(static_cast<int>(i)), "' is ",
                       element_of(a, at), " of a request alone and ", element_of(b, at),
                       " of the same in a batch; give Pool::Options::most_rows as 1");
  }
  return {};
}

Result<bool> BatchRunner::prove(std::span<BatchPart* const> parts, const std::stop_token& stop) {
  bool any_other = false;
  for (const BatchPart* part : parts) {
    BatchPart alone;
    alone.inputs = part->inputs;
    alone.rows = part->rows;
    HG_TRY(run_alone(alone, stop));
    HG_TRY(check_equal(alone, *part));
    HG_TRY_ASSIGN(const bool is_same, are_equal(part->inputs, parts.front()->inputs));
    any_other |= !is_same;
  }
  if (any_other) return true;
  return prove_beside_zeros(*parts.front(), stop);
}

Result<bool> BatchRunner::prove_beside_zeros(const BatchPart& alone, const std::stop_token& stop) {
  std::vector<TensorData> zeros;
  std::vector<ConstTensor> inputs;
  for (const ConstTensor& input : alone.inputs) {
    HG_TRY_ASSIGN(TensorData zero, TensorData::allocate(input.dtype, input.shape));
    inputs.emplace_back(zero.tensor);
    zeros.push_back(std::move(zero));
  }
  HG_TRY_ASSIGN(const bool is_zero, are_equal(inputs, alone.inputs));
  if (is_zero) return false;
  BatchPart part, other;
  part.inputs = alone.inputs;
  other.inputs = inputs;
  part.rows = other.rows = alone.rows;
  BatchPart* const both[] = {&part, &other};
  HG_TRY(gather(both));
  const Status status = run(both, stop);
  if (status.code() == Code::cancelled) return status;
  if (!status.ok()) return false;  // the model rejects zeros
  HG_TRY(check_equal(alone, part));
  return true;
}

}  // namespace hg
