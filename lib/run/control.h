// SPDX-License-Identifier: Apache-2.0
// A control flow node: its subgraphs are programs of their own, which run as often as the data
// says.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "hg/kernel.h"
#include "hg/options.h"
#include "lib/plan/plan.h"
#include "lib/run/memory.h"

namespace hg {

class Compiled;
class Program;
class RunProgress;

// What holds for a run of the outermost program and of all bodies inside of it.
struct RunLimits {
  int64_t rounds_left = 0;
  const std::stop_token* stop = nullptr;  // null: the run goes on to its end
  RunProgress* progress = nullptr;        // null: nobody looks
};

class Control {
 public:
  // Of this node, with the options of the program around it and what it has in common with others.
  static Result<std::unique_ptr<Control>> create(const Node& node, SessionOptions options,
                                                 const Registry& registry, Compiled& around,
                                                 RunLimits* limits);
  ~Control();

  // What results() are then lies in the bodies, or in what this keeps, until the next run.
  // `around`: what the program around draws from.
  Status run(const Step& step, std::span<const Tensor> inputs, const Bindings& sizes,
             const RandomState& around);
  std::span<const Tensor> results() const { return results_; }

  std::span<const std::unique_ptr<Program>> bodies() const { return bodies_; }
  std::span<const int64_t> taken() const { return taken_; }  // as WaysRow has it, in all runs
  // How often the last run has run each of the bodies.
  std::span<const int64_t> runs() const { return runs_; }

 private:
  // Of a value that a loop carries: what a round reads, and what the next one will read.
  struct Carried {
    Memory64 now, next;
    bool moves = false;  // `next` takes the place of `now`
  };

  Control(const Allocator& allocator, int64_t most_rounds, bool is_loop, RunLimits* limits);
  Status run_if(const Step& step, std::span<const Tensor> inputs);
  Status run_while(const Step& step, std::span<const Tensor> inputs);
  // Puts what a round gave to where the next one reads it.
  Status carry_on();

  Allocator allocator_;
  int64_t most_rounds_ = 0;  // 0: any number
  RunLimits* limits_;
  bool is_loop_ = false;
  std::vector<std::unique_ptr<Program>> bodies_;
  std::vector<Tensor> results_;
  std::vector<Carried> carried_;
  std::array<int64_t, 3> taken_{};
  std::array<int64_t, 2> runs_{};
};

}  // namespace hg
