// SPDX-License-Identifier: Apache-2.0
// Views of parts of a tensor, and lists of such views.
#include <algorithm>

#include "converter/containers/container_ops.h"
#include "converter/memory/alias.h"
#include "converter/rows/view.h"
#include "converter/script/fold.h"

namespace hg::convert::rows {
namespace {

struct Along {
  int dim;
  Dim size;
};

// Returns the dim that an op works along, and its size.
Along along(Call& call, std::string_view argument = "dim", int64_t fallback = 0) {
  const Value x = call.tensor("self");
  if (x.rank() == 0) call.refuse("self", "has no dims");
  const int dim = axis_of(call, argument, x.rank(), fallback);
  return {dim, x.dim(dim)};
}

void slice_row(Call& call) {
  const Along a = along(call);
  const Bounds b = slice_bounds(call, a.size);
  give_view(call, slice_view(a.dim, b.start, b.end, call.size("step", 1)));
}

bool depends_on_data(const Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  return item != nullptr && item->is_tensor() && !std::get<TensorRef>(item->value)->known();
}

void select(Call& call) {
  const Along a = along(call);
  if (depends_on_data(call, "index")) {
    Shape shape = call.tensor("self").shape();
    shape.erase(shape.begin() + a.dim);
    View view = then(index_view(a.dim, call.keep(data_index(call, call.tensor("index"), a.size))),
                     reshape_view(std::move(shape)));
    return give_view(call, std::move(view));
  }
  give_view(call, select_view(a.dim, wrapped(call, "index", call.integer("index"), a.size)));
}

void narrow(Call& call) {
  const Along a = along(call);
  if (depends_on_data(call, "start")) {
    const Value steps = call.graph().call("arange", {}, {{"end", call.size("length")}});
    const Value at =
        call.graph().call("add", {data_index(call, call.tensor("start"), a.size), steps});
    return give_view(call, index_view(a.dim, call.keep(at)));
  }
  const Dim given = call.integer("start"), length = call.size("length");
  // A negative start counts from the end. The size itself is a valid start of an empty slice.
  const Dim is_negative = min(max(-given, 0), 1);
  const Dim start = given + a.size * is_negative;
  call.graph().guard(0, Relation::le, start, "narrow");
  call.graph().guard(0, Relation::le, length, "narrow");
  call.graph().guard(start + length, Relation::le, a.size, "narrow");
  give_view(call, slice_view(a.dim, start, start + length));
}

// Returns consecutive parts of these sizes.
void parts(Call& call, int dim, const Dims& sizes) {
  std::vector<View> views;
  Dim start = 0;
  for (const Dim& size : sizes) {
    views.push_back(slice_view(dim, start, start + size));
    start = start + size;
  }
  give_views(call, std::move(views));
}

void parts_of_sizes(Call& call, std::string_view argument) {
  const Along a = along(call);
  const Dims sizes = call.sizes(argument);
  Dim sum = 0;
  for (const Dim& size : sizes) sum = sum + size;
  const Dim left = a.size - sum;
  if (left.is_constant() && left.constant() != 0)
    call.refuse(argument, str_cat("sums up to ", sum, ", but the dim has size ", a.size));
  call.graph().guard(sum, Relation::eq, a.size, "split");
  parts(call, a.dim, sizes);
}

// Returns `pieces` parts of `size`; the last one may be smaller.
void equal_parts(Call& call, const Along& a, const Dim& size, int64_t pieces) {
  Dims sizes(pieces, size);
  if (pieces > 0) sizes.back() = a.size - size * (pieces - 1);
  parts(call, a.dim, sizes);
}

// Returns parts of `size` whose number depends on sizes; for most sizes it is `usual`. The first
// ones are `larger` by one.
void give_pieces(Call& call, const Along& a, const Dim& size, Dim count, int64_t usual,
                 Dim larger = 0) {
  const TensorRef base = call.ref("self");
  if (call.is_complex(base))
    call.refuse("self", str_cat("has the symbolic size ", a.size, " along dim ", a.dim,
                                ", so the number of parts is not known"));
  auto list = std::make_shared<List>();
  list->pieces = std::make_shared<Pieces>(Pieces{
      base, a.dim, size, std::move(count), std::move(larger), usual, is_copy(call), &call.graph()});
  call.returns({Item(std::move(list))});
}

void split(Call& call) {
  const std::string_view name = call.find("split_size") != nullptr ? "split_size" : "split_sizes";
  if (call.find(name) != nullptr && call.find(name)->is_list()) return parts_of_sizes(call, name);
  const Along a = along(call);
  Dim size = call.size(name);
  if (a.size == Dim(0)) return parts(call, a.dim, {0});
  if (size.is_constant() && size.constant() <= 0) call.refuse(name, "must be positive");
  if (call.is_of_data(name)) {  // PyTorch accepts 0 for an empty dim
    call.graph().guard(min(a.size, 1), Relation::le, size, "a split size that must be positive");
    size = max(size, 1);
  }
  const Dim pieces = ceildiv(a.size, size);
  if (!pieces.is_constant()) return give_pieces(call, a, size, max(pieces, 1), 0);
  equal_parts(call, a, size, pieces.constant());
}

void split_with_sizes(Call& call) { parts_of_sizes(call, "split_sizes"); }

// Returns the number of parts that chunk() gives. For an empty dim, it is the requested one.
Dim count_of_chunks(const Dim& size, const Dim& part, const Dim& chunks) {
  const Dim none = 1 - min(size, 1);
  return max(min(ceildiv(size, max(part, 1)), chunks), none * chunks);
}

void chunk_by_data(Call& call, const Along& a) {
  const Dim given = call.size("chunks");
  call.graph().guard(1, Relation::le, given, "a number of chunks that must be positive");
  const Dim chunks = max(given, 1), size = ceildiv(a.size, chunks);
  give_pieces(call, a, size, count_of_chunks(a.size, size, chunks), 0);
}

void chunk(Call& call) {
  const Along a = along(call);
  if (call.is_of_data("chunks")) return chunk_by_data(call, a);
  const int64_t chunks = call.number("chunks");
  if (chunks < 1) call.refuse("chunks", "must be positive");
  const Dim size = ceildiv(a.size, chunks);
  if (a.size == Dim(0)) return parts(call, a.dim, Dims(chunks, Dim(0)));
  if (a.size.is_constant()) return equal_parts(call, a, size, ceildiv(a.size, size).constant());
  if (floordiv(a.size, chunks) * chunks == a.size)
    return parts(call, a.dim, Dims(chunks, floordiv(a.size, chunks)));
  give_pieces(call, a, size, count_of_chunks(a.size, size, chunks), chunks);
}

// Returns `sections` parts. If the size is not divisible, the first ones are larger by one.
void sections_of(Call& call, const Along& a, const Dim& sections) {
  if (!sections.is_constant()) {
    call.graph().guard(1, Relation::le, sections, "a number of sections that must be positive");
    const Dim count = max(sections, 1), size = floordiv(a.size, count);
    return give_pieces(call, a, size, count, 0, a.size - size * count);
  }
  const int64_t count = sections.constant();
  if (count < 1) call.refuse("sections", "must be positive");
  Dims sizes;
  for (int64_t i = 0; i < count; ++i) sizes.push_back(floordiv(a.size + (count - 1 - i), count));
  parts(call, a.dim, sizes);
}

void cuts_of(Call& call, const Along& a, const Dims& indices) {
  std::vector<View> views;
  for (size_t i = 0; i <= indices.size(); ++i) {
    const Bounds b = bounds_of(call, i == 0 ? Dim(0) : indices[i - 1],
                               i == indices.size() ? a.size : indices[i], a.size);
    views.push_back(slice_view(a.dim, b.start, b.end));
  }
  give_views(call, std::move(views));
}

// Data-dependent split positions: each part selects the positions from its start to before its end.
void cuts_of_data(Call& call, const Along& a, const Value& given) {
  Graph& g = call.graph();
  if (given.rank() == 0) return sections_of(call, a, call.size_of(given));
  if (given.rank() != 1 || !given.dim(0).is_constant())
    call.refuse("tensor_indices_or_sections",
                "depends on data, so that the number of parts is not known");
  const Value places = g.call("arange", {}, {{"end", a.size}});
  const int64_t count = given.dim(0).constant();
  std::vector<View> views;
  Value behind =
      g.call("ge", {places, g.scalar(int64_t{0}, i64)});  // positions from the start of the part on
  for (int64_t i = 0; i <= count; ++i) {
    Value kept = behind;
    if (i < count) {
      const Value cut = data_index(call, slice(given, 0, i, i + 1), a.size);
      kept = g.call("logical_and", {behind, g.call("lt", {places, cut})});
      behind = g.call("ge", {places, cut});
    }
    const Value found = g.call("nonzero", {kept});
    const Value at = reshaped(found, {found.dim(0)});
    views.push_back(index_view(a.dim, call.keep(at)));
  }
  give_views(call, std::move(views));
}

void split_along(Call& call, const Along& a) {
  if (call.has("indices")) return cuts_of(call, a, call.integers("indices"));
  if (call.has("sections")) return sections_of(call, a, call.size("sections"));
  // A constant tensor: a number without dims, or a list of indices.
  const Value given = call.tensor("tensor_indices_or_sections");
  const TensorData* data = call.graph().constant_of(given.id());
  if (data == nullptr || data->tensor.dtype != i64) return cuts_of_data(call, a, given);
  if (given.rank() == 0) return sections_of(call, a, *data->tensor.as<int64_t>());
  const Result<TensorData> listed = TensorData::copy_of(data->tensor);
  if (!listed.ok()) call.refuse("tensor_indices_or_sections", listed.status().message());
  Dims indices;
  for (int64_t i = 0; i < listed->tensor.count(); ++i)
    indices.emplace_back(listed->tensor.as<int64_t>()[i]);
  cuts_of(call, a, indices);
}

void tensor_split(Call& call) { split_along(call, along(call)); }

// hsplit, vsplit, dsplit: the sections must divide the size.
void split_dim(Call& call, int dim) {
  const Value x = call.tensor("self");
  if (x.rank() <= dim && !(x.rank() == 1 && dim == 1)) call.refuse("self", "has too few dims");
  if (x.rank() == 1) dim = 0;
  const Along a{dim, x.dim(dim)};
  if (call.has("sections"))
    call.graph().guard(mod(a.size, max(call.size("sections"), 1)), Relation::eq, 0,
                       "sections that must divide the size");
  split_along(call, a);
}
void hsplit(Call& call) { split_dim(call, 1); }
void vsplit(Call& call) {
  if (call.tensor("self").rank() < 2) call.refuse("self", "has too few dims");
  split_dim(call, 0);
}
void dsplit(Call& call) { split_dim(call, 2); }

void unbind(Call& call) {
  const Along a = along(call);
  if (!a.size.is_constant())
    call.refuse("self", str_cat("has the symbolic size ", a.size, " along dim ", a.dim,
                                ", so the number of parts is not known"));
  std::vector<View> views;
  for (int64_t i = 0; i < a.size.constant(); ++i) views.push_back(select_view(a.dim, i));
  give_views(call, std::move(views));
}

// Returns x with src written into a slice.
void slice_scatter(Call& call) {
  const Along a = along(call);
  const Bounds b = slice_bounds(call, a.size);
  const View view = slice_view(a.dim, b.start, b.end, call.size("step", 1));
  const Value x = call.tensor("self"), src = convert::cast(call.tensor("src"), x.dtype());
  call.returns(view.inverse(x, expanded(src, view.forward(x).shape())));
}

void select_scatter(Call& call) {
  const Along a = along(call);
  const Value x = call.tensor("self"), src = convert::cast(call.tensor("src"), x.dtype());
  const View view = select_view(a.dim, wrapped(call, "index", call.integer("index"), a.size));
  call.returns(view.inverse(x, src));
}

void diagonal_scatter(Call& call) {
  const Value x = call.tensor("self"), src = convert::cast(call.tensor("src"), x.dtype());
  call.returns(call.graph().call("diagonal_scatter", {x, src},
                                 {{"offset", diagonal_offset(call, "offset")},
                                  {"dim1", axis_of(call, "dim1", x.rank(), 0)},
                                  {"dim2", axis_of(call, "dim2", x.rank(), 1)}}));
}

void as_strided_scatter(Call& call) {
  const Value x = call.tensor("self"), src = convert::cast(call.tensor("src"), x.dtype());
  call.returns(call.graph().call("as_strided_scatter", {x, src},
                                 {{"size", call.sizes("size")},
                                  {"stride", call.sizes("stride")},
                                  {"storage_offset", call.size("storage_offset", 0)}}));
}

constexpr SharedTraits kShared = {.complex = OnComplex::parts};
constexpr Row kRows[] = {
    {.op = "aten::slice",
     .run = slice_row,
     .fold = {fold::pick},
     .script = {grown::by_data, containers::slice},
     .grown_list = grown::slice,
     .passes_grown = true},
    {"aten::slice_copy", slice_row},
    {.op = "aten::select", .run = select, .fold = {fold::pick}},
    {"aten::select_copy", select},
    {"aten::narrow", narrow},
    {"aten::narrow_copy", narrow},
    {.op = "aten::split",
     .run = split,
     .script = {texts::split},
     .numbers = {{{"split_size", DrawnNumbers::parts}, {"split_sizes", DrawnNumbers::parts}}}},
    {.op = "aten::split_copy", .run = split, .numbers = {{{"split_sizes", DrawnNumbers::parts}}}},
    {.op = "aten::unsafe_split", .run = split, .numbers = {{{"split_sizes", DrawnNumbers::parts}}}},
    {.op = "aten::split_with_sizes",
     .run = split_with_sizes,
     .numbers = {{{"split_sizes", DrawnNumbers::parts}}}},
    {.op = "aten::split_with_sizes_copy",
     .run = split_with_sizes,
     .numbers = {{{"split_sizes", DrawnNumbers::parts}}}},
    {.op = "aten::unsafe_split_with_sizes",
     .run = split_with_sizes,
     .numbers = {{{"split_sizes", DrawnNumbers::parts}}}},
    {"aten::chunk", chunk},
    {"aten::unsafe_chunk", chunk},
    {"aten::tensor_split", tensor_split},
    {"aten::hsplit", hsplit},
    {"aten::vsplit", vsplit},
    {"aten::dsplit", dsplit},
    {.op = "aten::unbind", .run = unbind, .script = {grown::unbind}},
    {"aten::unbind_copy", unbind},
    {"aten::slice_scatter", slice_scatter},
    {"aten::select_scatter", select_scatter},
    {"aten::diagonal_scatter", diagonal_scatter},
    {"aten::as_strided_scatter", as_strided_scatter},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

Value data_index(Call& call, const Value& given, const Dim& size) {
  Graph& g = call.graph();
  const Value index = reshaped(convert::cast(given, i64), {1});
  const Value sizes = g.call("arange", {}, {{"start", size}, {"end", size + 1}});
  const Value zero = g.scalar(int64_t{0}, i64);
  return g.call("where", {g.call("lt", {index, zero}), g.call("add", {index, sizes}), index});
}

std::span<const Row> slice() { return kTable; }

}  // namespace hg::convert::rows
