// SPDX-License-Identifier: Apache-2.0
// Models of named blocks, nested to any depth: values have names, blocks are wired by them or
// follow one another. A model is data; compile() makes a Program of it, which is given parameters
// and data by name and gives outputs and gradients by name, so that any optimizer can drive it.
//
//   namespace nn = hg::nn;
//   const nn::Group model = {nn::Input("x", {"n", 784}),
//                            nn::Linear(64).input("x").output("hidden"),
//                            nn::ReLU(),
//                            nn::Linear(10).output("scores")};
//   HG_TRY_ASSIGN(nn::Program program, nn::compile(model));
//   HG_TRY_ASSIGN(hg::NamedArrays parameters, program.initial_parameters(1));  // hidden.weight,
//   ... HG_TRY_ASSIGN(hg::NamedArrays outputs, program.evaluate(parameters, {{"x", images}}));
//
// hg/block_json.h writes models as JSON and reads them.
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

// The end of a wire at a block: what the value is called around the block and, for a group, what it
// is called inside; empty: the same.
struct Wire {
  std::string outside, inside;
  friend bool operator==(const Wire&, const Wire&) = default;
};

// One part of a model, or a whole one. Plain data: copied, compared, changed in place.
//
// Names. A group is a scope: its blocks know the names in it, and those around it. What is inside
// of a group is "group.name" from outside. A name stands for one value; a block's own name, too,
// stands for its first output. Blocks may stand in any order that the wires allow.
struct Block {
  // A layer of hg/nn.h, "Group", "Input", "Parameter", "Constant", or "Call".
  std::string type;
  // Parameters have it in front of theirs: "hidden.weight". Empty: the name of the first output, or
  // else the number of the block in its group.
  std::string name;
  std::vector<std::pair<std::string, Attr>> settings;  // those of the type
  // Empty: the first output of the block before it in the group, or the group's first input.
  std::vector<Wire> inputs;
  // Of a group, empty: the first output of its last block. An input or a parameter has its name.
  std::vector<Wire> outputs;
  std::vector<Block> blocks;  // of a group
  std::string shared;         // the path of a block whose parameters these are, too
  Array value;                // of a constant; not changed after that

  Block() = default;
  // The layer's kind and settings; a Sequential is a group. What the layer learned stays with it.
  Block(const Layer& layer);  // NOLINT: implicit

  // The same block with one more wire, or a name.
  Block input(std::string outside, std::string inside = "") const;
  Block output(std::string outside, std::string inside = "") const;
  Block named(std::string name) const;
  Block share(std::string path) const;

  friend bool operator==(const Block& a, const Block& b);
};

// Blocks that make one. The outermost group is the model: its outputs are those of the program.
struct Group : Block {
  Group(std::initializer_list<Block> blocks) : Group(std::vector<Block>(blocks)) {}
  explicit Group(std::vector<Block> blocks);
};
// Data of each call. Of f32, here and in all that follows, stands for the program's dtype.
struct Input : Block {
  Input(std::string name, Shape shape, DType dtype = f32);
};
// A parameter of its own, for calls.
struct Parameter : Block {
  Parameter(std::string name, const Sizes& shape, const init::Rule& rule = init::zeros());
};
struct Constant : Block {
  Constant(std::string name, Array value);
};
// Any op of the table but control flow: Call("add").input("a").input("b").output("sum"). An input
// "" is one that is not given; several outputs are named in their order.
struct Call : Block {
  explicit Call(std::string op, const NamedAttrs& attrs = {});
};

// A table of all blocks with what they give, its shape, and their parameters; and the sums. Fails
// as compile() does.
Result<std::string> summary(const Block& model);

// -- Compiling ------------------------------------------------------------------------------------

// The programs of models that were compiled before, for those that come again: compiling an equal
// model with equal options takes up what the first one has. Copies are the same cache, any thread
// may use it, and it keeps the newest 32.
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

// A value between inputs and outputs, seen while a call runs. NaN is neither least nor greatest; of
// no elements, or only NaN, `min` and `max` are NaN.
struct Intermediate {
  std::string_view name;
  DType dtype = f32;
  Sizes shape;
  double min = 0, max = 0;
  ConstTensor value;  // valid during the call
};

struct ArenaEvent {
  bool is_free = false;
  const void* memory = nullptr;  // null on a device
  int64_t bytes = 0;
};

struct CompileOptions {
  // f32, f16, bf16 or f64: of all that the model says f32 of. Data and parameters of another float
  // dtype are converted at each call; outputs and gradients have this one.
  DType dtype = f32;
  enum class Optimize : uint8_t { none, full };
  Optimize optimize = Optimize::full;  // none: only the passes that are needed to run
  // The same bits for every number of threads and on each call: refuses what measures times to
  // choose (autotune without Session::tuning() of before, Device::automatic).
  bool deterministic = false;
  // Dropout drops, and batch norm takes the statistics of the batch and moves the running ones, but
  // in frozen layers: those of which all parameters are, or without any, whose path matches.
  bool training = false;
  // Patterns, as of ParameterRule: parameters that get no gradients, and those that get them
  // nevertheless. One that matches nothing fails.
  std::vector<std::string> frozen = {}, trainable = {};
  // Inputs, states and values of which evaluate_gradients() gives the gradients, too: by path.
  std::vector<std::string> gradients_of = {};
  // Parameters and states that never change: they are no longer asked for, and are folded and
  // packed. The arrays are copied.
  NamedArrays constants = {};
  // Called with every value between inputs and outputs when it is computed; on a device, after the
  // call. What it names is then computed as the model says, without the passes. It only reads.
  std::function<void(const Intermediate&)> debug = {};
  // Told of each allocation and free of an arena; must not use the program.
  std::function<void(const ArenaEvent&)> on_arena = {};
  std::optional<PlanCache> cache = {};  // none: nothing is kept beyond the program
  // Device, threads, memory_limit, checkpoint, autotune, lazy_allocation, profile, seed, ...
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
  NamedArrays parameters;  // of those that are trainable, in their order
  NamedArrays values;      // CompileOptions::gradients_of
};

struct MemoryStats {
  Memory planned;                                 // of session(); zeros before the sizes are known
  int64_t arena_bytes = 0, peak_arena_bytes = 0;  // allocated now, and at most so far
  int64_t allocations = 0, frees = 0;             // of arenas so far
};

class Program;
// Fails with the block and, where a shape does not fit, with both ends of the wire. Gradients are
// compiled when they are first asked for.
Result<Program> compile(const Block& model, CompileOptions options = {});

// Belongs to one thread at a time. Arrays that are given are borrowed for the call; those that are
// given back have memory of their own.
class Program {
 public:
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  // -- What it takes and gives --------------------------------------------------------------------

  // What a call must be given. Inputs that no output depends on are not among them; data for them
  // is ignored.
  const std::vector<std::string>& inputs() const;
  const std::vector<std::string>& outputs() const;
  const std::vector<ParameterInfo>& parameters() const;
  // New arrays as the layers start, in the order of parameters(): those of nn::Layer::initialise()
  // with this seed. An optimizer writes to them.
  Result<NamedArrays> initial_parameters(uint64_t seed = 0) const;
  // Running statistics and the like. The arrays are the program's own: what is written there
  // counts.
  const NamedArrays& states() const;
  // Fails with not_found, and where dtype or shape differ.
  Result<Array> state(std::string_view name) const;
  Status set_state(std::string_view name, const ConstTensor& value);

  // -- Calls --------------------------------------------------------------------------------------

  Result<NamedArrays> evaluate(const NamedArrays& parameters, const NamedArrays& data);
  // sum over the outputs of output_gradients * output, differentiated: outputs that are not named
  // count nothing; none at all: the one output counts with ones. A gradient has its output's shape.
  Result<Gradients> evaluate_gradients(const NamedArrays& parameters, const NamedArrays& data,
                                       const NamedArrays& output_gradients = {});
  // The same into arrays that are there, of the right dtype, shape and contiguous; others are made.
  Status evaluate_into(const NamedArrays& parameters, const NamedArrays& data,
                       NamedArrays& outputs);
  Status evaluate_gradients_into(const NamedArrays& parameters, const NamedArrays& data,
                                 const NamedArrays& output_gradients, Gradients& into);
  // Plans for these sizes of the symbols, without running.
  Status plan(std::span<const std::pair<std::string, int64_t>> dims);
  Status plan_gradients(std::span<const std::pair<std::string, int64_t>> dims);

  // -- Looking inside -----------------------------------------------------------------------------

  // Calls fn with this value when a call, or a step, has computed it, before what comes after it
  // runs; on a device, after the call. Returns the hook's number. A value of that path must be
  // there; it is computed even where passes would have merged it into others. A hook only reads,
  // and must not call the program; it may remove itself.
  Result<int> add_hook(std::string path, std::function<void(const Intermediate&)> fn);
  void remove_hook(int hook);
  // evaluate() by single steps: begin(), step() until it gives nothing, finish().
  Status begin(const NamedArrays& parameters, const NamedArrays& data);
  Result<std::optional<StepRow>> step();
  Result<NamedArrays> finish();  // runs what is left
  // Of the last call, the longest first; needs SessionOptions::profile.
  std::vector<ProfileRow> profile() const;
  std::string summary() const;

  // -- Memory -------------------------------------------------------------------------------------

  MemoryStats memory_stats() const;
  // Gives back all arenas; the next call allocates again.
  void release_memory();
  // That ran last, or that of evaluate(): its compiled graph, report, tuning. Until the next call.
  const Session& session() const;

  struct Body;  // lib/nn/named_program.h

 private:
  friend Result<Program> compile(const Block& model, CompileOptions options);
  explicit Program(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg::nn
