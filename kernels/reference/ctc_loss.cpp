// SPDX-License-Identifier: Apache-2.0
// Connectionist temporal classification by definition: every path of classes over time is collapsed
// (repetitions, then blanks), and paths that collapse to the targets are counted.
#include <cmath>
#include <limits>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

std::vector<int64_t> read(const std::vector<int64_t>& path, int64_t blank) {
  std::vector<int64_t> labels;
  for (size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  return labels;
}

// The targets of a sample, which are a separate row or follow those of earlier samples.
std::vector<int64_t> targets_of(const Array& targets, const Array& lengths, int64_t sample) {
  int64_t first = 0;
  if (targets.shape.rank() == 2)
    first = sample * targets.shape[1];
  else
    for (int64_t i = 0; i < sample; ++i) first += static_cast<int64_t>(lengths.at(i));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < static_cast<int64_t>(lengths.at(sample)); ++i)
    labels.push_back(static_cast<int64_t>(targets.at(first + i)));
  return labels;
}

struct Paths {
  double total = 0;             // probability of all paths that produce the targets
  std::vector<double> through;  // of the paths through each (time, class)
};

// in: log_probs [time, batch, classes], targets, input_lengths, target_lengths
Paths paths_of(std::span<const Array> in, int64_t sample, int64_t blank) {
  const int64_t batch = in[0].shape[1], classes = in[0].shape[2];
  const auto times = static_cast<int64_t>(in[2].at(sample));
  const std::vector<int64_t> wanted = targets_of(in[1], in[3], sample);
  Paths paths;
  paths.through.assign(in[0].shape[0] * classes, 0.0);
  std::vector<int64_t> path(times, 0);
  for (;;) {
    if (read(path, blank) == wanted) {
      double log_p = 0;
      for (int64_t t = 0; t < times; ++t)
        log_p += in[0].at((t * batch + sample) * classes + path[t]);
      paths.total += std::exp(log_p);
      for (int64_t t = 0; t < times; ++t) paths.through[t * classes + path[t]] += std::exp(log_p);
    }
    size_t t = 0;  // advances to the next path, like incrementing a number
    while (t < path.size() && ++path[t] == classes) path[t++] = 0;
    if (t == path.size()) return paths;
  }
}

void ctc_loss(const Call& c) {
  for (int64_t sample = 0; sample < c.out[0].count(); ++sample) {
    const Paths paths = paths_of(c.in, sample, c.attrs.integer("blank"));
    c.out[0].at(sample) =
        paths.total == 0 && c.attrs.flag("zero_infinity") ? 0 : -std::log(paths.total);
  }
}

void ctc_loss_grad(const Call& c) {
  const Array& log_probs = c.in[1];
  const int64_t batch = log_probs.shape[1], classes = log_probs.shape[2];
  for (int64_t sample = 0; sample < batch; ++sample) {
    const Paths paths = paths_of(c.in.subspan(1), sample, c.attrs.integer("blank"));
    for (int64_t t = 0; t < static_cast<int64_t>(c.in[3].at(sample)); ++t)
      for (int64_t k = 0; k < classes; ++k) {
        const int64_t at = (t * batch + sample) * classes + k;
        double d = std::exp(log_probs.at(at)) - paths.through[t * classes + k] / paths.total;
        if (paths.total == 0)
          d = c.attrs.flag("zero_infinity") ? 0 : std::numeric_limits<double>::quiet_NaN();
        c.out[0].at(at) = c.in[0].at(sample) * d;
      }
  }
}

// Visits every path of each sample; `first` is the position of log_probs among the inputs.
template <size_t first>
double work_of_paths(const Call& c) {
  const Sizes& x = c.in[first].shape;  // [time, batch, classes]
  const auto time = static_cast<double>(x[0]);
  return std::pow(static_cast<double>(x[2]), time) * time * static_cast<double>(x[1]);
}

constexpr Row kRows[] = {{"ctc_loss", ctc_loss, work_of_paths<0>},
                         {"ctc_loss_grad", ctc_loss_grad, work_of_paths<1>}};

}  // namespace

std::span<const Row> ctc_loss() { return kRows; }

}  // namespace hg::reference::rows
