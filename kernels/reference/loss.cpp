// SPDX-License-Identifier: Apache-2.0
// Losses as in PyTorch's documentation, per element or row, then reduced by none, sum or mean.
#include <cmath>
#include <numbers>

#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

// The loss of each of `count` elements or rows, reduced; the mean divides by `total`.
template <class F>
void reduced(const Call& c, int64_t count, const F& loss, double total) {
  const std::string& reduction = c.attrs.string("reduction");
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double each = loss(i);
    if (reduction == "none") c.out[0].at(i) = each;
    sum += each;
  }
  if (reduction == "sum") c.out[0].at(0) = sum;
  if (reduction == "mean") c.out[0].at(0) = sum / total;
}
template <class F>
void reduced(const Call& c, int64_t count, const F& loss) {
  reduced(c, count, loss, static_cast<double>(count));
}

// f(a, b) for the elements of two inputs that broadcast.
template <double (*f)(double, double, const KernelAttrs&)>
void of_pairs(const Call& c) {
  const Sizes shape = common_shape({c.in[0].shape, c.in[1].shape});
  const Broadcast a(c.in[0], shape), b(c.in[1], shape);
  reduced(c, shape.count(), [&](int64_t i) { return f(a.at(i), b.at(i), c.attrs); });
}

double mse(double x, double target, const KernelAttrs&) { return std::pow(x - target, 2); }
double l1(double x, double target, const KernelAttrs&) { return std::abs(x - target); }
double smooth_l1(double x, double target, const KernelAttrs& attrs) {
  const double d = std::abs(x - target), beta = attrs.real("beta");
  return d < beta ? d * d / (2 * beta) : d - beta / 2;
}
double huber(double x, double target, const KernelAttrs& attrs) {
  const double d = std::abs(x - target), delta = attrs.real("delta");
  return d <= delta ? d * d / 2 : delta * (d - delta / 2);
}
double kl_div(double x, double target, const KernelAttrs& attrs) {
  if (attrs.flag("log_target")) return std::exp(target) * (target - x);
  return target == 0 ? 0 : target * (std::log(target) - x);
}
double hinge_embedding(double x, double target, const KernelAttrs& attrs) {
  const double far = std::fmax(0, attrs.real("margin") - x);
  return (target != 1 ? far : 0) + (target != -1 ? x : 0);  // both if it is neither
}
double soft_margin(double x, double target, const KernelAttrs&) {
  return std::log(1 + std::exp(-target * x));
}
double poisson_nll(double x, double target, const KernelAttrs& attrs) {
  double loss = attrs.flag("log_input") ? std::exp(x) - target * x
                                        : x - target * std::log(x + attrs.real("eps"));
  if (attrs.flag("full") && target > 1)
    loss += target * std::log(target) - target + std::log(2 * std::numbers::pi * target) / 2;
  return loss;
}

void binary_cross_entropy(const Call& c) {
  const Sizes shape =
      common_shape({c.in[0].shape, c.in[1].shape, c.in[2].given ? c.in[2].shape : Sizes()});
  const Broadcast xs(c.in[0], shape), targets(c.in[1], shape), weights(c.in[2], shape);
  reduced(c, shape.count(), [&](int64_t i) {
    const double x = xs.at(i), target = targets.at(i);
    const double weight = c.in[2].given ? weights.at(i) : 1;
    return -weight * (target * std::fmax(std::log(x), -100) +
                      (1 - target) * std::fmax(std::log(1 - x), -100));
  });
}

void binary_cross_entropy_with_logits(const Call& c) {
  const Sizes shape =
      common_shape({c.in[0].shape, c.in[1].shape, c.in[2].given ? c.in[2].shape : Sizes(),
                    c.in[3].given ? c.in[3].shape : Sizes()});
  const Broadcast xs(c.in[0], shape), targets(c.in[1], shape), weights(c.in[2], shape),
      positives(c.in[3], shape);
  reduced(c, shape.count(), [&](int64_t i) {
    const double x = xs.at(i), target = targets.at(i);
    const double weight = c.in[2].given ? weights.at(i) : 1;
    const double positive = c.in[3].given ? positives.at(i) : 1;
    return -weight *
           (positive * target * std::log(sigmoid(x)) + (1 - target) * std::log(1 - sigmoid(x)));
  });
}

void margin_ranking(const Call& c) {
  const Sizes shape = common_shape({c.in[0].shape, c.in[1].shape, c.in[2].shape});
  const Broadcast a(c.in[0], shape), b(c.in[1], shape), target(c.in[2], shape);
  const double margin = c.attrs.real("margin");
  reduced(c, shape.count(),
          [&](int64_t i) { return std::fmax(0, -target.at(i) * (a.at(i) - b.at(i)) + margin); });
}

// Rows of [n, length], or one row.
void cosine_embedding(const Call& c) {
  const Array &a = c.in[0], &b = c.in[1], &target = c.in[2];
  const int64_t length = a.shape.back();
  reduced(c, target.count(), [&](int64_t row) {
    double ab = 0, aa = 1e-12, bb = 1e-12;
    for (int64_t i = row * length; i < (row + 1) * length; ++i) {
      ab += a.at(i) * b.at(i);
      aa += a.at(i) * a.at(i);
      bb += b.at(i) * b.at(i);
    }
    const double cosine = ab / std::sqrt(aa * bb);
    return target.at(row) == 1 ? 1 - cosine : std::fmax(0, cosine - c.attrs.real("margin"));
  });
}

void triplet_margin(const Call& c) {
  const int64_t length = c.in[0].shape.back();
  const auto distance = [&](size_t one, size_t other, int64_t row) {
    std::vector<double> d;
    for (int64_t i = row * length; i < (row + 1) * length; ++i)
      d.push_back(c.in[one].at(i) - c.in[other].at(i) + c.attrs.real("eps"));
    return p_norm(d, c.attrs.real("p"));
  };
  reduced(c, c.in[0].count() / length, [&](int64_t row) {
    double far = distance(0, 2, row);
    if (c.attrs.flag("swap")) far = std::fmin(far, distance(1, 2, row));
    return std::fmax(0, distance(0, 1, row) - far + c.attrs.real("margin"));
  });
}

// x: [n, classes] or [classes]
struct Rows {
  int64_t count, classes;
  explicit Rows(const Array& x)
      : count(x.shape.rank() == 2 ? x.shape[0] : 1), classes(x.shape.back()) {}
};

void multi_margin(const Call& c) {
  const Array& x = c.in[0];
  const Rows rows(x);
  reduced(c, rows.count, [&](int64_t row) {
    const auto target = static_cast<int64_t>(c.in[1].at(row));
    double sum = 0;
    for (int64_t j = 0; j < rows.classes; ++j) {
      if (j == target) continue;
      const double over = std::fmax(0, c.attrs.real("margin") - x.at(row * rows.classes + target) +
                                           x.at(row * rows.classes + j));
      sum += std::pow(over, c.attrs.real("p")) * (c.in[2].given ? c.in[2].at(target) : 1);
    }
    return sum / static_cast<double>(rows.classes);
  });
}

void multilabel_margin(const Call& c) {
  const Array &x = c.in[0], &target = c.in[1];
  const Rows rows(x);
  reduced(c, rows.count, [&](int64_t row) {
    const int64_t first = row * rows.classes;
    for (int64_t j = 0; j < rows.classes && target.at(first + j) >= 0; ++j)
      c.out[1].at(first + static_cast<int64_t>(target.at(first + j))) = 1;
    double sum = 0;
    for (int64_t j = 0; j < rows.classes && target.at(first + j) >= 0; ++j)
      for (int64_t i = 0; i < rows.classes; ++i)
        if (c.out[1].at(first + i) == 0)
          sum += std::fmax(
              0, 1 - x.at(first + static_cast<int64_t>(target.at(first + j))) + x.at(first + i));
    return sum / static_cast<double>(rows.classes);
  });
}

// x: [n, classes, ...], or [classes] as one row. Class k of row i is x[at(i, k)].
struct Classes {
  int64_t rows, count, space = 1;
  explicit Classes(const Array& x) : rows(x.count()), count(x.shape[x.shape.rank() == 1 ? 0 : 1]) {
    for (int d = 2; d < x.shape.rank(); ++d) space *= x.shape[d];
    if (count > 0) rows /= count;
  }
  int64_t at(int64_t row, int64_t k) const {
    return (row / space * count + k) * space + row % space;
  }
};

std::vector<double> log_softmax(const Array& x, const Classes& classes) {
  std::vector<double> y = x.values;
  for (int64_t row = 0; row < classes.rows; ++row) {
    double sum = 0;
    for (int64_t k = 0; k < classes.count; ++k) sum += std::exp(x.at(classes.at(row, k)));
    for (int64_t k = 0; k < classes.count; ++k) y[classes.at(row, k)] -= std::log(sum);
  }
  return y;
}

double weight_of(const Call& c, int64_t k) { return c.in[2].given ? c.in[2].at(k) : 1; }

// The weights of the targets that are not ignored.
double total_weight(const Call& c) {
  double total = 0;
  for (double target : c.in[1].values) {
    const auto k = static_cast<int64_t>(target);
    if (k != c.attrs.integer("ignore_index")) total += weight_of(c, k);
  }
  return total;
}

void nll(const Call& c) {
  const Classes classes(c.in[0]);
  c.out[1].at(0) = total_weight(c);
  reduced(
      c, classes.rows,
      [&](int64_t row) {
        const auto k = static_cast<int64_t>(c.in[1].at(row));
        if (k == c.attrs.integer("ignore_index")) return 0.0;
        return -weight_of(c, k) * c.in[0].at(classes.at(row, k));
      },
      total_weight(c));
}

void cross_entropy(const Call& c) {
  const Classes classes(c.in[0]);
  const std::vector<double> log_p = log_softmax(c.in[0], classes);
  const double smoothing = c.attrs.real("label_smoothing");
  const auto count = static_cast<double>(classes.count);
  const bool has_shares = is_float(c.in[1].dtype);
  reduced(
      c, classes.rows,
      [&](int64_t row) {
        double sum = 0;
        for (int64_t k = 0; k < classes.count; ++k) {
          const int64_t at = classes.at(row, k);
          double share = 0;
          if (has_shares) {
            share = c.in[1].at(at);
          } else {
            const auto target = static_cast<int64_t>(c.in[1].at(row));
            if (target == c.attrs.integer("ignore_index")) return 0.0;
            share = k == target;
          }
          share = (1 - smoothing) * share + smoothing / count;
          sum -= weight_of(c, k) * share * log_p[at];
        }
        return sum;
      },
      has_shares ? static_cast<double>(classes.rows) : total_weight(c));
}

constexpr Row kRows[] = {
    {"mse_loss", of_pairs<mse>},
    {"l1_loss", of_pairs<l1>},
    {"smooth_l1_loss", of_pairs<smooth_l1>},
    {"huber_loss", of_pairs<huber>},
    {"binary_cross_entropy", binary_cross_entropy},
    {"binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
    {"kl_div", of_pairs<kl_div>},
    {"nll_loss", nll},
    {"cross_entropy", cross_entropy},
    {"hinge_embedding_loss", of_pairs<hinge_embedding>},
    {"margin_ranking_loss", margin_ranking},
    {"soft_margin_loss", of_pairs<soft_margin>},
    {"cosine_embedding_loss", cosine_embedding},
    {"poisson_nll_loss", of_pairs<poisson_nll>},
    {"triplet_margin_loss", triplet_margin},
    {"multi_margin_loss", multi_margin},
    {"multilabel_margin_loss", multilabel_margin},
};

}  // namespace

std::span<const Row> loss() { return kRows; }

}  // namespace hg::reference::rows
