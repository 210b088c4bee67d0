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
  bool ones_known = true;  // strides of dims of size 1 also equal torch's
};

// What is known about the element order of a tensor that is one of several, as control flow
// decides.
enum class MemoryOrder {
  unknown,
  row_major,  // all of them are row-major
  gapped,     // not all are row-major, but results computed from a single one of them are
  scattered,  // at least one has gaps or another order, at least for some sizes
};
MemoryOrder joined(MemoryOrder a, MemoryOrder b);

// Computes the layout of a view from the layout and the shape of its base.
using Relayout = std::function<std::optional<Layout>(const Layout& base, const Shape& shape)>;

Layout row_major(const Shape& shape, const Dim& offset = 0);
// These return nothing if the answer depends on the sizes.
std::optional<bool> is_row_major(const Layout& layout, const Shape& shape);
// Returns the same as a boolean that may depend on sizes.
Scalar is_row_major_at(const Layout& layout, const Shape& shape);
// Returns whether the view exists for all strides: it only splits dims, and adds or removes dims of
// size 1.
bool can_always_view(const Shape& from, const Shape& to);
std::optional<bool> can_view(const Layout& layout, const Shape& from, const Shape& to);
Scalar can_view_at(const Layout& layout, const Shape& from, const Shape& to);
// A tensor that an elementwise op reads.
struct Operand {
  Layout layout;
  Shape shape;
};
// Returns the layout of the result of an elementwise op. Its dims are in the order of the first
// operand that orders them. `casts`: operands may be cast to another dtype first. Returns nothing
// if the layout depends on sizes.
std::optional<Layout> elementwise_layout(std::span<const Operand> operands, const Shape& shape,
                                         bool casts);
// Returns the layout of a reshape that shares memory, or nothing if symbolic sizes leave it open.
std::optional<Layout> viewed(const Layout& layout, const Shape& from, const Shape& to);

}  // namespace hg::convert
