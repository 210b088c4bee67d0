// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: features, encoders and linear models.
#include "converter/onnx/ml.h"

#include <algorithm>
#include <cmath>

namespace hg::convert::onnx {

Value feature_rows(Node& n, int i, DType dtype) {
  const Value x = cast(n.in(i), dtype);
  if (x.rank() == 1) return reshape(x, {1, x.dim(0)});
  if (x.rank() != 2) n.refuse(str_cat("its input is ", x.shape(), ", not [rows, features]"));
  return x;
}

Value matrix_of(Node& n, const std::vector<double>& values, int64_t rows, DType dtype) {
  const auto count = static_cast<int64_t>(values.size());
  if (rows <= 0 || count % rows != 0)
    n.refuse(str_cat(count, " numbers are no matrix of ", rows, " rows"));
  return reshape(constant_list(n.graph(), values, dtype), {rows, count / rows});
}

int64_t label_count(Node& n, std::string_view integers, std::string_view texts) {
  const auto numbers = static_cast<int64_t>(n.integers(integers).size());
  return numbers > 0 ? numbers : static_cast<int64_t>(n.strings(texts).size());
}

void give_classes(Node& n, const Value& places, const Value& scores, std::string_view integers) {
  const std::vector<int64_t> labels = n.integers(integers);
  Item given;
  if (labels.empty()) {  // rejects only nodes that use the labels
    auto missing = std::make_shared<Object>();
    missing->type = "a tensor of string";
    given = Item(std::move(missing));
  } else {
    given = n.item_of(looked_up(constant_list(n.graph(), labels), places));
  }
  n.call().returns({std::move(given), n.item_of(scores)});
}

Value post_transformed(Node& n, const Value& x, const std::string& name) {
  if (name == "NONE") return x;
  if (name == "LOGISTIC") return sigmoid(x);
  if (name == "SOFTMAX") return softmax(x, -1);
  if (name == "SOFTMAX_ZERO") {  // zeros do not count in the sum
    const Value top = amax(x, {Dim(-1)}, true);
    const Value counts = gt(hg::abs(x), constant_like(x, double{1e-7f}));
    const Value power = where(counts, hg::exp(x - top), constant_like(x, 0));
    const Value rest = where(counts, power, x * hg::exp(-top));
    return rest / sum(power, {Dim(-1)}, true);
  }
  if (name == "PROBIT") {
    // Winitzki's approximation of the inverse error function of 2 x - 1, as in other runtimes.
    const Value at = x * 2.0 - 1.0;
    const Value logarithm = hg::log((1.0 - at) * (at + 1.0));
    const Value v = logarithm * 0.5 + 2 / (3.14159 * 0.147);
    const Value inner = hg::sqrt(v * v - logarithm * (1 / 0.147)) - v;
    const Value size = hg::sqrt(inner) * std::sqrt(2.0);
    return where(lt(at, constant_like(at, 0)), -size, size);
  }
  n.refuse(str_cat("attribute 'post_transform' is '", name, "'"));
}

namespace {

// ---- Features ----

Value beside_features(Node& n, const std::vector<double>& values, DType dtype) {
  return reshape(constant_list(n.graph(), values, dtype), {static_cast<int64_t>(values.size())});
}

void scaler(Node& n) {
  const Value x = cast(n.in(0), f32);
  const std::vector<double> scale = n.reals("scale"), offset = n.reals("offset");
  if (scale.empty() || offset.empty()) n.refuse("attributes 'scale' and 'offset' are missing");
  n.give((x - beside_features(n, offset, f32)) * beside_features(n, scale, f32));
}

void normalizer(Node& n) {
  const Value x = cast(n.in(0), f32);
  if (x.rank() > 2) n.refuse(str_cat("its input is ", x.shape(), ", of more than two dims"));
  const std::string kind = n.string("norm", "MAX");
  const Dims last = {Dim(-1)};
  Value size;
  if (kind == "MAX")
    size = amax(x, last, true);
  else if (kind == "L1")
    size = sum(hg::abs(x), last, true);
  else if (kind == "L2")
    size = hg::sqrt(sum(x * x, last, true));
  else
    n.refuse(str_cat("attribute 'norm' is '", kind, "'"));
  const Value zero = constant_like(x, 0);
  n.give(where(eq(size, zero), x, x / size));
}

void binarizer(Node& n) {
  const Value x = n.in(0);
  const DType wide = is_float(x.dtype()) ? x.dtype() : f64;
  const Value limit = constant_of(n.graph(), wide, n.real("threshold", 0.0));
  n.give(cast(gt(cast(x, wide), limit), x.dtype()));
}

void imputer(Node& n) {
  const Value x = n.in(0);
  Value missing, fresh;
  if (is_float(x.dtype())) {
    const double replaced = n.real("replaced_value_float", 0.0);
    missing = std::isnan(replaced) ? isnan(x) : eq(x, constant_like(x, replaced));
    fresh = beside_features(n, n.reals("imputed_value_floats"), x.dtype());
  } else {
    const int64_t replaced = n.integer("replaced_value_int64", 0);
    missing = eq(cast(x, i64), n.graph().scalar(replaced, i64));
    fresh = cast(constant_list(n.graph(), n.integers("imputed_value_int64s")), x.dtype());
  }
  if (fresh.dim(0) == Dim(0)) n.refuse("it has no values of its input's type to put in");
  n.give(where(missing, fresh, x));
}

void feature_extractor(Node& n) {
  const Value x = n.in(0), at = n.in(1);
  const Value flat = reshape(at, {count(at.shape())});
  const Value y = index_select(x, flat, x.rank() - 1);
  n.give(x.rank() == 1 ? reshape(y, {1, flat.dim(0)}) : y);
}

void feature_vectorizer(Node& n) {
  const std::vector<int64_t> widths = n.integers("inputdimensions");
  if (static_cast<int>(widths.size()) != n.input_count())
    n.refuse("attribute 'inputdimensions' has not one number for each input");
  Values parts;
  for (int i = 0; i < n.input_count(); ++i) {
    Value x = cast(n.in(i), f32);
    if (x.rank() == 1)
      x = reshape(x, {1, x.dim(0)});
    else
      x = reshape(x, {x.dim(0), count(n.sizes_from(x, 1))});
    const Dim width = widths[i];
    if (!(x.dim(1) == width)) x = pad(x, {0, 0, 0, width - x.dim(1)});  // a negative padding crops
    parts.push_back(x);
  }
  n.give(concat(parts, 1));
}

// ---- Codes ----

void refuse_texts(Node& n, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (n.has(name)) n.refuse(str_cat("attribute '", name, "' is a list of texts"));
}

// Keys or values of a LabelEncoder, from one of three attributes.
struct Column {
  DType dtype = i64;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  size_t size() const { return dtype == i64 ? integers.size() : reals.size(); }
};

Column column_of(Node& n, const std::string& kind) {
  Column column;
  if (n.has(kind + "_int64s")) {
    column.integers = n.integers(kind + "_int64s");
  } else if (n.has(kind + "_floats")) {
    column.dtype = f32;
    column.reals = n.reals(kind + "_floats");
  } else {
    const Tensor& data = n.tensor(kind + "_tensor").tensor;
    column.dtype = data.dtype;
    for (int64_t i = 0; i < data.count(); ++i) {
      if (data.dtype == i64) column.integers.push_back(data.as<const int64_t>()[i]);
      if (data.dtype == f32) column.reals.push_back(data.as<const float>()[i]);
      if (data.dtype == f64) column.reals.push_back(data.as<const double>()[i]);
    }
    if (column.size() != static_cast<size_t>(data.count()))
      n.refuse(str_cat("attribute '", kind, "_tensor' is ", data.dtype));
  }
  return column;
}

Value column_value(Node& n, const Column& column) {
  return column.dtype == i64 ? constant_list(n.graph(), column.integers)
                             : constant_list(n.graph(), column.reals, column.dtype);
}

Value default_of(Node& n, DType dtype) {
  if (n.has("default_tensor")) {
    const Value given = n.graph().constant(n.tensor("default_tensor"));
    return cast(reshape(given, {}), dtype);
  }
  if (dtype == i64) return n.graph().scalar(n.integer("default_int64", -1), i64);
  return constant_of(n.graph(), dtype, n.real("default_float", -0.0));
}

void label_encoder(Node& n) {
  if (n.opset() < 2) n.refuse("LabelEncoder of version 1 is one of texts");
  refuse_texts(n, {"keys_strings", "values_strings"});
  Column keys = column_of(n, "keys");
  const Column values = column_of(n, "values");
  if (keys.size() != values.size()) n.refuse("it has not one value for each key");
  const Value x = n.in(0);
  if (keys.size() == 0) return n.give(expand(default_of(n, values.dtype), x.shape()));
  // Sorted keys; among equal keys the first counts. Since version 4, NaN equals NaN.
  std::vector<int64_t> order;
  int64_t nan = -1;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    if (keys.dtype != i64 && std::isnan(keys.reals[i]))
      nan = nan < 0 ? place : nan;
    else
      order.push_back(place);
  }
  const auto at = [](const auto& list, int64_t i) { return list[i]; };
  const auto less = [&](int64_t a, int64_t b) {
    return keys.dtype == i64 ? at(keys.integers, a) < at(keys.integers, b)
                             : at(keys.reals, a) < at(keys.reals, b);
  };
  std::stable_sort(order.begin(), order.end(), less);
  order.erase(
      std::unique(order.begin(), order.end(), [&](int64_t a, int64_t b) { return !less(a, b); }),
      order.end());
  const Value table = column_value(n, values);
  const Value given = cast(x, keys.dtype);
  Value y = expand(default_of(n, values.dtype), x.shape());
  if (!order.empty()) {
    const Value places = constant_list(n.graph(), order);
    const Value sorted = looked_up(column_value(n, keys), places);
    const Value found = minimum(searchsorted(sorted, given),
                                n.graph().scalar(static_cast<int64_t>(order.size()) - 1, i64));
    const Value hit = eq(looked_up(sorted, found), given);
    y = where(hit, looked_up(looked_up(table, places), found), y);
  }
  if (nan >= 0 && n.opset() >= 4)
    y = where(isnan(given), reshape(slice(table, 0, nan, nan + 1), {}), y);
  n.give(y);
}

void one_hot_encoder(Node& n) {
  refuse_texts(n, {"cats_strings"});
  const Value x = cast(n.in(0), i64);
  const std::vector<int64_t> codes = n.integers("cats_int64s");
  Shape column = x.shape();
  column.emplace_back(1);
  const Value hits = eq(reshape(x, column), constant_list(n.graph(), codes));
  Value y = cast(hits, f32);
  if (!n.flag("zeros", true)) {
    const Value known = all(any(hits, {Dim(-1)}, false));
    n.op("assert_true", {known},
         {{"message", std::string("OneHotEncoder: an element is none of the categories")}});
  }
  n.give(y);
}

// A list of maps from labels to numbers is represented by a tensor of the numbers.
void zip_map(Node& n) {
  n.call().note("the maps of ZipMap are given as a tensor: a row for each, a column for each key");
  n.give_item(n.item(0));
}

// ---- Linear models ----

Value linear_scores(Node& n, int64_t targets) {
  const Value x = feature_rows(n, 0, f32);
  const Value weights = matrix_of(n, n.reals("coefficients"), targets, f32);
  const std::vector<double> intercepts = n.reals("intercepts");
  Value shift;
  if (!intercepts.empty()) shift = constant_list(n.graph(), intercepts, f32);
  return linear(x, weights, shift);
}

void linear_regressor(Node& n) {
  const Value scores = linear_scores(n, n.integer("targets", 1));
  n.give(post_transformed(n, scores, n.string("post_transform", "NONE")));
}

void linear_classifier(Node& n) {
  const auto classes = static_cast<int64_t>(n.reals("intercepts").size());
  if (classes == 0) n.refuse("attribute 'intercepts' is missing");
  const int64_t labels = label_count(n, "classlabels_ints", "classlabels_strings");
  const std::string transform = n.string("post_transform", "NONE");
  const Value scores = linear_scores(n, classes);
  if (classes > 1) {
    if (labels != classes) n.refuse("it has not one label for each class");
    return give_classes(n, argmax(scores, Dim(1)), post_transformed(n, scores, transform),
                        "classlabels_ints");
  }
  if (labels != 2) n.refuse(str_cat("it has one score and ", labels, " labels"));
  const Value flat = reshape(scores, {scores.dim(0)});
  const Value place = cast(gt(flat, constant_like(flat, 0)), i64);
  if (transform != "NONE" && transform != "LOGISTIC")
    n.refuse(str_cat("one score of two classes with post_transform '", transform, "'"));
  const Value second = transform == "LOGISTIC" ? sigmoid(scores) : scores;
  give_classes(n, place, concat({1.0 - second, second}, 1), "classlabels_ints");
}

constexpr Builtin kRows[] = {
    {"ai.onnx.ml::Scaler", row<scaler>},
    {"ai.onnx.ml::Normalizer", row<normalizer>},
    {"ai.onnx.ml::Binarizer", row<binarizer>},
    {"ai.onnx.ml::Imputer", row<imputer>},
    {"ai.onnx.ml::ArrayFeatureExtractor", row<feature_extractor>},
    {"ai.onnx.ml::FeatureVectorizer", row<feature_vectorizer>},
    {"ai.onnx.ml::LabelEncoder", row<label_encoder>},
    {"ai.onnx.ml::OneHotEncoder", row<one_hot_encoder>},
    {"ai.onnx.ml::ZipMap", row<zip_map>},
    {"ai.onnx.ml::LinearRegressor", row<linear_regressor>},
    {"ai.onnx.ml::LinearClassifier", row<linear_classifier>},
};

}  // namespace

Rows ml_rows() { return kRows; }

}  // namespace hg::convert::onnx
