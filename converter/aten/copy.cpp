// SPDX-License-Identifier: Apache-2.0
// Padding, repetition and flips; the results own their memory.
#include <algorithm>

#include "converter/aten/indexing.h"
#include "converter/rows/node_call.h"
#include "converter/rows/scalar.h"
#include "converter/rows/view.h"

namespace hg::convert::rows {
namespace {

// `pads` in torch's order: [begin, end] of the last dim, then of the one before, and so on.
void padded(Call& call, const Value& x, const Dims& pads, std::string_view argument,
            const std::string& mode, const Real& value) {
  const auto rank = static_cast<size_t>(x.rank());
  if (pads.size() % 2 != 0 || pads.size() > 2 * rank)
    call.refuse(argument,
                str_cat("has ", int64_t(pads.size()), " numbers for a tensor of rank ", x.rank()));
  Dims all(2 * rank, Dim(0));
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    all[2 * (rank - 1 - i)] = pads[2 * i];
    all[2 * (rank - 1 - i) + 1] = pads[2 * i + 1];
  }
  // Negative padding must not crop more than the dim has.
  for (size_t d = 0; d < rank; ++d) {
    int64_t cut = 0;
    for (const Dim& pad : {all[2 * d], all[2 * d + 1]})
      if (pad.is_constant()) cut += std::max<int64_t>(-pad.constant(), 0);
    if (cut > 0) call.graph().guard(cut, Relation::le, x.shape()[d], "a negative pad");
  }
  const auto pad = [&](const Value& v, double number) {
    return call.graph().call("pad", {v}, {{"pads", all}, {"mode", mode}, {"value", number}});
  };
  if (value.is_known()) return call.returns(pad(x, value.known()));
  const Value inside = pad(expanded(call.graph().scalar(int64_t{1}, boolean), x.shape()), 0);
  call.returns(call.graph().call("where", {inside, pad(x, 0), value.like(x)}));
}

void constant_pad(Call& call) {
  padded(call, call.tensor("self"), call.integers("pad"), "pad", "constant",
         scalar(call, "value", 0));
}

void pad(Call& call) {
  const std::string mode = call.string("mode", "constant");
  const Real value = scalar(call, "value", 0);
  if (mode != "constant" && !value.is(0))
    call.refuse("value", str_cat("is given for the mode '", mode, "'"));
  padded(call, call.tensor("self"), call.integers("pad"), "pad", mode, value);
}

void pad_enum(Call& call) {
  constexpr const char* kModes[] = {"constant", "reflect", "replicate", "circular"};
  const int64_t mode = call.number("mode");
  if (mode < 0 || mode > 3) call.refuse("mode", str_cat("is ", mode));
  padded(call, call.tensor("self"), call.integers("pad"), "pad", kModes[mode],
         mode == 0 ? scalar(call, "value", 0) : Real(call.real("value", 0)));
}

void pad_circular(Call& call) {
  padded(call, call.tensor("self"), call.integers("pad"), "pad", "circular", 0);
}

template <int kDims>
void reflection_pad(Call& call) {
  padded(call, call.tensor("self"), call.integers("padding", 2 * kDims), "padding", "reflect", 0);
}
template <int kDims>
void replication_pad(Call& call) {
  padded(call, call.tensor("self"), call.integers("padding", 2 * kDims), "padding", "replicate", 0);
}

void triangle(Call& call, std::string_view op) {
  call.returns(call.graph().call(op, {call.tensor("self")},
                                 {{"diagonal", diagonal_offset(call, "diagonal")}}));
}
void tril(Call& call) { triangle(call, "tril"); }
void triu(Call& call) { triangle(call, "triu"); }

// Returns the positions in a triangle of a matrix, as two rows. tril keeps column - row <= offset.
template <bool kLower>
void triangle_indices(Call& call) {
  const Dim open_rows = call.size("row"), open_columns = call.size("col");
  const DType dtype = call.dtype("dtype", i64);
  Graph& g = call.graph();
  if (!open_rows.is_constant() || !open_columns.is_constant()) {
    const Value all = expanded(g.scalar(int64_t{1}, boolean), {open_rows, open_columns});
    const Value kept =
        g.call(kLower ? "tril" : "triu", {all}, {{"diagonal", diagonal_offset(call, "offset")}});
    const Value found = g.call("permute", {nonzero_of(kept)}, {{"dims", Dims{1, 0}}});
    return call.returns(convert::cast(found, dtype));
  }
  const int64_t rows = open_rows.constant(), columns = open_columns.constant();
  const int64_t offset = call.number("offset", 0);
  std::vector<int64_t> found[2];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      if (kLower ? c - r > offset : c - r < offset) continue;
      found[0].push_back(r);
      found[1].push_back(c);
    }
  }
  const auto n = static_cast<int64_t>(found[0].size());
  found[0].insert(found[0].end(), found[1].begin(), found[1].end());
  const Result<TensorData> data = TensorData::copy_of(hg::view(found[0], {2, n}));
  if (!data.ok()) call.refuse("row", data.status().message());
  call.returns(convert::cast(g.constant(*data), dtype));
}

Value diag_embedded(const Value& x, const Dim& offset, int dim1, int dim2) {
  const Dim size = x.dim(-1) + max(offset, Dim(0) - offset);
  Shape shape(x.shape().begin(), x.shape().end() - 1);
  shape.insert(shape.begin() + std::min(dim1, dim2), size);
  shape.insert(shape.begin() + std::max(dim1, dim2), size);
  Graph& g = *x.graph();
  return g.call("diagonal_scatter", {zeros(g, x.dtype(), shape), x},
                {{"offset", offset}, {"dim1", dim1}, {"dim2", dim2}});
}

void diag_embed(Call& call) {
  const Value x = call.tensor("self");
  if (x.rank() == 0) call.refuse("self", "has no dims");
  const int dim1 = axis_of(call, "dim1", x.rank() + 1, -2);
  const int dim2 = axis_of(call, "dim2", x.rank() + 1, -1);
  if (dim1 == dim2) call.refuse("dim2", "is the same as dim1");
  call.returns(diag_embedded(x, diagonal_offset(call, "offset"), dim1, dim2));
}

void diag(Call& call) {
  const Value x = call.tensor("self");
  const Dim offset = diagonal_offset(call, "diagonal");
  if (x.rank() == 1) return call.returns(diag_embedded(x, offset, 0, 1));
  if (x.rank() != 2) call.refuse("self", str_cat("has rank ", x.rank(), ", but must have 1 or 2"));
  call.returns(call.graph().call("diagonal", {x}, {{"offset", offset}}));
}

void diagflat(Call& call) {
  const Value x = call.tensor("self");
  call.returns(
      diag_embedded(reshaped(x, {count(x.shape())}), diagonal_offset(call, "offset"), 0, 1));
}

void flip_dims(Call& call, Dims dims) {
  call.returns(call.graph().call("flip", {call.tensor("self")}, {{"dims", std::move(dims)}}));
}

void flip(Call& call) {
  Dims dims;
  for (int axis : axes_of(call, "dims", call.tensor("self").rank())) dims.emplace_back(axis);
  flip_dims(call, dims);
}
void fliplr(Call& call) { flip_dims(call, {1}); }
void flipud(Call& call) { flip_dims(call, {0}); }

void rot90(Call& call) {
  const Value x = call.tensor("self");
  const auto dims = call.has("dims") ? axes_of(call, "dims", x.rank()) : std::vector<int>{0, 1};
  if (dims.size() != 2) call.refuse("dims", "must be two dims");
  const int64_t turns = ((call.number("k", 1) % 4) + 4) % 4;
  const auto flipped = [&](Dims along) {
    return call.graph().call("flip", {x}, {{"dims", std::move(along)}});
  };
  if (turns == 0) return call.returns(call.graph().call("contiguous", {x}));
  if (turns == 2) return call.returns(flipped({dims[0], dims[1]}));
  Dims swap;
  for (int d = 0; d < x.rank(); ++d) swap.emplace_back(d);
  std::swap(swap[dims[0]], swap[dims[1]]);
  call.returns(permute(flipped({turns == 1 ? dims[1] : dims[0]}), swap));
}

void roll(Call& call) {
  const Value x = call.tensor("self");
  const Dims shifts = integer_list(call, "shifts");
  const Dims given = integer_list(call, "dims");
  Graph& g = call.graph();
  if (given.empty()) {
    if (shifts.size() != 1) call.refuse("dims", "is empty, but there are several shifts");
    const Value flat = reshaped(x, {count(x.shape())});
    return call.returns(
        reshaped(g.call("roll", {flat}, {{"shifts", shifts}, {"dims", Dims{0}}}), x.shape()));
  }
  if (given.size() != shifts.size()) call.refuse("dims", "differs in length from shifts");
  if (x.rank() == 0) call.refuse("dims", "is given for a tensor without dims");
  Dims dims, sums;  // if a dim occurs twice, its shifts are added
  for (size_t i = 0; i < given.size(); ++i) {
    const Dim axis = normalized_axis(call, "dims", given[i], x.rank());
    const auto found = std::find(dims.begin(), dims.end(), axis);
    if (found == dims.end()) {
      dims.push_back(axis);
      sums.push_back(shifts[i]);
    } else {
      Dim& sum = sums[found - dims.begin()];
      sum = sum + shifts[i];
    }
  }
  call.returns(g.call("roll", {x}, {{"shifts", sums}, {"dims", dims}}));
}

void repeated(Call& call, Dims repeats) {
  const Value x = call.tensor("self");
  call.returns(call.graph().call("repeat", {x}, {{"repeats", std::move(repeats)}}));
}

void repeat(Call& call) { repeated(call, call.sizes("repeats")); }

void tile(Call& call) {
  Dims dims = call.integers("dims");
  const auto rank = static_cast<size_t>(call.tensor("self").rank());
  if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), Dim(1));
  // PyTorch takes a negative number for a dim of size 0.
  for (size_t d = 0; d < dims.size(); ++d) {
    const Dim size =
        d < dims.size() - rank ? Dim(1) : call.tensor("self").dim(d + rank - dims.size());
    call.graph().guard(0, Relation::le, size * dims[d], "tile");
    dims[d] = max(dims[d], 0);
  }
  repeated(call, dims);
}

// Returns the index of each repeated element; computed at conversion if the repeats are constants.
Value repeat_indices(Call& call, const Value& repeats, std::string_view argument) {
  Graph& g = call.graph();
  if (repeats.rank() != 1) call.refuse(argument, "must have one dim");
  const TensorData* known = g.constant_of(repeats.id());
  if (known == nullptr || known->tensor.dtype != i64 || !known->tensor.is_contiguous())
    return g.call("repeat_interleave", {convert::cast(repeats, i64)});
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < known->tensor.count(); ++i) {
    const int64_t times = known->tensor.as<int64_t>()[i];
    if (times < 0) call.refuse(argument, str_cat("holds the negative number ", times));
    indices.insert(indices.end(), static_cast<size_t>(times), i);
  }
  const Result<TensorData> data =
      TensorData::copy_of(hg::view(indices, {static_cast<int64_t>(indices.size())}));
  if (!data.ok()) call.refuse(argument, data.status().message());
  return g.constant(*data);
}

void repeat_interleave(Call& call) {
  Graph& g = call.graph();
  if (call.find("self") == nullptr)
    return call.returns(repeat_indices(call, call.tensor("repeats"), "repeats"));
  Value x = call.tensor("self");
  int dim = 0;
  if (call.has("dim") && x.rank() > 0)
    dim = axis_of(call, "dim", x.rank(), 0);
  else
    x = reshaped(x, {count(x.shape())});
  if (scalar_of(*call.find("repeats"))) {
    const Dim times = call.size("repeats");
    if (times.is_constant() && times.constant() < 0) call.refuse("repeats", "is negative");
    Shape apart = x.shape(), joined = x.shape();
    apart.insert(apart.begin() + dim + 1, Dim(1));
    Shape wide = apart;
    wide[dim + 1] = times;
    joined[dim] = x.dim(dim) * times;
    return call.returns(reshaped(expanded(reshaped(x, apart), wide), joined));
  }
  Value repeats = call.tensor("repeats");
  if (repeats.rank() > 1) call.refuse("repeats", "must have one dim or none");
  if (repeats.rank() == 0 || repeats.shape() == Shape{1})
    repeats = expanded(reshaped(repeats, {1}), {x.dim(dim)});
  const Value indices = repeat_indices(call, repeats, "repeats");
  call.returns(g.call("index_select", {x, indices}, {{"dim", dim}}));
}

constexpr SharedTraits kShared = {.complex = OnComplex::parts, .layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {.op = "aten::constant_pad_nd", .run = constant_pad, .layout = ResultLayout::padded},
    {.op = "aten::pad", .run = pad, .layout = ResultLayout::padded},
    {"aten::_pad_enum", pad_enum},
    {"aten::_pad_circular", pad_circular},
    {"aten::reflection_pad1d", reflection_pad<1>},
    {"aten::reflection_pad2d", reflection_pad<2>},
    {"aten::reflection_pad3d", reflection_pad<3>},
    {"aten::replication_pad1d", replication_pad<1>},
    {"aten::replication_pad2d", replication_pad<2>},
    {"aten::replication_pad3d", replication_pad<3>},
    {.op = "aten::tril", .run = tril, .layout = ResultLayout::row_major},
    {.op = "aten::triu", .run = triu, .layout = ResultLayout::row_major},
    {"aten::tril_indices", triangle_indices<true>, OnComplex::refused},
    {"aten::triu_indices", triangle_indices<false>, OnComplex::refused},
    {"aten::diag_embed", diag_embed},
    {"aten::diag", diag},
    {"aten::diagflat", diagflat},
    {.op = "aten::flip", .run = flip, .layout = ResultLayout::elementwise},
    {.op = "aten::fliplr", .run = fliplr, .layout = ResultLayout::elementwise},
    {.op = "aten::flipud", .run = flipud, .layout = ResultLayout::elementwise},
    {.op = "aten::rot90", .run = rot90, .layout = ResultLayout::unknown},
    {.op = "aten::roll", .run = roll, .layout = ResultLayout::row_major},
    {.op = "aten::repeat", .run = repeat, .layout = ResultLayout::row_major},
    {.op = "aten::tile", .run = tile, .layout = ResultLayout::row_major},
    {.op = "aten::repeat_interleave", .run = repeat_interleave, .layout = ResultLayout::row_major},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> copy() { return kTable; }

}  // namespace hg::convert::rows
