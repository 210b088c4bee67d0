// SPDX-License-Identifier: Apache-2.0
// Pointwise programs: one block function that calls those of its steps on pieces that stay in the
// first cache.
#include "hg/pointwise_program.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/pointwise.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPiece = 256;  // elements
// Results that are alive at one time.
constexpr int kMostSlots = PointwiseProgram::kMostSteps;

struct Call {
  Block block = nullptr;
  PointwiseParams params;
  int count = 0;                // of inputs
  int from[kMaxOperands] = {};  // input K of the program as K, slot K as inputs + K
  int slot = -1;                // where the result goes; -1: to y
  DType rounds_to = f32;        // f16 and bf16 are computed in f32
};
struct Program {
  int inputs = 0;
  int64_t in_size[PointwiseProgram::kMostInputs] = {};
  int64_t out_size = 0;
  std::vector<Call> calls;
};

template <class T>
void round_to(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(T(x[i]));
}

void run_program(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  const Program& program = *static_cast<const Program*>(params.program);
  alignas(64) std::byte slots[kMostSlots][kPiece * 8];
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t count = std::min(kPiece, n - at);
    for (const Call& call : program.calls) {
      const void* in[kMaxOperands] = {};
      for (int i = 0; i < call.count; ++i) {
        const int k = call.from[i];
        in[i] = k < program.inputs ? static_cast<const std::byte*>(x[k]) + at * program.in_size[k]
                                   : slots[k - program.inputs];
      }
      void* out = call.slot < 0
                      ? static_cast<void*>(static_cast<std::byte*>(y) + at * program.out_size)
                      : slots[call.slot];
      call.block(out, in, count, call.params);
      if (call.rounds_to == f16) round_to<Half>(static_cast<float*>(out), count);
      if (call.rounds_to == bf16) round_to<BFloat16>(static_cast<float*>(out), count);
    }
  }
}

bool is_half(DType dtype) { return dtype == f16 || dtype == bf16; }
// Bytes of an element as blocks see it.
int64_t size_in_blocks(DType dtype) { return is_half(dtype) ? 4 : size_of(dtype); }

// The block that the op's own kernel would take for such inputs.
Result<Call> call_of(const PrepareContext& c, const PointwiseProgram::Step& step,
                     const std::vector<DType>& dtypes) {
  for (const KernelDef* kernel : Registry::built_in().kernels(step.op->name(), Device::cpu)) {
    PrepareContext one{AttrReader(step.op, step.attrs)};
    one.label_ = c.label();
    for (const int arg : step.args) {
      one.has_.push_back(arg != PointwiseProgram::kAbsent);
      one.ids_.push_back(kNoValue);
      one.inputs_.push_back(
          arg == PointwiseProgram::kAbsent
              ? Tensor()
              : view(static_cast<void*>(nullptr), dtypes[static_cast<size_t>(arg)], {kPiece}));
    }
    one.outputs_.push_back(view(static_cast<void*>(nullptr), step.dtype, {kPiece}));
    if (kernel->run != &run_pointwise || (kernel->accepts != nullptr && !kernel->accepts(one)))
      continue;
    HG_TRY(kernel->prepare(one));
    const ChosenBlock chosen = chosen_block(one);
    Call call;
    call.block = chosen.block;
    call.params = chosen.params;
    for (const int arg : step.args)
      if (arg != PointwiseProgram::kAbsent) call.from[call.count++] = arg;
    return call;
  }
  return c.fail("'", step.op->name(), "' is not elementwise");
}

Status prepare(PrepareContext& c) {
  HG_TRY_ASSIGN(
      PointwiseProgram text,
      PointwiseProgram::parse(c.attrs().string("program"), c.input_count(), Registry::built_in()));
  std::vector<DType> dtypes;
  for (int i = 0; i < c.input_count(); ++i) dtypes.push_back(c.in(i).dtype);
  HG_TRY(text.infer_dtypes(dtypes));
  auto program = std::make_shared<Program>();
  program->inputs = c.input_count();
  program->out_size = size_in_blocks(c.out(0).dtype);
  for (int i = 0; i < c.input_count(); ++i)
    program->in_size[i] = size_in_blocks(dtypes[static_cast<size_t>(i)]);
  const size_t count = text.steps.size();
  std::vector<size_t> last_reader(count, 0);
  for (size_t k = 0; k < count; ++k)
    for (const int arg : text.steps[k].args)
      if (arg >= c.input_count()) last_reader[static_cast<size_t>(arg - c.input_count())] = k;
  std::vector<int> slot_of(count, -1);
  bool taken[kMostSlots] = {};
  for (size_t k = 0; k < count; ++k) {
    const PointwiseProgram::Step& step = text.steps[k];
    HG_TRY_ASSIGN(Call call, call_of(c, step, dtypes));
    dtypes.push_back(step.dtype);
    for (int i = 0; i < call.count; ++i)
      if (call.from[i] >= program->inputs)
        call.from[i] =
            program->inputs + slot_of[static_cast<size_t>(call.from[i] - program->inputs)];
    if (k + 1 < count) {
      int slot = 0;
      while (taken[slot]) ++slot;
      taken[slot] = true;
      call.slot = slot_of[k] = slot;
      if (is_half(step.dtype)) call.rounds_to = step.dtype;
    }
    program->calls.push_back(call);
    for (size_t j = 0; j < k; ++j)
      if (last_reader[j] == k && slot_of[j] >= 0) taken[slot_of[j]] = false;
  }
  PointwiseParams params;
  params.program = program.get();
  return prepare_block(c, &run_program, params, std::move(program));
}

constexpr KernelDef kKernels[] = {
    {.op = "pointwise_program",
     .name = "pieces",
     .prepare = prepare,
     .run = &run_pointwise,
     .strided = kAllStrided},
};

}  // namespace

std::span<const KernelDef> pointwise_program() { return kKernels; }

}  // namespace hg::kernels
