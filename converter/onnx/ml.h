// SPDX-License-Identifier: Apache-2.0
// Code shared by the rows of ai.onnx.ml: feature rows, scores and labels.
#pragma once

#include "converter/onnx/contrib.h"

namespace hg::convert::onnx {

// Returns features as [rows, features] in the dtype; an input with one dim becomes one row.
Value feature_rows(Node& n, int i, DType dtype);
// Makes f32[rows, columns], or f64, from a list of numbers.
Value matrix_of(Node& n, const std::vector<double>& values, int64_t rows, DType dtype);
// Returns the number of the node's labels. Text labels are counted, but their tensor does not exist
// in Hologram.
int64_t label_count(Node& n, std::string_view integers, std::string_view texts);
// Returns labels, selected by class index i64[rows], and scores.
void give_classes(Node& n, const Value& places, const Value& scores, std::string_view integers);

}  // namespace hg::convert::onnx
