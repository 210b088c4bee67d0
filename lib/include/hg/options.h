// SPDX-License-Identifier: Apache-2.0
// What a host decides about a session: where it runs, with how much memory, and what it may round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/gpu.h"
#include "hg/kernel.h"

namespace hg {

// What of the values between a loss and its gradients is computed again instead of kept. A limit of
// memory that asks for more recomputes more.
enum class Checkpoint : uint8_t {
  none,  // keep all but what a training step computes again in less than a hundredth of its time
  sqrt,  // keep what crosses between about sqrt(n) segments of the n nodes before the peak
};

// Memory of the host. `allocate` returns 64-byte aligned memory or null.
struct Allocator {
  void* (*allocate)(void* host, size_t bytes) = nullptr;
  void (*free)(void* host, void* memory, size_t bytes) = nullptr;
  void* host = nullptr;
};

// Told of each arena that a session allocates or frees: its memory and bytes. A call must not use
// the session. Arenas on a device have no address.
struct ArenaObserver {
  void (*allocated)(void* host, void* memory, size_t bytes) = nullptr;
  void (*freed)(void* host, void* memory, size_t bytes) = nullptr;
  void* host = nullptr;  // lives as long as the session
};

enum class LogLevel : uint8_t {
  info,     // what was decided: devices, kernels, plans
  warning,  // what the host asked for and did not get
};
// Told a sentence at a time by the thread that calls the library, which may hold locks of it:
// `write` calls nothing of the session. The message lives until it returns.
struct Log {
  void (*write)(void* host, LogLevel level, const char* message) = nullptr;
  void* host = nullptr;
};

struct SessionOptions {
  // Device::automatic runs the model with zeros on the CPU and on the GPU as soon as its sizes are
  // known, and keeps the faster; report() tells the times. Without a GPU it is the CPU.
  Device device = Device::cpu;
  int threads = 0;                // 0: as many as OpenMP would take
  ParallelFor parallel_for = {};  // the host's own pool; then no OpenMP region is entered
  Allocator allocator = {};       // the host's own memory for the arena and packed weights
  ArenaObserver arena_observer = {};
  // Arenas are allocated by the first run that needs them, not by plan().
  bool lazy_allocation = false;
  // Bytes of arena, packed weights and own state; 0: none. Values are computed again where that
  // saves the memory; results stay the same bits.
  int64_t memory_limit = 0;
  Checkpoint checkpoint = Checkpoint::none;
  bool low_memory = false;  // weights are used where they lie, not packed for kernels: slower
  Precision precision = Precision::f32;  // on the CPU
  // Whether plan() measures which CPU kernel is the fastest for each large node, and takes that one
  // instead of the one that counting predicts. Results may then differ by rounding from one
  // measurement to the next, unless `tuning` has them already.
  bool autotune = false;
  std::vector<std::byte> tuning = {};  // what Session::tuning() gave before, here or elsewhere
  std::vector<std::pair<std::string, int64_t>> dims = {};  // sizes for symbols, to plan at creation
  // By name, for debugging; "*" is all that are not needed to run.
  std::vector<std::string> disabled_passes = {};
  std::vector<std::string> kernels = {};  // "conv=gemm": only this variant, for debugging
  uint64_t seed = 0;                      // of random ops; equal seeds give equal runs
  uint64_t first_run = 0;                 // the number that random ops take the first run for
  // The device unless it is the CPU; empty: one that the session opens, chosen by `gpu_name` as in
  // GpuOptions. What no kernel of the device serves runs on the CPU; report() shows the split.
  Gpu gpu = {};
  std::string gpu_name = {};
  bool device_outputs = false;  // outputs stay on the device, for device_output()
  bool profile = false;
  // Rounds of all loops that one run may take, for models and inputs that nobody vouches for: one
  // more is an error. 0: no limit.
  int64_t most_rounds = 0;
  bool keep_all_values = false;        // every value can be read by name after a run; for checking
  const Registry* registry = nullptr;  // kernels; null: those of the model's graph
  Log log = {};                        // what the session decides; without one nothing is said
};

// Whether disabled_passes names it.
inline bool is_disabled(const SessionOptions& options, std::string_view pass) {
  for (const std::string& name : options.disabled_passes)
    if (name == pass || name == "*") return true;
  return false;
}

// Whether time is given for memory.
inline bool saves_memory(const SessionOptions& options) {
  return options.low_memory || options.memory_limit > 0;
}

}  // namespace hg
