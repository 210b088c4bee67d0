// SPDX-License-Identifier: Apache-2.0
#include "converter/core/layout.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <type_traits>
#include <vector>

namespace hg::convert {
namespace {

// Returns the strides of a view of shape `to` of a tensor of shape `from`, or nothing if no view is
// possible (after computeStride in ATen/TensorUtils.cpp). T is int64_t or Dim; `more(a, b)` tells
// whether a is still below b.
template <class T, class List, class More>
std::optional<List> strides_of_view(const List& from, const List& strides, const List& to,
                                    List result, More more) {
  if (from.empty()) {
    for (auto& stride : result) stride = T(1);
    return result;
  }
  int left = static_cast<int>(to.size()) - 1;
  T step = strides[from.size() - 1], have = 1, made = 1;
  for (int d = static_cast<int>(from.size()) - 1; d >= 0; --d) {
    have = have * from[d];
    const auto before = static_cast<size_t>(d - 1);
    if (d > 0 && (from[before] == T(1) || strides[before] == have * step)) continue;
    for (; left >= 0; --left) {
      const auto at = static_cast<size_t>(left);
      if (!more(made, have) && !(to[at] == T(1))) break;
      result[at] = made * step;
      made = made * to[at];
    }
    if (!(made == have)) return std::nullopt;
    if (d > 0) step = strides[before];
    have = made = 1;
  }
  return left < 0 ? std::optional(result) : std::nullopt;
}

using Numbers = std::vector<int64_t>;

std::vector<std::string> symbols_of(std::span<const Shape* const> shapes) {
  std::vector<std::string> symbols;
  for (const Shape* shape : shapes)
    for (const Dim& dim : *shape) dim.collect_symbols(symbols);
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  return symbols;
}

// Asks the question for many sizes of the symbols. Assumes that an answer that is the same for all
// of them holds in general.
template <class Question>
std::optional<bool> for_all_sizes(std::span<const Shape* const> shapes, Question question) {
  const std::vector<std::string> symbols = symbols_of(shapes);
  constexpr int64_t kSizes[] = {1, 2, 3, 6, 64, 101};
  constexpr size_t kMostAsked = 216;
  size_t total = 1;
  for (size_t i = 0; i < symbols.size() && total < kMostAsked; ++i) total *= std::size(kSizes);
  std::optional<bool> answer;
  for (size_t n = 0; n < total; ++n) {
    Bindings bindings;
    size_t rest = n;
    for (size_t i = 0; i < symbols.size(); ++i) {
      // The first three symbols take all combinations of sizes. Further symbols take different
      // sizes.
      const size_t pick = i < 3 ? rest % std::size(kSizes) : (n + i) % std::size(kSizes);
      if (i < 3) rest /= std::size(kSizes);
      if (!bindings.bind(symbols[i], kSizes[pick]).ok()) return std::nullopt;
    }
    std::vector<Numbers> numbers;
    bool known = true;
    for (const Shape* shape : shapes) {
      numbers.emplace_back();
      for (const Dim& dim : *shape) {
        const Result<int64_t> value = dim.evaluate(bindings);
        known = known && value.ok() && *value >= 0;
        numbers.back().push_back(value.ok() ? *value : 0);
      }
    }
    if (!known) continue;
    const bool yes = question(numbers);
    if (answer && *answer != yes) return std::nullopt;
    answer = yes;
  }
  return answer;
}

template <class Question>
std::optional<bool> for_all_sizes(std::initializer_list<const Shape*> shapes, Question question) {
  return for_all_sizes(std::span(shapes.begin(), shapes.size()), question);
}

int64_t total_of(const Numbers& shape) {
  int64_t total = 1;
  for (const int64_t size : shape) total *= size;
  return total;
}

Numbers last_to_first(size_t rank) {
  Numbers dims(rank);
  std::iota(dims.rbegin(), dims.rend(), int64_t{0});
  return dims;
}

// Returns the dims of a result from innermost to outermost, in the order in which TensorIterator
// visits operands with these strides (after reorder_dimensions in ATen/TensorIterator.cpp).
Numbers walked_dims(const Numbers& shape, std::span<const Numbers> operands) {
  const auto comes_after = [&](int64_t a, int64_t b) {
    for (const Numbers& strides : operands) {
      if (strides[a] == 0 || strides[b] == 0) continue;
      if (strides[a] != strides[b]) return strides[a] > strides[b] ? 1 : -1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  };
  Numbers dims = last_to_first(shape.size());
  for (size_t i = 1; i < dims.size(); ++i) {
    size_t at = i;
    for (size_t before = i; before-- > 0;) {
      const int order = comes_after(dims[before], dims[at]);
      if (order < 0) break;
      if (order == 0) continue;
      std::swap(dims[before], dims[at]);
      at = before;
    }
  }
  return dims;
}

// Strides of a tensor without gaps whose dims are nested in this order, innermost first; T is
// int64_t or Dim.
template <class List>
List dense_strides(const List& shape, const Numbers& dims) {
  List strides(shape.size());
  typename List::value_type step = 1;
  for (const int64_t d : dims) {
    strides[d] = step;
    if constexpr (std::is_same_v<List, Numbers>)
      step *= std::max<int64_t>(shape[d], 1);
    else
      step = step * max(shape[d], Dim(1));
  }
  return strides;
}

bool same_but_for_ones(const Numbers& shape, const Numbers& a, const Numbers& b) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && a[d] != b[d]) return false;
  return true;
}

// Returns the operand's strides for the dims of the result: 0 for broadcast dims.
std::optional<Shape> broadcast_strides(const Operand& operand, const Shape& shape) {
  Shape strides(shape.size(), Dim(0));
  if (operand.shape.size() > shape.size()) return std::nullopt;
  const size_t added = shape.size() - operand.shape.size();
  for (size_t d = 0; d < operand.shape.size(); ++d) {
    if (operand.shape[d] == shape[added + d])
      strides[added + d] = operand.layout.strides[d];
    else if (!(operand.shape[d] == Dim(1)))
      return std::nullopt;
  }
  return strides;
}

}  // namespace

Layout row_major(const Shape& shape, const Dim& offset) {
  Layout layout{Shape(shape.size()), offset};
  Dim step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    layout.strides[i] = step;
    step = step * max(shape[i], Dim(1));
  }
  return layout;
}

std::optional<bool> is_row_major(const Layout& layout, const Shape& shape) {
  if (layout.strides == row_major(shape).strides) return true;
  return for_all_sizes({&shape, &layout.strides}, [](const std::vector<Numbers>& of) {
    const Numbers &sizes = of[0], &strides = of[1];
    if (total_of(sizes) == 0) return true;
    int64_t step = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      if (sizes[i] == 1) continue;
      if (strides[i] != step) return false;
      step *= sizes[i];
    }
    return true;
  });
}

Scalar is_row_major_at(const Layout& layout, const Shape& shape) {
  if (layout.strides == row_major(shape).strides) return Scalar::of(true);
  Scalar all = Scalar::of(true);
  Dim step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    all = both(all, either(equal(shape[d], 1), equal(layout.strides[d], step)));
    step = step * max(shape[d], Dim(1));
  }
  return either(all, equal(count(shape), 0));
}

std::optional<bool> can_view(const Layout& layout, const Shape& from, const Shape& to) {
  if (layout.strides == row_major(from).strides) return true;
  return for_all_sizes({&from, &layout.strides, &to}, [](const std::vector<Numbers>& of) {
    const Numbers& sizes = of[0];
    if (total_of(sizes) == 0 || total_of(sizes) != total_of(of[2])) return true;
    return strides_of_view<int64_t>(sizes, of[1], of[2], Numbers(of[2].size()),
                                    [](int64_t a, int64_t b) { return a < b; })
        .has_value();
  });
}

// If two adjacent dims of `from` are not contiguous in memory, no dim of `to` may combine them. So
// the boundary between them must also be a boundary in `to`, followed by equally many elements
// (after computeStride in ATen/TensorUtils.cpp).
Scalar can_view_at(const Layout& layout, const Shape& from, const Shape& to) {
  if (layout.strides == row_major(from).strides) return Scalar::of(true);
  const auto after = [](const Shape& shape, size_t d) {
    return count(Shape(shape.begin() + static_cast<int64_t>(d), shape.end()));
  };
  Scalar all = Scalar::of(true);
  Scalar rest_is_one = Scalar::of(true);  // all dims from d on have size 1
  for (size_t d = from.size(); d-- > 1;) {
    rest_is_one = both(rest_is_one, equal(from[d], 1));
    // Dims of size 1 between the two are ignored.
    Scalar side_by_side = Scalar::of(false), ones_between = Scalar::of(true);
    for (size_t next = d; next < from.size(); ++next) {
      const Scalar is_one = equal(from[next], 1);
      const Scalar fits = equal(layout.strides[d - 1], from[next] * layout.strides[next]);
      side_by_side = either(side_by_side, both(ones_between, both(negation(is_one), fits)));
      ones_between = both(ones_between, is_one);
      if (ones_between.is_constant() && ones_between.as_double() == 0) break;
    }
    Scalar is_border = either(equal(from[d - 1], 1), rest_is_one);
    for (size_t k = 1; k < to.size(); ++k)
      is_border = either(is_border, equal(after(to, k), after(from, d)));
    all = both(all, either(is_border, side_by_side));
  }
  return either(all, equal(count(from), 0));
}

bool can_always_view(const Shape& from, const Shape& to) {
  Layout apart;
  for (size_t d = 0; d < from.size(); ++d)
    apart.strides.emplace_back(std::string_view(str_cat("stride_", static_cast<int64_t>(d))));
  const Scalar can = can_view_at(apart, from, to);
  return can.is_constant() && can.as_double() != 0;
}

MemoryOrder joined(MemoryOrder a, MemoryOrder b) {
  if (a == b || b == MemoryOrder::row_major) return a;
  return a == MemoryOrder::row_major ? b : MemoryOrder::scattered;
}

std::optional<Layout> elementwise_layout(std::span<const Operand> operands, const Shape& shape,
                                         bool casts) {
  std::vector<Shape> strides;
  bool alike = true;
  for (const Operand& operand : operands) {
    std::optional<Shape> read = broadcast_strides(operand, shape);
    if (!read) return std::nullopt;
    strides.push_back(*std::move(read));
    alike = alike && operand.shape == shape && operand.layout.ones_known;
  }
  std::vector<const Shape*> shapes = {&shape};
  for (const Shape& each : strides) shapes.push_back(&each);
  Bindings large;
  int64_t size = 100;
  for (const std::string& symbol : symbols_of(shapes))
    if (!large.bind(symbol, ++size).ok()) return std::nullopt;
  std::vector<Numbers> numbers;
  for (const Shape* each : shapes) {
    numbers.emplace_back();
    for (const Dim& dim : *each) {
      const Result<int64_t> value = dim.evaluate(large);
      numbers.back().push_back(value.ok() ? *value : 1);
    }
  }
  const Numbers dims = walked_dims(numbers[0], std::span(numbers).subspan(1));
  bool ones_known = alike;
  const auto is_so = [&](const std::vector<Numbers>& of) {
    const Numbers& sizes = of[0];
    if (total_of(sizes) == 0) return true;
    const std::span<const Numbers> read = std::span(of).subspan(1);
    // A cast makes a new tensor, whose strides are not zero.
    for (const Numbers& each : read)
      for (size_t d = 0; d < sizes.size() && casts && read.size() > 1; ++d)
        if (each[d] == 0 && sizes[d] != 1) return false;
    const Numbers wanted = dense_strides(sizes, dims);
    const Numbers found = dense_strides(sizes, walked_dims(sizes, read));
    // TensorIterator does not sort the dims if all operands are row-major or have the same strides.
    const Numbers plain = dense_strides(sizes, last_to_first(sizes.size()));
    for (const Numbers& each : read)
      ones_known =
          ones_known && each == found && (found == plain || !same_but_for_ones(sizes, each, plain));
    ones_known = ones_known && found == wanted;
    return same_but_for_ones(sizes, found, wanted);
  };
  if (for_all_sizes(std::span<const Shape* const>(shapes), is_so) != true) return std::nullopt;
  return Layout{dense_strides(shape, dims), 0, ones_known};
}

std::optional<Layout> viewed(const Layout& layout, const Shape& from, const Shape& to) {
  if (layout.strides == row_major(from).strides) return row_major(to, layout.offset);
  const auto strides = strides_of_view<Dim>(from, layout.strides, to, Shape(to.size()),
                                            [](const Dim& a, const Dim& b) { return !(a == b); });
  return strides ? std::optional(Layout{*strides, layout.offset}) : std::nullopt;
}

}  // namespace hg::convert
