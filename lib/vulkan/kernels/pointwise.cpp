// SPDX-License-Identifier: Apache-2.0
// All elementwise ops, and several of them in one node: programs that call the functions of
// shaders/pointwise.comp.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ranges>
#include <utility>

#include "hg/pointwise_program.h"
#include "lib/device/backend.h"
#include "lib/graph/element.h"
#include "lib/vulkan/commands.h"
#include "lib/vulkan/kernels/strides.h"
#include "lib/vulkan/shader_linker.h"

namespace hg::vulkan {
namespace {

using Params = std::vector<double>;

// A function op_NAME of the shaders is the kernel of the op NAME. Its arguments are the inputs,
// then the attributes. The rows below are the ops that need more than that.
struct Row {
  std::string_view op;
  // Adds the program's calls and parameters. Null: one call of the op's function.
  void (*build)(const PrepareContext&, ShaderProgram&, Params&) = nullptr;
  bool divides = false;  // by the second input, which must not be 0 for integers
};

void call(ShaderProgram& p, std::string_view function, std::vector<int> registers,
          size_t params = 0) {
  std::vector<int> numbers;
  for (size_t i = 0; i < params; ++i) numbers.push_back(static_cast<int>(i));
  p.calls.push_back({std::string(function), std::move(registers), std::move(numbers)});
}

void round_decimals(const PrepareContext& c, ShaderProgram& p, Params& params) {
  const auto decimals = static_cast<double>(c.attrs().integer("decimals"));
  params = {decimals, std::pow(10.0, std::abs(decimals))};
  call(p, "op_round", {0}, 2);
}
void nan_to_num(const PrepareContext& c, ShaderProgram& p, Params& params) {
  const DType dtype = c.in(0).dtype;
  const double largest = dtype == f16    ? 65504.0
                         : dtype == bf16 ? 0x1.fep127
                                         : double{std::numeric_limits<float>::max()};
  params = {c.attrs().real("nan"), c.attrs().has("posinf") ? c.attrs().real("posinf") : largest,
            c.attrs().has("neginf") ? c.attrs().real("neginf") : -largest};
  call(p, "op_nan_to_num", {0}, 3);
}
void gelu(const PrepareContext& c, ShaderProgram& p, Params&) {
  call(p, c.attrs().string("approximate") == "tanh" ? "op_gelu_tanh" : "op_gelu", {0});
}
void logit(const PrepareContext& c, ShaderProgram& p, Params& params) {
  params = {c.attrs().has("eps") ? c.attrs().real("eps") : -1.0};
  call(p, "op_logit", {0}, 1);
}
void cast(const PrepareContext& c, ShaderProgram& p, Params&) {
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
void clamp(const PrepareContext& c, ShaderProgram& p, Params&) {
  int result = 0;
  int next = static_cast<int>(p.inputs.size());
  int input = 1;
  if (c.has(1)) {
    call(p, "op_maximum", {result, input++});
    result = next++;
  }
  if (c.has(2)) call(p, "op_minimum", {result, input});
}

constexpr Row kSpecial[] = {
    {"floor_divide", nullptr, true},
    {"trunc_divide", nullptr, true},
    {"remainder", nullptr, true},
    {"fmod", nullptr, true},
    {"round", round_decimals},
    {"nan_to_num", nan_to_num},
    {"gelu", gelu},
    {"logit", logit},
    {"cast", cast},
    {"clamp", clamp},
};

// Every function op_NAME of the shaders, by name.
constexpr std::string_view kFunctions[] = {
#include "hg_vulkan_functions.inc"
};

// Whether the function computes an op that is neither special nor another op with attributes.
constexpr bool is_plain(std::string_view function) {
  for (const Row& row : kSpecial)
    if (row.op == function) return false;
#define HG_ACTIVATION(number, name, op, attrs) \
  if (function == #name && function != #op) return false;
#include "hg/activations.inc"
  return true;
}

constexpr auto kRows = [] {
  std::array<Row, std::size(kSpecial) + std::ranges::count_if(kFunctions, is_plain)> rows;
  const auto next = std::ranges::copy(kSpecial, rows.begin()).out;
  std::ranges::transform(kFunctions | std::views::filter(is_plain), next,
                         [](std::string_view function) { return Row{function}; });
  return rows;
}();

// The operands of a node, in the order of the program's inputs: y first.
struct Operands {
  std::vector<Operand> operands;
  Joined joined;  // shape, and the strides of y and of each input
};

bool computes(const DeviceInfo& device, DType dtype) {
  return (dtype != i64 || device.i64) && (dtype != f64 || device.f64);
}

Result<Operands> operands_of(const PrepareContext& c, ShaderProgram& program) {
  const Tensor& y = c.out(0);
  program.result = y.dtype;
  Operands all;
  all.operands.push_back(Operand::out(c, 0));
  std::vector<Sizes> strides = {contiguous_strides(y.shape)};
  if (!computes(*c.device(), y.dtype)) return c.fail("the device does not compute in ", y.dtype);
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) continue;
    const Tensor& x = c.in(i);
    if (!computes(*c.device(), x.dtype)) return c.fail("the device does not compute in ", x.dtype);
    program.inputs.push_back({x.dtype, ShaderProgram::Access::strided});
    all.operands.push_back(Operand::in(c, i));
    strides.push_back(broadcast_strides(x, y.shape));
  }
  all.joined = join_dims(y.shape, strides);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Sizes& s = all.joined.strides[i + 1];
    bool is_one = true;
    for (const int64_t stride : s) is_one &= stride == 0;
    if (is_one)
      program.inputs[i].access = ShaderProgram::Access::one;
    else if (s == all.joined.strides[0])
      program.inputs[i].access = ShaderProgram::Access::flat;
  }
  program.rank = all.joined.shape.rank();
  return all;
}

// The calls of one op on the registers 0, 1, ... of its inputs, which the program already has.
void add_calls(const PrepareContext& c, const Row& row, ShaderProgram& program, Params& params) {
  if (row.build != nullptr) return row.build(c, program, params);
  std::vector<int> all;
  for (size_t i = 0; i < program.inputs.size(); ++i) all.push_back(static_cast<int>(i));
  for (const Signature::Attribute& attribute : c.op().signature.attributes)
    params.push_back(c.attrs().real(attribute.name));
  call(program, str_cat("op_", row.op), all, params.size());
}

Status add_program(PrepareContext& c, const ShaderProgram& program, Operands operands,
                   const Params& params) {
  Dispatch dispatch;
  dispatch.operands = std::move(operands.operands);
  dispatch.program = assemble(program);
  if (dispatch.program == nullptr) return c.fail("the device has no function for ", c.in(0).dtype);
  Words words;
  const Joined& joined = operands.joined;
  words.u(c.out(0).count()).u(joined.shape.rank()).all(joined.shape);
  for (size_t i = 1; i < joined.strides.size(); ++i) words.all(joined.strides[i]);
  for (const double value : params) words.f(value);
  dispatch.params = words.words();
  dispatch.groups = groups_for(*c.device(), c.out(0).count());
  return add(c, std::move(dispatch));
}

// An integer division by zero must fail the run, which shaders cannot do.
bool may_divide_by_zero(const PrepareContext& c, const Row& row) {
  if (!row.divides || is_float(c.in(0).dtype)) return false;
  if (!c.is_constant(1) || !c.in(1).is_contiguous()) return true;
  for (int64_t i = 0; i < c.in(1).count(); ++i)
    if (element(c.in(1), i) == 0) return true;
  return false;
}

Status prepare_row(PrepareContext& c, const Row& row) {
  if (may_divide_by_zero(c, row)) return c.fail("the device cannot report a division by zero");
  ShaderProgram program;
  HG_TRY_ASSIGN(Operands operands, operands_of(c, program));
  if (c.out(0).count() == 0) return {};
  Params params;
  add_calls(c, row, program, params);
  if (!params.empty() && c.out(0).dtype == f64) return c.fail("the device's parameters are f32");
  return add_program(c, program, std::move(operands), params);
}

// -- Programs of several ops ----------------------------------------------------------------------

// Adds a step to the program: the calls of its op, and the rounding that storing its result would
// do.
Status add_step(const PrepareContext& c, const PointwiseProgram::Step& step,
                const std::vector<DType>& dtypes, std::vector<int>& registers,
                ShaderProgram& program, Params& params) {
  const auto row = std::ranges::find(kRows, step.op->name(), &Row::op);
  if (row == kRows.end()) return c.fail("the device does not join '", step.op->name(), "'");
  PrepareContext::Call call{.attrs = AttrReader(step.op, step.attrs), .label = c.label()};
  ShaderProgram own;
  std::vector<int> from;  // its registers in the program
  for (const int arg : step.args) {
    const bool given = arg != PointwiseProgram::kAbsent;
    const DType dtype = given ? dtypes[arg] : f32;
    call.given.push_back(given);
    call.inputs.push_back(given ? view(static_cast<void*>(nullptr), dtype, {1}) : Tensor());
    if (!given) continue;
    if (!computes(*c.device(), dtype)) return c.fail("the device does not compute in ", dtype);
    own.inputs.push_back({dtype});
    from.push_back(registers[arg]);
  }
  call.outputs.push_back(view(static_cast<void*>(nullptr), step.dtype, {1}));
  if (!computes(*c.device(), step.dtype))
    return c.fail("the device does not compute in ", step.dtype);
  Params numbers;
  add_calls(PrepareContext(std::move(call)), *row, own, numbers);
  if (!numbers.empty() && step.dtype == f64) return c.fail("the device's parameters are f32");
  const auto next = [&] { return static_cast<int>(program.inputs.size() + program.calls.size()); };
  for (ShaderProgram::Call& call : own.calls) {
    for (int& r : call.registers) r = from[r];
    for (int& p : call.params) p += static_cast<int>(params.size());
    from.push_back(next());
    program.calls.push_back(std::move(call));
  }
  params.insert(params.end(), numbers.begin(), numbers.end());
  const bool is_kept = step.dtype == f16 || step.dtype == bf16 || step.dtype == i16 ||
                       step.dtype == i8 || step.dtype == u8;
  if (is_kept) {
    from.push_back(next());
    program.calls.push_back({str_cat("kept_", to_string(step.dtype)), {from[from.size() - 2]}, {}});
  }
  registers.push_back(from.back());
  return {};
}

Status prepare_program(PrepareContext& c) {
  if (static_cast<size_t>(c.input_count()) > ShaderProgram::kMostInputs)
    return c.fail("has ", c.input_count(), " inputs, the device's programs have up to ",
                  static_cast<int64_t>(ShaderProgram::kMostInputs));
  HG_TRY_ASSIGN(
      PointwiseProgram given,
      PointwiseProgram::parse(c.attrs().string("program"), c.input_count(), Registry::built_in()));
  std::vector<DType> dtypes;
  std::vector<int> registers;
  for (int i = 0; i < c.input_count(); ++i) {
    dtypes.push_back(c.in(i).dtype);
    registers.push_back(i);
  }
  HG_TRY(given.infer_dtypes(dtypes));
  ShaderProgram program;
  HG_TRY_ASSIGN(Operands operands, operands_of(c, program));
  if (c.out(0).count() == 0) return {};
  Params params;
  for (const PointwiseProgram::Step& step : given.steps) {
    HG_TRY(add_step(c, step, dtypes, registers, program, params));
    dtypes.push_back(step.dtype);
  }
  return add_program(c, program, std::move(operands), params);
}

template <size_t index>
Status prepare(PrepareContext& c) {
  return prepare_row(c, kRows[index]);
}
template <size_t... index>
constexpr auto rows(std::index_sequence<index...>) {
  return std::array{KernelDef{.op = "pointwise_program",
                              .device = hg::Device::vulkan,
                              .name = "pointwise",
                              .prepare = &prepare_program,
                              .strided = kAllStrided},
                    KernelDef{.op = kRows[index].op,
                              .device = hg::Device::vulkan,
                              .name = "pointwise",
                              .prepare = &prepare<index>,
                              .strided = kAllStrided,
                              .in_programs = true}...};
}
constexpr auto kKernels = rows(std::make_index_sequence<std::size(kRows)>());

}  // namespace

std::span<const KernelDef> pointwise() { return kKernels; }

}  // namespace hg::vulkan
