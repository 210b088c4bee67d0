// SPDX-License-Identifier: Apache-2.0
#include "converter/load/gguf/weights.h"

#include <cmath>
#include <cstring>

#include "converter/core/allocated.h"
#include "converter/core/failure.h"
#include "converter/load/gguf/blocks.h"
#include "hg/ops.h"
#include "lib/quantize/rounding.h"

namespace hg::convert::gguf {
namespace {

// The rows of a tensor as bytes, in the order described at take().
class Rows {
 public:
  Rows(const TensorInfo& info, int64_t head, int64_t pairs)
      : data_(reinterpret_cast<const uint8_t*>(info.data.data())), head_(head), pairs_(pairs) {
    const bool is_vector = info.shape.rank() == 1;
    count_ = is_vector && pairs > 0 ? info.shape[0] : info.shape.count() / info.shape.back();
    bytes_ = static_cast<int64_t>(info.data.size()) / count_;
  }
  int64_t count() const { return count_; }
  int64_t bytes() const { return bytes_; }
  const uint8_t* row(int64_t i) const {
    if (pairs_ > 0) {
      const int64_t in_head = i % head_;
      if (in_head < pairs_)
        i += in_head;
      else if (in_head < 2 * pairs_)
        i += 2 * (in_head - pairs_) + 1 - in_head;
    }
    return data_ + i * bytes_;
  }

 private:
  const uint8_t* data_;
  int64_t head_, pairs_, count_ = 0, bytes_ = 0;
};

// The graph tensors that the blocks of a tensor become.
struct Parts {
  TensorData levels, d, dmin, scales, mins;
};

Sizes with_last(Sizes shape, int64_t last) {
  shape[shape.rank() - 1] = last;
  return shape;
}

// Returns the number that is subtracted from unsigned levels of 4 bits to make them signed.
int center(const BlockFormat& format) { return !format.is_signed && format.bits == 4 ? 8 : 0; }

Parts unpack(const BlockFormat& format, const Rows& rows, const Blocks& blocks) {
  const Sizes& shape = blocks.shape;
  const int64_t in_row = shape.back() / format.elements;
  const int64_t groups = format.elements / format.group;
  Parts parts;
  parts.levels = allocated(i8, blocks.levels(format.bits));
  parts.d = allocated(f16, with_last(shape, in_row));
  if (!format.is_signed) parts.dmin = allocated(f16, with_last(shape, in_row));
  if (format.inner) {
    parts.scales = allocated(i8, with_last(shape, in_row * groups));
    if (!format.is_signed) parts.mins = allocated(i8, with_last(shape, in_row * groups));
  }
  const LevelWriter levels(blocks, format.bits, parts.levels.tensor);
  for (int64_t r = 0; r < rows.count(); ++r)
    for (int64_t b = 0; b < in_row; ++b) {
      Block block;
      format.unpack(rows.row(r) + b * format.bytes, block);
      const int64_t at = r * in_row + b;
      for (int64_t i = 0; i < format.elements; ++i)
        levels.put(at * format.elements + i, block.levels[i] - center(format));
      parts.d.tensor.as<Half>()[at].bits = block.d;
      if (!format.is_signed) parts.dmin.tensor.as<Half>()[at].bits = block.dmin;
      if (!format.inner) continue;
      for (int64_t i = 0; i < groups; ++i) {
        parts.scales.tensor.as<int8_t>()[at * groups + i] = block.scales[i];
        if (!format.is_signed) parts.mins.tensor.as<int8_t>()[at * groups + i] = block.mins[i];
      }
    }
  return parts;
}

// Returns d, or d * scale for each group: [..., groups, 1].
Value scale_of(Graph& graph, const std::string& name, TensorData d, TensorData inner,
               std::string_view kind, const Shape& scales) {
  const bool has_inner = !inner.empty();
  Value value = hg::cast(
      graph.buffer(str_cat(name, "_", has_inner ? "block_" : "", kind), std::move(d)), f32);
  if (!has_inner) return reshape(value, scales);
  const Value factors = hg::cast(graph.buffer(str_cat(name, "_", kind), std::move(inner)), f32);
  Shape apart = factors.shape();
  apart.back() = value.dim(-1);
  Shape one = apart;
  apart.emplace_back(floordiv(factors.dim(-1), value.dim(-1)));
  one.emplace_back(1);
  return reshape(reshape(value, one) * reshape(factors, apart), scales);
}

Value of_blocks(Graph& graph, const std::string& name, const BlockFormat& format, const Rows& rows,
                const Sizes& shape) {
  Blocks blocks{shape, with_last(Sizes(shape.rank(), 1), format.group)};
  Parts parts = unpack(format, rows, blocks);
  const Value levels = graph.buffer(name, std::move(parts.levels));
  const Value four = format.bits == 4 ? graph.scalar(int64_t{4}, i8) : Value();
  Sizes groups = with_last(shape, shape.back() / format.group);
  groups.push_back(1);
  // With a single group, the scales have no dim for groups.
  const Shape scales = to_shape(blocks.split() < 0 ? with_last(shape, 1) : groups);
  const Value scale =
      scale_of(graph, name, std::move(parts.d), std::move(parts.scales), "scale", scales);
  Value offset;
  if (!format.is_signed) {
    offset = scale_of(graph, name, std::move(parts.dmin), std::move(parts.mins), "min", scales);
    if (format.inner) offset = neg(offset);  // the older formats add the minimum
    if (const int less = center(format); less > 0)
      offset = scale * static_cast<double>(less) + offset;
  }
  return widened(levels, scale, offset, four, blocks, format.bits, f32);
}

}  // namespace

const TensorInfo& Weights::find(std::string_view name) const {
  const auto entry = file_.tensors().find(name);
  if (entry == file_.tensors().end())
    throw Failure{Exit::unsupported,
                  str_cat(file_.label(), ": the file has no tensor '", name, "'")};
  return entry->second;
}

int64_t Weights::size(std::string_view name, int dim) const {
  const TensorInfo& info = find(name);
  if (dim >= info.shape.rank())
    throw Failure{Exit::unsupported,
                  str_cat(file_.label(), ": the tensor '", name, "' is ", info.shape)};
  return info.shape[dim];
}

Value Weights::take(std::string_view name, const Sizes& shape, int64_t head, int64_t pairs) {
  const TensorInfo& info = find(name);
  taken_.insert(file_.tensors().find(name)->first);
  const BlockFormat* format = block_format(info.type);
  if (format == nullptr)
    throw Failure{Exit::unsupported, str_cat(file_.label(), ": the tensor '", name,
                                             "' has the type ", type_name(info.type),
                                             ", which is not supported; F32, F16, BF16, Q4_0, "
                                             "Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K are")};
  if (!(info.shape == shape))
    throw Failure{Exit::unsupported, str_cat(file_.label(), ": the tensor '", name, "' is ",
                                             info.shape, ", expected ", shape)};
  if (shape.count() == 0)
    throw Failure{Exit::unsupported, str_cat(file_.label(), ": the tensor '", name, "' is ", shape,
                                             ", which is empty")};
  if (format->group > 0 && shape.rank() == 1 && pairs > 0)
    throw Failure{Exit::unsupported,
                  str_cat(file_.label(), ": the tensor '", name, "' has the type ", format->name,
                          ", but its elements must be reordered; F32, F16 and BF16 are supported")};
  const Rows rows(info, head, pairs);
  const std::string text(name);
  if (format->group > 0) return of_blocks(graph_, text, *format, rows, shape);
  TensorData data = allocated(format->dtype, shape);
  for (int64_t i = 0; i < rows.count(); ++i)
    std::memcpy(data.tensor.as<uint8_t>() + i * rows.bytes(), rows.row(i),
                static_cast<size_t>(rows.bytes()));
  const Value value = graph_.parameter(text, std::move(data));
  return format->dtype == f32 ? value : hg::cast(value, f32);
}

std::vector<double> Weights::numbers(std::string_view name, int64_t count) {
  const TensorInfo& info = find(name);
  taken_.insert(file_.tensors().find(name)->first);
  if (info.type != 0 || !(info.shape == Sizes{count}))
    throw Failure{Exit::unsupported,
                  str_cat(file_.label(), ": the tensor '", name, "' is ", type_name(info.type), " ",
                          info.shape, ", expected F32 ", Sizes{count})};
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, info.data.data() + i * 4, 4);
    out.push_back(static_cast<double>(value));
  }
  return out;
}

std::string Weights::untaken() const {
  for (const auto& [name, info] : file_.tensors())
    if (!taken_.contains(name)) return std::string(name);
  return "";
}

}  // namespace hg::convert::gguf
