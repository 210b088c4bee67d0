// SPDX-License-Identifier: Apache-2.0
// Runs a model. Creating a session compiles the graph, binding sizes plans all memory, and running
// allocates nothing.
//
// Use a session from one thread at a time. Different sessions of one model may run concurrently. A
// moved-from session may only be assigned to or destroyed.
//
// Sessions of one model, or of unchanged copies of it, share the compiled graph and the packed
// weights if their options are equal. The shared data is freed with the last such session. These
// options may differ: seed, first_run, dims, lazy_allocation, arena_observer, log, and the host's
// thread pool if it has the same number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/gpu.h"
#include "hg/model.h"
#include "hg/options.h"

namespace hg {

struct Memory {
  int64_t peak_bytes = 0;         // arena, weights and packed weights on the host
  int64_t arena_bytes = 0;        // activations and workspaces for the current sizes
  int64_t arena_lower_bound = 0;  // largest sum of bytes live at one step
  int64_t weights_bytes = 0;      // as loaded; mapped if the file was mapped
  int64_t packed_bytes = 0;       // copies made for kernels, shared with similar sessions
  int64_t mapped_bytes = 0;       // the part of them from the file of SessionOptions::packed
  double extra_flops = 0;         // recomputation per run to save memory
  int64_t device_bytes = 0;       // on the device: arena, weights and inputs
};

// Statistics of one step, see Session::profile().
struct ProfileRow {
  std::string node;  // name of the node
  std::string op;
  std::string kernel;
  std::string module;
  double ms = 0;  // of the last run
  double flops = 0;
  int64_t bytes = 0;  // read and written
};

// How often each branch or loop of a node was taken since the session was created.
struct WaysRow {
  std::string node;  // its name; "if_3/0/while_1" is inside the first subgraph of if_3
  std::string op;
  Origin origin;
  // For `if`: first subgraph, second subgraph. For `while`: no iteration, one, more. For other ops,
  // per size that depends on data: 0, 1, more.
  std::vector<int64_t> taken;
};

// One block of the arena and the steps during which it is live, for drawing.
struct ArenaBlock {
  std::string value;
  int64_t offset = 0, bytes = 0;
  int first_step = 0, last_step = 0;
};

// The step that Session::step() ran: a node, a group of nodes that run together, or a transfer.
struct StepRow {
  std::string node;  // its name; of the last node for a group
  std::string op;
  std::string kernel;
  std::string module;
  double ms = 0;
  // The values that are now available on the host, in graph order. Valid until the next step.
  std::vector<std::pair<std::string, Tensor>> outputs;
};

// Progress of a run. Any thread may read it during the run.
class RunProgress {
 public:
  // Completed steps. Kernels recorded for a device complete together.
  int64_t done() const { return done_.load(std::memory_order_relaxed); }
  // Known steps of the run. The number grows with each loop iteration, and when data determines a
  // size. Equals done() after a successful run.
  int64_t known() const { return known_.load(std::memory_order_relaxed); }

 private:
  friend class Engine;
  std::atomic<int64_t> done_{0}, known_{0};
};

class Session {
 public:
  // Compiles `model`. The session copies what it needs and shares the weights, which must not
  // change while a session of the model lives. Thread-safe if no thread changes the model. Fails
  // with the first node that cannot be compiled.
  static Result<Session> create(const Model& model, SessionOptions options = {});
  // Compiles and tests the kernels that a session with these options needs on `options.gpu`, which
  // must be open. Later sessions on that Gpu start without this delay, and so do later processes
  // that use Gpu::cache(). All sizes must be known: set `options.dims`.
  static Status prewarm(const Model& model, SessionOptions options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Sets an input. `tensor` is borrowed until the next set_input for that input; any strides. Fails
  // if the dtype or shape does not match, or if a symbol has different values in two inputs.
  Status set_input(std::string_view name, const ConstTensor& tensor);
  Status set_input(int index, const ConstTensor& tensor);
  // Sets an input on the session's device, of equal dtype and shape. The memory is shared, not
  // copied.
  Status set_input(std::string_view name, const DeviceTensor& tensor);
  Status set_input(int index, const DeviceTensor& tensor);
  // Binds an output: runs write it to `tensor`, which is borrowed until the next set_output for
  // that output. Null data unbinds it. The shape must match; for a size that depends on data,
  // `tensor` must be contiguous, and the output fills its first elements. Kernels write to `tensor`
  // directly if it is contiguous, 64-byte aligned, overlaps no input, and the output is not a view
  // of another value; otherwise the run copies to it at the end. A failed run may have written some
  // of it.
  Status set_output(std::string_view name, const Tensor& tensor);
  Status set_output(int index, const Tensor& tensor);
  // Releases all tensors borrowed by set_input and set_output. Plans are kept.
  void forget_tensors();
  // Plans for the sizes of the inputs set so far, or for `dims`. run() plans if needed.
  Status plan();
  Status plan(std::span<const std::pair<std::string, int64_t>> dims);
  // Runs the model. Fails if an input is missing or sizes do not match. Any thread may request
  // `stop`: the run then ends after the current node, or after the current submission on a device,
  // with `cancelled` and no outputs. A run that has begun to change parameters or buffers completes
  // instead. `progress` may be null; it starts at 0 and must live until run() returns.
  Status run(std::stop_token stop = {}, RunProgress* progress = nullptr);
  // Runs one step, to inspect values between steps. The first call starts a run; the call that
  // returns nullopt ends it as run() does. A failure, run(), plan() or set_input() abandons the
  // run; parameters and buffers may have changed by then.
  Result<std::optional<StepRow>> step();
  // Frees the arenas on host and device; outputs become invalid. Plans are kept, and the next run
  // allocates again.
  void release_memory();
  // Restarts random ops with `seed`, as in a new session.
  void seed(uint64_t seed);
  // Returns a view of an output, with any strides: into the session's memory, or into the tensor
  // bound by set_output(). Valid until the next run or plan, and only while the session lives;
  // debug builds detect violations (docs/embedding.md).
  Result<Tensor> output(std::string_view name) const;
  Result<Tensor> output(int index) const;
  // Returns an output that the last run computed on the device.
  Result<DeviceTensor> device_output(std::string_view name) const;
  Result<DeviceTensor> device_output(int index) const;
  // Returns a view of a parameter or buffer with its current contents; with keep_all_values, of any
  // value.
  Result<Tensor> value(std::string_view name) const;
  // Overwrites a parameter or buffer that runs change. dtype and shape must match.
  Status set_value(std::string_view name, const ConstTensor& tensor);

  int input_count() const;
  int output_count() const;
  std::string_view input_name(int index) const;
  std::string_view output_name(int index) const;
  const TensorType& input_type(int index) const;
  const TensorType& output_type(int index) const;

  // Returns the memory use for the planned sizes, exact before the first run. Fails if no sizes are
  // planned.
  Result<Memory> memory() const;
  std::vector<ArenaBlock> arena_blocks() const;
  double flops() const;                     // multiplications and additions per run
  std::vector<ProfileRow> profile() const;  // needs SessionOptions::profile
  std::vector<WaysRow> ways() const;
  // Returns the measurements of SessionOptions::autotune, including those of
  // SessionOptions::tuning. Store them for later sessions.
  std::vector<std::byte> tuning() const;
  // Writes the packed weights of the plans made so far to the file of SessionOptions::packed,
  // unless all of them came from it. The file is replaced at once; processes that map the old one
  // keep it. It takes as many bytes as the packs of all plans. Fails if the option is empty, or
  // names a file of another kind.
  Status save_packed() const;
  const Gpu& gpu() const;               // empty on the CPU
  const Graph& compiled_graph() const;  // after the passes
  std::string report() const;           // devices, kernels and passes, for people

 private:
  struct Body;
  explicit Session(std::unique_ptr<Body> body);
  Result<int> find_input(std::string_view name) const;
  Result<int> find_output(std::string_view name) const;
  std::unique_ptr<Body> body_;
};

}  // namespace hg
