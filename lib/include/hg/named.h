// SPDX-License-Identifier: Apache-2.0
// Models of named blocks, nested to any depth. Blocks are wired by the names of their values, or
// follow each other. A model is plain data; compile() turns it into a Program. Parameters and data
// are passed to a Program by name, and outputs and gradients are returned by name, so any optimizer
// can use it.
//
//     namespace nn = hg::nn;
//
//     hg::Result<hg::NamedArrays> scores_of(const hg::Array& images) {
//       const nn::Group model = {nn::Input("x", {"n", 784}),
//                                nn::Linear(64).input("x").output("hidden"),
//                                nn::ReLU(),
//                                nn::Linear(10).output("scores")};
//       HG_TRY_ASSIGN(nn::Program program, nn::compile(model));
//       // hidden.weight, hidden.bias, scores.weight, scores.bias
//       HG_TRY_ASSIGN(hg::NamedArrays parameters, program.initial_parameters(1));
//       return program.evaluate(parameters, {{"x", images}});
//     }
//
// hg/block_json.h reads and writes models as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/array.h"
#include "hg/graph.h"
#include "hg/named_arrays.h"
#include "hg/nn.h"
#include "hg/session.h"

namespace hg::nn {

// -- Blocks ---------------------------------------------------------------------------------------

// One end of a wire. `outside` is the name of the value around the block; `inside` is its name
// within a group. An empty `inside` equals `outside`.
struct Wire {
  std::string outside, inside;
  friend bool operator==(const Wire&, const Wire&) = default;
};

// A part of a model, or a whole model. Plain data that can be copied, compared and modified.
//
// A group is a scope: its blocks see the names in it and in the enclosing groups. From outside, a
// name in a group is "group.name". A name refers to one value; the name of a block refers to its
// first output. Blocks may be listed in any order that the wires allow.
struct Block {
  // A layer of hg/nn.h, "Group", "Input", "Parameter", "Constant", or "Call".
  std::string type;
  // Prefix of parameter names: "hidden.weight". Empty: the name of the first output, or else the
  // index of the block in its group.
  std::string name;
  std::vector<std::pair<std::string, Attr>> settings;  // as the type defines them
  // Empty: the first output of the previous block in the group, or the first input of the group.
  std::vector<Wire> inputs;
  // Empty in a group: the first output of its last block. Inputs and parameters are named by
  // `name`.
  std::vector<Wire> outputs;
  std::vector<Block> blocks;  // of a group
  std::string shared;         // path of a block whose parameters this block uses
  Array value;                // of a constant; must not change afterwards

  Block() = default;
  // Copies the kind and settings of a layer; a Sequential becomes a group. Trained parameters are
  // not copied.
  Block(const Layer& layer);  // NOLINT: implicit

  // Return a copy of the block with one more wire, or with a name.
  Block input(std::string outside, std::string inside = "") const;
  Block output(std::string outside, std::string inside = "") const;
  Block named(std::string name) const;
  Block share(std::string path) const;

  friend bool operator==(const Block& a, const Block& b);
};

// A block of blocks. The outermost group is the model; its outputs are the outputs of the program.
struct Group : Block {
  Group(std::initializer_list<Block> blocks) : Group(std::vector<Block>(blocks)) {}
  explicit Group(std::vector<Block> blocks);
};
// Data of each call. Here and below, f32 means the dtype of the program.
struct Input : Block {
  Input(std::string name, Shape shape, DType dtype = f32);
};
// A parameter that Call blocks use as an input.
struct Parameter : Block {
  Parameter(std::string name, const Sizes& shape, const init::Rule& rule = init::zeros());
};
struct Constant : Block {
  Constant(std::string name, Array value);
};
// Any op except control flow: Call("add").input("a").input("b").output("sum"). An input named "" is
// not given. Several outputs are named in order.
struct Call : Block {
  explicit Call(std::string op, const NamedAttrs& attrs = {});
};

// Returns a table of all blocks with outputs, shapes, parameters and totals. Fails as compile()
// does.
Result<std::string> summary(const Block& model);

// -- Compiling ------------------------------------------------------------------------------------

// A cache of compiled models. Compiling an equal model with equal options reuses the compiled graph
// and packed weights. Copies refer to the same cache. Thread-safe. Keeps the 32 models that were
// used last.
class PlanCache {
 public:
  PlanCache();
  struct Counters {
    int64_t hits = 0, misses = 0;
  };
  Counters counters() const;

 private:
  friend struct PlanCacheAccess;
  struct Body;
  std::shared_ptr<Body> body_;
};

// A value between inputs and outputs, seen during a call. min and max ignore NaN; they are NaN
// without other elements.
struct Intermediate {
  std::string_view name;
  DType dtype = f32;
  Sizes shape;
  double min = 0, max = 0;
  ConstTensor value;  // valid during the callback
};

struct ArenaEvent {
  bool is_free = false;
  const void* memory = nullptr;  // address; null on a device
  int64_t bytes = 0;
};

struct CompileOptions {
  // f32, f16, bf16 or f64: replaces f32 in the model. Data and parameters of another float dtype
  // are converted in each call. Outputs and gradients have this dtype.
  DType dtype = f32;
  // The dtype of matrix products and convolutions: f32, f16 or bf16, between casts. Parameters,
  // gradients and all other ops stay f32, as under PyTorch's autocast. Requires dtype f32.
  DType compute = f32;
  enum class Optimize : uint8_t { none, full };
  Optimize optimize = Optimize::full;  // none: skips optional passes
  // Requires bit-identical results for every number of threads and in each call. Rejects options
  // that depend on measured times: autotune without SessionOptions::tuning, and Device::automatic.
  bool deterministic = false;
  // If true, dropout is active, and batch norm uses batch statistics and updates the running ones,
  // except in frozen layers. A layer is frozen if all its parameters are frozen. A layer without
  // parameters is frozen if its path matches.
  bool training = false;
  // Patterns as in ParameterRule: `frozen` parameters have no gradient, except those that
  // `trainable` matches. A pattern that matches nothing is an error.
  std::vector<std::string> frozen = {}, trainable = {};
  // Paths of inputs, states and values for which evaluate_gradients() also returns gradients.
  std::vector<std::string> gradients_of = {};
  // Parameters and states that never change. They are no longer passed to calls, and are folded and
  // packed. The arrays are copied.
  NamedArrays constants = {};
  // Called with each value between inputs and outputs as it is computed; on a device, after the
  // call. Values that it names are computed as the model defines them, without fusion. Must not
  // modify the value.
  std::function<void(const Intermediate&)> debug = {};
  // Called for each allocation and release of an arena. Must not use the program.
  std::function<void(const ArenaEvent&)> on_arena = {};
  std::optional<PlanCache> cache = {};  // default: no cache
  // Device, threads, memory_limit, checkpoint, autotune, lazy_allocation, profile, seed, and other
  // session options.
  SessionOptions session = {};
};

// -- Programs -------------------------------------------------------------------------------------

struct ParameterInfo {
  std::string name;
  DType dtype = f32;
  Sizes shape;
  bool is_trainable = true;
};

struct Gradients {
  NamedArrays outputs;
  NamedArrays parameters;  // of the trainable parameters, in their order
  NamedArrays values;      // of CompileOptions::gradients_of
};

struct MemoryStats {
  Memory planned;                                 // of session(); zeros before sizes are known
  int64_t arena_bytes = 0, peak_arena_bytes = 0;  // allocated now, and the maximum so far
  int64_t allocations = 0, frees = 0;             // of arenas so far
};

class Program;
// Compiles a model. An error names the block and, if shapes do not match, both ends of the wire.
// Gradients are compiled when first used.
Result<Program> compile(const Block& model, CompileOptions options = {});

// A compiled model. Use it from one thread at a time. Argument arrays are borrowed during the call;
// returned arrays own their memory.
class Program {
 public:
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  // -- Inputs, outputs and parameters -------------------------------------------------------------

  // Names of the inputs that each call needs. Inputs that no output depends on are excluded; data
  // passed for them is ignored.
  const std::vector<std::string>& inputs() const;
  const std::vector<std::string>& outputs() const;
  const std::vector<ParameterInfo>& parameters() const;
  // Returns newly initialized arrays, in the order of parameters(): equal to those of
  // nn::Layer::initialise() with this seed. Optimizers may write to them.
  Result<NamedArrays> initial_parameters(uint64_t seed = 0) const;
  // States of the program, such as running statistics. The arrays share the program's memory:
  // writing to them changes the state.
  const NamedArrays& states() const;
  // Fail with not_found for an unknown name. set_state() fails with invalid_argument if dtype or
  // shape differ.
  Result<Array> state(std::string_view name) const;
  Status set_state(std::string_view name, const ConstTensor& value);
  // Returns the model with copies of these parameters and of the states, to save, train
  // (hg/train.h) or quantize. Dropout and batch norm are in inference mode, in which trainers
  // expect them. Fails if a parameter is missing, or has another dtype or shape.
  Result<Model> model(const NamedArrays& parameters) const;

  // -- Calls --------------------------------------------------------------------------------------

  Result<NamedArrays> evaluate(const NamedArrays& parameters, const NamedArrays& data);
  // Returns the outputs and the gradients of sum over outputs of output_gradients * output. Outputs
  // that are not named contribute nothing. If no gradients are given, the model must have one
  // output, and its gradient is ones. An output gradient has the shape of the output.
  Result<Gradients> evaluate_gradients(const NamedArrays& parameters, const NamedArrays& data,
                                       const NamedArrays& output_gradients = {});
  // As above, but reuse the given arrays if dtype and shape match and they are contiguous; other
  // arrays are replaced.
  Status evaluate_into(const NamedArrays& parameters, const NamedArrays& data,
                       NamedArrays& outputs);
  Status evaluate_gradients_into(const NamedArrays& parameters, const NamedArrays& data,
                                 const NamedArrays& output_gradients, Gradients& into);
  // Plan for these sizes of the symbols without running.
  Status plan(std::span<const std::pair<std::string, int64_t>> dims);
  Status plan_gradients(std::span<const std::pair<std::string, int64_t>> dims);

  // -- Inspection ---------------------------------------------------------------------------------

  // Registers a callback for a value and returns its number. It is called when a call or step has
  // computed the value, before later values; on a device, after the call. The value is computed
  // even if passes would have fused it. `fn` must not modify the value or use the program, but may
  // remove itself. Fails with not_found if no value has this path.
  Result<int> add_hook(std::string path, std::function<void(const Intermediate&)> fn);
  void remove_hook(int hook);
  // Runs evaluate() in single steps: begin(), step() until it returns nullopt, finish().
  Status begin(const NamedArrays& parameters, const NamedArrays& data);
  Result<std::optional<StepRow>> step();
  Result<NamedArrays> finish();  // runs the remaining steps and returns the outputs
  // Rows of the last call, slowest first. Needs SessionOptions::profile.
  std::vector<ProfileRow> profile() const;
  std::string summary() const;

  // -- Memory -------------------------------------------------------------------------------------

  MemoryStats memory_stats() const;
  // Frees all arenas; the next call allocates again.
  void release_memory();
  // Session of the last call, or of evaluate() if there was none: compiled graph, report, tuning.
  // Valid until the next call.
  const Session& session() const;

  struct Body;  // lib/nn/named_program.h

 private:
  friend Result<Program> compile(const Block& model, CompileOptions options);
  explicit Program(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg::nn
