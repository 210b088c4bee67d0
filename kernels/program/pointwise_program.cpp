// SPDX-License-Identifier: Apache-2.0
// Pointwise programs: one block function calls the block functions of its steps on pieces that stay
// in the first-level cache. A final reduction reads the results of the block function instead of a
// tensor.
#include "hg/pointwise_program.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/bytes.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/pointwise_simd.h"
#include "kernels/program/byte_sums.h"
#include "kernels/reduce/reducers.h"
#include "kernels/saves_code.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// Elements of all results that are alive at one time, and of each.
constexpr int64_t kSlotElements = 4096, kLongest = 1024;
constexpr int64_t kPieceMultiple = 16;  // elements
constexpr int64_t kLongRow = 128;       // elements

struct Call {
  Block block = nullptr;
  PointwiseParams params;
  int count = 0;                // of inputs
  int from[kMaxOperands] = {};  // input K of the program is K, slot K is inputs + K
  int slot = -1;                // slot of the result; -1: y
  // To f16 or bf16, which are computed in f32; may be null.
  void (*round)(int64_t count, const float* from, float* to) = nullptr;
};
struct Program {
  int inputs = 0;
  int64_t in_size[PointwiseProgram::kMostInputs] = {};  // 0: only the first element is read
  uint32_t same = 0;                                    // bit k: so it is with input k
  int64_t out_size = 0;
  int64_t piece = 0;  // elements
  std::vector<Call> calls;
};

void run_program(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  const Program& program = *static_cast<const Program*>(params.program);
  alignas(64) std::byte slots[kSlotElements * 8];
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
      if (call.round == nullptr || !own.copies) call.block(out, in, count, own);
      if (call.round != nullptr)
        call.round(count, static_cast<const float*>(own.copies ? in[0] : out),
                   static_cast<float*>(out));
    }
  }
}

bool is_half(DType dtype) { return dtype == f16 || dtype == bf16; }
// Bytes of an element in the form that blocks read.
int64_t size_in_blocks(DType dtype) { return is_half(dtype) ? 4 : size_of(dtype); }

// The block that the op's own kernel would use for such inputs.
Result<Call> block_of(const PrepareContext& c, const PointwiseProgram::Step& step,
                      const std::vector<DType>& dtypes) {
  for (const KernelDef* kernel : Registry::built_in().kernels(step.op->name(), Device::cpu)) {
    PrepareContext::Call own{.attrs = AttrReader(step.op, step.attrs), .label = c.label()};
    for (const int arg : step.args) {
      own.given.push_back(arg != PointwiseProgram::kAbsent);
      own.ids.push_back(kNoValue);
      own.inputs.push_back(arg == PointwiseProgram::kAbsent
                               ? Tensor()
                               : view(static_cast<void*>(nullptr), dtypes[arg], {kPieceMultiple}));
    }
    own.outputs.push_back(view(static_cast<void*>(nullptr), step.dtype, {kPieceMultiple}));
    PrepareContext one(std::move(own));
    if (kernel->run != &run_pointwise || (kernel->accepts != nullptr && !kernel->accepts(one)))
      continue;
    HG_TRY(kernel->prepare(one));
    const ChosenBlock chosen = chosen_block(one);
    Call call;
    call.block = chosen.block;
    call.params = chosen.params;
    call.params.single = -1;  // the program's buffers hold every element
    return call;
  }
  return c.fail("'", step.op->name(), "' is not elementwise");
}

// One or more steps that a block function computes. It has the result of the last one.
struct Part {
  size_t step = 0;
  Block block = nullptr;  // null: that of the step's op
  PointwiseParams params;
  std::vector<int> args;
};

// Finds the steps of quantization: five that round a float to a byte, three that widen it, and all
// twelve that add two bytes. Also a comparison and the choice by it. Each of these becomes one
// part, which computes the same bits.
class Parts {
 public:
  Parts(const PrepareContext& c, const PointwiseProgram& text, const std::vector<DType>& dtypes)
      : c_(c), text_(text), dtypes_(dtypes), readers_(text.steps.size(), 0) {
    for (const PointwiseProgram::Step& step : text.steps)
      for (const int arg : step.args)
        if (arg >= text.input_count) ++readers_[at(arg)];
  }

  std::vector<Part> find() {
    std::vector<Part> parts;
    for (size_t k = 0; k < text_.steps.size(); ++k) {
      Part part;
      part.step = k;
      part.args = text_.steps[k].args;
      if (quantizes(part))
        adds(part, parts);
      else
        dequantizes(part);
      if (part.block != nullptr)
        mark_same(part);
      else
        chooses(part);
      // The steps before the last one follow each other, but perhaps not immediately.
      std::erase_if(parts, [&](const Part& each) { return absorbed_[each.step]; });
      parts.push_back(std::move(part));
    }
    return parts;
  }

 private:
  using Step = PointwiseProgram::Step;

  size_t at(int arg) const { return static_cast<size_t>(arg - text_.input_count); }
  // Blocks of quantization read numbers only if all operands but the tensors, x[0] and x[3], are.
  void mark_same(Part& part) const {
    uint32_t same = 0;
    for (size_t i = 0; i < part.args.size(); ++i) {
      if (i == 0 || i == 3) continue;
      if (!is_number(part.args[i])) return;
      same |= 1U << i;
    }
    part.params.same = same;
  }
  bool is_number(int arg) const {
    return arg >= 0 && arg < text_.input_count && c_.in(arg).count() == 1;
  }
  bool is_float(int arg) const { return arg >= 0 && dtypes_[static_cast<size_t>(arg)] == f32; }
  // The step of this op that computes the f32 `arg` for one reader; null if there is none.
  const Step* single(int arg, std::string_view op) const {
    if (arg < text_.input_count || readers_[at(arg)] != 1) return nullptr;
    const Step& step = text_.steps[at(arg)];
    return step.op->name() == op && step.dtype == f32 ? &step : nullptr;
  }
  void absorb(std::initializer_list<const Step*> steps) {
    for (const Step* step : steps) absorbed_[static_cast<size_t>(step - text_.steps.data())] = true;
  }

  bool quantizes(Part& part) {
    const Step& cast = text_.steps[part.step];
    if (cast.op->name() != "cast" || (cast.dtype != DType::u8 && cast.dtype != DType::i8))
      return false;
    const Step* const limited = single(cast.args[0], "hardtanh");
    const Step* const sum = limited ? single(limited->args[0], "add") : nullptr;
    if (sum == nullptr) return false;
    for (const size_t side : {0, 1}) {
      const Step* const rounded = single(sum->args[side], "round");
      if (!rounded || AttrReader(rounded->op, rounded->attrs).integer("decimals") != 0) continue;
      const Step* const quotient = single(rounded->args[0], "div");
      const int zero = sum->args[1 - side];
      if (!quotient || !is_float(quotient->args[0]) || !is_float(quotient->args[1]) ||
          !is_float(zero))
        continue;
      const AttrReader limits(limited->op, limited->attrs);
      part.block = pointwise_simd_blocks().quantize;
      part.params.a = limits.real("min_val");
      part.params.b = limits.real("max_val");
      part.args = {quotient->args[0], quotient->args[1], zero};
      absorb({limited, sum, rounded, quotient});
      return true;
    }
    return false;
  }
  // If the number that this part quantizes is a sum of two widened bytes, and all others are
  // numbers, the part adds them too.
  void adds(Part& part, const std::vector<Part>& parts) {
    const Step* const sum = single(part.args[0], "add");
    if (sum == nullptr || !is_number(part.args[1]) || !is_number(part.args[2])) return;
    std::vector<int> args;
    const PointwiseSimd& blocks = pointwise_simd_blocks();
    bool is_signed[2] = {};
    for (const size_t side : {0, 1}) {
      const int arg = sum->args[side];
      if (single(arg, "mul") == nullptr) return;
      const auto made = std::find_if(parts.begin(), parts.end(),
                                     [&](const Part& each) { return each.step == at(arg); });
      if (made == parts.end()) return;
      is_signed[side] = made->block == blocks.dequantize_i8;
      if (!is_signed[side] && made->block != blocks.dequantize_u8) return;
      if (!is_number(made->args[1]) || !is_number(made->args[2])) return;
      args.insert(args.end(), made->args.begin(), made->args.end());
    }
    args.insert(args.end(), part.args.begin() + 1, part.args.end());
    absorb({sum, &text_.steps[at(sum->args[0])], &text_.steps[at(sum->args[1])]});
    const Block sums[] = {blocks.sum_u8_u8, blocks.sum_u8_i8, blocks.sum_i8_u8, blocks.sum_i8_i8};
    part.block = sums[2 * is_signed[0] + is_signed[1]];
    part.args = std::move(args);
    hurry(part, is_signed);
  }
  // If all operands of a sum but the tensors are constants, and a block that does not check each
  // quotient computes the same bytes, the part uses it.
  void hurry(Part& part, const bool (&is_signed)[2]) {
    const bool to_signed = text_.steps[part.step].dtype == DType::i8;
    const double low = to_signed ? -128 : 0;
    if (part.params.a != low || part.params.b != low + 255) return;
    std::vector<const void*> operands;
    for (size_t i = 0; i < part.args.size(); ++i) {
      const bool is_tensor = i == 0 || i == 3;
      if (!is_tensor && !c_.is_constant(part.args[i])) return;
      operands.push_back(is_tensor ? nullptr : c_.in(part.args[i]).data);
    }
    PointwiseParams params = part.params;
    params.same = ~0U;
    Block memory[2];
    for (const Block quick : quick_byte_sums(is_signed[0], is_signed[1], to_signed, memory))
      if (agree_on_bytes(quick, part.block, operands.data(), params)) {
        part.block = quick;
        return;
      }
  }
  bool dequantizes(Part& part) {
    const Step& product = text_.steps[part.step];
    if (product.op->name() != "mul" || product.dtype != f32) return false;
    for (const size_t side : {0, 1}) {
      const Step* const difference = single(product.args[side], "sub");
      const Step* const number = difference ? single(difference->args[0], "cast") : nullptr;
      const int scale = product.args[1 - side];
      if (!number || !is_float(difference->args[1]) || !is_float(scale)) continue;
      const DType from = dtypes_[static_cast<size_t>(number->args[0])];
      if (from != DType::u8 && from != DType::i8) continue;
      const PointwiseSimd& blocks = pointwise_simd_blocks();
      part.block = from == DType::u8 ? blocks.dequantize_u8 : blocks.dequantize_i8;
      part.args = {number->args[0], difference->args[1], scale};
      absorb({difference, number});
      return true;
    }
    return false;
  }

  // A choice of floats by a comparison of floats.
  void chooses(Part& part) {
    const Step& choice = text_.steps[part.step];
    if (kSavesCode || choice.op->name() != "where" || choice.dtype != f32) return;
    const int condition = choice.args[0];
    if (condition < text_.input_count || readers_[at(condition)] != 1) return;
    const Step& comparison = text_.steps[at(condition)];
    const PointwiseSimd& blocks = pointwise_simd_blocks();
    const std::pair<std::string_view, Block> chosen[] = {
        {"eq", blocks.choose_eq}, {"ne", blocks.choose_ne}, {"lt", blocks.choose_lt},
        {"le", blocks.choose_le}, {"gt", blocks.choose_gt}, {"ge", blocks.choose_ge}};
    for (const auto& [name, block] : chosen) {
      if (comparison.op->name() != name || block == nullptr) continue;
      const std::vector<int> args = {comparison.args[0], comparison.args[1], choice.args[1],
                                     choice.args[2]};
      for (const int arg : args)
        if (!is_float(arg)) return;
      part.block = block;
      part.args = args;
      if (is_number(args[1])) part.params.same = 1U << 1;
      absorb({&comparison});
    }
  }

  const PrepareContext& c_;
  const PointwiseProgram& text_;
  const std::vector<DType>& dtypes_;  // of inputs, then of steps
  std::vector<int> readers_;          // of each step
  std::vector<bool> absorbed_ = std::vector<bool>(text_.steps.size(), false);
};

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
  for (const PointwiseProgram::Step& step : text.steps) dtypes.push_back(step.dtype);
  const std::vector<Part> parts = Parts(c, text, dtypes).find();
  std::vector<size_t> last_reader(text.steps.size(), 0);  // the part
  for (size_t k = 0; k < parts.size(); ++k)
    for (const int arg : parts[k].args)
      if (arg >= c.input_count()) last_reader[arg - c.input_count()] = k;
  std::vector<int> slot_of(text.steps.size(), -1);
  bool taken[PointwiseProgram::kMostSteps] = {};
  for (size_t k = 0; k < parts.size(); ++k) {
    const Part& part = parts[k];
    const PointwiseProgram::Step& step = text.steps[part.step];
    Call call{.block = part.block, .params = part.params};
    if (call.block == nullptr) {
      HG_TRY_ASSIGN(call, block_of(c, step, dtypes));
    }
    for (const int arg : part.args)
      if (arg != PointwiseProgram::kAbsent)
        call.from[call.count++] =
            arg < program->inputs ? arg : program->inputs + slot_of[arg - program->inputs];
    const bool is_last = k + 1 == parts.size();
    if (!is_last) {
      int slot = 0;
      while (taken[slot]) ++slot;
      taken[slot] = true;
      call.slot = slot_of[part.step] = slot;
    }
    if (is_half(step.dtype) && !(is_last && stored))
      call.round = step.dtype == f16 ? half_table().round_f16 : half_table().round_bf16;
    for (int i = 0; i < call.count && call.params.reads_single; ++i)
      if (call.from[i] < program->inputs && c.in(call.from[i]).count() == 1 &&
          dtypes[call.from[i]] == f32)
        call.params.single = i;
    program->calls.push_back(call);
    for (size_t j = 0; j < k; ++j)
      if (const size_t at = parts[j].step; last_reader[at] == k && slot_of[at] >= 0)
        taken[slot_of[at]] = false;
  }
  const int64_t most = 1 + *std::max_element(slot_of.begin(), slot_of.end());
  program->piece = most == 0
                       ? std::numeric_limits<int64_t>::max()
                       : std::min(kLongest, kSlotElements / most / kPieceMultiple * kPieceMultiple);
  for (int k = 0; k < program->inputs; ++k) {
    bool is_same = c.in(k).count() == 1;
    for (const Call& call : program->calls)
      for (int i = 0; i < call.count; ++i)
        is_same = is_same && (call.from[i] != k || (call.params.same >> i & 1) != 0 ||
                              call.params.single == i);
    if (!is_same) continue;
    program->same |= 1U << k;
    program->in_size[k] = 0;
  }
  return std::shared_ptr<const Program>(std::move(program));
}

// Plans the elementwise driver for it.
Status plan_blocks(PrepareContext& c, std::shared_ptr<const Program> program) {
  // A single op on unchanged inputs needs no program.
  const Call& first = program->calls.front();
  bool is_plain =
      program->calls.size() == 1 && first.round == nullptr && first.count == program->inputs;
  for (int i = 0; i < first.count; ++i) is_plain = is_plain && first.from[i] == i;
  if (is_plain) return prepare_block(c, first.block, first.params);
  PointwiseParams params;
  params.program = program.get();
  params.same = program->same;
  return prepare_block(c, &run_program, params, std::move(program));
}

Status prepare(PrepareContext& c) {
  HG_TRY_ASSIGN(
      PointwiseProgram text,
      PointwiseProgram::parse(c.attrs().string("program"), c.input_count(), Registry::built_in()));
  HG_TRY_ASSIGN(std::shared_ptr<const Program> program, program_of(c, text, true));
  return plan_blocks(c, std::move(program));
}

// -- Functions of a byte --------------------------------------------------------------------------

constexpr int64_t kBytes = 256, kLeastForTable = 4 * kBytes, kTableGrain = 1 << 14;

// A program of one tensor of bytes and of numbers: its results for all bytes are computed first.
struct ByteFunction {
  std::shared_ptr<const void> results;  // plan of the program for all bytes
  int input = 0;                        // the tensor
  uint8_t bytes[kBytes] = {};
};

// The input that is a tensor of bytes if all others are numbers, or -1.
int byte_input(const PrepareContext& c) {
  int found = -1;
  for (int i = 0; i < c.input_count(); ++i) {
    const Tensor& x = c.in(i);
    if (x.count() == 1) continue;
    const bool is_byte = x.dtype == DType::u8 || x.dtype == DType::i8;
    if (found >= 0 || !is_byte || x.shape != c.out(0).shape || !x.is_contiguous()) return -1;
    found = i;
  }
  return found;
}

bool is_byte_function(const PrepareContext& c) {
  if (c.out(0).count() < kLeastForTable || byte_input(c) < 0) return false;
  Result<PointwiseProgram> text =
      PointwiseProgram::parse(c.attrs().string("program"), c.input_count(), Registry::built_in());
  std::vector<DType> dtypes;
  for (int i = 0; i < c.input_count(); ++i) dtypes.push_back(c.in(i).dtype);
  if (!text.ok() || !text->infer_dtypes(dtypes).ok()) return false;
  for (const PointwiseProgram::Step& step : text->steps) dtypes.push_back(step.dtype);
  const std::vector<Part> parts = Parts(c, *text, dtypes).find();
  if (parts.size() == 1 && parts[0].block != nullptr) return false;  // is as fast as a look-up
  // Divisions of integers fail for a byte that the tensor might not have.
  return std::all_of(text->steps.begin(), text->steps.end(), [](const auto& step) {
    return is_float(step.dtype) || step.op->name() == "cast";
  });
}

Status prepare_byte_function(PrepareContext& c) {
  HG_TRY_ASSIGN(
      PointwiseProgram text,
      PointwiseProgram::parse(c.attrs().string("program"), c.input_count(), Registry::built_in()));
  HG_TRY_ASSIGN(std::shared_ptr<const Program> program, program_of(c, text, true));
  ByteFunction f;
  f.input = byte_input(c);
  for (int i = 0; i < kBytes; ++i) f.bytes[i] = static_cast<uint8_t>(i);
  PrepareContext::Call all{.attrs = AttrReader(text.steps.back().op, text.steps.back().attrs),
                           .label = c.label()};
  for (int i = 0; i < c.input_count(); ++i) {
    all.given.push_back(true);
    all.ids.push_back(kNoValue);
    all.inputs.push_back(
        view(static_cast<void*>(nullptr), c.in(i).dtype, {i == f.input ? kBytes : 1}));
  }
  all.outputs = {view(static_cast<void*>(nullptr), c.out(0).dtype, {kBytes})};
  PrepareContext elements(std::move(all));
  HG_TRY(plan_blocks(elements, std::move(program)));
  f.results = elements.shared_state();
  c.set_workspace(kBytes * size_of(c.out(0).dtype));
  c.make_state(std::move(f));
  return {};
}

template <class T>
void look_up(const void* table, const uint8_t* x, int64_t n, void* y) {
  const PointwiseSimd& blocks = pointwise_simd_blocks();
  if constexpr (sizeof(T) == 1) return blocks.look_up_1(table, x, n, y);
  if constexpr (sizeof(T) == 4) return blocks.look_up_4(table, x, n, y);
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(y)[i] = static_cast<const T*>(table)[x[i]];
}

void run_byte_function(const RunContext& c) noexcept {
  const ByteFunction& f = c.state<ByteFunction>();
  void* const table = c.workspace<void>();
  const DType dtype = c.out(0).dtype;
  Tensor inputs[PointwiseProgram::kMostInputs];
  for (int i = 0; i < c.input_count(); ++i)
    inputs[i] = view(i == f.input ? const_cast<uint8_t*>(f.bytes) : c.in(i).data, c.in(i).dtype,
                     {i == f.input ? kBytes : 1});
  Tensor result = view(table, dtype, {kBytes});
  RunContext all = c;
  all.inputs = {inputs, static_cast<size_t>(c.input_count())};
  all.outputs = {&result, 1};
  all.prepared = f.results.get();
  run_pointwise(all);
  const auto* const x = c.in(f.input).as<const uint8_t>();
  for_bytes(dtype, [&]<class T>() {
    c.parallel_for(c.out(0).count(), kTableGrain, [&](int64_t begin, int64_t end) {
      look_up<T>(table, x + begin, end - begin, c.out(0).as<T>() + begin);
    });
  });
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
     .name = "bytes",
     .accepts = is_byte_function,
     .prepare = prepare_byte_function,
     .run = run_byte_function,
     .strided = kAllStrided},
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
