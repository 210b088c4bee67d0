// SPDX-License-Identifier: Apache-2.0
// Pointwise programs: one block function calls the block functions of its steps on pieces that stay
// in the first-level cache. A final reduction reads the results of the block function instead of a
// tensor.
#include "hg/pointwise_program.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/pointwise/pointwise.h"
#include "kernels/reduce/reducers.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// Number of results that are alive at one time, and elements of each.
constexpr int kMostSlots = PointwiseProgram::kMostSteps;
constexpr int64_t kShortest = 128, kLongest = 1024;
constexpr int64_t kLongRow = 128;  // elements

struct Call {
  Block block = nullptr;
  PointwiseParams params;
  int count = 0;                // of inputs
  int from[kMaxOperands] = {};  // input K of the program is K, slot K is inputs + K
  int slot = -1;                // slot of the result; -1: y
  DType rounds_to = f32;        // f16 and bf16 are computed in f32
};
struct Program {
  int inputs = 0;
  int64_t in_size[PointwiseProgram::kMostInputs] = {};
  int64_t out_size = 0;
  int64_t piece = kShortest;  // elements
  std::vector<Call> calls;
};

constexpr int64_t kRounded = 256;  // elements at a time

template <class T>
void round_to(float* x, int64_t n) {
  T rounded[kRounded];
  for (int64_t at = 0; at < n; at += kRounded) {
    const int64_t count = std::min(kRounded, n - at);
    half_table().narrow(count, x + at, rounded);
    half_table().widen(count, rounded, x + at);
  }
}

void run_program(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  const Program& program = *static_cast<const Program*>(params.program);
  alignas(64) std::byte slots[kMostSlots * kShortest * 8];
  for (int64_t at = 0; at < n; at += program.piece) {
    const int64_t count = std::min(program.piece, n - at);
    for (const Call& call : program.calls) {
      const void* in[kMaxOperands];
      for (int i = 0; i < call.count; ++i) {
        const int k = call.from[i];
        in[i] = k < program.inputs ? static_cast<const std::byte*>(x[k]) + at * program.in_size[k]
                                   : slots + (k - program.inputs) * program.piece * 8;
      }
      void* out = call.slot < 0
                      ? static_cast<void*>(static_cast<std::byte*>(y) + at * program.out_size)
                      : slots + call.slot * program.piece * 8;
      PointwiseParams own = call.params;
      own.divided_by_zero = params.divided_by_zero;
      call.block(out, in, count, own);
      if (call.rounds_to == f16) round_to<Half>(static_cast<float*>(out), count);
      if (call.rounds_to == bf16) round_to<BFloat16>(static_cast<float*>(out), count);
    }
  }
}

bool is_half(DType dtype) { return dtype == f16 || dtype == bf16; }
// Bytes of an element in the form that blocks read.
int64_t size_in_blocks(DType dtype) { return is_half(dtype) ? 4 : size_of(dtype); }

// The block that the op's own kernel would use for such inputs.
Result<Call> call_of(const PrepareContext& c, const PointwiseProgram::Step& step,
                     const std::vector<DType>& dtypes) {
  for (const KernelDef* kernel : Registry::built_in().kernels(step.op->name(), Device::cpu)) {
    PrepareContext::Call own{.attrs = AttrReader(step.op, step.attrs), .label = c.label()};
    for (const int arg : step.args) {
      own.given.push_back(arg != PointwiseProgram::kAbsent);
      own.ids.push_back(kNoValue);
      own.inputs.push_back(arg == PointwiseProgram::kAbsent
                               ? Tensor()
                               : view(static_cast<void*>(nullptr), dtypes[arg], {kShortest}));
    }
    own.outputs.push_back(view(static_cast<void*>(nullptr), step.dtype, {kShortest}));
    PrepareContext one(std::move(own));
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

// The elementwise steps; `stored`: the last result is rounded when it is stored.
Result<std::shared_ptr<const Program>> program_of(const PrepareContext& c, PointwiseProgram& text,
                                                  bool stored) {
  std::vector<DType> dtypes;
  for (int i = 0; i < c.input_count(); ++i) dtypes.push_back(c.in(i).dtype);
  HG_TRY(text.infer_dtypes(dtypes));
  auto program = std::make_shared<Program>();
  program->inputs = c.input_count();
  program->out_size = size_in_blocks(text.steps.back().dtype);
  for (int i = 0; i < c.input_count(); ++i) program->in_size[i] = size_in_blocks(dtypes[i]);
  const size_t count = text.steps.size();
  std::vector<size_t> last_reader(count, 0);
  for (size_t k = 0; k < count; ++k)
    for (const int arg : text.steps[k].args)
      if (arg >= c.input_count()) last_reader[arg - c.input_count()] = k;
  std::vector<int> slot_of(count, -1);
  bool taken[kMostSlots] = {};
  for (size_t k = 0; k < count; ++k) {
    const PointwiseProgram::Step& step = text.steps[k];
    HG_TRY_ASSIGN(Call call, call_of(c, step, dtypes));
    dtypes.push_back(step.dtype);
    for (int i = 0; i < call.count; ++i)
      if (call.from[i] >= program->inputs)
        call.from[i] = program->inputs + slot_of[call.from[i] - program->inputs];
    const bool is_last = k + 1 == count;
    if (!is_last) {
      int slot = 0;
      while (taken[slot]) ++slot;
      taken[slot] = true;
      call.slot = slot_of[k] = slot;
    }
    if (is_half(step.dtype) && !(is_last && stored)) call.rounds_to = step.dtype;
    program->calls.push_back(call);
    for (size_t j = 0; j < k; ++j)
      if (last_reader[j] == k && slot_of[j] >= 0) taken[slot_of[j]] = false;
  }
  const int64_t most = std::max<int64_t>(1, 1 + *std::max_element(slot_of.begin(), slot_of.end()));
  program->piece = std::min(kLongest, kMostSlots * kShortest / most);
  return std::shared_ptr<const Program>(std::move(program));
}

// Plans the elementwise driver for it.
Status plan_blocks(PrepareContext& c, std::shared_ptr<const Program> program) {
  // A single op on unchanged inputs needs no program.
  const Call& first = program->calls.front();
  bool is_plain =
      program->calls.size() == 1 && !is_half(first.rounds_to) && first.count == program->inputs;
  for (int i = 0; i < first.count; ++i) is_plain = is_plain && first.from[i] == i;
  if (is_plain) return prepare_block(c, first.block, first.params);
  PointwiseParams params;
  params.program = program.get();
  return prepare_block(c, &run_program, params, std::move(program));
}

Status prepare(PrepareContext& c) {
  HG_TRY_ASSIGN(
      PointwiseProgram text,
      PointwiseProgram::parse(c.attrs().string("program"), c.input_count(), Registry::built_in()));
  HG_TRY_ASSIGN(std::shared_ptr<const Program> program, program_of(c, text, true));
  return plan_blocks(c, std::move(program));
}

struct Reduction {
  std::shared_ptr<const void> elements;  // plan of the steps before it
  std::shared_ptr<void> plan;
  void (*run)(const RunContext&) noexcept;
};

// The shape to which the inputs broadcast.
Sizes shape_of_elements(const PrepareContext& c) {
  int rank = 0;
  for (int i = 0; i < c.input_count(); ++i) rank = std::max(rank, c.in(i).rank());
  Sizes shape;
  for (int d = 0; d < rank; ++d) {
    int64_t size = 1;
    for (int i = 0; i < c.input_count(); ++i) {
      const int own = d - (rank - c.in(i).rank());
      if (own >= 0 && c.in(i).shape[own] != 1) size = c.in(i).shape[own];
    }
    shape.push_back(size);
  }
  return shape;
}

// The input with its dims in the order in which elements are visited.
Tensor walked(const Tensor& x, const Sizes& shape, const std::vector<int>& order) {
  Tensor y = view(static_cast<void*>(nullptr), x.dtype, {});
  for (const int d : order) {
    const int own = d - (shape.rank() - x.rank());
    y.shape.push_back(shape[d]);
    y.strides.push_back(own < 0 || x.shape[own] == 1 ? 0 : x.strides[own]);
  }
  return y;
}

Status prepare_reduction(PrepareContext& c) {
  HG_TRY_ASSIGN(
      PointwiseProgram text,
      PointwiseProgram::parse(c.attrs().string("program"), c.input_count(), Registry::built_in()));
  const PointwiseProgram::Step last = std::move(text.steps.back());
  text.steps.pop_back();
  HG_TRY_ASSIGN(std::shared_ptr<const Program> program, program_of(c, text, false));
  const DType dtype = text.steps.back().dtype;
  const Sizes shape = shape_of_elements(c);

  PrepareContext whole({.attrs = AttrReader(last.op, last.attrs),
                        .inputs = {view(static_cast<void*>(nullptr), dtype, shape)},
                        .outputs = {c.out(0)},
                        .given = {true},
                        .ids = {kNoValue},
                        .label = c.label()});
  const auto kernels = Registry::built_in().kernels(last.op->name(), Device::cpu);
  if (!(last.op->def.traits & kReduction) || kernels.empty() || !kernels.front()->in_programs)
    return c.fail("'", last.op->name(), "' is not a reduction");
  HG_TRY(kernels.front()->prepare(whole));
  ReducePlan& plan = *whole.state<ReducePlan>();

  // Long rows are contiguous already; other elements are visited in the order of the reduction.
  const int inner = plan.shape.rank() - 1;
  const bool in_order =
      plan.by_column || (inner > 0 && plan.strides[inner] == 1 && plan.shape[inner] >= kLongRow);
  std::vector<int> order;
  for (const bool reduced : {false, true})
    for (int d = 0; d < shape.rank(); ++d)
      if (in_order ? !reduced : plan.reduced[d] == reduced) order.push_back(d);
  PrepareContext::Call walk{.attrs = AttrReader(last.op, last.attrs), .label = c.label()};
  for (int i = 0; i < c.input_count(); ++i) {
    walk.given.push_back(true);
    walk.ids.push_back(kNoValue);
    walk.inputs.push_back(walked(c.in(i), shape, order));
  }
  Sizes walked_shape;
  for (const int d : order) walked_shape.push_back(shape[d]);
  walk.outputs = {
      view(static_cast<void*>(nullptr), is_half(dtype) ? DType::f32 : dtype, walked_shape)};
  PrepareContext elements(std::move(walk));
  HG_TRY(plan_blocks(elements, std::move(program)));
  plan.compute(elements.shared_state().get(), !in_order);
  c.set_workspace(whole.workspace());
  c.make_state(Reduction{elements.shared_state(), whole.shared_state(), kernels.front()->run});
  return {};
}

void run_reduction(const RunContext& c) noexcept {
  const Reduction& reduction = c.state<Reduction>();
  RunContext own = c;
  own.prepared = reduction.plan.get();
  reduction.run(own);
}

constexpr KernelDef kKernels[] = {
    {.op = "pointwise_program",
     .name = "pieces",
     .prepare = prepare,
     .run = &run_pointwise,
     .strided = kAllStrided},
    {.op = "pointwise_reduction",
     .name = "pieces",
     .prepare = prepare_reduction,
     .run = run_reduction,
     .strided = kAllStrided},
};

}  // namespace

std::span<const KernelDef> pointwise_program() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
