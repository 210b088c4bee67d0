// SPDX-License-Identifier: Apache-2.0
// The `fold` functions of rows: ops on small tensors with known numbers. Each returns false if a
// required number is not known; the row then runs.
#pragma once

#include "converter/rows/node_call.h"

namespace hg::convert::fold {

bool arithmetic(NodeCall& call, std::string_view op);  // of two, including comparisons
bool unary(NodeCall& call, std::string_view op);
bool reduce(NodeCall& call, std::string_view op);  // all elements; of two: arithmetic
bool reciprocal(NodeCall& call, std::string_view);
bool to(NodeCall& call, std::string_view);  // also type_as
bool to_float(NodeCall& call, std::string_view);
bool to_long(NodeCall& call, std::string_view);
bool to_int(NodeCall& call, std::string_view);
bool reshape(NodeCall& call, std::string_view);  // also squeeze, unsqueeze and similar
bool join(NodeCall& call, std::string_view);     // stack, cat
bool pick(NodeCall& call, std::string_view);     // select, slice
bool pass(NodeCall& call, std::string_view);     // returns the same numbers
bool create(NodeCall& call, std::string_view);   // from numbers, as torch.tensor()
// The dtype of a tensor of the list that torch.tensor() reads; nothing for other data.
std::optional<DType> listed_dtype(const NodeCall& call);
bool as_tensor(NodeCall& call, std::string_view);

}  // namespace hg::convert::fold

namespace hg::convert {

// Runs an op on tensors with known numbers; returns false if it cannot.
bool run_known(NodeCall& call);

}  // namespace hg::convert
