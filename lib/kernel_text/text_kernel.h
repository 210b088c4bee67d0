// SPDX-License-Identifier: Apache-2.0
// The data that copies of a TextKernel share: the parsed text and the sessions of its calls.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hg/expression.h"
#include "hg/session.h"
#include "lib/expression/lower.h"
#include "lib/run/lru_cache.h"

namespace hg {

struct TextKernel::Body {
  Syntax syntax;
  KernelOptions options;

  // The arguments in the order of the parameters, with structs replaced by their members; null: the
  // default.
  Result<std::vector<const KernelArgument*>> bind(std::span<const KernelArgument> arguments) const;

  // Adds the kernel to the graph. `values` are those of the arguments, empty for default numbers of
  // the text. Mapped arguments are moved to their dims.
  Result<std::vector<Value>> add_to(Graph& graph, std::span<const KernelArgument* const> arguments,
                                    std::vector<KernelInput> inputs, const Shape& shape) const;

  LruCache<Session> sessions{64};  // by kind of call

  // The result of a call: outputs, or gradients with respect to the arguments of these parameters.
  struct Wanted {
    bool is_gradient = false;
    std::vector<int> gradients;  // indices of parameters
    int seeds = 0;               // number of output gradients that are given
    bool accumulate = false;
  };
  using Bound = std::span<const KernelArgument* const>;
  Result<Session*> session_for(Bound arguments, const Wanted& wanted, const CallOptions& call);
  Status build_call(Graph& graph, Bound arguments, const Wanted& wanted, const Shape& shape) const;
  // Copies results into new memory, or into `into` if `made` is null.
  Status run(Bound arguments, const Wanted& wanted, const CallOptions& call,
             std::span<const ConstTensor> seeds, std::vector<TensorData>* made,
             std::span<const Tensor> into);
  Result<int> parameter(std::string_view name) const;
};

}  // namespace hg
