// SPDX-License-Identifier: Apache-2.0
// Code shared by the rows of ai.onnx.ml: rows of features, scores, and their labels.
#pragma once

#include "converter/onnx/contrib.h"

namespace hg::convert::onnx {

// Features as [rows, features] of the dtype; one row where the node's input has one dim.
Value feature_rows(Node& n, int i, DType dtype);
// f32[rows, columns], or f64, from a list of numbers.
Value matrix_of(Node& n, const std::vector<double>& values, int64_t rows, DType dtype);
// The node's labels, and how many there are; texts stand for a tensor that Hologram lacks.
int64_t label_count(Node& n, std::string_view integers, std::string_view texts);
// Gives labels by the place of their class, i64[rows], and scores.
void give_classes(Node& n, const Value& places, const Value& scores, std::string_view integers);

}  // namespace hg::convert::onnx
