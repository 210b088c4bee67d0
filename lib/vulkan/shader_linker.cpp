// SPDX-License-Identifier: Apache-2.0
// The module of shaders/pointwise.comp is a library: its functions are found by name and by the
// types of their parameters, main() is written anew, and what is not reached from it is left out,
// so that a program asks the device for no more than it uses. Numbers are those of the SPIR-V
// specification.
#include "lib/vulkan/shader_linker.h"

#include <map>
#include <set>
#include <spirv/unified1/spirv.hpp11>
#include <string_view>

#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

using spv::Capability;
using spv::Op;

struct Instruction {
  const uint32_t* words = nullptr;
  uint32_t count = 0;
  Op op() const { return static_cast<Op>(words[0] & spv::OpCodeMask); }
  std::string_view text(uint32_t at) const { return reinterpret_cast<const char*>(words + at); }
};

constexpr size_t kHeaderWords = 5;  // of a module

std::vector<Instruction> instructions(std::span<const uint32_t> code, size_t first) {
  std::vector<Instruction> all;
  for (size_t at = first; at < code.size();) {
    const uint32_t count = code[at] >> spv::WordCountShift;
    if (count == 0 || at + count > code.size()) break;
    all.push_back({&code[at], count});
    at += count;
  }
  return all;
}

// Calls visit(id) for each id that the instruction uses or defines.
template <class Visit>
void each_id(const Instruction& in, const Visit& visit) {
  const auto range = [&](uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to && i < in.count; ++i) visit(in.words[i]);
  };
  switch (in.op()) {
    case Op::OpTypeInt:
    case Op::OpTypeFloat:
    case Op::OpLabel:
      return range(1, 2);
    case Op::OpTypeVector:
    case Op::OpConstant:
    case Op::OpVariable:
      return range(1, 3);
    case Op::OpTypePointer:
      visit(in.words[1]);
      return range(3, 4);
    case Op::OpExtInst:
      range(1, 4);
      return range(5, in.count);
    case Op::OpFunction:
      range(1, 3);
      return range(4, 5);
    case Op::OpVectorShuffle:
      return range(1, 5);
    case Op::OpCompositeExtract:
      return range(1, 4);
    case Op::OpCompositeInsert:
      return range(1, 5);
    case Op::OpLoopMerge:
      return range(1, 3);
    case Op::OpSelectionMerge:
      return range(1, 2);
    case Op::OpBranchConditional:
      return range(1, 4);
    default:
      return range(1, in.count);
  }
}

struct Function {
  size_t begin = 0, end = 0;  // of the instructions, end past OpFunctionEnd
  uint32_t result_type = 0;
};

class Library {
 public:
  explicit Library(std::span<const uint32_t> code)
      : code_(code), all_(instructions(code, kHeaderWords)), bound_(code.size() > 3 ? code[3] : 0) {
    for (size_t i = 0; i < all_.size(); ++i) {
      const Instruction& in = all_[i];
      if (in.op() == Op::OpName) names_[std::string(in.text(2))] = in.words[1];
      if (in.op() == Op::OpTypeInt && in.words[2] == 32 && in.words[3] == 0)
        uint_type_ = in.words[1];
      if (in.op() == Op::OpEntryPoint) main_ = in.words[2];
      if (in.op() != Op::OpFunction) continue;
      if (functions_begin_ == 0) functions_begin_ = i;
      Function function{i, i, in.words[1]};
      while (function.end < all_.size() && all_[function.end].op() != Op::OpFunctionEnd)
        ++function.end;
      ++function.end;
      functions_[in.words[2]] = function;
    }
  }

  uint32_t find(const std::string& mangled) const {
    const auto found = names_.find(mangled);
    return found == names_.end() ? 0 : found->second;
  }

  std::vector<uint32_t> link(const ShaderProgram& program, bool& ok) const;

 private:
  std::span<const uint32_t> code_;
  std::vector<Instruction> all_;
  uint32_t bound_ = 0, uint_type_ = 0, main_ = 0;
  size_t functions_begin_ = 0;
  std::map<std::string, uint32_t> names_;
  std::map<uint32_t, Function> functions_;
};

// How glslang spells the type that this dtype is computed in.
std::string_view mangled(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "d1;";
    case DType::i64:
      return "i641;";
    case DType::bool_:
      return "b1;";
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
      return "i1;";
    default:
      return "f1;";
  }
}

// The first word of an instruction of `count` words.
uint32_t head(Op op, size_t count) {
  return static_cast<uint32_t>(count) << spv::WordCountShift | static_cast<uint32_t>(op);
}
void emit(std::vector<uint32_t>& to, Op op, std::initializer_list<uint32_t> words) {
  to.push_back(head(op, words.size() + 1));
  to.insert(to.end(), words);
}

std::vector<uint32_t> Library::link(const ShaderProgram& program, bool& ok) const {
  uint32_t next = bound_;
  std::vector<uint32_t> constants, body;
  std::map<uint32_t, uint32_t> numbers;
  std::set<uint32_t> called;
  const auto number = [&](int64_t value) {
    const auto [entry, is_new] = numbers.try_emplace(static_cast<uint32_t>(value), next);
    if (is_new) emit(constants, Op::OpConstant, {uint_type_, next++, static_cast<uint32_t>(value)});
    return entry->second;
  };
  uint32_t result_type = 0;
  const auto call = [&](const std::string& name, const std::vector<uint32_t>& arguments) {
    const uint32_t function = find(name);
    if (function == 0) {
      ok = false;
      return uint32_t{0};
    }
    called.insert(function);
    result_type = functions_.at(function).result_type;
    body.push_back(head(Op::OpFunctionCall, arguments.size() + 4));
    const uint32_t result = next++;
    body.insert(body.end(), {result_type, result, function});
    body.insert(body.end(), arguments.begin(), arguments.end());
    return result;
  };
  // The type of a register, as the mangled name of a function shows it.
  std::map<uint32_t, std::string> spelled;
  for (const auto& [name, id] : names_) {
    const size_t open = name.find('(');
    const auto function = functions_.find(id);
    if (open == std::string::npos || function == functions_.end()) continue;
    if (name.starts_with("to_f32(f")) spelled[function->second.result_type] = "f1;";
    if (name.starts_with("to_f64(f")) spelled[function->second.result_type] = "d1;";
    if (name.starts_with("to_i32(f")) spelled[function->second.result_type] = "i1;";
    if (name.starts_with("to_i64(f")) spelled[function->second.result_type] = "i641;";
    if (name.starts_with("to_bool(f")) spelled[function->second.result_type] = "b1;";
  }

  const int64_t at_count = static_cast<int64_t>(program.inputs.size()) + 1;
  const int64_t at_shape = at_count + 1;
  const int64_t at_strides = at_shape + 1 + program.rank;
  const int64_t at_params = at_strides + program.rank * static_cast<int64_t>(program.inputs.size());

  const Function& main = functions_.at(main_);
  const Instruction& header = all_[main.begin];
  body.insert(body.end(), header.words, header.words + header.count);
  emit(body, Op::OpLabel, {next++});
  const uint32_t index = call("invocation(", {});
  const uint32_t inside = call("inside(u1;u1;", {index, number(at_count)});
  const uint32_t then = next++, end = next++;
  emit(body, Op::OpSelectionMerge, {end, 0});
  emit(body, Op::OpBranchConditional, {inside, then, end});
  emit(body, Op::OpLabel, {then});
  struct Register {
    uint32_t id;
    std::string type;
  };
  std::vector<Register> registers;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ShaderProgram::Input& input = program.inputs[i];
    const auto slot = static_cast<int64_t>(i) + 2;
    uint32_t at = 0;
    if (input.access == ShaderProgram::Access::strided)
      at = call("at_strided(u1;u1;u1;u1;",
                {index, number(slot), number(at_shape),
                 number(at_strides + program.rank * static_cast<int64_t>(i))});
    else
      at = call(input.access == ShaderProgram::Access::flat ? "at_flat(u1;u1;" : "at_one(u1;u1;",
                {index, number(slot)});
    registers.push_back({call(text("load_", name_of(input.dtype), "_", slot, "(u1;"), {at}),
                         std::string(mangled(input.dtype))});
  }
  for (const ShaderProgram::Call& step : program.calls) {
    std::string function = step.function + "(";
    std::vector<uint32_t> arguments;
    for (const int index_of : step.registers) {
      const Register& argument = registers[static_cast<size_t>(index_of)];
      function += argument.type;
      arguments.push_back(argument.id);
    }
    for (const int param : step.params) {
      function += "f1;";
      arguments.push_back(call("param(u1;", {number(at_params + param)}));
    }
    const uint32_t result = call(function, arguments);
    registers.push_back({result, spelled[result_type]});
  }
  const uint32_t to = call("at_flat(u1;u1;", {index, number(1)});
  call(text("store_", name_of(program.result), "(u1;", mangled(program.result)),
       {to, registers.back().id});
  if (registers.back().type != mangled(program.result)) ok = false;
  emit(body, Op::OpBranch, {end});
  emit(body, Op::OpLabel, {end});
  emit(body, Op::OpReturn, {});
  emit(body, Op::OpFunctionEnd, {});
  if (!ok) return {};

  // Functions that are reached, and the ids that they use.
  std::set<uint32_t> reached, used;
  std::vector<uint32_t> open(called.begin(), called.end());
  for (const Instruction& in : instructions(body, 0))
    each_id(in, [&](uint32_t id) { used.insert(id); });
  while (!open.empty()) {
    const uint32_t id = open.back();
    open.pop_back();
    if (!reached.insert(id).second) continue;
    const Function& function = functions_.at(id);
    for (size_t i = function.begin; i < function.end; ++i) {
      each_id(all_[i], [&](uint32_t operand) { used.insert(operand); });
      if (all_[i].op() == Op::OpFunctionCall) open.push_back(all_[i].words[3]);
    }
  }
  used.insert(uint_type_);
  for (const Instruction& in : all_)
    if (in.op() == Op::OpEntryPoint) {  // its interface, behind the name
      const auto name_words = static_cast<uint32_t>(in.text(3).size() / 4 + 1);
      for (uint32_t i = 3 + name_words; i < in.count; ++i) used.insert(in.words[i]);
    }
  // Types, constants and variables, from the last to the first: each names only earlier ones.
  std::vector<bool> keep(functions_begin_, false);
  bool has_f64 = false, has_i64 = false, has_16 = false, has_8 = false;
  size_t globals = functions_begin_;
  while (globals > 0 && all_[globals - 1].op() != Op::OpDecorate &&
         all_[globals - 1].op() != Op::OpMemberDecorate)
    --globals;
  for (size_t i = functions_begin_; i-- > globals;) {
    const Instruction& in = all_[i];
    const bool is_type = in.op() >= Op::OpTypeVoid && in.op() <= Op::OpTypeForwardPointer;
    if (!used.count(in.words[is_type ? 1 : 2])) continue;
    keep[i] = true;
    each_id(in, [&](uint32_t id) { used.insert(id); });
    if (in.op() == Op::OpTypeFloat || in.op() == Op::OpTypeInt) {
      has_f64 |= in.op() == Op::OpTypeFloat && in.words[2] == 64;
      has_i64 |= in.op() == Op::OpTypeInt && in.words[2] == 64;
      has_16 |= in.words[2] == 16;
      has_8 |= in.words[2] == 8;
    }
  }
  std::vector<uint32_t> out(code_.begin(), code_.begin() + kHeaderWords);
  out[3] = next;
  const auto append = [&](const Instruction& in) {
    out.insert(out.end(), in.words, in.words + in.count);
  };
  for (size_t i = 0; i < functions_begin_; ++i) {
    const Instruction& in = all_[i];
    switch (in.op()) {
      case Op::OpSource:
      case Op::OpSourceExtension:
      case Op::OpName:
      case Op::OpMemberName:
        continue;
      case Op::OpCapability: {
        const auto what = static_cast<Capability>(in.words[1]);
        if ((what == Capability::Float64 && !has_f64) || (what == Capability::Int64 && !has_i64) ||
            (what == Capability::StorageBuffer16BitAccess && !has_16) ||
            (what == Capability::StorageBuffer8BitAccess && !has_8))
          continue;
        break;
      }
      case Op::OpExtension:
        if (in.text(1) == "SPV_KHR_8bit_storage" && !has_8) continue;
        break;
      case Op::OpDecorate:
      case Op::OpMemberDecorate:
        if (!used.count(in.words[1])) continue;
        break;
      default:
        if (i >= globals && !keep[i]) continue;
    }
    append(in);
  }
  out.insert(out.end(), constants.begin(), constants.end());
  out.insert(out.end(), body.begin(), body.end());
  for (const uint32_t id : reached) {
    const Function& function = functions_.at(id);
    for (size_t i = function.begin; i < function.end; ++i) append(all_[i]);
  }
  return out;
}

}  // namespace

std::shared_ptr<const std::vector<uint32_t>> assemble(const ShaderProgram& program) {
  static const Library library(shader("pointwise"));
  bool ok = true;
  std::vector<uint32_t> words = library.link(program, ok);
  if (!ok) return nullptr;
  return std::make_shared<const std::vector<uint32_t>>(std::move(words));
}

}  // namespace hg::vulkan
