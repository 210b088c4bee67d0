// SPDX-License-Identifier: Apache-2.0
// Ops that move elements by shape: reshape, concatenation, padding, and tensors made from a shape.
#include <algorithm>
#include <limits>

#include "converter/onnx/node.h"
#include "hg/op.h"

namespace hg::convert::onnx {
namespace {

// Replaces 0 (the size of x) and -1 (the remaining factor) in `sizes`.
Shape resolved(Node& n, const Shape& x, Dims sizes, bool keeps_zero) {
  int open = -1;
  Dim known = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Dim(0) && !keeps_zero) {
      if (i >= x.size()) n.refuse(str_cat("the shape takes size ", int64_t(i), " of a tensor ", x));
      sizes[i] = x[i];
    }
    if (sizes[i] == Dim(-1)) {
      if (open >= 0) n.refuse("the shape has -1 twice");
      open = static_cast<int>(i);
    } else {
      known = known * sizes[i];
    }
  }
  if (open < 0) return sizes;
  // First cancels sizes that occur in both, because they may be symbols that are 0.
  Dims above(x.begin(), x.end());
  Dim below = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (static_cast<int>(i) == open) continue;
    const auto same = std::find(above.begin(), above.end(), sizes[i]);
    if (same != above.end() && !(sizes[i] == Dim(0)))
      above.erase(same);
    else
      below = below * sizes[i];
  }
  if (below == Dim(0)) n.refuse("the shape has -1 beside 0, which leaves it open");
  sizes[open] = floordiv(count(above), below);
  return sizes;
}

// The same for a data-dependent target.
Shape resolved_by_data(Node& n, const Shape& x, bool keeps_zero) {
  Graph& g = n.graph();
  const TensorType type = n.type(1);
  if (type.rank() != 1 || !type.shape[0].is_constant())
    n.refuse(str_cat("the shape is ", type, ", but its number of elements must be known"));
  const int64_t rank = type.shape[0].constant();
  Value target = cast(n.in(1), i64);
  const Value zero = g.scalar(int64_t{0}, i64), one = g.scalar(int64_t{1}, i64);
  if (!keeps_zero) {
    Dims same(x.begin(), x.begin() + std::min<int64_t>(rank, static_cast<int64_t>(x.size())));
    same.resize(static_cast<size_t>(rank), Dim(0));
    target = where(eq(target, zero), g.call("dims", {}, {{"values", same}}), target);
  }
  const Value total = reshape(g.call("dims", {}, {{"values", Dims{count(x)}}}), {});
  const Value open = lt(target, zero);
  const Value left = floor_divide(total, maximum(prod(where(open, one, target)), one));
  target = where(open, left, target);
  Shape sizes;
  for (int64_t i = 0; i < rank; ++i)
    sizes.push_back(n.call().size_of(reshape(slice(target, 0, i, i + 1), {})));
  return sizes;
}

void reshaped(Node& n) {
  const Value x = n.in(0);
  const bool keeps_zero = n.flag("allowzero");
  if (n.opset() >= 5 && n.only_data_decides(1))
    return n.give(reshape(x, resolved_by_data(n, x.shape(), keeps_zero)));
  const Dims sizes = n.opset() < 5 ? dims_of(n.integers("shape")) : n.dims(1);
  n.give(reshape(x, resolved(n, x.shape(), sizes, keeps_zero)));
}

void flattened(Node& n) {
  const Value x = n.in(0);
  int64_t axis = n.integer("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis > x.rank()) n.refuse(str_cat("axis ", axis, " is out of range"));
  const auto split = x.shape().begin() + axis;
  n.give(
      reshape(x, {count(Shape(x.shape().begin(), split)), count(Shape(split, x.shape().end()))}));
}

void squeezed(Node& n) {
  const Value x = n.in(0);
  const auto axes = n.axes(13, 1, x.rank());
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    const bool named = axes && std::find(axes->begin(), axes->end(), d) != axes->end();
    // A size-dependent rank becomes an `if` that ends where both branches have one rank again.
    if (named || (!axes && n.call().is_one(x.dim(d), "Squeeze", false))) {
      if (x.dim(d).is_constant() && x.dim(d) != Dim(1))
        n.refuse(str_cat("axis ", int64_t{d}, " of ", x.shape(), " has more than one element"));
      if (named && x.dim(d) != Dim(1)) n.graph().guard(x.dim(d), Relation::eq, 1, "Squeeze");
      continue;
    }
    shape.push_back(x.dim(d));
  }
  n.give(reshape(x, std::move(shape)));
}

void unsqueezed(Node& n) {
  const Value x = n.in(0);
  const std::vector<int64_t> given = n.opset() < 13 ? n.integers("axes") : n.integers(1);
  const int rank = x.rank() + static_cast<int>(given.size());
  std::vector<bool> fresh(rank);
  for (const int64_t axis : given) fresh[n.axis(axis, rank)] = true;
  Shape shape;
  for (int d = 0, from = 0; d < rank; ++d) {
    if (!fresh[d] && from >= x.rank()) n.refuse("an axis is given twice");
    shape.push_back(fresh[d] ? Dim(1) : x.dim(from++));
  }
  n.give(reshape(x, std::move(shape)));
}

void transposed(Node& n) {
  const Value x = n.in(0);
  Dims dims = dims_of(n.integers("perm"));
  if (!n.has("perm"))
    for (int d = x.rank() - 1; d >= 0; --d) dims.emplace_back(d);
  for (Dim& dim : dims)
    if (dim.constant() < 0) dim = dim + Dim(x.rank());
  n.give(permute(x, std::move(dims)));
}

void joined(Node& n) {
  Values parts;
  for (int i = 0; i < n.input_count(); ++i) parts.push_back(n.in(i));
  n.give(concat(parts, n.axis(n.integer("axis", n.opset() < 4 ? 1 : 0), parts[0].rank())));
}

// Splits known numbers, such as those of a shape; returns false for other inputs.
bool given_known_parts(Node& n, const Dims& sizes) {
  const std::optional<Known> known = n.known(0);
  if (!known || known->rank != 1) return false;
  const auto is_number = [](const Dim& size) { return size.is_constant() && size.constant() >= 0; };
  if (!std::all_of(sizes.begin(), sizes.end(), is_number)) return false;
  std::vector<Item> parts;
  size_t at = 0;
  for (const Dim& size : sizes) {
    const size_t end = at + static_cast<size_t>(size.constant());
    if (end > known->elements.size()) return false;
    const auto begin = known->elements.begin();
    parts.emplace_back(n.call().memory().make_known(
        {known->dtype, 1, {begin + static_cast<long>(at), begin + static_cast<long>(end)}}));
    at = end;
  }
  n.call().returns(std::move(parts));
  return true;
}

void split(Node& n) {
  const Value x = n.in(0);
  const int axis = n.axis(n.integer("axis", 0), x.rank());
  Dims sizes = n.opset() < 13 ? dims_of(n.integers("split")) : n.has(1) ? n.dims(1) : Dims{};
  if (sizes.empty()) {
    const int64_t parts = n.integer("num_outputs", n.output_count());
    const Dim part = ceildiv(x.dim(axis), parts);
    Dim left = x.dim(axis);
    for (int64_t i = 0; i + 1 < parts; ++i) {
      sizes.push_back(part);
      left = left - part;
    }
    if (left.is_constant() && left.constant() < 0) n.refuse("there are fewer elements than parts");
    sizes.push_back(left);
  }
  if (sizes.size() != static_cast<size_t>(n.output_count()))
    n.refuse(
        str_cat("it gives ", int64_t(sizes.size()), " parts, not ", int64_t{n.output_count()}));
  if (given_known_parts(n, sizes)) return;
  Values parts;
  Dim at = 0;
  for (const Dim& size : sizes) {
    parts.push_back(slice(x, axis, at, at + size));
    at = at + size;
  }
  n.give(parts);
}

void expanded(Node& n) {
  const Value x = n.in(0);
  const Result<Shape> shape = broadcast(x.shape(), n.dims(1));
  if (!shape.ok()) n.refuse(std::string(shape.status().message()));
  n.give(x.shape() == *shape ? x : expand(x, *shape));
}

void tiled(Node& n) {
  const Value x = n.in(0);
  if (n.opset() < 6) n.refuse("Tile of opset 5 and older is not supported");
  n.give(n.op("repeat", {x}, {{"repeats", n.dims(1)}}));
}

void padded(Node& n) {
  const Value x = n.in(0);
  const bool old = n.opset() < 11;
  const Dims given = !old ? n.terms(1) : dims_of(n.integers(n.opset() < 2 ? "paddings" : "pads"));
  const auto axes = n.opset() < 18 ? std::nullopt : n.axes(18, 3, x.rank());
  const size_t count = axes ? axes->size() : static_cast<size_t>(x.rank());
  if (given.size() != 2 * count) n.refuse("pads are not two for each axis");
  if (count > 0 && x.rank() == 0) n.refuse("it pads axes of a number");
  Dims pads = one_each(2 * x.rank(), 0);
  for (size_t i = 0; i < count; ++i) {
    const size_t d = axes ? static_cast<size_t>((*axes)[i]) : i;
    pads[2 * d] = given[i];
    pads[2 * d + 1] = given[count + i];
  }
  const std::string mode = n.string("mode", "constant");
  static constexpr std::pair<std::string_view, PadMode> kModes[] = {{"constant", PadMode::constant},
                                                                    {"reflect", PadMode::reflect},
                                                                    {"edge", PadMode::replicate},
                                                                    {"wrap", PadMode::circular}};
  const auto known = std::find_if(std::begin(kModes), std::end(kModes),
                                  [&](const auto& each) { return each.first == mode; });
  if (known == std::end(kModes)) n.refuse(str_cat("attribute 'mode' is '", mode, "'"));
  if (mode != "constant" || old || !n.has(2) || n.is_constant(2)) {
    const double value = mode != "constant" ? 0
                         : old              ? n.real("value", 0.0)
                         : n.has(2)         ? n.real(2)
                                            : 0;
    const bool exact = is_float(x.dtype()) || mode != "constant" || value == 0;
    if (exact) return n.give(pad(x, pads, known->second, value));
  }
  // For values that only the graph knows, and integers: selected where the padding is.
  const Value inside = pad(expand(n.graph().scalar(int64_t{1}, boolean), x.shape()), pads);
  const Value value = old ? constant_like(x, n.real("value", 0.0)) : reshape(n.in(2), {});
  n.give(where(inside, pad(x, pads), value));
}

void constant_of_shape(Node& n) {
  Graph& g = n.graph();
  Value value = g.scalar(0.0, f32);
  if (n.has("value")) value = reshape(g.constant(n.tensor("value")), {});
  n.give(expand(value, n.dims(0)));
}

void ranged(Node& n) {
  const DType dtype = n.type(0).dtype;
  Graph& g = n.graph();
  const Value start = reshape(n.in(0), {}), limit = reshape(n.in(1), {}),
              delta = reshape(n.in(2), {});
  Dim count;
  const auto a = n.known(0), b = n.known(1), c = n.known(2);
  for (const auto& known : {a, b, c})
    if (known && known->elements.size() != 1) n.refuse("an input is not one number");
  const bool sizes = is_integer(dtype) && a && b && c && a->elements[0].is_integral() &&
                     b->elements[0].is_integral() && c->elements[0].is_constant();
  if (sizes && c->elements[0].top.constant() > 0) {
    count = max(Dim(0), ceildiv(b->elements[0].top - a->elements[0].top, c->elements[0].top));
  } else {
    // max(ceil((limit - start) / delta), 0), in the precision of the inputs.
    const DType wide = is_float(dtype) ? dtype : f64;
    const Value steps = ceil((cast(limit, wide) - cast(start, wide)) / cast(delta, wide));
    count = n.call().size_of(cast(maximum(steps, constant_like(steps, 0)), i64));
  }
  Value i = cast(g.call("arange", {}, {{"end", count}}), dtype);
  // Exporters usually count from 0 by 1.
  if (!(sizes && c->elements[0].top == Dim(1))) i = i * delta;
  if (!(sizes && a->elements[0].top == Dim(0))) i = i + start;
  n.give(i);
}

void shape_of(Node& n) { n.refuse(str_cat("the shape ", n.type(0).shape, " has too many sizes")); }

void eye_like(Node& n) {
  const TensorType like = n.type(0);
  if (like.rank() != 2) n.refuse(str_cat("its input is ", like, ", not a matrix"));
  const DType dtype = n.dtype("dtype", like.dtype);
  Graph& g = n.graph();
  const Value rows = reshape(g.call("arange", {}, {{"end", like.shape[0]}}), {like.shape[0], 1});
  const Value columns = reshape(g.call("arange", {}, {{"end", like.shape[1]}}), {1, like.shape[1]});
  n.give(cast(eq(rows + g.scalar(n.integer("k", 0), i64), columns), dtype));
}

// A data-dependent diagonal selects elements by comparing it with column - row.
void triangle(Node& n) {
  const Value x = n.in(0);
  if (n.has(1) && n.only_data_decides(1)) {
    Graph& g = n.graph();
    const Dim &rows = x.dim(-2), &columns = x.dim(-1);
    const Value place = g.call("arange", {}, {{"end", columns}}) -
                        reshape(g.call("arange", {}, {{"end", rows}}), {rows, Dim(1)});
    const Value k = reshape(n.in(1), {});
    const Value kept = n.flag("upper", true) ? ge(place, k) : le(place, k);
    return n.give(where(kept, x, constant_like(x, 0)));
  }
  const Dim k = n.has(1) ? n.term(1) : Dim(0);
  n.give(n.flag("upper", true) ? triu(x, k) : tril(x, k));
}

void depth_to_space(Node& n) {
  const Value x = n.in(0);
  const Dim b = n.integer("blocksize"), c = floordiv(x.dim(1), b * b);
  const bool crd = n.string("mode", "DCR") == "CRD";
  const Value apart = crd ? reshape(x, {x.dim(0), c, b, b, x.dim(2), x.dim(3)})
                          : reshape(x, {x.dim(0), b, b, c, x.dim(2), x.dim(3)});
  const Value y = permute(apart, crd ? Dims{0, 1, 4, 2, 5, 3} : Dims{0, 3, 4, 1, 5, 2});
  n.give(reshape(y, {x.dim(0), c, x.dim(2) * b, x.dim(3) * b}));
}

void space_to_depth(Node& n) {
  const Value x = n.in(0);
  const Dim b = n.integer("blocksize"), h = floordiv(x.dim(2), b), w = floordiv(x.dim(3), b);
  const std::string mode = n.string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") n.refuse(str_cat("attribute 'mode' is '", mode, "'"));
  const Value apart = reshape(x, {x.dim(0), x.dim(1), h, b, w, b});
  const Value y = permute(apart, mode == "DCR" ? Dims{0, 3, 5, 1, 2, 4} : Dims{0, 1, 3, 5, 2, 4});
  n.give(reshape(y, {x.dim(0), x.dim(1) * b * b, h, w}));
}

void center_crop_pad(Node& n) {
  Value x = n.in(0);
  const Dims sizes = n.dims(1);
  std::vector<int> axes;
  for (const int64_t axis : n.integers("axes")) axes.push_back(n.axis(axis, x.rank()));
  if (!n.has("axes"))
    for (int d = 0; d < x.rank(); ++d) axes.push_back(d);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim have = x.dim(axes[i]), want = sizes.at(i);
    const Dim less = max(have - want, 0), more = max(want - have, 0), start = floordiv(less, 2);
    if (less != Dim(0)) x = slice(x, axes[i], start, start + min(have, want));
    if (more == Dim(0)) continue;
    Dims pads = one_each(2 * x.rank(), 0);
    pads[2 * axes[i]] = floordiv(more, 2);
    pads[2 * axes[i] + 1] = more - floordiv(more, 2);
    x = pad(x, std::move(pads));
  }
  n.give(x);
}

// How Col2Im arranges blocks along one axis of the image.
struct Folded {
  int64_t image, block, stride, dilation, before, after;
  // For uneven padding, makes the larger image and crops it.
  int64_t padded() const { return image + before + after; }
  int64_t places() const {
    const int64_t reach = padded() - dilation * (block - 1) - 1;
    return reach < 0 ? 0 : reach / stride + 1;
  }
  Value cut(const Value& y, int dim) const {
    return before == 0 && after == 0 ? y : slice(y, dim, before, before + image);
  }
};

// [n, c * blocks, places] to [n, c, h, w].
Value folded_plane(Node& n, const Value& x, const Folded& h, const Folded& w) {
  const Value y = n.op("col2im", {x},
                       {{"output_size", Dims{h.padded(), w.padded()}},
                        {"kernel_size", Dims{h.block, w.block}},
                        {"dilation", Dims{h.dilation, w.dilation}},
                        {"stride", Dims{h.stride, w.stride}}});
  return w.cut(h.cut(y, 2), 3);
}

// Any number of axes, one after another: [n, c, blocks..., places..., images...]. Each step turns
// the first block and the first place into the last image.
Value folded_axes(Node& n, const Value& x, const std::vector<Folded>& axes) {
  const auto axis_count = static_cast<int>(axes.size());
  Shape blocks, places;
  for (const Folded& axis : axes) {
    blocks.emplace_back(axis.block);
    places.emplace_back(axis.places());
  }
  Shape sizes = {x.dim(0), floordiv(x.dim(1), count(blocks))};
  sizes.insert(sizes.end(), blocks.begin(), blocks.end());
  sizes.insert(sizes.end(), places.begin(), places.end());
  constexpr Folded kNone = {
      .image = 1, .block = 1, .stride = 1, .dilation = 1, .before = 0, .after = 0};
  Value y = reshape(x, sizes);
  for (int d = 0; d < axis_count && y; ++d) {
    const int first_place = 2 + axis_count - d;
    Dims order = range(y.rank());
    order.erase(order.begin() + first_place);
    order.erase(order.begin() + 2);
    Shape rest;
    for (const Dim& dim : order) rest.push_back(y.dim(static_cast<int>(dim.constant())));
    order.emplace_back(2);
    order.emplace_back(first_place);
    const Folded& axis = axes[d];
    y = reshape(permute(y, order), {count(rest), axis.block, axis.places()});
    rest.emplace_back(axis.image);
    y = reshape(folded_plane(n, y, axis, kNone), rest);
  }
  return y;
}

void col_to_im(Node& n) {
  const Value x = n.in(0);
  const std::vector<int64_t> image = n.integers(1), block = n.integers(2);
  const auto count = image.size();
  const auto list = [&](std::string_view name, size_t length, int64_t fallback) {
    std::vector<int64_t> result =
        n.has(name) ? n.integers(name) : std::vector<int64_t>(length, fallback);
    if (result.size() != length)
      n.refuse(str_cat("attribute '", name, "' has ", int64_t(result.size()), " numbers for ",
                       int64_t(count), " spatial axes"));
    return result;
  };
  const auto strides = list("strides", count, 1), dilations = list("dilations", count, 1),
             pads = list("pads", 2 * count, 0);
  if (x.rank() != 3 || count == 0 || block.size() != count)
    n.refuse(str_cat("its input is ", x.shape(), ", its image has ", int64_t(count),
                     " axes and its block ", int64_t(block.size())));
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto within = [](int64_t least, int64_t number) {
    return number >= least && number <= kMost;
  };
  std::vector<Folded> axes;
  double pixels = 1, taps = 1;
  for (size_t d = 0; d < count; ++d) {
    const Folded axis = {image[d], block[d], strides[d], dilations[d], pads[d], pads[count + d]};
    if (!within(0, axis.image) || !within(1, axis.block) || !within(1, axis.stride) ||
        !within(1, axis.dilation) || !within(0, axis.before) || !within(0, axis.after))
      n.refuse(str_cat("axis ", int64_t(d), " of the image has sizes that it cannot have"));
    pixels *= static_cast<double>(axis.padded());
    taps *= static_cast<double>(axis.block);
    axes.push_back(axis);
  }
  if (std::max(pixels, taps) > static_cast<double>(kMost))
    n.refuse("its image and blocks are too large");
  n.give(count == 2 ? folded_plane(n, x, axes[0], axes[1]) : folded_axes(n, x, axes));
}

constexpr Builtin kRows[] = {
    {"onnx::Reshape", moving_row<reshaped>},
    {"onnx::Flatten", moving_row<flattened>},
    {"onnx::Squeeze", moving_row<squeezed>},
    {"onnx::Unsqueeze", moving_row<unsqueezed>},
    {"onnx::Transpose", moving_row<transposed>},
    {"onnx::Concat", moving_row<joined>},
    {"onnx::Split", row<split>},
    {"onnx::Expand", moving_row<expanded>},
    {"onnx::Tile", moving_row<tiled>},
    {"onnx::Pad", row<padded>},
    {"com.microsoft::Pad", row<padded>},
    {"onnx::ConstantOfShape", row<constant_of_shape>},
    {"onnx::Range", row<ranged>},
    {"com.microsoft::Range", row<ranged>},
    {"onnx::Shape", row<shape_of>},
    {"onnx::Size", row<shape_of>},
    {"onnx::EyeLike", row<eye_like>},
    {"onnx::Trilu", row<triangle>},
    {"com.microsoft::Trilu", row<triangle>},
    {"onnx::DepthToSpace", row<depth_to_space>},
    {"onnx::SpaceToDepth", row<space_to_depth>},
    {"onnx::CenterCropPad", row<center_crop_pad>},
    {"onnx::Col2Im", row<col_to_im>},
};

}  // namespace

Rows shape_rows() { return kRows; }

}  // namespace hg::convert::onnx
