// SPDX-License-Identifier: Apache-2.0
// Runs a model. Creating a session compiles; binding sizes plans all memory; running allocates
// nothing. A session is used by one thread at a time; several sessions may share a model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/gpu.h"
#include "hg/kernel.h"
#include "hg/model.h"

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

struct Options {
  // Device::automatic runs the model with zeros on the CPU and on the GPU as soon as its sizes are
  // known, and keeps the faster; report() tells the times. Without a GPU it is the CPU.
  Device device = Device::cpu;
  int threads = 0;                  // 0: as many as OpenMP would take
  ParallelFor parallel_for = {};         // the host's own pool; then no OpenMP region is entered
  Allocator allocator = {};              // the host's own memory for the arena and packed weights
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
  std::vector<std::string> disabled_passes = {};           // by name, for debugging
  std::vector<std::string> kernels = {};  // "conv=gemm": only this variant, for debugging
  uint64_t seed = 0;                // of random ops; equal seeds give equal runs
  uint64_t first_run = 0;           // the number that random ops take the first run for
  // The device unless it is the CPU; empty: one that the session opens, chosen by `gpu_name` as in
  // GpuOptions. What no kernel of the device serves runs on the CPU; report() shows the split.
  Gpu gpu = {};
  std::string gpu_name = {};
  bool device_outputs = false;  // outputs stay on the device, for device_output()
  bool profile = false;
  // Rounds of all loops that one run may take, for models and inputs that nobody vouches for: one
  // more is an error. 0: no limit.
  int64_t most_rounds = 0;
  bool keep_all_values = false;      // every value can be read by name after a run; for checking
  const Registry* registry = nullptr;  // kernels; null: those of the model's graph
};

struct Memory {
  int64_t peak_bytes = 0;         // all that the session holds while it runs
  int64_t arena_bytes = 0;        // activations and workspaces of the current sizes
  int64_t arena_lower_bound = 0;  // largest sum of bytes alive at one step
  int64_t weights_bytes = 0;      // as loaded; mapped from the file where it was mapped
  int64_t packed_bytes = 0;       // copies made for kernels
  double extra_flops = 0;         // of a run, for values that are computed again to save memory
  int64_t device_bytes = 0;       // on the device: arena, weights and inputs
};

struct ProfileRow {
  std::string node;    // its name
  std::string op;
  std::string kernel;
  std::string module;
  double ms = 0;       // of the last run
  double flops = 0;
  int64_t bytes = 0;   // read and written
};

// How often the ways of a node that data or sizes decide were taken since the session was created.
struct WaysRow {
  std::string node;  // its name; "if_3/0/while_1" of one in the first subgraph of another
  std::string op;
  Origin origin;
  // Of `if`: its first subgraph, the second. Of `while`: no round, one, more. Of another op, for
  // each size that data gives: 0, 1, more.
  std::vector<int64_t> taken;
};

// One block of the arena over the steps of a run, for drawing.
struct ArenaBlock {
  std::string value;
  int64_t offset = 0, bytes = 0;
  int first_step = 0, last_step = 0;
};

class Session {
 public:
  // Copies what it needs of the model; weights are shared. Fails with the first node that cannot
  // be compiled.
  static Result<Session> create(const Model& model, Options options = {});
  // Makes ready what a session with these options needs of `options.gpu`, which must be given: its
  // kernels are tested and compiled. Sessions that come later on that Gpu start at once, and through
  // Gpu::cache() those of the next process. All sizes must be known: give `options.dims`.
  static Status prewarm(const Model& model, Options options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // `tensor` is borrowed until the next set_input of that name; any strides. Its dtype must be the
  // input's, its shape must fit, and a symbol must mean one number in all inputs.
  Status set_input(std::string_view name, const Tensor& tensor);
  Status set_input(int index, const Tensor& tensor);
  // On the session's own device, and of its dtype and shape; the memory is shared, not copied.
  Status set_input(std::string_view name, const DeviceTensor& tensor);
  Status set_input(int index, const DeviceTensor& tensor);
  // Plans for the sizes of the inputs set so far, or for `dims`. run() does it where it is not done.
  Status plan();
  Status plan(std::span<const std::pair<std::string, int64_t>> dims);
  // Fails when an input is missing or sizes do not fit.
  Status run();
  // A contiguous or strided view into the session's memory, valid until the next run or plan.
  Result<Tensor> output(std::string_view name) const;
  Result<Tensor> output(int index) const;
  // An output that the last run computed on the device.
  Result<DeviceTensor> device_output(std::string_view name) const;
  Result<DeviceTensor> device_output(int index) const;
  // The present contents of a parameter or buffer, or, with keep_all_values, of any value.
  Result<Tensor> value(std::string_view name) const;
  // Overwrites a parameter or buffer that runs change; `tensor` has its dtype and shape.
  Status set_value(std::string_view name, const Tensor& tensor);

  int input_count() const;
  int output_count() const;
  std::string_view input_name(int index) const;
  std::string_view output_name(int index) const;
  const TensorType& input_type(int index) const;
  const TensorType& output_type(int index) const;

  // For the planned sizes; exact before the first run. Fails when nothing is planned yet.
  Result<Memory> memory() const;
  std::vector<ArenaBlock> arena_blocks() const;
  double flops() const;                        // multiplications and additions of one run
  std::vector<ProfileRow> profile() const;     // needs Options::profile
  std::vector<WaysRow> ways() const;
  // What Options::autotune measured so far, and Options::tuning: to be stored, for the next session.
  std::vector<std::byte> tuning() const;
  const Gpu& gpu() const;  // empty on the CPU
  const Graph& compiled_graph() const;         // after the passes
  std::string report() const;                  // devices, kernels and passes, as text

 private:
  struct Body;
  explicit Session(std::unique_ptr<Body> body);
  Result<int> find_input(std::string_view name) const;
  Result<int> find_output(std::string_view name) const;
  std::unique_ptr<Body> body_;
};

}  // namespace hg
