// SPDX-License-Identifier: Apache-2.0
#include "converter/rows/view.h"

#include <algorithm>
#include <numeric>

#include "hg/ops/compare.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

constexpr int64_t kFar = int64_t{1} << 62;  // the end of a Python slice without an end

// Whether the size contains a symbol from Graph::fresh_symbol.
bool decided_by_data(const Dim& dim) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), [](const std::string& symbol) {
    return symbol.size() > 1 && symbol[0] == 'u' &&
           symbol.find_first_not_of("0123456789", 1) == std::string::npos;
  });
}

}  // namespace

View reshape_view(Shape shape) {
  return {[shape](Value base) { return reshaped(base, shape); },
          [](Value base, Value value) { return reshaped(value, base.shape()); },
          [shape](const Layout& base, const Shape& from) { return viewed(base, from, shape); }};
}

View permute_view(Dims dims) {
  Dims inverse(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) inverse[dims[i].constant()] = static_cast<int64_t>(i);
  return {[dims](Value base) { return permute(base, dims); },
          [inverse](Value, Value value) { return permute(value, inverse); },
          [dims](const Layout& base, const Shape&) {
            Layout layout{{}, base.offset};
            for (const Dim& dim : dims) layout.strides.push_back(base.strides[dim.constant()]);
            return std::optional(layout);
          }};
}

View slice_view(int dim, Dim start, Dim end, Dim step) {
  const auto attrs = [=] {
    return NamedAttrs{{"dim", dim}, {"start", start}, {"end", end}, {"step", step}};
  };
  return {[=](Value base) {
            if (start == Dim(0) && end == base.dim(dim) && step == Dim(1)) return base;
            return base.graph()->call("slice", {base}, attrs());
          },
          [=](Value base, Value value) {
            if (start == Dim(0) && end == base.dim(dim) && step == Dim(1)) return value;
            return base.graph()->call("slice_scatter", {base, value}, attrs());
          },
          [=](const Layout& base, const Shape&) {
            Layout layout = base;
            Dim& stride = layout.strides[dim];
            layout.offset = layout.offset + start * stride;
            stride = stride * step;
            return std::optional(layout);
          }};
}

View select_view(int dim, Dim index) {
  const View one = slice_view(dim, index, index + 1);
  return {[=](Value base) {
            Shape shape = base.shape();
            shape.erase(shape.begin() + dim);
            return reshaped(one.forward(base), shape);
          },
          [=](Value base, Value value) {
            Shape shape = base.shape();
            shape[dim] = 1;
            return one.inverse(base, reshaped(value, shape));
          },
          [=](const Layout& base, const Shape& from) {
            std::optional<Layout> layout = one.relayout(base, from);
            layout->strides.erase(layout->strides.begin() + dim);
            return layout;
          }};
}

View index_view(int dim, std::function<Value()> indices) {
  return {[=](Value base) {
            return base.graph()->call("index_select", {base, indices()}, {{"dim", dim}});
          },
          [=](Value base, Value value) {
            Shape shape(base.rank(), Dim(1));
            shape[dim] = value.dim(dim);
            const Value index = expanded(reshaped(indices(), shape), value.shape());
            return base.graph()->call("scatter", {base, index, value}, {{"dim", dim}});
          },
          {}};
}

View expand_view(Shape shape) {
  return {[shape](Value base) { return expanded(base, shape); },
          [shape](Value base, Value value) {
            if (!(count(base.shape()) == count(shape)))
              throw Refusal{str_cat("a write through a tensor of shape ", base.shape(),
                                    " that was expanded to ", shape),
                            "use clone() or repeat() before the write"};
            return reshaped(value, base.shape());
          },
          [shape](const Layout& base, const Shape& from) {
            Layout layout{Shape(shape.size(), Dim(0)), base.offset};
            const size_t added = shape.size() - from.size();
            for (size_t d = 0; d < from.size(); ++d)
              if (from[d] == shape[added + d]) layout.strides[added + d] = base.strides[d];
            return std::optional(layout);
          }};
}

View diagonal_view(Dim offset, int dim1, int dim2) {
  const auto attrs = [=] { return NamedAttrs{{"offset", offset}, {"dim1", dim1}, {"dim2", dim2}}; };
  return {[=](Value base) { return base.graph()->call("diagonal", {base}, attrs()); },
          [=](Value base, Value value) {
            return base.graph()->call("diagonal_scatter", {base, value}, attrs());
          },
          [=](const Layout& base, const Shape&) -> std::optional<Layout> {
            if (offset.lower_bound() < 0) return std::nullopt;
            const auto a = static_cast<size_t>(dim1), b = static_cast<size_t>(dim2);
            Layout layout{{}, base.offset + offset * base.strides[b]};
            for (size_t d = 0; d < base.strides.size(); ++d)
              if (d != a && d != b) layout.strides.push_back(base.strides[d]);
            layout.strides.push_back(base.strides[a] + base.strides[b]);
            return layout;
          }};
}

View then(View first, View second) {
  return {[=](Value base) { return second.forward(first.forward(base)); },
          [=](Value base, Value value) {
            return first.inverse(base, second.inverse(first.forward(base), value));
          },
          {}};
}

View detach_view() {
  return {[](Value base) { return detach(base); },
          [](Value base, Value value) {
            return detach(value) + nan_to_num(base - detach(base));  // adds 0, also if infinite
          },
          [](const Layout& base, const Shape&) { return std::optional(base); }};
}

bool is_copy(const Call& call) {
  return call.kind().ends_with("_copy") || call.kind().starts_with("aten::unsafe_");
}

Item view_of(Call& call, const TensorRef& base, View view) {
  if (is_copy(call)) return Item(call.make_tensor(view.forward(call.read(base))));
  return Item(call.make_view(base, std::move(view.forward), std::move(view.inverse),
                             std::move(view.relayout)));
}

void give_view(Call& call, View view, std::string_view argument) {
  call.returns({view_of(call, call.ref(argument), std::move(view))});
}

void give_shared(Call& call, View view, std::optional<bool> shares, std::string_view argument) {
  const TensorRef base = call.ref(argument);
  if (shares == true) return call.returns({view_of(call, base, std::move(view))});
  const TensorRef copy = call.make_tensor(view.forward(call.read(base)));
  if (!shares) call.may_share(copy, base);
  call.returns(std::vector<Item>{Item(copy)});
}

void give_views(Call& call, std::vector<View> views, std::string_view argument) {
  auto list = std::make_shared<List>();
  for (View& view : views)
    list->items.push_back(view_of(call, call.ref(argument), std::move(view)));
  call.returns({Item(std::move(list))});
}

int normalized_axis(const Call& call, std::string_view argument, const Dim& dim, int rank) {
  if (decided_by_data(dim)) call.refuse_data(argument);
  if (!dim.is_constant()) call.refuse(argument, str_cat("is ", dim, ", but must be a number"));
  const Result<int> axis = normalize_axis(dim.constant(), rank);
  if (!axis.ok()) call.refuse(argument, str_cat("is wrong: ", axis.status().message()));
  return *axis;
}

int axis_of(const Call& call, std::string_view argument, int rank, int64_t fallback) {
  return normalized_axis(call, argument, call.integer(argument, fallback), rank);
}

Dims integer_list(const Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  return item != nullptr && item->is_int() ? Dims{call.integer(argument)} : call.integers(argument);
}

std::vector<int> axes_of(const Call& call, std::string_view argument, int rank) {
  std::vector<int> axes;
  if (!call.has(argument)) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  for (const Dim& dim : integer_list(call, argument)) {
    const int axis = normalized_axis(call, argument, dim, rank);
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      call.refuse(argument, str_cat("names dim ", axis, " twice"));
    axes.push_back(axis);
  }
  return axes;
}

Shape at_least(Shape shape, int rank) {
  if (rank >= 1 && shape.empty()) shape = {1};
  if (rank >= 2 && shape.size() == 1) shape.insert(shape.begin(), Dim(1));
  if (rank >= 3 && shape.size() == 2) shape.push_back(1);
  return shape;
}

Shape broadcast_shape(const Call& call, std::string_view argument, const Shape& a, const Shape& b) {
  Result<Shape> shape = broadcast(a, b);
  if (!shape.ok()) call.refuse(argument, shape.status().message());
  return *std::move(shape);
}

Shape resolved_shape(Call& call, std::string_view argument, Shape sizes, const Dim& total) {
  Dim rest = 1;
  Dim* open = nullptr;
  for (Dim& size : sizes) {
    if (!(size == Dim(-1))) {
      rest = rest * size;
    } else if (open != nullptr) {
      call.refuse(argument, "has more than one -1");
    } else {
      open = &size;
    }
  }
  if (open == nullptr) return sizes;
  if (rest == Dim(0)) call.refuse(argument, "has a -1 beside a size of 0");
  for (const Dim& size : sizes)
    if (!(size == Dim(-1))) call.graph().guard(size, Relation::ne, 0, "a -1 beside a size of 0");
  *open = floordiv(total, rest);
  return sizes;
}

namespace {

// Evaluates the term with `size_of_one` for the symbol `one` and `size` for all others. Returns
// nothing if the sizes are invalid.
std::optional<int64_t> at_sizes(const Dim& dim, int64_t size, std::string_view one = "",
                                int64_t size_of_one = 0) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  Bindings sizes;
  for (const std::string& symbol : symbols)
    if (!sizes.bind(symbol, symbol == one ? size_of_one : size).ok()) return std::nullopt;
  const Result<int64_t> value = dim.evaluate(sizes);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

constexpr int64_t kSomeSizes[] = {1, 2, 3, 5, 8, 13, 31, 64, 100, 257, 4097};

// Whether the term is nonnegative if all symbols have the same size.
bool is_plausible(const Dim& dim) {
  for (const int64_t size : kSomeSizes)
    if (at_sizes(dim, size).value_or(0) < 0) return false;
  return true;
}

// The same, also if one of the symbols is larger than the others.
bool is_plausible_apart(const Dim& dim) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  for (const std::string& symbol : symbols)
    for (const int64_t size : kSomeSizes)
      if (symbols.size() > 1 && at_sizes(dim, size, symbol, 2 * size + 1).value_or(0) < 0)
        return false;
  return is_plausible(dim);
}

constexpr int64_t kTable = 32;  // smallest length that is assumed to be a table of positions

// Returns min(a, b). If b is smaller only for unlikely sizes, such as those beyond a table of
// positions, returns a with a guard. This keeps terms simple, so that equal terms are recognized.
Dim at_most(Call& call, const Dim& a, const Dim& b) {
  const Dim least = min(a, b);
  if (least == a || least == b || decided_by_data(a) || decided_by_data(b)) return least;
  if (a.is_constant() || !(b.is_constant() ? b.constant() >= kTable : is_plausible_apart(b - a)))
    return least;
  call.graph().guard(a, Relation::le, b, "a slice that would be cut off");
  return a;
}

// Returns a bound of a slice counted from the start of the dim, and within the dim.
Dim bound(Call& call, const Dim& given, const Dim& size) {
  if (given.is_constant() && given.constant() >= kFar) return size;
  if (given.is_constant() && (given.constant() == 1 || given.constant() == -1) &&
      !decided_by_data(size) && at_sizes(size, 1).value_or(0) >= 1) {
    call.graph().guard(1, Relation::le, size, "a slice that would be cut off");
    return given.constant() == 1 ? given : size - 1;
  }
  if (given.lower_bound() >= 0) return at_most(call, given, size);
  if (given.upper_bound() < 0) return max(size + given, 0);
  if (!decided_by_data(given) && is_plausible(given)) {
    call.graph().guard(0, Relation::le, given, "a slice from the end for other sizes");
    return at_most(call, given, size);
  }
  // For size - 1 and size - 2, counting from the end gives the same empty slice.
  if (const Dim below = size - given; below == Dim(1) || below == Dim(2)) return max(given, 0);
  // Negative for some sizes: counted from the end only for these.
  const Dim is_negative = min(max(Dim(0) - given, 0), 1);
  // A data-dependent number may be so large that the sum overflows.
  const Dim below = decided_by_data(given) ? min(given, 0) : given;
  const Dim from_start = max(given, 0), from_end = max(size + below, 0);
  if (given.upper_bound() <= 0) return from_end * is_negative;
  return from_end * is_negative + min(from_start, size) * (1 - is_negative);
}

// Returns the bound that an argument gives. If it depends on data, the graph counts it from the
// start, which gives simpler sizes than a term for both signs.
Dim bound_of(Call& call, std::string_view argument, const Dim& fallback, const Dim& size) {
  if (!call.may_be_negative(argument)) return bound(call, call.integer(argument, fallback), size);
  Graph& g = call.graph();
  const Value given = convert::cast(call.tensor(argument), i64), zero = g.scalar(int64_t{0}, i64);
  const Value whole = reshaped(g.call("dims", {}, {{"values", Dims{size}}}), {});
  const Value from_start = where(lt(given, zero), maximum(given + whole, zero), given);
  return at_most(call, call.size_of(minimum(from_start, whole)), size);
}

Bounds ordered(Call& call, Bounds b) {
  const Dim length = b.end - b.start;
  if (length.lower_bound() >= 0) return b;
  if (!decided_by_data(length) && is_plausible(length))
    call.graph().guard(b.start, Relation::le, b.end, "a slice that would be empty");
  else
    b.end = max(b.end, b.start);
  return b;
}

}  // namespace

Bounds bounds_of(Call& call, const Dim& start, const Dim& end, const Dim& size) {
  return ordered(call, {bound(call, start, size), bound(call, end, size)});
}

Bounds slice_bounds(Call& call, const Dim& size) {
  return ordered(call, {bound_of(call, "start", 0, size), bound_of(call, "end", kFar, size)});
}

Dim diagonal_offset(Call& call, std::string_view argument) {
  if (!call.may_be_negative(argument)) return call.integer(argument, 0);
  constexpr int64_t kBeyond = int64_t{1} << 32;  // more than the diagonals of any matrix
  Graph& g = call.graph();
  const Value given = convert::cast(call.tensor(argument), i64);
  return call.integer_of(minimum(maximum(given, g.scalar(-kBeyond, i64)), g.scalar(kBeyond, i64)));
}

Dim wrapped(Call& call, std::string_view argument, const Dim& index, const Dim& size) {
  const std::string reason = str_cat("index ", index);
  Graph& g = call.graph();
  g.guard(index, Relation::lt, size, reason);
  if (index.lower_bound() < 0) g.guard(-index, Relation::le, size, reason);
  if (Status status = g.take_status(); !status.ok())
    call.refuse(argument, str_cat("is ", index, ", which is out of range of a dim of size ", size));
  if (index.lower_bound() >= 0) return index;
  return index.upper_bound() < 0 ? size + index : mod(index, size);
}

}  // namespace hg::convert::rows
