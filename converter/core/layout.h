// SPDX-License-Identifier: Apache-2.0
// The memory layout of a tensor in torch, as far as the import knows it. It decides whether
// reshape() and contiguous() share memory or copy, and what stride() returns.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "converter/core/scalar.h"

namespace hg::convert {

struct Layout {
  Shape strides;  // in elements
  Dim offset = 0;
  bool ones_known = true;  // strides of dims of size 1 are also torch's
};

// What is known of the order of elements, where control flow gives one of several tensors.
enum class MemoryOrder {
  unknown,
  row_major,  // whichever it is
  gapped,     // what is computed from its elements alone is row-major, whichever it is
  scattered,  // one of them has gaps or another order, for some sizes at least
};
MemoryOrder joined(MemoryOrder a, MemoryOrder b);

// The layout of a view, from that of its base and the base's shape.
using Relayout = std::function<std::optional<Layout>(const Layout& base, const Shape& shape)>;

Layout row_major(const Shape& shape, const Dim& offset = 0);
// These give no answer where it is yes for some sizes and no for others.
std::optional<bool> is_row_major(const Layout& layout, const Shape& shape);
// The same as a boolean that sizes decide.
Scalar is_row_major_at(const Layout& layout, const Shape& shape);
// Whatever the strides: dims are split, and those of size 1 come and go.
bool can_always_view(const Shape& from, const Shape& to);
std::optional<bool> can_view(const Layout& layout, const Shape& from, const Shape& to);
Scalar can_view_at(const Layout& layout, const Shape& from, const Shape& to);
// A tensor that an elementwise op reads.
struct Operand {
  Layout layout;
  Shape shape;
};
// The layout of what an elementwise op makes of them: its dims lie as those of the first operand
// that tells two of them apart. `casts`: some may be cast to another dtype before. None when sizes
// decide.
std::optional<Layout> elementwise_layout(std::span<const Operand> operands, const Shape& shape,
                                         bool casts);
// The layout of a reshape that shares memory; none when the sizes are too symbolic to tell.
std::optional<Layout> viewed(const Layout& layout, const Shape& from, const Shape& to);

}  // namespace hg::convert
