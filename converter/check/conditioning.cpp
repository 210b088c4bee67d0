// SPDX-License-Identifier: Apache-2.0
#include "converter/check/conditioning.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "converter/check/compare.h"
#include "hg/session.h"
#include "lib/graph/access.h"
#include "lib/graph/element.h"

namespace hg::convert {
namespace {

// In units in the last place. One unit is the effect of 1 + 1e-7 in f32; products of many terms
// lose a few units.
constexpr double kUlps[] = {1, 1, 1, 4, 4, 4};
constexpr double kFactor = 4;  // a few runs may miss the largest movement
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Whether the number has so few digits that it is probably exact: 0.5 or 255, but not a calibrated
// scale.
bool is_short(double number) {
  int exponent = 0;
  const double digits = std::ldexp(std::frexp(number, &exponent), 12);
  return digits == std::trunc(digits);
}

// Moves each number by up to `ulps` units in its last place.
void move(const Tensor& tensor, double ulps, std::mt19937_64& noise) {
  const double ulp = tensor.dtype == f64    ? 0x1p-52
                     : tensor.dtype == f16  ? 0x1p-10
                     : tensor.dtype == bf16 ? 0x1p-7
                                            : 0x1p-23;
  if (tensor.rank() == 0 && is_short(element(tensor, 0))) return;
  for (int64_t i = 0, n = tensor.count(); i < n; ++i) {
    const double by = static_cast<double>(static_cast<int64_t>(noise())) * 0x1p-63;  // -1 to 1
    set_element(tensor, i, element(tensor, i) * (1 + by * ulps * ulp));
  }
}

Result<TensorData> moved(const Tensor& tensor, double ulps, std::mt19937_64& noise) {
  HG_TRY_ASSIGN(TensorData copy, TensorData::copy_of(tensor));
  if (is_float(tensor.dtype)) move(copy.tensor, ulps, noise);
  return copy;
}

// Returns the outputs of an unoptimized run whose numbers are moved by up to `ulps` units.
Result<std::vector<TensorData>> run_moved(const Model& model, const Inputs& inputs, double ulps,
                                          uint64_t seed) {
  std::mt19937_64 noise(seed);
  Graph graph = model.graph();
  for (State& state : GraphAccess::body(graph).states) {
    HG_TRY_ASSIGN(state.data, moved(state.data.tensor, ulps, noise));
  }
  HG_TRY_ASSIGN(const Model other, Model::from_graph(std::move(graph)));
  SessionOptions options;
  options.keep_all_values = true;
  HG_TRY_ASSIGN(Session session, Session::create(other, options));
  std::vector<TensorData> given;  // the session reads them when it runs
  for (const TensorData& input : inputs.data) {
    HG_TRY_ASSIGN(TensorData own, moved(input.tensor, ulps, noise));
    HG_TRY(session.set_input(static_cast<int>(given.size()), own.tensor));
    given.push_back(std::move(own));
  }
  HG_TRY(session.run());
  std::vector<TensorData> outputs;
  for (int i = 0; i < session.output_count(); ++i) {
    HG_TRY_ASSIGN(const Tensor output, session.output(i));
    HG_TRY_ASSIGN(TensorData copy, TensorData::copy_of(output));
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

}  // namespace

Conditioning::Conditioning(const Loaded& loaded, const Inputs& inputs, uint64_t seed)
    : whose_("libtorch's own answer") {
  runs_.push_back(run_reference(loaded, inputs.reference, seed));
  uint64_t noise = 1;
  for (const double ulps : kUlps)
    runs_.push_back(run_reference_moved(loaded, inputs.reference, seed, ulps, noise++));
}

Conditioning::Conditioning(const Model& model, const Inputs& inputs)
    : whose_("the answer of the plain run") {
  auto plain = run_moved(model, inputs, 0, 0);
  if (!plain.ok()) return;  // no result to compare with
  runs_.push_back(*std::move(plain));
  uint64_t noise = 1;
  for (const double ulps : kUlps)
    if (auto run = run_moved(model, inputs, ulps, noise++); run.ok())
      runs_.push_back(*std::move(run));
}

std::string Conditioning::excuse(size_t output, const Tensor& ours, const Tensor& theirs,
                                 Where where) const {
  TensorData owner;
  const Result<Tensor> dense = row_major(ours, owner);
  if (!dense.ok() || dense->dtype != theirs.dtype || dense->shape != theirs.shape) return "";
  const Tensor got = view_as_real(*dense), want = view_as_real(theirs);
  std::vector<Tensor> runs;
  for (const std::vector<TensorData>& run : runs_) {
    // If the shape changes, elements cannot be compared.
    if (output >= run.size() || run[output].empty() || run[output].tensor.shape != theirs.shape)
      return "";
    runs.push_back(view_as_real(run[output].tensor));
  }
  if (runs.empty()) return "";
  const Tolerance allowed = tolerance_for(want);
  // For each element, its error and its movement.
  std::vector<double> errors, movements;
  for (int64_t i = 0; i < want.count(); ++i) {
    const double a = number_at(got, i), b = number_at(want, i), plain = number_at(runs[0], i);
    const bool equal = a == b || (std::isnan(a) && std::isnan(b)) ||
                       std::abs(a - b) <= allowed.atol + allowed.rtol * std::abs(b);
    if (equal && where == Where::there) continue;
    double movement = 0;
    for (const Tensor& run : runs) {
      const double other = number_at(run, i);
      if (std::isfinite(other) != std::isfinite(plain)) movement = kInfinity;
      if (std::isfinite(other - plain)) movement = std::max(movement, std::abs(other - plain));
    }
    movements.push_back(movement);
    if (!equal) errors.push_back(std::isnan(a - b) ? kInfinity : std::abs(a - b));
  }
  if (where == Where::anywhere) {
    std::sort(errors.begin(), errors.end(), std::greater<>());
    std::sort(movements.begin(), movements.end(), std::greater<>());
  }
  for (size_t i = 0; i < errors.size(); ++i)
    if (errors[i] > kFactor * movements[i]) return "";
  return str_cat(static_cast<int64_t>(errors.size()), " of ", want.count(),
                 " elements differ, where ", whose_,
                 " moves as much when inputs and weights change in their last place");
}

}  // namespace hg::convert
