// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's quantized ops, computed with the real numbers that the integers represent, and ops
// with weights packed in 2 to 8 bits.
#include <algorithm>
#include <cmath>

#include "converter/onnx/contrib.h"
#include "converter/onnx/integers.h"
#include "converter/onnx/levels.h"

namespace hg::convert::onnx {
namespace {

// ---- On tensors with one scale and zero point ----

// Returns (input i - zero point) * scale. Both may have one number per index of the axis.
Value real_of(Node& n, int i, int scale, int zero, int axis = -1) {
  Value x = cast(n.in(i), f64);
  if (n.has(zero)) x = x - placed_along(cast(n.in(zero), f64), x, axis);
  return x * placed_along(cast(scale_of(n, scale), f64), x, axis);
}

// Quantizes x with the scale to the dtype of input `like`.
Value quantized_as(Node& n, const Value& x, int scale, int zero, int like) {
  const Value point = n.in_or_none(zero);
  const Value ratio = x / reshape(cast(scale_of(n, scale), x.dtype()), {});
  return quantized(n, ratio, point ? reshape(point, {}) : point, n.type(like).dtype);
}

// Matches ONNX Runtime's additions and multiplications bit by bit: computes in f32, and adds the
// zero point of the result before rounding.
struct TwoQuantized {
  explicit TwoQuantized(Node& n)
      : a(cast(n.in(0), f32)),
        b(cast(n.in(3), f32)),
        a_zero(zero(n, 2)),
        b_zero(zero(n, 5)),
        zero_y(zero(n, 7)),
        a_scale(scale(n, 1)),
        b_scale(scale(n, 4)),
        y_scale(scale(n, 6)) {}
  static Value zero(Node& n, int i) {
    return n.has(i) ? reshape(cast(n.in(i), f32), {}) : constant_of(n.graph(), f32, 0);
  }
  static Value scale(Node& n, int i) { return reshape(cast(scale_of(n, i), f32), {}); }
  Value a, b, a_zero, b_zero, zero_y, a_scale, b_scale, y_scale;
};

void q_add(Node& n) {
  const TwoQuantized q(n);
  const Value of_a = q.a_scale / q.y_scale, of_b = q.b_scale / q.y_scale;
  const Value fixed = q.zero_y - (of_a * q.a_zero + of_b * q.b_zero);
  n.give(quantized(n, q.a * of_a + (q.b * of_b + fixed), {}, n.type(0).dtype));
}

void q_mul(Node& n) {
  const TwoQuantized q(n);
  const Value product = (q.a - q.a_zero) * (q.b - q.b_zero);
  const Value ratio = q.a_scale * q.b_scale / q.y_scale;
  n.give(quantized(n, product * ratio + q.zero_y, {}, n.type(0).dtype));
}

void q_leaky(Node& n) {
  const Value x = real_of(n, 0, 1, 2);
  n.give(quantized_as(n, leaky_relu(x, n.real("alpha", double{0.01f})), 3, 4, 0));
}
void q_sigmoid(Node& n) { n.give(quantized_as(n, sigmoid(real_of(n, 0, 1, 2)), 3, 4, 0)); }

void q_softmax(Node& n) {
  const Value x = real_of(n, 0, 1, 2);
  const int axis = n.axis(n.integer("axis", -1), x.rank());
  Value y;
  if (n.integer("opset") >= 13) {
    y = softmax(x, axis);
  } else {  // the dims from the axis on become one
    const Shape before(x.shape().begin(), x.shape().begin() + axis),
        behind(x.shape().begin() + axis, x.shape().end());
    y = reshape(softmax(reshape(x, {count(before), count(behind)}), 1), x.shape());
  }
  n.give(quantized_as(n, y, 3, 4, 0));
}

void q_concat(Node& n) {
  Values parts;
  for (int i = 2; i + 2 < n.input_count(); i += 3) parts.push_back(real_of(n, i, i + 1, i + 2));
  if (parts.empty()) n.refuse("it has no inputs");
  const int axis = n.axis(n.integer("axis"), parts[0].rank());
  n.give(quantized_as(n, concat(parts, axis), 0, 1, 1));
}

void q_where(Node& n) {
  const Value y = where(n.in(0), real_of(n, 1, 2, 3), real_of(n, 4, 5, 6));
  n.give(quantized_as(n, y, 7, 8, 1));
}

void q_reduce_mean(Node& n) {
  Dims axes = dims_of(n.integers("axes"));
  n.give(quantized_as(n, mean(real_of(n, 0, 1, 2), axes, n.flag("keepdims", true)), 3, 4, 0));
}

// ---- Images, with channels last if the node says so ----

Value channels_first(Node& n, const Value& x) {
  if (x.rank() < 3) n.refuse(str_cat("its input is ", x.shape()));
  Dims dims = range(x.rank());
  dims.insert(dims.begin() + 1, dims.back());
  dims.pop_back();
  return permute(x, dims);
}
Value channels_last(const Value& x) {
  if (x.rank() < 2) return x;
  Dims dims = range(x.rank());
  dims.push_back(dims[1]);
  dims.erase(dims.begin() + 1);
  return permute(x, dims);
}

void q_average_pool(Node& n) {
  const bool last = n.flag("channels_last");
  const Value x = real_of(n, 0, 1, 2);
  const Value y = average_pooled(n, last ? channels_first(n, x) : x);
  n.give(quantized_as(n, last ? channels_last(y) : y, 3, 4, 0));
}

void q_global_average_pool(Node& n) {
  const Value x = real_of(n, 0, 1, 2);
  const int first = n.flag("channels_last") ? 1 : 2;
  Dims axes;
  for (int d = first; d < first + x.rank() - 2; ++d) axes.emplace_back(d);
  n.give(quantized_as(n, mean(x, axes, true), 3, 4, 0));
}

void q_conv(Node& n) {
  const bool last = n.flag("channels_last");
  Integers x = integers_of(n, 0, 2);
  if (last) x.value = channels_first(n, x.value);
  IntegerSums sums = integer_convolution(n, x, integers_of(n, 3, 5));
  sums.bias = n.in_or_none(8);
  const Value y = requantized(n, sums, scale_in(n, 1), scale_in(n, 4), 6);
  n.give(last ? channels_last(y) : y);
}

void nhwc_max_pool(Node& n) { n.give(channels_last(max_pooled(n, channels_first(n, n.in(0))))); }

// ---- Products ----

void integer_product_to_float(Node& n) {
  const IntegerSums sums = integer_product(integers_of(n, 0, 4), integers_of(n, 1, 5));
  const DType dtype = n.type(3).dtype;
  Value y = scaled(sums, scale_in(n, 2), scale_in(n, 3));
  if (n.has(6)) y = y + cast(n.in(6), f32);
  n.give(cast(y, dtype));
}

void dynamic_product(Node& n) {
  const Value x = n.in(0);
  const DynamicallyQuantized a = dynamically_quantized(n, x);
  const IntegerSums sums = integer_product({a.y, a.zero}, integers_of(n, 1, 3));
  Value y = scaled(sums, cast(a.scale, f32), scale_in(n, 2));
  if (n.has(4)) y = y + cast(n.in(4), f32);
  n.give(cast(y, x.dtype()));
}

void q_gemm(Node& n) {
  IntegerSums sums = integer_product(integers_of(n, 0, 2), integers_of(n, 3, 5), n.flag("transA"),
                                     n.flag("transB"));
  // C has zero point 0 and the scale of the product; it broadcasts from the right.
  Value c = n.in_or_none(6);
  if (c && c.rank() == 2 && c.dim(0) == Dim(1)) c = reshape(c, {c.dim(1)});
  const bool is_list = c && c.rank() == 1 && c.dim(0) != Dim(1);
  (is_list ? sums.bias : sums.more) = c;
  const Value rows = n.real("alpha", 1.0) * scale_in(n, 1), columns = scale_in(n, 4);
  n.give(n.has(7) ? requantized(n, sums, rows, columns, 7) : scaled(sums, rows, columns));
}

// ---- Weights with few bits ----

// Returns x; refuses with the graph's error if its op failed.
const Value& made(Node& n, const Value& x) {
  if (!x) n.refuse(std::string(n.graph().take_status().message()));
  if (x.rank() == 0) n.refuse("an input has no dims");
  return x;
}

// Unpacks u8[..., size] to numbers of `bits` bits: u8[..., size * 8 / bits], lowest bits first.
Value unpacked(Node& n, const Value& given, int64_t bits) {
  const Value& x = made(n, given);
  if (bits == 8) return x;
  Graph& g = *x.graph();
  const int last = x.rank();
  Shape column = x.shape();
  column.emplace_back(1);
  Values parts;
  const Value mask = g.scalar((int64_t{1} << bits) - 1, u8);
  for (int64_t shift = 0; shift < 8; shift += bits) {
    const Value moved = shift == 0 ? x : bitwise_right_shift(x, g.scalar(shift, u8));
    parts.push_back(reshape(bitwise_and(moved, mask), column));
  }
  Shape flat = x.shape();
  flat.back() = flat.back() * Dim(8 / bits);
  return reshape(concat(parts, last), std::move(flat));
}

// Returns an attribute that is a size. The limit keeps a product of two, rounded up to blocks,
// within 64 bits.
int64_t size_attribute(Node& n, std::string_view name, int64_t least,
                       std::optional<int64_t> fallback = {}) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t size = n.integer(name, fallback);
  if (size < least || size > kMost) n.refuse(str_cat("attribute '", name, "' is ", size));
  return size;
}

int64_t bits_of(Node& n) {
  const int64_t bits = n.integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) n.refuse(str_cat("attribute 'bits' is ", bits));
  return bits;
}

// Returns zero points for blocks of the last dim, which are packed like the weights, or floats.
Value zero_points(Node& n, int i, const Shape& blocks, int64_t bits, DType dtype) {
  if (!n.has(i))
    return constant_of(n.graph(), dtype, static_cast<double>(int64_t{1} << (bits - 1)));
  const Value given = n.in(i);
  if (is_float(given.dtype())) return cast(reshape(given, blocks), dtype);
  Shape packed = blocks;
  packed.back() = ceildiv(packed.back() * Dim(bits), 8);
  const int last = static_cast<int>(blocks.size()) - 1;
  return cast(slice(unpacked(n, reshape(given, packed), bits), last, 0, blocks.back()), dtype);
}

// Returns constant weights f32[rows, columns] in the library's packed form, which products use
// directly. Returns nothing unless all inputs are constants and scales and x are f32.
Value weight_of_few_bits(Node& n, int64_t rows, int64_t columns, int64_t block, int64_t bits) {
  const Value values[] = {n.in(1), n.in(2), n.in_or_none(3)};
  // Valid until the graph gets another constant, which happens when an input is first read.
  const auto constant = [&](int i) { return n.graph().constant_of(values[i].id()); };
  const TensorData *packed = constant(0), *scales = constant(1),
                   *zeros = n.has(3) ? constant(2) : nullptr;
  if (packed == nullptr || scales == nullptr || (n.has(3) && zeros == nullptr)) return {};
  if (scales->tensor.dtype != f32 || n.type(0).dtype != f32) return {};
  const int64_t count = (columns + block - 1) / block, each = 8 / bits;
  const int64_t row_bytes = (count * bits + 7) / 8, block_bytes = block * bits / 8;
  const bool floats = zeros != nullptr && zeros->tensor.dtype == f32;
  if (zeros != nullptr && !floats && zeros->tensor.dtype != u8) return {};
  if (rows == 0 || columns == 0 || packed->tensor.dtype != u8 ||
      packed->tensor.count() != rows * count * block_bytes ||
      scales->tensor.count() != rows * count ||
      (zeros != nullptr && zeros->tensor.count() != rows * (floats ? count : row_bytes)))
    return {};
  const auto number = [&](const uint8_t* from, int64_t i) {
    return from[i / each] >> (i % each * bits) & ((1 << bits) - 1);
  };
  LevelsOfWeight weight;
  weight.blocks = {{rows, columns}, {1, std::min(block, columns)}};
  weight.bits = static_cast<int>(bits);
  weight.levels.resize(static_cast<size_t>(rows * columns));
  for (int64_t at = 0; at < rows * count; ++at) {
    const int64_t row = at / count, b = at % count;
    auto zero = static_cast<float>(1 << (bits - 1));
    if (floats) zero = zeros->tensor.as<float>()[at];
    if (zeros != nullptr && !floats)
      zero = static_cast<float>(number(zeros->tensor.as<const uint8_t>() + row * row_bytes, b));
    weight.scales.push_back(scales->tensor.as<float>()[at]);
    weight.zeros.push_back(zero);
    const uint8_t* const from = packed->tensor.as<const uint8_t>() + at * block_bytes;
    for (int64_t i = 0; i < block && b * block + i < columns; ++i)
      weight.levels[static_cast<size_t>(row * columns + b * block + i)] =
          static_cast<int16_t>(number(from, i));
  }
  return weight_of(n, n.graph().value_info(values[0].id()).name, weight, f32);
}

void product_of_few_bits(Node& n) {
  const int64_t rows = size_attribute(n, "N", 0), columns = size_attribute(n, "K", 0),
                block = size_attribute(n, "block_size", 1), bits = bits_of(n);
  if (n.integer("weight_prepacked", 0) != 0) n.refuse("attribute 'weight_prepacked' is not 0");
  if (n.has(4)) n.refuse("input g_idx, the order of groups, is given");
  const Dim blocks = ceildiv(columns, block);
  const Value a = n.in(0);
  if (const Value w = weight_of_few_bits(n, rows, columns, block, bits))
    return n.give(linear(a, w, n.in_or_none(5)));
  const DType dtype = n.type(2).dtype;
  const Value zero = zero_points(n, 3, {rows, blocks}, bits, dtype);
  const auto beside = [&](const Value& v) {
    return v.rank() == 0 ? v : reshape(v, {rows, blocks, 1});
  };
  const Value packed = reshape(n.in(1), {rows, blocks, block * bits / 8});
  const Value numbers = cast(unpacked(n, packed, bits), dtype);
  Value w = (numbers - beside(zero)) * reshape(n.in(2), {rows, blocks, 1});
  w = slice(reshape(w, {rows, blocks * Dim(block)}), 1, 0, columns);
  n.give(linear(a, cast(w, a.dtype()), n.in_or_none(5)));
}

// The 4-bit numbers of bitsandbytes: normal floats, and floats with one sign bit and three more
// bits.
constexpr float kNormal4[] = {-1.0f,
                              -0.6961928009986877f,
                              -0.5250730514526367f,
                              -0.39491748809814453f,
                              -0.28444138169288635f,
                              -0.18477343022823334f,
                              -0.09105003625154495f,
                              0.0f,
                              0.07958029955625534f,
                              0.16093020141124725f,
                              0.24611230194568634f,
                              0.33791524171829224f,
                              0.44070982933044434f,
                              0.5626170039176941f,
                              0.7229568362236023f,
                              1.0f};
constexpr float kFloat4[] = {
    0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};

void product_of_four_bit_floats(Node& n) {
  const int64_t rows = size_attribute(n, "N", 0), columns = size_attribute(n, "K", 0),
                block = size_attribute(n, "block_size", 1), kind = n.integer("quant_type");
  if (kind != 0 && kind != 1) n.refuse(str_cat("attribute 'quant_type' is ", kind));
  if (!n.flag("transB", true)) n.refuse("attribute 'transB' is 0");
  Graph& g = n.graph();
  const Value a = n.in(0), packed = n.in(1);
  const Dim bytes = packed.dim(0);
  const auto column = [&](const Value& x) { return reshape(x, {bytes, 1}); };
  // The high half of a byte is first.
  const Value high = bitwise_right_shift(packed, g.scalar(int64_t{4}, u8)),
              low = bitwise_and(packed, g.scalar(int64_t{15}, u8));
  const int64_t total = rows * columns;
  const Value places =
      slice(reshape(concat({column(high), column(low)}, 1), {bytes * Dim(2)}), 0, 0, total);
  const float* const table = kind == 1 ? kNormal4 : kFloat4;
  const Value values = constant_list(g, std::vector<double>(table, table + 16), a.dtype());
  const Dim blocks = ceildiv(total, block);
  const Value scale =
      reshape(expand(reshape(n.in(2), {blocks, 1}), {blocks, block}), {blocks * Dim(block)});
  const Value w = looked_up(values, cast(places, i64)) * slice(scale, 0, 0, total);
  n.give(linear(a, reshape(w, {rows, columns})));
}

void gathered_blocks(Node& n) {
  const bool is_small = n.small_type(0) != 0;  // not packed in bytes
  const Value data = n.numbers(0);
  const int64_t bits = bits_of(n), block = size_attribute(n, "block_size", 1, 128);
  const int last = data.rank() - 1;
  if (!is_small && data.dtype() != u8) n.refuse(str_cat("its data is ", data.dtype()));
  if (n.axis(n.integer("quantize_axis", 1), data.rank()) != last)
    n.refuse("attribute 'quantize_axis' is not the last dim");
  if (n.axis(n.integer("gather_axis", 0), data.rank()) != 0)
    n.refuse("attribute 'gather_axis' is not the first dim");
  if (data.rank() != 2) n.refuse(str_cat("its data is ", data.shape(), ", of more than two dims"));
  const Value scales = n.in(2);
  Value at = cast(n.in(1), i64);
  const Value size = size_value(n.graph(), data.dim(0));
  at = where(lt(at, constant_like(at, 0)), at + size, at);
  // Indices outside the table return zeros.
  const Value inside = logical_and(ge(at, constant_like(at, 0)), lt(at, size));
  const Value safe = where(inside, at, constant_like(at, 0));
  const auto give = [&](const Value& rows) {
    Shape column = inside.shape();
    column.emplace_back(1);
    n.give(where(reshape(inside, column), rows, constant_like(rows, 0)));
  };
  if (is_small) {
    const std::optional<Value> weight = dequantized_weight(n, 2, 3, last, block);
    if (!weight) n.refuse("its data, scales and zero points are not all constants");
    return give(looked_up(*weight, safe));
  }
  const Dim columns = data.dim(1) * Dim(8 / bits), blocks = scales.dim(1);
  const Value zero = zero_points(n, 3, {data.dim(0), blocks}, bits, scales.dtype());
  const Value numbers = cast(unpacked(n, looked_up(data, safe), bits), scales.dtype());
  const auto spread = [&](const Value& v) {  // repeats one number per block for each element
    if (v.rank() == 0) return v;
    Value found = made(n, looked_up(v, safe));
    Shape column = found.shape(), wide = found.shape(), flat = found.shape();
    column.emplace_back(1);
    wide.emplace_back(block);
    flat.back() = flat.back() * Dim(block);
    found = reshape(expand(reshape(found, column), wide), flat);
    return slice(found, found.rank() - 1, 0, columns);
  };
  give((numbers - spread(zero)) * spread(scales));
}

constexpr Builtin kRows[] = {
    {"com.microsoft::QLinearAdd", row<q_add>},
    {"com.microsoft::QLinearMul", row<q_mul>},
    {"com.microsoft::QLinearLeakyRelu", row<q_leaky>},
    {"com.microsoft::QLinearSigmoid", row<q_sigmoid>},
    {"com.microsoft::QLinearSoftmax", row<q_softmax>},
    {"com.microsoft::QLinearConcat", row<q_concat>},
    {"com.microsoft::QLinearWhere", row<q_where>},
    {"com.microsoft::QLinearReduceMean", row<q_reduce_mean>},
    {"com.microsoft::QLinearAveragePool", row<q_average_pool>},
    {"com.microsoft::QLinearGlobalAveragePool", row<q_global_average_pool>},
    {"com.microsoft::QLinearConv", row<q_conv>},
    {"com.microsoft::NhwcMaxPool", row<nhwc_max_pool>},
    {"com.microsoft::MatMulIntegerToFloat", row<integer_product_to_float>},
    {"com.microsoft::DynamicQuantizeMatMul", row<dynamic_product>},
    {"com.microsoft::QGemm", row<q_gemm>},
    {"com.microsoft::MatMulNBits", row<product_of_few_bits>},
    {"com.microsoft::MatMulBnb4", row<product_of_four_bit_floats>},
    {"com.microsoft::GatherBlockQuantized", row<gathered_blocks>},
};

}  // namespace

Rows contrib_quantize_rows() { return kRows; }

}  // namespace hg::convert::onnx
