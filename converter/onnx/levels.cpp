// SPDX-License-Identifier: Apache-2.0
#include "converter/onnx/levels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "lib/graph/access.h"
#include "lib/graph/element.h"

namespace hg::convert::onnx {
namespace {

TensorData allocated(Node& n, DType dtype, const Sizes& shape) {
  Result<TensorData> data = TensorData::allocate(dtype, shape);
  if (!data.ok()) n.refuse(std::string(data.status().message()));
  return *std::move(data);
}

// The number of each block, from one number, one per index of an axis, or one per block.
std::vector<float> of_blocks(const Tensor& given, const Blocks& blocks) {
  std::vector<float> out(static_cast<size_t>(blocks.count()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(element(given, given.count() == 1 ? 0 : static_cast<int64_t>(i)));
  return out;
}

// Swaps the dims of a matrix.
LevelsOfWeight turned(const LevelsOfWeight& given) {
  LevelsOfWeight out = given;
  std::swap(out.blocks.shape[0], out.blocks.shape[1]);
  std::swap(out.blocks.sizes[0], out.blocks.sizes[1]);
  const auto turn = [](const auto& from, auto& to, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  };
  const Blocks& blocks = given.blocks;
  turn(given.levels, out.levels, blocks.shape[0], blocks.shape[1]);
  turn(given.scales, out.scales, blocks.along(0), blocks.along(1));
  turn(given.zeros, out.zeros, blocks.along(0), blocks.along(1));
  return out;
}

// Rows of a matrix in a tensor that broadcasts to three dims.
std::optional<TensorData> rows_of(const Tensor& given, int64_t matrix,
                                  const std::vector<int64_t>& rows) {
  const auto size = [&](int d) { return d < 0 ? int64_t{1} : given.shape[d]; };
  const auto step = [&](int d) { return d < 0 || size(d) == 1 ? int64_t{0} : given.strides[d]; };
  const int last = given.rank() - 1;
  const int64_t count = size(last - 1) == 1 ? 1 : static_cast<int64_t>(rows.size()),
                columns = size(last), bytes = size_of(given.dtype);
  Result<TensorData> data = TensorData::allocate(given.dtype, {count, columns});
  if (!data.ok()) return {};
  char* to = data->tensor.as<char>();
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < columns; ++c, to += bytes) {
      const int64_t at =
          step(last - 2) * matrix + step(last - 1) * rows[static_cast<size_t>(r)] + step(last) * c;
      std::memcpy(to, given.as<const char>() + at * bytes, static_cast<size_t>(bytes));
    }
  return *std::move(data);
}

// The widened rows; notes whether they come from levels.
std::optional<Value> widened_rows(Graph& g, ValueId id, int64_t matrix,
                                  const std::vector<int64_t>& rows, bool& has_levels) {
  const std::string name = g.value_info(id).name;
  if (const TensorData* const data = g.constant_of(id)) {
    if (data->tensor.rank() == 0) return g.value(id);
    const DType dtype = data->tensor.dtype;
    has_levels = has_levels || dtype == i8 || dtype == u8;
    std::optional<TensorData> found = rows_of(data->tensor, matrix, rows);
    return found ? std::optional(g.constant(*std::move(found), str_cat(name, "_", matrix)))
                 : std::nullopt;
  }
  const int32_t at = g.value_info(id).node;
  if (at < 0) return {};
  const hg::Node node = g.nodes()[static_cast<size_t>(at)];  // a copy: adding nodes moves it
  constexpr std::string_view kElementwise[] = {"cast", "mul", "sub", "add"};
  if (std::ranges::find(kElementwise, node.op->name()) == std::end(kElementwise)) return {};
  Values inputs;
  for (const ValueId input : node.inputs) {
    const std::optional<Value> found = widened_rows(g, input, matrix, rows, has_levels);
    if (!found) return {};
    inputs.push_back(*found);
  }
  return g.call(node.op->name(), inputs, named_attrs(node));
}

}  // namespace

std::optional<Value> rows_of_weight(const Value& weight, int64_t matrix,
                                    const std::vector<int64_t>& rows) {
  if (weight.rank() != 3) return {};
  bool has_levels = false;
  const std::optional<Value> found =
      widened_rows(*weight.graph(), weight.id(), matrix, rows, has_levels);
  return has_levels ? found : std::nullopt;
}

Value weight_of(Node& n, const std::string& name, const LevelsOfWeight& weight, DType dtype) {
  const Blocks& blocks = weight.blocks;
  // Levels of fewer bits are stored in 4 or 8.
  const int stored = weight.bits > 4 ? 8 : 4, least = -(1 << (stored - 1)), most = -least - 1;
  const auto level = [&](int64_t i) { return weight.levels[static_cast<size_t>(i)]; };
  const auto zero = [&](int64_t block) { return weight.zeros[static_cast<size_t>(block)]; };
  // Differences that are levels need no offsets, and are exact.
  const BlockPlaces places(blocks);
  bool fits = true;
  places.each([&](int64_t i, int64_t block) {
    const float difference = static_cast<float>(level(i)) - zero(block);
    fits = fits && difference >= static_cast<float>(least) &&
           difference <= static_cast<float>(most) && difference == std::trunc(difference);
  });
  const int center = weight.is_signed ? 0 : 1 << (weight.bits - 1);
  TensorData levels = allocated(n, i8, blocks.levels(stored)),
             scales = allocated(n, f32, blocks.scales());
  const LevelWriter writer(blocks, stored, levels.tensor);
  places.each([&](int64_t i, int64_t block) {
    writer.put(i, level(i) - (fits ? static_cast<int>(zero(block)) : center));
  });
  std::copy(weight.scales.begin(), weight.scales.end(), scales.tensor.as<float>());
  Graph& g = n.graph();
  Value offsets;
  if (!fits) {
    TensorData numbers = allocated(n, f32, blocks.scales());
    for (size_t b = 0; b < weight.zeros.size(); ++b)
      numbers.tensor.as<float>()[b] =
          (static_cast<float>(center) - weight.zeros[b]) * weight.scales[b];
    offsets = g.constant(std::move(numbers), name + "_offsets");
  }
  const Value four = stored == 4 ? g.scalar(int64_t{4}, i8) : Value();
  return widened(g.constant(std::move(levels), name + "_levels"),
                 g.constant(std::move(scales), name + "_scales"), offsets, four, blocks, stored,
                 dtype);
}

std::optional<Value> dequantized_weight(Node& n, int scale_input, int zero_input, int64_t axis,
                                        int64_t block) {
  const bool has_zero = n.has(zero_input);
  const Value values[] = {n.numbers(0), n.in(scale_input),
                          has_zero ? n.numbers(zero_input) : Value()};
  const auto constant = [&](int i) { return n.graph().constant_of(values[i].id()); };
  const TensorData *x = constant(0), *scale = constant(1), *zero = has_zero ? constant(2) : nullptr;
  if (x == nullptr || scale == nullptr || (has_zero && zero == nullptr)) return {};
  const DType dtype = scale->tensor.dtype;
  const auto small = small_integer_of_onnx(n.small_type(0));
  const DType levels = x->tensor.dtype;
  if (!is_float(dtype) || dtype == f64 || (!small && levels != i8 && levels != u8)) return {};
  LevelsOfWeight weight;
  weight.bits = small ? small->bits : 8;
  weight.is_signed = small ? small->is_signed : levels == i8;
  const Sizes& shape = x->tensor.shape;
  const int rank = shape.rank();
  if (weight.bits > 8 || rank < 2 || shape.count() == 0) return {};
  const int at = axis < 0 ? static_cast<int>(axis) + rank : static_cast<int>(axis);
  weight.blocks = {shape, shape};
  if (scale->tensor.count() != 1 || scale->tensor.rank() > 1) {
    if (at < 0 || at >= rank || block < 0) return {};
    if (block == 0 && scale->tensor.rank() != 1) return {};
    if (block > 0) weight.blocks.sizes = Sizes(rank, 1);
    weight.blocks.sizes[at] = block == 0 ? 1 : std::min(block, shape[at]);
    if (scale->tensor.count() != weight.blocks.count()) return {};
  }
  for (const TensorData* each : {scale, zero})
    if (each != nullptr && each->tensor.count() != 1 &&
        each->tensor.count() != weight.blocks.count())
      return {};
  weight.scales = of_blocks(scale->tensor, weight.blocks);
  weight.zeros.resize(weight.scales.size());
  if (zero != nullptr) weight.zeros = of_blocks(zero->tensor, weight.blocks);
  weight.levels.resize(static_cast<size_t>(shape.count()));
  for (int64_t i = 0; i < shape.count(); ++i)
    weight.levels[static_cast<size_t>(i)] = static_cast<int16_t>(element(x->tensor, i));
  const std::string name = n.graph().value_info(values[0].id()).name;
  // Products read rows of levels: the matrix is stored so that a row has its own scales.
  const bool turns = rank == 2 && weight.blocks.along(1) > 1 && weight.blocks.sizes[0] != 1;
  if (!turns) return weight_of(n, name, weight, dtype);
  return permute(weight_of(n, name, turned(weight), dtype), {1, 0});
}

}  // namespace hg::convert::onnx
