// SPDX-License-Identifier: Apache-2.0
// A pointwise program: several elementwise ops in one node, computed block by block without storing
// what lies between them. A device that has no kernel for it runs its expansion.
//
// The op `pointwise_program(xs..., program: str) -> y` holds the program as text, one step for each
// op, separated by "; ". A step is the op's name, its inputs, and the attributes that differ from
// their defaults:
//   mul x0 x1; leaky_relu s0 negative_slope=0.2; add s1 x2
// `xK` is input K of the node, `sK` the result of step K, `-` an optional input that is not given.
// The last step gives y. All steps are computed in y's shape, to which inputs broadcast, and each
// result is rounded to its dtype as when the ops run one by one: results are the same bits.
//
// The op `pointwise_reduction(xs..., program: str) -> y` is such a program with one step more: a
// reduction to one result (sum, mean, prod, amax, amin, all, any, argmax, argmin, var, norm) of the
// step before it, whose result is reduced block by block and never stored:
//   sub x0 x1; mul s0 s0; mean s1 dim=0,-1 keepdim=true
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/op.h"

namespace hg {

struct PointwiseProgram {
  static constexpr int kMostInputs = 8, kMostSteps = 32;
  static constexpr int kAbsent = -1;

  struct Step {
    const Op* op = nullptr;
    std::vector<Attr> attrs;  // in the order of the signature
    std::vector<int> args;    // input K as K, step K as input_count + K, or kAbsent
    DType dtype = f32;        // of the result; given by infer_dtypes
  };
  int input_count = 0;
  std::vector<Step> steps;

  // Fails on an op that is unknown, an attribute that is none of its, or a step that is not before.
  static Result<PointwiseProgram> parse(std::string_view text, int input_count,
                                        const Registry& registry);
  std::string text() const;
  // Sets the dtype of every step, none a reduction, from those of the inputs.
  Status infer_dtypes(std::span<const DType> inputs);
  // Whether a program can hold an attribute of this value.
  static bool can_hold(const Attr& attr);
};

}  // namespace hg
