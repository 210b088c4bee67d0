// SPDX-License-Identifier: Apache-2.0
// The nodes of random graphs: which ops are chosen, with which inputs and attributes.
#include "tests/support/random_generator.h"

namespace hg::test {

void Generator::add_node() {
  using Maker = void (Generator::*)();
  static constexpr Maker kMakers[] = {
      &Generator::unary,     &Generator::unary,     &Generator::unary,   &Generator::binary,
      &Generator::binary,    &Generator::binary,    &Generator::compare, &Generator::choose,
      &Generator::convert,   &Generator::reduce,    &Generator::reduce,  &Generator::scan,
      &Generator::normalize, &Generator::normalize, &Generator::product, &Generator::product,
      &Generator::convolve,  &Generator::pool,      &Generator::turn,    &Generator::turn,
      &Generator::cut,       &Generator::cut,       &Generator::join,    &Generator::join,
      &Generator::widen,     &Generator::take,      &Generator::order,   &Generator::write_into,
      &Generator::attend,    &Generator::whole,     &Generator::resize,
  };
  (this->*kMakers[below(static_cast<int>(std::size(kMakers)))])();
}

void Generator::unary() {
  const Item* x = pick();
  if (!x->is_float()) {
    add(one_of<std::string_view>({"neg", "abs", "sign", "bitwise_not", "logical_not"}), {*x});
    return;
  }
  const auto op = one_of<std::string_view>(
      {"neg",   "abs",       "relu",        "sigmoid",    "tanh",        "gelu",       "silu",
       "sin",   "cos",       "erf",         "square",     "leaky_relu",  "softplus",   "mish",
       "elu",   "hardswish", "hardsigmoid", "hardtanh",   "exp",         "expm1",      "log",
       "log1p", "sqrt",      "rsqrt",       "reciprocal", "floor",       "ceil",       "round",
       "trunc", "sign",      "atan",        "sinh",       "log_sigmoid", "softshrink", "hardshrink",
       "isnan", "signbit"});
  const bool positive = op == "log" || op == "sqrt" || op == "rsqrt" || op == "reciprocal";
  Item from = *x;
  if (positive && (from.least() < 0.05 || op != "reciprocal")) {
    add("abs", {from});
    add("clamp", {pool_.back(), weight(from, {}, 0.1, 0.5)});
    from = pool_.back();
    if (from.least() < 0.05) return;
  }
  if (op == "log1p" && from.data.values.size() > 0 && from.most() > 0.9) return;
  if ((op == "exp" || op == "expm1" || op == "sinh") && from.most() > 6) return;
  const bool jumps = op == "floor" || op == "ceil" || op == "round" || op == "trunc" ||
                     op == "sign" || op == "hardshrink" || op == "isnan" || op == "signbit";
  add(op, {from}, {}, jumps);
}

// A value of the dtype of x that broadcasts with it, or of any shape.
const Item* Generator::partner(const Item& x) {
  return pick([&](const Item& y) {
    return y.data.dtype == x.data.dtype && broadcast(x.value.shape(), y.value.shape()).ok();
  });
}
void Generator::binary() {
  const Item x = *pick();
  const Item* found = partner(x);
  if (found == nullptr) return;
  const Item y = *found;
  if (x.is_float()) {
    const auto op = one_of<std::string_view>({"add", "sub", "mul", "maximum", "minimum", "div",
                                              "atan2", "hypot", "add", "mul", "fmax", "copysign"});
    if (op == "div" && y.least() < 0.1) return;
    const bool jumps = op == "copysign" || op == "atan2";
    add(op, {x, y}, {}, jumps);
  } else {
    const auto op = one_of<std::string_view>({"add", "sub", "mul", "maximum", "minimum",
                                              "bitwise_and", "bitwise_or", "bitwise_xor",
                                              "floor_divide", "remainder", "fmod"});
    const bool divides = op == "floor_divide" || op == "remainder" || op == "fmod";
    if (divides && y.least() < 1) return;
    add(op, {x, y});
  }
}
void Generator::compare() {
  const Item x = *pick();
  if (const Item* y = partner(x))
    add(one_of<std::string_view>({"lt", "le", "gt", "ge", "eq", "ne"}), {x, *y}, {}, true);
}
void Generator::choose() {
  const Item x = *pick();
  const Item* y = partner(x);
  if (y == nullptr) return;
  const Item other = *y;
  const Item* condition = pick([&](const Item& c) {
    return c.data.dtype == boolean && broadcast(c.value.shape(), x.value.shape()).ok();
  });
  if (condition != nullptr && chance(0.7))
    add("where", {*condition, x, other});
  else if (x.is_float())
    add("lerp", {x, other, weight(x, {}, 0, 1)});
}
void Generator::convert() {
  const Item x = *pick();
  if (x.most() > 100) return;
  const DType to = one_of<DType>({f32, f64, f16, bf16, i64, i32, u8, boolean});
  if (to == u8 && !x.data.values.empty() &&
      *std::min_element(x.data.values.begin(), x.data.values.end()) < 0)
    return;
  add("cast", {x}, {{"dtype", to}}, !is_float(to));
}
void Generator::reduce() {
  const Item x = *pick();
  const auto op =
      x.is_float()
          ? one_of<std::string_view>({"sum", "mean", "amax", "amin", "var", "std", "norm",
                                      "logsumexp", "prod", "argmax", "max", "min", "median"})
          : one_of<std::string_view>(
                {"sum", "amax", "amin", "all", "any", "argmin", "max", "prod"});
  if (op == "std" || op == "norm")
    if (x.most() == 0) return;
  const bool one_dim =
      op == "argmax" || op == "argmin" || op == "max" || op == "min" || op == "median";
  NamedAttrs attrs = {{"keepdim", chance(0.5)}};
  if (one_dim)
    attrs.push_back({"dim", chance(0.2) ? Attr() : Attr(dim_of(x))});
  else
    attrs.push_back({"dim", some_dims(x)});
  add(op, {x}, attrs, one_dim);
}
void Generator::scan() {
  const Item x = *pick();
  if (x.rank() == 0) return;
  add(one_of<std::string_view>({"cumsum", "cumprod", "cummax", "logcumsumexp"}), {x},
      {{"dim", dim_of(x)}}, true);
}
void Generator::normalize() {
  const Item* found = pick_float(1);
  if (found == nullptr) return;
  const Item x = *found;
  const int64_t last = x.data.shape.back();
  switch (below(6)) {
    case 0:
    case 1:
      return add(one_of<std::string_view>({"softmax", "log_softmax"}), {x}, {{"dim", dim_of(x)}});
    case 2:
      if (last < 3) return;
      return add("layer_norm", {x, weight(x, {last}), weight(x, {last})},
                 {{"normalized_shape", Dims{last}}, {"eps", 0.1}});
    case 3:
      return add("rms_norm", {x, weight(x, {last})},
                 {{"normalized_shape", Dims{last}}, {"eps", 0.1}});
    case 4: {
      if (x.rank() < 2) return;
      const Sizes channels = {x.data.shape[1]};
      return add("batch_norm",
                 {x, weight(x, channels), weight(x, channels), weight(x, channels),
                  weight(x, channels, 0.5, 2)},
                 {{"eps", 0.1}});
    }
    default:
      if (x.rank() < 3 || x.data.shape[1] % 2 != 0 || x.data.shape.count() < 6) return;
      return add("group_norm", {x, weight(x, {x.data.shape[1]}), weight(x, {x.data.shape[1]})},
                 {{"groups", x.data.shape[1] % 4 == 0 ? 4 : 2}, {"eps", 0.1}});
  }
}
void Generator::product() {
  const Item* found = pick_float(1);
  if (found == nullptr) return;
  const Item x = *found;
  const int64_t k = x.data.shape.back(), n = size();
  if (chance(0.5)) {
    const Item w = weight(x, {n, k});
    if (chance(0.6)) return add("linear", {x, w, weight(x, {n})});
    return add("linear", {x, w});
  }
  if (x.rank() > 2 && chance(0.5)) {
    Sizes shape = x.data.shape;
    shape[shape.rank() - 2] = k;
    shape[shape.rank() - 1] = n;
    if (shape.count() > kMostElements) return;
    return add("matmul", {x, weight(x, shape)});
  }
  add("matmul", {x, weight(x, chance(0.2) ? Sizes{k} : Sizes{k, n})});
}
void Generator::convolve() {
  const Item* found = pick_float(3);
  if (found == nullptr) return;
  const Item x = *found;
  const int space = x.rank() - 2;
  const int64_t channels = x.data.shape[1];
  if (channels == 0 || x.data.count() == 0) return;
  const bool depthwise = chance(0.3);
  const int64_t groups = depthwise ? channels : channels % 2 == 0 && chance(0.3) ? 2 : 1;
  const int64_t out = depthwise ? channels : groups * (1 + below(9));
  const int64_t kernel = 1 + below(3), stride = 1 + below(2), padding = below(2),
                dilation = 1 + below(2);
  Sizes weights = {out, channels / groups};
  for (int d = 0; d < space; ++d) weights.push_back(kernel);
  const Dims each(space, Dim(padding));
  NamedAttrs attrs = {{"groups", groups},
                      {"padding", each},
                      {"stride", Dims(space, Dim(stride))},
                      {"dilation", Dims(space, Dim(dilation))}};
  if (chance(0.5)) return add("conv", {x, weight(x, weights, -0.3, 0.3), weight(x, {out})}, attrs);
  add("conv", {x, weight(x, weights, -0.3, 0.3)}, attrs);
}
void Generator::pool() {
  const Item* found = pick_float(3);
  if (found == nullptr) return;
  const Item x = *found;
  if (x.data.count() == 0) return;
  const auto space = static_cast<size_t>(x.rank() - 2);
  const int64_t kernel = 1 + below(3);
  const NamedAttrs attrs = {{"kernel_size", Dims(space, Dim(kernel))},
                            {"stride", Dims(space, Dim(1 + below(2)))},
                            {"padding", Dims(space, Dim(kernel > 1 ? below(2) : 0))},
                            {"ceil_mode", chance(0.3)}};
  if (chance(0.3))
    return add("adaptive_avg_pool", {x}, {{"output_size", Dims(space, Dim(1 + below(4)))}});
  add(one_of<std::string_view>({"max_pool", "avg_pool"}), {x}, attrs);
}
// The same elements in another order or shape.
void Generator::turn() {
  const Item x = *pick();
  const int rank = x.rank();
  switch (below(5)) {
    case 0:
    case 1: {
      Dims order;
      for (int d = 0; d < rank; ++d) order.emplace_back(d);
      std::shuffle(order.begin(), order.end(), random_);
      return add("permute", {x}, {{"dims", order}});
    }
    case 2:
      if (x.data.count() == 0) return;
      return add("reshape", {x}, {{"shape", reshaped(x.data.count())}});
    case 3:
      return add("flip", {x}, {{"dims", some_dims(x)}});
    default: {
      if (rank == 0) return;
      const int dim = below(rank);
      return add("roll", {x}, {{"shifts", Dims{below(7) - 3}}, {"dims", Dims{dim}}});
    }
  }
}
Dims Generator::reshaped(int64_t count) {
  Dims shape;
  for (int64_t factor : {2, 3, 5, 7, 13, 17})
    if (count % factor == 0 && chance(0.5)) {
      shape.emplace_back(factor);
      count /= factor;
    }
  shape.insert(shape.begin() + below(static_cast<int>(shape.size()) + 1),
               Dim(chance(0.5) ? -1 : count));
  if (chance(0.3)) shape.emplace_back(1);
  return shape;
}
void Generator::cut() {
  const Item x = *pick();
  if (x.rank() == 0) return;
  const int dim = below(x.rank());
  const int64_t length = x.data.shape[dim];
  switch (below(4)) {
    case 0:
    case 1: {
      const int64_t start = below(static_cast<int>(length) + 1), step = 1 + below(3);
      const int64_t end = start + below(static_cast<int>(length - start) + 1);
      return add("slice", {x}, {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}});
    }
    case 2:
      if (x.rank() < 2) return;
      return add("diagonal", {x},
                 {{"offset", below(5) - 2}, {"dim1", 0}, {"dim2", 1 + below(x.rank() - 1)}});
    default:
      if (length < 2) return;
      return add("unfold", {x}, {{"dim", dim}, {"size", 1 + below(2)}, {"step", 1 + below(2)}});
  }
}
void Generator::join() {
  const Item x = *pick();
  if (x.rank() == 0) return;
  const int dim = below(x.rank());
  std::vector<Item> parts = {x};
  for (int i = 0; i < 2; ++i) {
    const Item* y = pick([&](const Item& item) {
      if (item.rank() != x.rank() || item.data.dtype != x.data.dtype) return false;
      for (int d = 0; d < x.rank(); ++d)
        if (d != dim && item.data.shape[d] != x.data.shape[d]) return false;
      return true;
    });
    if (y != nullptr) parts.push_back(*y);
  }
  std::shuffle(parts.begin(), parts.end(), random_);
  add("concat", parts, {{"dim", dim}});
}
void Generator::widen() {
  const Item x = *pick();
  switch (below(4)) {
    case 0: {
      Dims shape = dims_of(x.data.shape);
      for (Dim& d : shape)
        if (d == Dim(1)) d = Dim(1 + below(5));
      if (chance(0.5)) shape.insert(shape.begin(), Dim(1 + below(3)));
      return add("expand", {x}, {{"shape", shape}});
    }
    case 1: {
      Dims repeats;
      for (int d = 0; d < x.rank(); ++d) repeats.emplace_back(1 + below(3));
      return add("repeat", {x}, {{"repeats", repeats}});
    }
    default: {
      if (x.rank() == 0) return;
      Dims pads;
      const int padded = 1 + below(std::min(x.rank(), 3));
      for (int i = 0; i < 2 * padded; ++i) pads.emplace_back(below(3));
      const auto mode = x.rank() < padded + 2
                            ? "constant"
                            : one_of<const char*>({"constant", "reflect", "replicate", "circular"});
      return add("pad", {x}, {{"pads", pads}, {"mode", mode}, {"value", chance(0.5) ? 0.0 : 2.0}});
    }
  }
}
void Generator::take() {
  const Item x = *pick();
  if (x.rank() == 0 || x.data.count() == 0) return;
  const int dim = below(x.rank());
  const int64_t length = x.data.shape[dim], n = size();
  switch (below(4)) {
    case 0:
      return add("index_select", {x, index({n}, length)}, {{"dim", dim}});
    case 1: {
      Sizes shape = x.data.shape;
      shape[dim] = n;
      if (shape.count() > kMostElements) return;
      return add("gather", {x, index(shape, length)}, {{"dim", dim}});
    }
    case 2:
      if (x.rank() != 2) return;
      return add("embedding", {x, index({n, 2}, x.data.shape[0])});
    default:
      return add("index", {x, index({n}, x.data.shape[0])});
  }
}
void Generator::order() {
  const Item x = *pick();
  if (x.rank() == 0 || x.data.dtype == boolean) return;
  const int dim = below(x.rank());
  if (chance(0.5)) return add("sort", {x}, {{"dim", dim}, {"descending", chance(0.5)}}, true);
  if (x.data.shape[dim] == 0) return;
  add("topk", {x}, {{"dim", dim}, {"k", 1 + below(static_cast<int>(x.data.shape[dim]))}}, true);
}
void Generator::write_into() {
  const Item x = *pick();
  if (x.rank() == 0 || x.data.shape[0] == 0) return;
  Sizes part = x.data.shape;
  const int64_t start = below(static_cast<int>(part[0])),
                end = start + 1 + below(static_cast<int>(part[0] - start));
  part[0] = end - start;
  if (chance(0.6))
    return add("slice_scatter", {x, weight(x, part)},
               {{"dim", 0}, {"start", start}, {"end", end}, {"step", 1}});
  if (x.is_float())
    add("index_put", {x, weight(x, part), index({part[0]}, x.data.shape[0])},
        {{"accumulate", true}});
}
void Generator::attend() {
  const Item* found = pick_float(3);
  if (found == nullptr) return;
  const Item q = *found;
  Sizes keys = q.data.shape;
  keys[keys.rank() - 2] = size();
  if (keys.count() > kMostElements || keys.count() == 0) return;
  add("attention", {q, weight(q, keys), weight(q, keys)}, {{"causal", chance(0.3)}});
}
void Generator::whole() {
  const Item* found = pick_float(2);
  if (found == nullptr) return;
  const Item x = *found;
  switch (below(5)) {
    case 0:
      return add(one_of<std::string_view>({"tril", "triu"}), {x}, {{"diagonal", below(5) - 2}});
    case 1:
      return add("glu", {x}, {{"dim", dim_of(x)}});
    case 2:
      return add(one_of<std::string_view>({"mse_loss", "l1_loss", "smooth_l1_loss"}),
                 {x, weight(x, x.data.shape)},
                 {{"reduction", one_of<const char*>({"none", "mean", "sum"})}});
    case 3:
      return add("cosine_similarity", {x, weight(x, x.data.shape)},
                 {{"dim", dim_of(x)}, {"eps", 0.1}});
    default:
      return add("prelu", {x, weight(x, {1})});
  }
}
void Generator::resize() {
  const Item* found = pick([](const Item& x) { return x.is_float() && x.rank() == 4; });
  if (found == nullptr || found->data.count() == 0) return;
  add("interpolate", {*found},
      {{"size", Dims{1 + below(9), 1 + below(9)}},
       {"mode", one_of<const char*>({"nearest", "bilinear"})}});
}

}  // namespace hg::test
