// SPDX-License-Identifier: Apache-2.0
// All elementwise ops: each is a pointwise program of one function of shaders/pointwise.comp.
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/run/backend.h"
#include "lib/vulkan/commands.h"
#include "lib/vulkan/kernels/strides.h"
#include "lib/vulkan/program.h"

namespace hg::vulkan {
namespace {

using Params = std::vector<double>;

struct Row {
  std::string_view op;
  // Fills in the program's calls and the parameters. Null: one call of "op_" and the op's name.
  void (*build)(const PrepareContext&, PointwiseProgram&, Params&) = nullptr;
};

void call(PointwiseProgram& p, std::string_view function, std::vector<int> registers,
          size_t params = 0) {
  std::vector<int> numbers;
  for (size_t i = 0; i < params; ++i) numbers.push_back(static_cast<int>(i));
  p.calls.push_back({std::string(function), std::move(registers), std::move(numbers)});
}

// One call with attributes as parameters.
void call_with(const PrepareContext& c, PointwiseProgram& p, Params& params,
               std::string_view function, std::initializer_list<const char*> attrs) {
  for (const char* attr : attrs) params.push_back(c.attrs().real(attr));
  call(p, function, {0}, params.size());
}

void round_decimals(const PrepareContext& c, PointwiseProgram& p, Params& params) {
  const auto decimals = static_cast<double>(c.attrs().integer("decimals"));
  params = {decimals, std::pow(10.0, std::abs(decimals))};
  call(p, "op_round", {0}, 2);
}
void nan_to_num(const PrepareContext& c, PointwiseProgram& p, Params& params) {
  const DType dtype = c.in(0).dtype;
  const double largest = dtype == f16    ? 65504.0
                         : dtype == bf16 ? 0x1.fep127
                                         : double{std::numeric_limits<float>::max()};
  params = {c.attrs().real("nan"), c.attrs().has("posinf") ? c.attrs().real("posinf") : largest,
            c.attrs().has("neginf") ? c.attrs().real("neginf") : -largest};
  call(p, "op_nan_to_num", {0}, 3);
}
void gelu(const PrepareContext& c, PointwiseProgram& p, Params&) {
  call(p, c.attrs().string("approximate") == "tanh" ? "op_gelu_tanh" : "op_gelu", {0});
}
void logit(const PrepareContext& c, PointwiseProgram& p, Params& params) {
  params = {c.attrs().has("eps") ? c.attrs().real("eps") : -1.0};
  call(p, "op_logit", {0}, 1);
}
void cast(const PrepareContext& c, PointwiseProgram& p, Params&) {
  switch (c.out(0).dtype) {
    case DType::f64:
      return call(p, "to_f64", {0});
    case DType::i64:
      return call(p, "to_i64", {0});
    case DType::bool_:
      return call(p, "to_bool", {0});
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
      return call(p, "to_i32", {0});
    default:
      return call(p, "to_f32", {0});
  }
}
void clamp(const PrepareContext& c, PointwiseProgram& p, Params&) {
  int result = 0;
  int next = static_cast<int>(p.inputs.size());
  int input = 1;
  if (c.has(1)) {
    call(p, "op_maximum", {result, input++});
    result = next++;
  }
  if (c.has(2)) call(p, "op_minimum", {result, input});
}

constexpr Row kRows[] = {
    {"neg"}, {"abs"}, {"sign"}, {"sqrt"}, {"rsqrt"}, {"reciprocal"}, {"exp"}, {"exp2"}, {"expm1"},
    {"log"}, {"log2"}, {"log10"}, {"log1p"}, {"sin"}, {"cos"}, {"tan"}, {"asin"}, {"acos"},
    {"atan"}, {"sinh"}, {"cosh"}, {"tanh"}, {"asinh"}, {"acosh"}, {"atanh"}, {"erf"}, {"erfc"},
    {"sigmoid"}, {"sinc"}, {"floor"}, {"ceil"}, {"trunc"}, {"isnan"}, {"isinf"}, {"isfinite"},
    {"signbit"}, {"logical_not"}, {"bitwise_not"}, {"add"}, {"sub"}, {"mul"}, {"div"},
    {"floor_divide"}, {"trunc_divide"}, {"remainder"}, {"fmod"}, {"pow"}, {"maximum"}, {"minimum"},
    {"fmax"}, {"fmin"}, {"atan2"}, {"hypot"}, {"copysign"}, {"logaddexp"}, {"xlogy"},
    {"bitwise_and"}, {"bitwise_or"}, {"bitwise_xor"}, {"eq"}, {"ne"}, {"lt"}, {"le"}, {"gt"},
    {"ge"}, {"logical_and"}, {"logical_or"}, {"logical_xor"}, {"relu"}, {"silu"}, {"mish"},
    {"log_sigmoid"}, {"hardsigmoid"}, {"hardswish"}, {"where"}, {"lerp"},
    {"round", round_decimals},
    {"nan_to_num", nan_to_num},
    {"gelu", gelu},
    {"logit", logit},
    {"cast", cast},
    {"clamp", clamp},
    {"leaky_relu",
     [](const PrepareContext& c, PointwiseProgram& p, Params& params) {
       call_with(c, p, params, "op_leaky_relu", {"negative_slope"});
     }},
    {"elu",
     [](const PrepareContext& c, PointwiseProgram& p, Params& params) {
       call_with(c, p, params, "op_elu", {"alpha", "scale", "input_scale"});
     }},
    {"softplus",
     [](const PrepareContext& c, PointwiseProgram& p, Params& params) {
       call_with(c, p, params, "op_softplus", {"beta", "threshold"});
     }},
    {"hardtanh",
     [](const PrepareContext& c, PointwiseProgram& p, Params& params) {
       call_with(c, p, params, "op_hardtanh", {"min_val", "max_val"});
     }},
    {"hardshrink",
     [](const PrepareContext& c, PointwiseProgram& p, Params& params) {
       call_with(c, p, params, "op_hardshrink", {"lambd"});
     }},
    {"softshrink",
     [](const PrepareContext& c, PointwiseProgram& p, Params& params) {
       call_with(c, p, params, "op_softshrink", {"lambd"});
     }},
    {"threshold",
     [](const PrepareContext& c, PointwiseProgram& p, Params& params) {
       call_with(c, p, params, "op_threshold", {"threshold", "value"});
     }},
};

Status prepare_row(PrepareContext& c, const Row& row) {
  const Tensor& y = c.out(0);
  PointwiseProgram program;
  program.result = y.dtype;
  Dispatch dispatch;
  dispatch.operands.push_back(Operand::out(c, 0));
  std::vector<Sizes> strides = {contiguous_strides(y.shape)};
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) continue;
    const Tensor& x = c.in(i);
    if ((x.dtype == i64 && !device_of(c).i64) || (x.dtype == f64 && !device_of(c).f64))
      return c.fail("the device does not compute in ", x.dtype);
    program.inputs.push_back({x.dtype, PointwiseProgram::Access::strided});
    dispatch.operands.push_back(Operand::in(c, i));
    strides.push_back(broadcast_strides(x, y.shape));
  }
  if ((y.dtype == i64 && !device_of(c).i64) || (y.dtype == f64 && !device_of(c).f64))
    return c.fail("the device does not compute in ", y.dtype);
  if (y.count() == 0) return {};
  const Joined joined = join_dims(y.shape, strides);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Sizes& s = joined.strides[i + 1];
    bool is_one = true;
    for (const int64_t stride : s) is_one &= stride == 0;
    if (is_one) program.inputs[i].access = PointwiseProgram::Access::one;
    else if (s == joined.strides[0]) program.inputs[i].access = PointwiseProgram::Access::flat;
  }
  program.rank = joined.shape.rank();
  Params params;
  if (row.build != nullptr) {
    row.build(c, program, params);
  } else {
    std::vector<int> all;
    for (size_t i = 0; i < program.inputs.size(); ++i) all.push_back(static_cast<int>(i));
    call(program, text("op_", row.op), all);
  }
  if (!params.empty() && y.dtype == f64) return c.fail("the device's parameters are f32");
  dispatch.program = assemble(program);
  if (dispatch.program == nullptr) return c.fail("the device has no function for ", c.in(0).dtype);
  Words words;
  words.u(y.count()).u(joined.shape.rank()).all(joined.shape);
  for (size_t i = 1; i < joined.strides.size(); ++i) words.all(joined.strides[i]);
  for (const double value : params) words.f(value);
  dispatch.params = words.words();
  dispatch.groups = groups_for(device_of(c), y.count());
  return add(c, std::move(dispatch));
}

template <size_t index>
Status prepare(PrepareContext& c) {
  return prepare_row(c, kRows[index]);
}
template <size_t... index>
constexpr auto rows(std::index_sequence<index...>) {
  return std::array{KernelDef{.op = kRows[index].op,
                              .device = hg::Device::vulkan,
                              .name = "pointwise",
                              .prepare = &prepare<index>,
                              .strided = kAllStrided}...};
}
constexpr auto kKernels = rows(std::make_index_sequence<std::size(kRows)>());

}  // namespace

std::span<const KernelDef> pointwise() { return kKernels; }

}  // namespace hg::vulkan
