// SPDX-License-Identifier: Apache-2.0
// Tensors created from sizes: zeros, full, arange; and dtype conversions.
#include <cmath>

#include "converter/aten/complex.h"
#include "converter/aten/linspace.h"
#include "converter/containers/container_ops.h"
#include "converter/rows/node_call.h"
#include "converter/rows/rows.h"
#include "converter/rows/scalar.h"
#include "converter/script/fold.h"

namespace hg::convert::rows {
namespace {

void check_layout(Call& call) {
  if (call.has("layout") && call.number("layout") != 0)
    call.refuse("layout", "asks for a sparse tensor");
}

Shape shape_of(Call& call, std::string_view argument) {
  if (!call.has(argument)) call.refuse(argument, "is missing");
  return call.sizes(argument);
}

Value filled(Call& call, const Shape& shape, double value, DType dtype) {
  return call.graph().call("full", {}, {{"shape", shape}, {"value", value}, {"dtype", dtype}});
}

// Returns the dtype of a Python number, or of a tensor that represents one.
DType natural_dtype(Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  if (item && item->is_bool()) return boolean;
  if (item && item->is_int()) return i64;
  if (item && item->is_tensor()) {
    const DType dtype = call.tensor(argument).dtype();
    return dtype == f64 && std::get<TensorRef>(item->value)->is_number() ? f32 : dtype;
  }
  return f32;
}

Value filled(Call& call, const Shape& shape, std::string_view argument, DType dtype) {
  const Item* item = call.find(argument);
  const auto scalar = item ? scalar_of(*item) : std::nullopt;
  if (scalar && scalar->is_constant() && std::fabs(scalar->as_double()) < 0x1p53 &&
      (is_float(dtype) || scalar->is_integral() || std::isfinite(scalar->as_double())))
    return filled(call, shape,
                  is_float(dtype) ? scalar->as_double() : std::trunc(scalar->as_double()), dtype);
  if (scalar && scalar->is_constant() && is_float(dtype))
    return filled(call, shape, scalar->as_double(), dtype);
  return call.graph().call("expand", {call.tensor_or_number(argument, dtype)}, {{"shape", shape}});
}

template <int V>
void constant(Call& call) {  // zeros, ones, and empty, whose elements are arbitrary
  check_layout(call);
  const DType fallback = call.has("out") ? call.tensor("out").dtype() : f32;
  call.returns(filled(call, shape_of(call, "size"), V, call.dtype("dtype", fallback)));
}

template <int V>
void constant_like(Call& call) {
  check_layout(call);
  const Value x = call.tensor("self");
  call.returns(filled(call, x.shape(), V, call.dtype("dtype", x.dtype())));
}

template <int V>
void new_constant(Call& call) {
  check_layout(call);
  const Value x = call.tensor("self");
  call.returns(filled(call, shape_of(call, "size"), V, call.dtype("dtype", x.dtype())));
}

void full(Call& call) {
  check_layout(call);
  const DType fallback =
      call.has("out") ? call.tensor("out").dtype() : natural_dtype(call, "fill_value");
  call.returns(filled(call, shape_of(call, "size"), "fill_value", call.dtype("dtype", fallback)));
}

void full_like(Call& call) {
  check_layout(call);
  const Value x = call.tensor("self");
  call.returns(filled(call, x.shape(), "fill_value", call.dtype("dtype", x.dtype())));
}

void new_full(Call& call) {
  check_layout(call);
  const Value x = call.tensor("self");
  call.returns(filled(call, shape_of(call, "size"), "fill_value", call.dtype("dtype", x.dtype())));
}

void scalar_tensor(Call& call) {
  check_layout(call);
  call.returns(filled(call, {}, "s", call.dtype("dtype", f32)));
}

std::optional<Scalar> known_scalar(Call& call, std::string_view argument, Dim fallback,
                                   bool is_size = false) {
  if (!call.has(argument)) return Scalar::of(std::move(fallback));
  auto scalar = scalar_of(*call.find(argument));
  if (!scalar && call.find(argument)->is_tensor())
    scalar = Scalar::of(is_size ? call.size(argument) : call.integer(argument));
  if (!scalar) call.refuse(argument, "depends on data");
  return scalar;
}

// arange with an integer dtype and float arguments. torch truncates start and step. It uses the
// untruncated numbers for the count in i64, and the truncated ones in other dtypes.
Value arange_of_integers(Call& call, const Scalar& start, const Scalar& end, const Scalar& step,
                         DType dtype) {
  if (!start.is_constant() || !end.is_constant() || !step.is_constant())
    call.refuse("dtype", "is an integer type for an arange of floats that depend on sizes");
  if (dtype == boolean) call.refuse("dtype", "is bool for an arange of floats");
  const auto whole = [](const Scalar& s) { return std::trunc(s.as_double()); };
  const double first = whole(start), stride = whole(step);
  if (stride == 0) call.refuse("step", "has no whole part");
  const double size = dtype == i64
                          ? std::ceil((whole(end) - first) / stride)
                          : std::ceil((end.as_double() - start.as_double()) / step.as_double());
  if (!(size >= 0 && size < 0x1p40)) call.refuse("end", "is not reached from start by step");
  const auto number = [](double value) { return Dim(static_cast<int64_t>(value)); };
  return call.graph().call("arange", {},
                           {{"start", number(first)},
                            {"end", number(first + size * stride)},
                            {"step", number(stride)},
                            {"dtype", dtype}});
}

// arange with a data-dependent float: size = ceil((end - start) / step), elements start + i * step
// in double, rounded once.
Value arange_of_data(Call& call) {
  const DType fallback = call.has("out") ? call.tensor("out").dtype() : f32;
  const DType dtype = call.dtype("dtype", fallback);
  if (!is_float(dtype)) call.refuse("dtype", "is not a float type, but data decides a float");
  Graph& g = call.graph();
  const Real start = scalar(call, "start", 0), step = scalar(call, "step", 1);
  const Value size = g.call("ceil", {((scalar(call, "end") - start) / step).as(g, f64)});
  const Dim count = call.size_of(g.call("to_integer", {size}));
  const Value i = convert::cast(g.call("arange", {}, {{"end", count}}), f64);
  return convert::cast(i * step + start, dtype);
}

bool is_float_of_data(const Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  const auto* number = item ? std::get_if<TensorRef>(&item->value) : nullptr;
  return number && (*number)->is_number() && is_float((*number)->number_dtype()) &&
         !scalar_of(*item);
}

void arange(Call& call) {
  check_layout(call);
  for (const std::string_view name : {"start", "end", "step"})
    if (is_float_of_data(call, name)) return call.returns(arange_of_data(call));
  auto start = known_scalar(call, "start", 0), step = known_scalar(call, "step", 1);
  const auto is = [](const Scalar& x, int64_t value) {
    return x.is_integral() && x.top == Dim(value);
  };
  auto end = known_scalar(call, "end", 0, is(*start, 0) && is(*step, 1));
  bool whole = start->is_integral() && end->is_integral() && step->is_integral();
  DType dtype = whole ? i64 : f32;
  if (call.has("out")) dtype = call.tensor("out").dtype();
  dtype = call.dtype("dtype", dtype);
  // Floats with integer values are handled like integers.
  for (auto* number : {&start, &end, &step}) {
    const Scalar& x = **number;
    if (x.kind == Scalar::Kind::real && std::trunc(x.number) == x.number &&
        std::abs(x.number) < 0x1p40)
      *number = Scalar::of(Dim(static_cast<int64_t>(x.number)));
  }
  whole = start->is_integral() && end->is_integral() && step->is_integral();
  Graph& g = call.graph();
  if (whole) {
    const Value count = g.call("arange", {},
                               {{"start", start->top},
                                {"end", end->top},
                                {"step", step->top},
                                {"dtype", dtype == boolean ? i64 : dtype}});
    return call.returns(convert::cast(count, dtype));
  }
  if (!is_float(dtype)) return call.returns(arange_of_integers(call, *start, *end, *step, dtype));
  // size = ceil((end - start) / step), elements start + i * step in double, rounded once
  auto size = apply("sub", *end, *start);
  if (size) size = apply("div", *size, *step);
  if (size) size = apply("ceil", *size);
  if (size) size = to_integer(*size);
  if (!size || !size->is_integral())
    call.refuse("end", "gives a number of elements that depends on sizes in floating point");
  const auto number = [&](const Scalar& s, std::string_view name) {
    if (s.is_constant()) return g.scalar(s.as_double(), f64);
    return call.tensor_or_number(name, f64);
  };
  Value y = convert::cast(g.call("arange", {}, {{"end", size->top}}), f64);
  y = g.call("mul", {y, number(*step, "step")});
  if (start->is_constant() ? start->as_double() != 0 : true)
    y = g.call("add", {y, number(*start, "start")});
  call.returns(convert::cast(y, dtype));
}

// Returns a number, or the number of a tensor with one element.
Real end_of(Call& call, std::string_view name) {
  const Item* item = call.find(name);
  const auto* tensor = item ? std::get_if<TensorRef>(&item->value) : nullptr;
  if (tensor == nullptr || (*tensor)->is_number() || scalar_of(*item)) return scalar(call, name);
  const Value x = call.tensor(name);
  if (x.rank() != 0) call.refuse(name, str_cat("has the shape ", x.shape(), ", not one number"));
  return Real(x);
}

// An integer dtype truncates start and end.
Value linspace_of_data(Call& call, const Real& start, const Real& end, DType dtype, DType result) {
  const DType wide = is_float(dtype) ? (dtype == f64 ? f64 : f32) : f64;
  const auto side = [&](const Real& number) {
    const DType first = is_float(dtype) ? wide : dtype;
    return convert::cast(number.as(call.graph(), first), wide);
  };
  const Dim steps = call.size("steps", 100);
  return convert::cast(linspace_between(side(start), side(end), steps), result);
}

void linspace(Call& call) {
  check_layout(call);
  const DType dtype = call.dtype("dtype", call.has("out") ? call.tensor("out").dtype() : f32);
  const Real start = end_of(call, "start"), end = end_of(call, "end");
  if (!start.is_known() || !end.is_known())
    return call.returns(linspace_of_data(call, start, end, dtype, dtype));
  call.returns(call.graph().call("linspace", {},
                                 {{"start", start.known()},
                                  {"end", end.known()},
                                  {"steps", call.size("steps", 100)},
                                  {"dtype", dtype}}));
}

void logspace(Call& call) {
  check_layout(call);
  const DType dtype = call.dtype("dtype", call.has("out") ? call.tensor("out").dtype() : f32);
  const Real base = scalar(call, "base", 10);
  Graph& g = call.graph();
  const Real start = end_of(call, "start"), end = end_of(call, "end");
  Value exponents;
  if (!start.is_known() || !end.is_known()) {
    exponents = linspace_of_data(call, start, end, dtype, f64);
  } else {
    const auto side = [&](const Real& number) {  // integers are truncated
      return is_float(dtype) ? number.known() : std::trunc(number.known());
    };
    exponents = g.call("linspace", {},
                       {{"start", side(start)},
                        {"end", side(end)},
                        {"steps", call.size("steps", 100)},
                        {"dtype", f64}});
  }
  Value y = g.call("pow", {base.as(g, f64), exponents});
  call.returns(convert::cast(y, dtype));
}

void eye(Call& call) {
  check_layout(call);
  const Dim n = call.size("n");
  const DType dtype = call.dtype("dtype", call.has("out") ? call.tensor("out").dtype() : f32);
  call.returns(
      call.graph().call("eye", {}, {{"n", n}, {"m", call.size("m", n)}, {"dtype", dtype}}));
}

// torch.tensor() of nested lists. libtorch rounds floats to f32 for every dtype.
Value stacked(Call& call, const Item& item, DType dtype) {
  Graph& g = call.graph();
  if (item.is_tensor()) {
    const TensorRef& tensor = std::get<TensorRef>(item.value);
    const Value value = call.read(tensor);
    return convert::cast(
        tensor->is_number() && value.dtype() == f64 ? convert::cast(value, f32) : value, dtype);
  }
  const auto* list = std::get_if<std::shared_ptr<List>>(&item.value);
  if (list == nullptr) {
    const auto scalar = scalar_of(item);
    if (!scalar) call.refuse("data", str_cat("holds ", describe(item)));
    if (!scalar->is_constant()) {
      const auto number = [&](const Dim& dim) {
        return g.call("reshape", {g.call("dims", {}, {{"values", Shape{dim}}})},
                      {{"shape", Shape{}}});
      };
      if (scalar->is_integral()) return convert::cast(number(scalar->top), dtype);
      const Value ratio = g.call("div", {convert::cast(number(scalar->top), f64),
                                         convert::cast(number(scalar->bottom), f64)});
      return convert::cast(convert::cast(ratio, f32), dtype);
    }
    if (scalar->is_integral()) return convert::cast(g.scalar(scalar->top.constant(), i64), dtype);
    return convert::cast(g.scalar(scalar->as_double(), f32), dtype);
  }
  std::vector<Value> parts;
  for (const Item& element : (*list)->items) {
    const Value part = stacked(call, element, dtype);
    Shape shape = part.shape();
    shape.insert(shape.begin(), Dim(1));
    parts.push_back(g.call("reshape", {part}, {{"shape", shape}}));
  }
  if (parts.empty()) return filled(call, {Dim(0)}, 0, dtype);
  return parts.size() == 1 ? parts[0] : g.call("concat", parts, {{"dim", 0}});
}

// Python's order: bool < int < float.
void widest(const Item& item, DType& dtype) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    for (const Item& element : (*list)->items) widest(element, dtype);
  } else if (item.is_tensor()) {
    const TensorRef& tensor = std::get<TensorRef>(item.value);
    const DType own = tensor->is_number() ? tensor->number_dtype() : f32;
    if (is_float(own))
      dtype = f32;
    else if (own == i64 && dtype == boolean)
      dtype = i64;
  } else if (item.is_real()) {
    dtype = f32;
  } else if (item.is_int() && dtype == boolean) {
    dtype = i64;
  }
}

void tensor(Call& call) {
  const std::string_view name = call.find("data") ? "data" : "t";
  const Item* item = call.find(name) ? call.find(name) : &call.argument(0);
  DType dtype = boolean;
  if (item->is_tensor()) {
    const TensorRef& ref = std::get<TensorRef>(item->value);
    dtype = call.read(ref).dtype();
    if (ref->is_number() && dtype == f64) dtype = f32;
  } else {
    widest(*item, dtype);
    if (item->is_list() && std::get<std::shared_ptr<List>>(item->value)->items.empty()) dtype = f32;
    // The type of a list decides, so that one without numbers has a dtype.
    const auto* node = dynamic_cast<const NodeCall*>(&call);
    if (const auto listed = node ? fold::listed_dtype(*node) : std::nullopt) dtype = *listed;
  }
  call.returns(stacked(call, *item, call.dtype("dtype", dtype)));
}

// Returns the same tensor, for conversions that do not change real dense tensors.
void same(Call& call) {
  const Item& self = call.find("self") ? *call.find("self") : call.argument(0);
  call.returns(std::vector<Item>{self});
}

void positive(Call& call) {
  if (call.tensor("self").dtype() == boolean) call.refuse("self", "must not be bool");
  same(call);
}

// Returns the tensor itself if it has the requested dtype.
void as_tensor(Call& call) {
  const Item& data = call.argument(0);
  const auto* self = std::get_if<TensorRef>(&data.value);
  if (self == nullptr || (*self)->is_number()) return tensor(call);
  const DType dtype = call.read(*self).dtype();
  if (call.dtype("dtype", dtype) != dtype) return tensor(call);
  call.returns(std::vector<Item>{data});
}

void converted(Call& call, DType dtype, bool copies) {
  const TensorRef self = call.ref("self");
  const Value x = call.read(self);
  if (copies || dtype != x.dtype() || self->is_number())
    return call.returns(convert::cast(x, dtype));
  constexpr int64_t kPreserve = 1;  // c10::MemoryFormat
  if (call.number("memory_format", kPreserve) == kPreserve)
    return call.returns(std::vector<Item>{Item(self)});
  const TensorRef copy = call.make_tensor(x);  // self if its layout fits
  call.may_share(copy, self);
  call.returns(std::vector<Item>{Item(copy)});
}

void to(Call& call) {
  check_layout(call);
  const Value x = call.tensor("self");
  DType dtype = x.dtype();
  if (call.has("dtype"))
    dtype = call.dtype("dtype");
  else if (call.has("other"))
    dtype = call.tensor("other").dtype();
  converted(call, dtype, call.flag("copy", false));
}

void to_copy(Call& call) {
  check_layout(call);
  converted(call, call.dtype("dtype", call.tensor("self").dtype()), true);
}

void type_as(Call& call) { converted(call, call.tensor("other").dtype(), false); }

template <DType T>
void cast_to(Call& call) {
  converted(call, T, false);
}

void clone(Call& call) { call.returns(call.tensor("self")); }

void detach_copy(Call& call) {
  const Value self = call.tensor("self");
  call.returns(is_float(self.dtype()) ? call.graph().call("detach", {self}) : self);
}

void copy(Call& call) {  // for copy_: src in the shape and dtype of self
  const Value self = call.tensor("self");
  const Value src = call.tensor(call.has("src") ? "src" : "other");
  if (src.rank() > self.rank())
    call.refuse("src", str_cat("has the shape ", src.shape(), ", wider than ", self.shape()));
  Value y = convert::cast(src, self.dtype());
  if (y.shape() != self.shape()) y = call.graph().call("expand", {y}, {{"shape", self.shape()}});
  call.returns(y);
}

void fill(Call& call) {
  const Value self = call.tensor("self");
  call.returns(filled(call, self.shape(), "value", self.dtype()));
}

void zero(Call& call) {
  const Value self = call.tensor("self");
  call.returns(filled(call, self.shape(), 0, self.dtype()));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {"aten::zeros", constant<0>, OnComplex::parts},
    {"aten::ones", constant<1>, OnComplex::real_part},
    {"aten::empty", constant<0>, OnComplex::parts},
    {.op = "aten::empty_strided", .run = constant<0>, .layout = ResultLayout::unknown},
    {.op = "aten::empty_permuted", .run = constant<0>, .layout = ResultLayout::unknown},
    {"aten::zeros_like", constant_like<0>, OnComplex::parts, ResultLayout::elementwise},
    {"aten::ones_like", constant_like<1>, OnComplex::real_part, ResultLayout::elementwise},
    {"aten::empty_like", constant_like<0>, OnComplex::parts, ResultLayout::elementwise},
    {"aten::new_zeros", new_constant<0>, OnComplex::parts, ResultLayout::row_major},
    {"aten::new_ones", new_constant<1>, OnComplex::real_part, ResultLayout::row_major},
    {"aten::new_empty", new_constant<0>, OnComplex::parts, ResultLayout::row_major},
    {.op = "aten::new_empty_strided", .run = new_constant<0>, .layout = ResultLayout::unknown},
    {"aten::full", full, OnComplex::parts},
    {"aten::full_like", full_like, OnComplex::parts, ResultLayout::elementwise},
    {"aten::new_full", new_full, OnComplex::parts, ResultLayout::row_major},
    {.op = "aten::scalar_tensor", .run = scalar_tensor, .fold = {fold::create}},
    {"aten::arange", arange, OnComplex::real_part},
    {"aten::linspace", linspace, OnComplex::real_part},
    {"aten::logspace", logspace},
    {"aten::eye", eye, OnComplex::real_part},
    {.op = "aten::tensor", .run = tensor, .fold = {fold::create}, .grown_list = grown::to_tensor},
    {.op = "aten::as_tensor", .run = as_tensor, .fold = {fold::as_tensor}},
    {.op = "aten::lift_fresh", .run = same, .complex = OnComplex::parts, .fold = {fold::pass}},
    {.op = "aten::cpu", .run = same, .complex = OnComplex::parts, .fold = {fold::pass}},
    {"aten::resolve_conj", same, OnComplex::parts},
    {"aten::resolve_neg", same, OnComplex::parts},
    {"aten::conj", same, of_complex::conj},
    {"aten::_conj", same, of_complex::conj},
    {"aten::real", same, of_complex::real},
    {"aten::positive", positive, OnComplex::parts},
    {"aten::to_dense", same},
    {"aten::pin_memory", same},
    {.op = "aten::to",
     .run = to,
     .complex = OnComplex::parts,
     .layout = ResultLayout::elementwise,
     .fold = {fold::to}},
    {"aten::_to_copy", to_copy, OnComplex::parts, ResultLayout::elementwise},
    {.op = "aten::type_as",
     .run = type_as,
     .complex = OnComplex::parts_like_other,
     .layout = ResultLayout::elementwise,
     .fold = {fold::to}},
    {.op = "aten::_cast_Float",
     .run = cast_to<f32>,
     .layout = ResultLayout::elementwise,
     .fold = {fold::to_float}},
    {.op = "aten::_cast_Double", .run = cast_to<f64>, .layout = ResultLayout::elementwise},
    {.op = "aten::_cast_Half", .run = cast_to<f16>, .layout = ResultLayout::elementwise},
    {.op = "aten::_cast_Long",
     .run = cast_to<i64>,
     .layout = ResultLayout::elementwise,
     .fold = {fold::to_long}},
    {.op = "aten::_cast_Int",
     .run = cast_to<i32>,
     .layout = ResultLayout::elementwise,
     .fold = {fold::to_int}},
    {.op = "aten::_cast_Short", .run = cast_to<i16>, .layout = ResultLayout::elementwise},
    {.op = "aten::_cast_Char", .run = cast_to<i8>, .layout = ResultLayout::elementwise},
    {.op = "aten::_cast_Byte", .run = cast_to<u8>, .layout = ResultLayout::elementwise},
    {.op = "aten::clone",
     .run = clone,
     .complex = OnComplex::parts,
     .layout = ResultLayout::elementwise,
     .fold = {fold::pass}},
    {"aten::alias_copy", clone, OnComplex::parts},
    {"aten::detach_copy", detach_copy, OnComplex::parts},
    {"aten::conj_physical", same, of_complex::conj_copy},
    {"aten::lift", clone, OnComplex::parts},
    {"aten::lift_fresh_copy", clone, OnComplex::parts},
    {.op = "aten::copy",
     .run = copy,
     .complex = OnComplex::parts,
     .script = {containers::copy},
     .grown_list = grown::copy,
     .script_takes_complex = true,
     .passes_grown = true},
    {"aten::fill", fill, OnComplex::parts},
    {"aten::zero", zero, OnComplex::parts},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

Value linspace_between(const Value& start, const Value& end, const Dim& steps) {
  Graph& g = *start.graph();
  if (steps == Dim(1)) return g.call("reshape", {start}, {{"shape", Shape{1}}});
  const auto count = [&](const Dim& from, const Dim& to, int step) {
    return convert::cast(g.call("arange", {}, {{"start", from}, {"end", to}, {"step", step}}),
                         start.dtype());
  };
  const Value last = g.call("dims", {}, {{"values", Shape{max(steps - 1, 1)}}});
  const Value step = g.call(
      "div", {g.call("sub", {end, start}),
              convert::cast(g.call("reshape", {last}, {{"shape", Shape{}}}), start.dtype())});
  const Dim half = max(floordiv(steps, 2), min(steps, 1));  // a single step is the start
  const Value low = g.call("add", {start, g.call("mul", {step, count(0, half, 1)})});
  const Value high = g.call("sub", {end, g.call("mul", {step, count(steps - half - 1, -1, -1)})});
  return g.call("concat", {low, high}, {{"dim", 0}});
}

std::span<const Row> factory() { return kTable; }

}  // namespace hg::convert::rows
