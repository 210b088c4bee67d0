// SPDX-License-Identifier: Apache-2.0
// TorchScript versions of the decomposed ops of torch.ao.quantization, with the semantics of
// PyTorch 2.13. The converter's rows are compared with them.
#include "converter/check/decomposed.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <memory>

namespace hg::convert {
namespace {

namespace jit = torch::jit;

// The schema of an op, and the name of the function that implements it.
struct Decomposed {
  const char* schema;
  const char* function;
};
#define HG_SPACE "quantized_decomposed::"
constexpr Decomposed kOps[] = {
    {HG_SPACE "quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, "
              "int quant_max, ScalarType dtype) -> Tensor",
     "to_levels"},
    {HG_SPACE "quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, "
              "int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     "to_levels_by_tensors"},
    {HG_SPACE "quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, "
              "Tensor quant_min, Tensor quant_max, ScalarType dtype) -> Tensor",
     "to_levels_in_bounds"},
    {HG_SPACE "dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, "
              "int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     "of_levels"},
    {HG_SPACE "dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, "
              "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) "
              "-> Tensor",
     "of_levels_by_tensors"},
    {HG_SPACE "dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, "
              "Tensor quant_min, Tensor quant_max, ScalarType dtype, *, "
              "ScalarType? out_dtype=None) -> Tensor",
     "of_levels_in_bounds"},
    {HG_SPACE "choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, "
              "ScalarType dtype) -> (Tensor, Tensor)",
     "affine"},
    {HG_SPACE "choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, "
              "float eps, ScalarType dtype) -> (Tensor, Tensor)",
     "symmetric"},
    {HG_SPACE "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
              "int quant_min, int quant_max, ScalarType dtype) -> Tensor",
     "channels_to_levels"},
    {HG_SPACE "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, "
              "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) "
              "-> Tensor",
     "channels_of_levels"},
    {HG_SPACE "choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
     "symmetric_tokens"},
    {HG_SPACE "_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> "
              "(Tensor, Tensor)",
     "affine_tokens"},
    {HG_SPACE "choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> "
              "(Tensor, Tensor)",
     "affine_tokens"},
    {HG_SPACE "quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, "
              "int quant_max, ScalarType dtype) -> Tensor",
     "tokens_to_levels"},
    {HG_SPACE "dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
              "int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor",
     "tokens_of_levels"},
    {HG_SPACE "quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, "
              "int quant_min, int quant_max, ScalarType dtype, int group_size) -> Tensor",
     "groups_to_levels"},
    {HG_SPACE "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, "
              "int quant_min, int quant_max, ScalarType dtype, int group_size, "
              "ScalarType output_dtype) -> Tensor",
     "groups_of_levels"},
    {HG_SPACE "fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
              "int quant_min, int quant_max) -> Tensor",
     "rounded_channels"},
    {HG_SPACE "convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor", "as_dtype"},
};
#undef HG_SPACE

// Dtypes have PyTorch's numbers: u8 is 0, i32 is 3, i64 is 4, f16 is 5, f32 is 6, f64 is 7.
constexpr const char* kScript = R"JIT(
def to_levels(x: Tensor, scale: float, zero: int, low: int, high: int, dtype: int):
    x = x.to(6)
    return ((x * (1.0 / scale)).round() + zero).clamp(low, high).to(dtype)

def to_levels_by_tensors(x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, dtype: int):
    x = x.to(6)
    return (x * (1.0 / float(scale.item()))).round().add(zero.item()).clamp(low, high).to(dtype)

def to_levels_in_bounds(x: Tensor, scale: Tensor, zero: Tensor, low: Tensor, high: Tensor,
                        dtype: int):
    x = x.to(6)
    level = (x * (1.0 / float(scale.item()))).round().add(zero.item())
    return level.clamp(low.item(), high.item()).to(dtype)

def of_levels(x: Tensor, scale: float, zero: int, low: int, high: int, dtype: int,
              out: Optional[int]):
    return (x.to(6 if out is None else out) - zero) * scale

def of_levels_by_tensors(x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int, dtype: int,
                         out: Optional[int]):
    return x.to(6 if out is None else out).sub(zero.item()).mul(scale.item())

def of_levels_in_bounds(x: Tensor, scale: Tensor, zero: Tensor, low: Tensor, high: Tensor,
                        dtype: int, out: Optional[int]):
    return of_levels_by_tensors(x, scale, zero, 0, 0, dtype, out)

def affine(x: Tensor, low: int, high: int, eps: float, dtype: int):
    least, most = torch.aminmax(x)
    least, most = least.clamp(max=0), most.clamp(min=0)
    scale = torch.maximum((most - least) / float(high - low), torch.full([1], eps, dtype=6))
    below = torch.round(least / scale).to(3)
    return scale.to(7), torch.clamp(low - below, low, high).to(4)

def symmetric(x: Tensor, low: int, high: int, eps: float, dtype: int):
    least, most = torch.aminmax(x)
    most = torch.maximum(-least.clamp(max=0), most.clamp(min=0))
    scale = torch.maximum(most / (float(high - low) / 2), torch.full([1], eps, dtype=6))
    zero = torch.full([1], 128 if dtype == 0 else 0, dtype=4)
    return scale.to(7), zero

def along(v: Tensor, x: Tensor, axis: int):
    sizes = [1] * x.dim()
    sizes[axis] = v.numel()
    return v.reshape(sizes)

def channels_to_levels(x: Tensor, scales: Tensor, zeros: Tensor, axis: int, low: int, high: int,
                       dtype: int):
    ratio = x.to(6) * (1.0 / along(scales, x, axis))
    return (ratio.round() + along(zeros, x, axis)).clamp(low, high).to(dtype)

def channels_of_levels(x: Tensor, scales: Tensor, zeros: Optional[Tensor], axis: int, low: int,
                       high: int, dtype: int, out: Optional[int]):
    if zeros is not None:
        x = x - along(zeros, x, axis)
    return (x * along(scales, x, axis)).to(6 if out is None else out)

def symmetric_tokens(x: Tensor, dtype: int):
    most = x.abs().amax(dim=-1, keepdim=True)
    if most.dtype == 5:
        most = most.to(6)
    scales = most.clamp(min=1e-5) / 127
    return scales, torch.zeros_like(scales)

def affine_tokens(x: Tensor, dtype: int):
    least = x.amin(dim=-1, keepdim=True).clamp(max=0)
    most = x.amax(dim=-1, keepdim=True).clamp(min=0)
    scale = ((most - least) / 255.0).clamp(min=1.1920928955078125e-07)
    below, above = least / scale, most / scale
    zero = torch.where((below - 128) + (above + 127) > 0, -128 - below, 127 - above)
    return scale.to(7), zero.clamp(-128, 127).round().to(4)

def tokens_to_levels(x: Tensor, scales: Tensor, zeros: Tensor, low: int, high: int, dtype: int):
    return (x * (1.0 / scales) + zeros).round().clamp(low, high).to(dtype)

def tokens_of_levels(x: Tensor, scales: Tensor, zeros: Tensor, low: int, high: int, dtype: int,
                     out: int):
    return ((x - zeros) * scales).to(out)

def groups(x: Tensor, scales: Tensor, size: int):
    if size > x.size(-1) and scales.size(-1) == 1:
        size = x.size(-1)
    return x.reshape([-1, size])

def groups_to_levels(x: Tensor, scales: Tensor, zeros: Tensor, low: int, high: int, dtype: int,
                     size: int):
    parts = groups(x, scales, size)
    level = parts * (1.0 / scales.reshape([-1, 1])) + zeros.reshape([-1, 1])
    return level.round().clamp(low, high).to(dtype).reshape(x.size())

def groups_of_levels(x: Tensor, scales: Tensor, zeros: Optional[Tensor], low: int, high: int,
                     dtype: int, size: int, out: int):
    parts = groups(x, scales, size)
    if zeros is not None:
        parts = parts - zeros.reshape([-1, 1])
    return (parts * scales.reshape([-1, 1])).reshape(x.size()).to(out)

def rounded_channels(x: Tensor, scales: Tensor, zeros: Tensor, axis: int, low: int, high: int):
    scale = along(scales.to(6), x, axis)
    zero = along(zeros.to(3), x, axis)
    return (((x * (1.0 / scale)).round() + zero).clamp(low, high) - zero) * scale

def as_dtype(x: Tensor, dtype: int):
    return x.to(dtype)
)JIT";

}  // namespace

void declare_decomposed() {
  static const bool is_done = [] {
    const auto unit = std::make_shared<jit::CompilationUnit>();
    unit->define(c10::nullopt, kScript, jit::nativeResolver(), nullptr);
    for (const Decomposed& op : kOps) {
      const c10::FunctionSchema schema = jit::parseSchema(op.schema);
      const auto known = jit::getAllOperatorsFor(c10::Symbol::fromQualString(schema.name()));
      bool is_known = false;
      for (const auto& each : known)
        is_known = is_known || each->schema().overload_name() == schema.overload_name();
      if (is_known) continue;
      jit::Function& function = unit->get_function(c10::QualifiedName(op.function));
      jit::registerOperator(jit::Operator(
          op.schema,
          [unit, &function](jit::Stack& stack) {
            // A script returns one result or a tuple.
            const size_t first = stack.size() - function.getSchema().arguments().size();
            jit::Stack own(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
            stack.resize(first);
            const c10::IValue result = function(std::move(own));
            if (!result.isTuple()) return stack.push_back(result);
            for (const c10::IValue& each : result.toTupleRef().elements()) stack.push_back(each);
          },
          c10::AliasAnalysisKind::FROM_SCHEMA));
    }
    return true;
  }();
  static_cast<void>(is_done);
}

}  // namespace hg::convert
