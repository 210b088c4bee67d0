// SPDX-License-Identifier: Apache-2.0
// The result of a kernel's prepare: dispatches of shaders on the operands of the node.
//
// Binding 0 of every shader is the parameter table of the recording. A push constant is the offset
// of the dispatch in it. The parameters start with one word per further binding: the distance in
// elements from the start of the binding to the first element of its tensor. The kernel's own
// parameters follow.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "hg/gpu.h"
#include "hg/kernel.h"

namespace hg::vulkan {

// A built-in shader by its name in shaders/CMakeLists.txt; empty if there is none.
std::span<const uint32_t> shader(std::string_view name);

struct Operand {
  enum class Kind : uint8_t { input, output, workspace, constant, flag };
  Kind kind = Kind::input;
  int index = 0;
  DType dtype = f32;
  int64_t offset = 0, bytes = 0;  // of a workspace or a constant
  const void* data = nullptr;     // of a constant, from PrepareContext::pack
  bool writes = false;

  static Operand in(const PrepareContext& c, int i) { return {Kind::input, i, c.in(i).dtype}; }
  static Operand out(const PrepareContext& c, int i) {
    return {Kind::output, i, c.out(i).dtype, 0, 0, nullptr, true};
  }
  static Operand workspace(DType dtype, int64_t offset, int64_t bytes, bool writes) {
    return {Kind::workspace, 0, dtype, offset, bytes, nullptr, writes};
  }
  static Operand constant(DType dtype, const void* data, int64_t bytes) {
    return {Kind::constant, 0, dtype, 0, bytes, data};
  }
  // A word that a shader sets if the data are invalid; the run then fails with Commands::error.
  static Operand flag() { return {Kind::flag, 0, DType::i32, 0, 4, nullptr, true}; }
};

// Parameters as words.
class Words {
 public:
  Words& u(int64_t value) {
    words_.push_back(static_cast<uint32_t>(value));
    return *this;
  }
  Words& f(double value) {
    words_.push_back(std::bit_cast<uint32_t>(static_cast<float>(value)));
    return *this;
  }
  Words& all(const Sizes& sizes) {
    for (const int64_t size : sizes) u(size);
    return *this;
  }
  const std::vector<uint32_t>& words() const { return words_; }

 private:
  std::vector<uint32_t> words_;
};

struct Dispatch {
  std::span<const uint32_t> code;                        // a built-in shader, or
  std::shared_ptr<const std::vector<uint32_t>> program;  // one made for this node
  std::vector<uint32_t> constants;                       // specialization constants 0, 1, ...
  std::vector<Operand> operands;                         // bindings 1, 2, ...
  std::vector<uint32_t> params;
  std::array<int64_t, 3> groups = {1, 1, 1};
  int64_t invocations = 128;  // maximum of a group
  int64_t shared_bytes = 0;   // of a group, if more than a few

  // Appends to `constants`.
  void specialise(std::initializer_list<int64_t> values) {
    for (const int64_t value : values) constants.push_back(static_cast<uint32_t>(value));
  }
};

struct Commands {
  std::vector<Dispatch> dispatches;
  const char* error = nullptr;  // message for a set flag
};

// Groups for a shader that numbers its invocations with invocation() of common.glsl.
std::array<int64_t, 3> groups_for(const DeviceInfo& device, int64_t invocations,
                                  int64_t group_size = 128);

// A row of the registry.
constexpr KernelDef kernel_row(std::string_view op, std::string_view name,
                               bool (*accepts)(const PrepareContext&),
                               Status (*prepare)(PrepareContext&), uint32_t strided = 0) {
  return {.op = op,
          .device = hg::Device::vulkan,
          .name = name,
          .accepts = accepts,
          .prepare = prepare,
          .strided = strided};
}

// Adds a dispatch to the node's commands. Fails with `unsupported` if it exceeds the device's
// limits.
Status add(PrepareContext& c, Dispatch dispatch);

}  // namespace hg::vulkan
