// SPDX-License-Identifier: Apache-2.0
// A pointwise program: several elementwise ops in one node, computed block by block without storing
// intermediate results. On a device without a kernel for it, its expansion runs.
//
// The op `pointwise_program(xs..., program: str) -> y` holds the program as text: one step per op,
// separated by "; ". A step is the op's name, its inputs, and the attributes that differ from their
// defaults:
//
//     mul x0 x1; leaky_relu s0 negative_slope=0.2; add s1 x2
//
// `xK` is input K of the node, `sK` the result of step K, and `-` an optional input that is not
// given. The last step computes y. All steps have the shape of y, to which inputs broadcast. Each
// result is rounded to its dtype, so y equals that of separate ops bit by bit.
//
// The op `pointwise_reduction(xs..., program: str) -> y` has a final step that reduces the previous
// one, whose result is never stored as a whole. The step is one of sum, mean, prod, amax, amin,
// all, any, argmax, argmin, var, norm:
//
//     sub x0 x1; mul s0 s0; mean s1 dim=0,-1 keepdim=true
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/op.h"

namespace hg {

struct PointwiseProgram {
  static constexpr int kMostInputs = 16, kMostSteps = 48;
  static constexpr int kAbsent = -1;

  struct Step {
    const Op* op = nullptr;
    std::vector<Attr> attrs;  // in the order of the signature
    std::vector<int> args;    // input K is K, step K is input_count + K; or kAbsent
    DType dtype = f32;        // of the result; set by infer_dtypes()
  };
  int input_count = 0;
  std::vector<Step> steps;

  // Fails on unknown ops or attributes, and on references to later steps.
  static Result<PointwiseProgram> parse(std::string_view text, int input_count,
                                        const Registry& registry);
  std::string text() const;
  // Sets the dtype of each step from the dtypes of the inputs. The program must not contain a
  // reduction.
  Status infer_dtypes(std::span<const DType> inputs);
  // True if the text form can represent this value.
  static bool can_hold(const Attr& attr);
};

}  // namespace hg
