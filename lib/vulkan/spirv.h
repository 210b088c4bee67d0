// SPDX-License-Identifier: Apache-2.0
// The words of a SPIR-V module as instructions, as far as needed to link shaders.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <spirv/unified1/spirv.hpp11>
#include <string_view>
#include <vector>

namespace hg::vulkan::spirv {

using spv::Capability;
using spv::Op;

struct Instruction {
  const uint32_t* words = nullptr;
  uint32_t count = 0;
  Op op() const { return static_cast<Op>(words[0] & spv::OpCodeMask); }
  std::string_view text(uint32_t at) const { return reinterpret_cast<const char*>(words + at); }
};

inline constexpr size_t kHeaderWords = 5;  // of a module

inline std::vector<Instruction> instructions(std::span<const uint32_t> code, size_t first) {
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

// The first word of an instruction of `count` words.
inline uint32_t head(Op op, size_t count) {
  return static_cast<uint32_t>(count) << spv::WordCountShift | static_cast<uint32_t>(op);
}

// Appends an instruction with these operands.
inline void emit(std::vector<uint32_t>& to, Op op, std::initializer_list<uint32_t> words) {
  to.push_back(head(op, words.size() + 1));
  to.insert(to.end(), words);
}

}  // namespace hg::vulkan::spirv
