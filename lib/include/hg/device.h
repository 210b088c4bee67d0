// SPDX-License-Identifier: Apache-2.0
// Where and how a session computes: devices, threads of the host, rounding.
#pragma once

#include <cstdint>
#include <string_view>

namespace hg {

enum class Device : uint8_t { automatic, cpu, vulkan };
std::string_view to_string(Device device);

// Runs task(arg, 0) ... task(arg, count - 1) in any order and on any threads, and returns when all
// are done. A host supplies such a function to run tasks on its own thread pool.
struct ParallelFor {
  void (*run)(void* host, int64_t count, void (*task)(void* arg, int64_t index),
              void* arg) = nullptr;
  void* host = nullptr;  // passed to `run`
  int threads = 1;       // that may run tasks
};

// Rounding that a session may add to the model's own rounding.
enum class Precision : uint8_t {
  f32,  // none
  // Rounds constant f32 weights of matrix products, and of convolutions that are products, to bf16;
  // relative error at most 2^-8, sums are f32. On processors with AVX-512 BF16 or Arm's BFMMLA,
  // more than a few rows of the other operand are rounded as well; with AMX, all operands of
  // convolutions and of attention.
  bf16,
  // Dynamic quantization: products with a weight of 8 or 4 bits (hg/quantize.h) round their other
  // input to 8 bits. 32 neighbors along the summed dim share a scale, their largest magnitude
  // divided by 127; the error of each is at most half a scale. Sums of levels are exact. A block
  // that holds a NaN or an infinity makes its sums NaN.
  i8,
};

}  // namespace hg
