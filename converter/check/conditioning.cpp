// SPDX-License-Identifier: Apache-2.0
#include "converter/check/conditioning.h"

#include <algorithm>
#include <cmath>

#include "converter/check/compare.h"

namespace hg::convert {
namespace {

// Units in the last place: one is what 1 + 1e-7 does to f32, and a product of many terms loses a
// few of them.
constexpr double kUlps[] = {1, 1, 1, 4, 4, 4};
constexpr double kFactor = 4;  // a few runs do not find the largest movement

}  // namespace

Conditioning::Conditioning(const Loaded& loaded, const Inputs& inputs, uint64_t seed) {
  runs_.push_back(run_reference(loaded, inputs.reference, seed));
  uint64_t noise = 1;
  for (const double ulps : kUlps)
    runs_.push_back(run_reference_moved(loaded, inputs.reference, seed, ulps, noise++));
}

std::string Conditioning::excuse(size_t output, const Tensor& ours, const Tensor& theirs) const {
  TensorData owner;
  const Result<Tensor> dense = row_major(ours, owner);
  if (!dense.ok() || dense->dtype != theirs.dtype || dense->shape != theirs.shape) return "";
  const Tensor got = view_as_real(*dense), want = view_as_real(theirs);
  std::vector<Tensor> runs;
  for (const std::vector<TensorData>& run : runs_) {
    // Where even the shape moves there is nothing to hold an element against.
    if (output >= run.size() || run[output].empty() || run[output].tensor.shape != theirs.shape)
      return "";
    runs.push_back(view_as_real(run[output].tensor));
  }
  const Tolerance allowed = tolerance_for(want);
  int64_t moved = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    const double a = number_at(got, i), b = number_at(want, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double error = std::abs(a - b);
    if (error <= allowed.atol + allowed.rtol * std::abs(b)) continue;
    const double plain = number_at(runs[0], i);
    bool excused = false;
    double movement = 0;
    for (const Tensor& run : runs) {
      const double other = number_at(run, i);
      excused = excused || std::isfinite(other) != std::isfinite(plain);
      if (std::isfinite(other - plain)) movement = std::max(movement, std::abs(other - plain));
    }
    excused = excused || error <= kFactor * movement;
    if (!excused) return "";
    ++moved;
  }
  return str_cat(
      moved, " of ", want.count(),
      " elements differ, where libtorch's own answer moves as much when inputs and weights "
      "change in their last place");
}

}  // namespace hg::convert
