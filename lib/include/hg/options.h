// SPDX-License-Identifier: Apache-2.0
// The options of a session: device, threads, memory, and rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/device.h"
#include "hg/gpu.h"

namespace hg {

class Registry;      // hg/registry.h
class SharedStates;  // hg/shared_states.h

// Which values between a loss and its gradients are recomputed in the backward pass instead of
// kept. A memory_limit may require more recomputation.
enum class Checkpoint : uint8_t {
  none,  // keep all, except values that a training step recomputes in less than 1% of its time
  sqrt,  // keep values between about sqrt(n) segments of the n nodes before the peak
};

// Host-supplied memory. `allocate` returns 64-byte aligned memory, or null on failure. `free`
// receives the same `bytes`.
struct Allocator {
  void* (*allocate)(void* host, size_t bytes) = nullptr;
  void (*free)(void* host, void* memory, size_t bytes) = nullptr;
  void* host = nullptr;
};

// Called for each arena that a session allocates or frees. The callbacks must not use the session.
// `memory` is null for arenas on a device.
struct ArenaObserver {
  void (*allocated)(void* host, void* memory, size_t bytes) = nullptr;
  void (*freed)(void* host, void* memory, size_t bytes) = nullptr;
  void* host = nullptr;  // must outlive the session
};

enum class LogLevel : uint8_t {
  info,     // decisions: devices, kernels, plans
  warning,  // requests of the host that could not be met
};
// Receives messages of one sentence each, on the thread that calls the library. `write` must not
// call the session, because the library may hold locks. The message is valid until `write` returns.
struct Log {
  void (*write)(void* host, LogLevel level, const char* message) = nullptr;
  void* host = nullptr;
};

// Sizes of a symbol from `lowest` to `highest`, both inclusive.
struct SizeRange {
  std::string symbol;
  int64_t lowest = 0, highest = 0;
  friend bool operator==(const SizeRange&, const SizeRange&) = default;
};

struct SessionOptions {
  // The entry to run, one of Model::entries(). Empty: the only one.
  std::string entry = {};
  // States shared with the sessions of other entries; null: the session has its own. Requires
  // Device::cpu, and the model that the states were created for or an unchanged copy of it.
  std::shared_ptr<SharedStates> states = {};
  // Device::automatic times the model with zeros on the CPU and the GPU once its sizes are known,
  // and uses the faster one; report() shows the times. Without a GPU it uses the CPU.
  Device device = Device::cpu;
  int threads = 0;                // 0: all processors of the process
  ParallelFor parallel_for = {};  // the host's pool; replaces the library's threads
  Allocator allocator = {};       // for arenas and packed weights; default: the C library
  ArenaObserver arena_observer = {};
  // Allocates arenas in the first run that needs them instead of in plan().
  bool lazy_allocation = false;
  // Limit in bytes of arena, packed weights and the session's own state; 0: none. Values are
  // recomputed if that saves enough memory, with bit-identical results. Planning fails with
  // out_of_memory, and the smallest limit that works, if this one is too low.
  int64_t memory_limit = 0;
  Checkpoint checkpoint = Checkpoint::none;
  bool low_memory = false;  // use weights in place instead of packing them for kernels: slower
  Precision precision = Precision::f32;  // CPU only
  // If true, plan() measures the CPU kernels for each large node and selects the fastest, instead
  // of predicting it. Results may differ by rounding between measurements, unless `tuning` already
  // has them.
  bool autotune = false;
  std::vector<std::byte> tuning = {};  // earlier result of Session::tuning(), from any process
  // A file that Session::save_packed() wrote, or will write: weights in the layouts of the kernels,
  // which later sessions map instead of packing them. Entries that do not match the graph, the
  // weights, the processor and the build of the library are packed as usual, as is everything if
  // the file is missing. `log` says why a file is not used. CPU only.
  std::string packed = {};
  std::vector<std::pair<std::string, int64_t>> dims = {};  // sizes of symbols, to plan at creation
  // Ranges to plan memory for, with one plan each: a new size in a range needs no new plan. The
  // plan at creation uses the highest size of each range, unless `dims` sets another. Sizes outside
  // the ranges remain valid. A symbol without a range gets one when its size changes: up to the
  // next power of two. CPU only; ignored with `autotune` or `tuning`.
  std::vector<SizeRange> ranges = {};
  // Names of passes to skip, for debugging. "*" skips all optional passes.
  std::vector<std::string> disabled_passes = {};
  std::vector<std::string> kernels = {};  // for debugging: "conv=gemm" allows only this kernel
  uint64_t seed = 0;                      // of random ops; equal seeds: equal runs
  uint64_t first_run = 0;                 // the run number that random ops start from
  // The device, unless `device` is cpu. If empty, the session opens one, selected by `gpu_name` as
  // in GpuOptions. Nodes without a kernel on the device run on the CPU; report() shows the split.
  Gpu gpu = {};
  std::string gpu_name = {};
  bool device_outputs = false;  // keep outputs on the device, for device_output()
  bool profile = false;         // record time per node, for Session::profile()
  // Limit on loop iterations per run, summed over all loops, for untrusted models or inputs.
  // Exceeding it fails the run. 0: no limit.
  int64_t most_rounds = 0;
  bool keep_all_values = false;  // make every value readable by Session::value(), for debugging
  // of kernels; null: the registry of the model's graph. Must outlive the session
  const Registry* registry = nullptr;
  Log log = {};  // default: no messages
};

}  // namespace hg
