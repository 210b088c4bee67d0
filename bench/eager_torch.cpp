// SPDX-License-Identifier: Apache-2.0
// The rows of eager_bench run by libtorch.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "bench/eager_bench.h"

namespace hg::bench {

std::vector<EagerRow> torch_rows() {
  at::set_num_threads(1);
  c10::AutoGradMode off(false);
  const at::Tensor one = at::rand({1}), a = at::rand({10000}), b = at::rand({10000});
  const at::Tensor four = at::rand({4}), x1 = at::rand({1, 256}), x32 = at::rand({32, 256});
  const at::Tensor w = at::rand({128, 256}), bias = at::rand({128});
  at::Tensor out1 = at::empty({1}), out = at::empty({10000});
  return {
      {"relu 1", [=] { at::relu(one); }},
      {"relu 1, into", [=]() mutable { at::clamp_min_out(out1, one, 0); }},
      {"add 1, into", [=]() mutable { at::add_out(out1, one, one); }},
      {"add 10K", [=] { at::add(a, b); }},
      {"add 10K, into", [=]() mutable { at::add_out(out, a, b); }},
      {"relu 10K", [=] { at::relu(a); }},
      {"relu 10K, into", [=]() mutable { at::clamp_min_out(out, a, 0); }},
      {"linear 256 to 128, batch 1", [=] { at::linear(x1, w, bias); }},
      {"linear 256 to 128, batch 32", [=] { at::linear(x32, w, bias); }},
      {"chain of ten ops, 10K",
       [=] {
         at::Tensor y = a;
         for (int i = 0; i < 5; ++i) y = at::relu(at::add(y, b));
       }},
      {"three ops, 4 elements", [=] { at::relu(at::add(at::mul(four, four), four)); }},
  };
}

}  // namespace hg::bench
