// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: support vector machines.
#include "converter/onnx/ml.h"

namespace hg::convert::onnx {
namespace {

Value kernel_of(Node& n, const Value& x, const Value& vectors) {
  const std::string kind = n.string("kernel_type", "LINEAR");
  std::vector<double> parameters = n.reals("kernel_params");
  parameters.resize(3, 0);
  const double gamma = parameters[0], shift = parameters[1], degree = parameters[2];
  if (kind == "RBF") {
    const Shape across = {x.dim(0), 1, x.dim(1)}, along = {1, vectors.dim(0), x.dim(1)};
    const Value apart = reshape(x, across) - reshape(vectors, along);
    return hg::exp(sum(apart * apart, {Dim(2)}) * -gamma);
  }
  const Value product = linear(x, vectors);
  if (kind == "LINEAR") return product;
  const Value line = product * gamma + shift;
  if (kind == "SIGMOID") return hg::tanh(line);
  if (kind != "POLY") n.refuse(str_cat("attribute 'kernel_type' is '", kind, "'"));
  return pow(line, constant_like(line, degree));
}

void svm_regressor(Node& n) {
  const std::string transform = n.string("post_transform", "NONE");
  if (transform != "NONE") n.refuse(str_cat("attribute 'post_transform' is '", transform, "'"));
  const Value x = feature_rows(n, 0, f32);
  const int64_t supports = n.integer("n_supports", 0);
  const Value rho = constant_list(n.graph(), n.reals("rho"), f32);
  const Value weights = matrix_of(n, n.reals("coefficients"), 1, f32);
  Value kernel = x;
  if (supports > 0)
    kernel = kernel_of(n, x, matrix_of(n, n.reals("support_vectors"), supports, f32));
  Value y = linear(kernel, weights) + slice(rho, 0, 0, 1);
  if (n.flag("one_class"))
    y = where(gt(y, constant_like(y, 0)), constant_like(y, 1), constant_like(y, -1));
  n.give(y);
}

// One score for each pair of classes: the sum over the support vectors of both, each with its
// weight against the other class.
void svm_classifier(Node& n) {
  const int64_t classes = label_count(n, "classlabels_ints", "classlabels_strings");
  if (n.has("prob_a")) n.refuse("attribute 'prob_a', which asks for probabilities, is given");
  if (n.string("post_transform", "NONE") != "NONE") n.refuse("attribute 'post_transform' is given");
  const std::vector<int64_t> each = n.integers("vectors_per_class");
  if (each.empty()) n.refuse("it has no support vectors");
  if (static_cast<int64_t>(each.size()) != classes || classes < 2)
    n.refuse("it has not one label for each class");
  int64_t total = 0;
  std::vector<int64_t> start;
  for (const int64_t count : each) {
    if (count < 0) n.refuse("attribute 'vectors_per_class' has a negative number");
    start.push_back(total);
    total += count;
  }
  const std::vector<double> given = n.reals("coefficients");
  if (static_cast<int64_t>(given.size()) != (classes - 1) * total)
    n.refuse("attribute 'coefficients' has not one number for each vector and other class");
  std::vector<double> weights, first, second;
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j) {
      std::vector<double> row(total, 0.0);
      const auto take = [&](int64_t of, int64_t line) {
        const auto from = static_cast<size_t>(of);
        for (int64_t v = start[from]; v < start[from] + each[from]; ++v)
          row[v] = given[line * total + v];
      };
      take(i, j - 1);
      take(j, i);
      weights.insert(weights.end(), row.begin(), row.end());
      for (int64_t c = 0; c < classes; ++c) {
        first.push_back(c == i ? 1 : 0);
        second.push_back(c == j ? 1 : 0);
      }
    }
  const int64_t pairs = classes * (classes - 1) / 2;
  const Value x = feature_rows(n, 0, f32);
  const Value kernel = kernel_of(n, x, matrix_of(n, n.reals("support_vectors"), total, f32));
  const Value rho = slice(constant_list(n.graph(), n.reals("rho"), f32), 0, 0, pairs);
  const Value scores = linear(kernel, matrix_of(n, weights, pairs, f32), rho);
  const Value wins = cast(gt(scores, constant_like(scores, 0)), f32);
  const Value votes = matmul(wins, matrix_of(n, first, pairs, f32)) +
                      matmul(1.0 - wins, matrix_of(n, second, pairs, f32));
  give_classes(n, argmax(votes, Dim(1)), classes == 2 ? concat({-scores, scores}, 1) : scores,
               "classlabels_ints");
}

constexpr Builtin kRows[] = {
    {"ai.onnx.ml::SVMRegressor", row<svm_regressor>},
    {"ai.onnx.ml::SVMClassifier", row<svm_classifier>},
};

}  // namespace

Rows ml_vectors_rows() { return kRows; }

}  // namespace hg::convert::onnx
