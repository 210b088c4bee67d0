// SPDX-License-Identifier: Apache-2.0
// A control flow node. Its subgraphs are separate engines, which run as often as the data
// requires.
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
class Engine;
class RunProgress;

// Limits of a run of the outermost engine, shared by all bodies in it.
struct RunLimits {
  int64_t rounds_left = 0;
  const std::stop_token* stop = nullptr;  // null: the run cannot be stopped
  RunProgress* progress = nullptr;        // null: no progress reports
};

class Control {
 public:
  // `options` and `around` are those of the enclosing engine.
  static Result<std::unique_ptr<Control>> create(const Node& node, SessionOptions options,
                                                 const Registry& registry, Compiled& around,
                                                 RunLimits* limits);
  ~Control();

  // Runs the node. results() are then stored in the bodies or in this object, until the next run.
  // `around` is the random state of the enclosing engine.
  Status run(const Step& step, std::span<const Tensor> inputs, const Bindings& sizes,
             const RandomState& around);
  std::span<const Tensor> results() const { return results_; }

  std::span<const std::unique_ptr<Engine>> bodies() const { return bodies_; }
  std::span<const int64_t> taken() const { return taken_; }  // as in WaysRow, over all runs
  // How often the last run executed each body.
  std::span<const int64_t> runs() const { return runs_; }

 private:
  // Memory of a loop-carried value: for the current iteration and for the next.
  struct Carried {
    Memory64 now, next;
    bool moves = false;  // `next` becomes `now`
  };

  Control(const Allocator& allocator, int64_t most_rounds, bool is_loop, RunLimits* limits);
  Status run_if(const Step& step, std::span<const Tensor> inputs);
  Status run_while(const Step& step, std::span<const Tensor> inputs);
  // Moves the results of an iteration to the inputs of the next.
  Status carry_on();

  Allocator allocator_;
  int64_t most_rounds_ = 0;  // 0: no limit
  RunLimits* limits_;
  bool is_loop_ = false;
  std::vector<std::unique_ptr<Engine>> bodies_;
  std::vector<Tensor> results_;
  std::vector<Carried> carried_;
  std::array<int64_t, 3> taken_{};
  std::array<int64_t, 2> runs_{};
};

}  // namespace hg
