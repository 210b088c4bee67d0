// SPDX-License-Identifier: Apache-2.0
// Runs a model. Creating a session compiles; binding sizes plans all memory; running allocates
// nothing. A session is used by one thread at a time; others may use other sessions of the same
// model meanwhile. Sessions of one model, or of its unchanged copies, compile it once and have one
// copy of the packed weights, which goes with the last of them, where their options are equal but
// for seed, first_run, dims and the host's pool of as many threads.
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
  int64_t peak_bytes = 0;         // all that the session holds while it runs
  int64_t arena_bytes = 0;        // activations and workspaces of the current sizes
  int64_t arena_lower_bound = 0;  // largest sum of bytes alive at one step
  int64_t weights_bytes = 0;      // as loaded; mapped from the file where it was mapped
  int64_t packed_bytes = 0;       // copies made for kernels, in common with sessions that are alike
  double extra_flops = 0;         // of a run, for values that are computed again to save memory
  int64_t device_bytes = 0;       // on the device: arena, weights and inputs
};

struct ProfileRow {
  std::string node;  // its name
  std::string op;
  std::string kernel;
  std::string module;
  double ms = 0;  // of the last run
  double flops = 0;
  int64_t bytes = 0;  // read and written
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

// What Session::step() ran: a node, what runs in one go with it, or a transfer.
struct StepRow {
  std::string node;  // its name; of several, of the last
  std::string op;
  std::string kernel;
  std::string module;
  double ms = 0;
  // The values that are there now, on the host, in the order of the graph; until the next step.
  std::vector<std::pair<std::string, Tensor>> outputs;
};

// How far a run is, for any thread to look at while it lasts.
class RunProgress {
 public:
  // Steps that are done. Of kernels that are recorded for a device, all of a recording at once.
  int64_t done() const { return done_.load(std::memory_order_relaxed); }
  // Steps of what the run has begun: more come with each round of a loop, and when data has decided
  // a size. The same as done() after a run that succeeded.
  int64_t known() const { return known_.load(std::memory_order_relaxed); }

 private:
  friend class Program;
  std::atomic<int64_t> done_{0}, known_{0};
};

class Session {
 public:
  // Copies what it needs of the model; weights are shared, and nobody writes to them as long as a
  // session of the model lives. Any thread may create one, of a model that nobody changes
  // meanwhile. Fails with the first node that cannot be compiled.
  static Result<Session> create(const Model& model, SessionOptions options = {});
  // Makes ready what a session with these options needs of `options.gpu`, which must be given: its
  // kernels are tested and compiled. Sessions that come later on that Gpu start at once, and
  // through Gpu::cache() those of the next process. All sizes must be known: give `options.dims`.
  static Status prewarm(const Model& model, SessionOptions options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // `tensor` is borrowed until the next set_input of that name; any strides. Its dtype must be the
  // input's, its shape must fit, and a symbol must mean one number in all inputs.
  Status set_input(std::string_view name, const ConstTensor& tensor);
  Status set_input(int index, const ConstTensor& tensor);
  // On the session's own device, and of its dtype and shape; the memory is shared, not copied.
  Status set_input(std::string_view name, const DeviceTensor& tensor);
  Status set_input(int index, const DeviceTensor& tensor);
  // From now on runs leave this output in `tensor`, which is borrowed until the next set_output of
  // that name: one with null data ends it. Kernels write there directly where the memory is 64-byte
  // aligned, shares no byte with an input, and the output is a tensor of its own; otherwise it is
  // copied at the end of the run. The shape must be the output's; where data alone decides that,
  // `tensor` is contiguous, and the output takes the first of its elements. A run that fails may
  // have written some of it.
  Status set_output(std::string_view name, const Tensor& tensor);
  Status set_output(int index, const Tensor& tensor);
  // Ends what set_input and set_output borrow; plans stay for when their sizes come again.
  void forget_tensors();
  // Plans for the sizes of the inputs set so far, or for `dims`. run() does it where it is not
  // done.
  Status plan();
  Status plan(std::span<const std::pair<std::string, int64_t>> dims);
  // Fails when an input is missing or sizes do not fit. When `stop` is asked for, which any thread
  // may do, the run ends after the node at work, or after the work at hand on a device, with
  // `cancelled` and without outputs; one that has begun to change parameters or buffers goes on to
  // its end. `progress`, where given, begins at 0 and must live until the run returns.
  Status run(std::stop_token stop = {}, RunProgress* progress = nullptr);
  // A run by single steps, for looking into it: the first call begins it, each one runs a step, and
  // the call that gives nothing has ended it as run() does. A failure, run(), plan() and
  // set_input() give up what was begun; parameters and buffers may have changed by then.
  Result<std::optional<StepRow>> step();
  // Gives back the memory of the arenas, here and on a device; outputs end. Plans stay, and the
  // next run allocates again.
  void release_memory();
  // Random ops draw from now on as those of a new session with this seed.
  void seed(uint64_t seed);
  // A view of any strides into the session's memory, valid until the next run or plan, never after
  // the session, which debug builds see to (docs/embedding.md); or into what set_output() gave.
  Result<Tensor> output(std::string_view name) const;
  Result<Tensor> output(int index) const;
  // An output that the last run computed on the device.
  Result<DeviceTensor> device_output(std::string_view name) const;
  Result<DeviceTensor> device_output(int index) const;
  // A view of a parameter or buffer as it is now, or, with keep_all_values, of any value.
  Result<Tensor> value(std::string_view name) const;
  // Overwrites a parameter or buffer that runs change; `tensor` has its dtype and shape.
  Status set_value(std::string_view name, const ConstTensor& tensor);

  int input_count() const;
  int output_count() const;
  std::string_view input_name(int index) const;
  std::string_view output_name(int index) const;
  const TensorType& input_type(int index) const;
  const TensorType& output_type(int index) const;

  // For the planned sizes; exact before the first run. Fails when nothing is planned yet.
  Result<Memory> memory() const;
  std::vector<ArenaBlock> arena_blocks() const;
  double flops() const;                     // multiplications and additions of one run
  std::vector<ProfileRow> profile() const;  // needs SessionOptions::profile
  std::vector<WaysRow> ways() const;
  // What SessionOptions::autotune measured so far, and SessionOptions::tuning: to be stored, for
  // the next session.
  std::vector<std::byte> tuning() const;
  const Gpu& gpu() const;               // empty on the CPU
  const Graph& compiled_graph() const;  // after the passes
  std::string report() const;           // devices, kernels and passes, as text

 private:
  struct Body;
  explicit Session(std::unique_ptr<Body> body);
  Result<int> find_input(std::string_view name) const;
  Result<int> find_output(std::string_view name) const;
  std::unique_ptr<Body> body_;
};

}  // namespace hg
