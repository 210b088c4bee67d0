// SPDX-License-Identifier: Apache-2.0
// The `fold` functions of rows: ops on small tensors whose numbers are known at import. Each
// returns false if it does not know what the op needs; then the row runs.
#pragma once

#include "converter/rows/node_call.h"

namespace hg::convert::fold {

bool arithmetic(NodeCall& call, std::string_view op);  // of two, comparisons too
bool unary(NodeCall& call, std::string_view op);
bool reduce(NodeCall& call, std::string_view op);  // of all elements; of two, arithmetic
bool reciprocal(NodeCall& call, std::string_view);
bool to(NodeCall& call, std::string_view);  // also type_as
bool to_float(NodeCall& call, std::string_view);
bool to_long(NodeCall& call, std::string_view);
bool to_int(NodeCall& call, std::string_view);
bool reshape(NodeCall& call, std::string_view);  // also squeeze, unsqueeze and their like
bool join(NodeCall& call, std::string_view);     // stack, cat
bool pick(NodeCall& call, std::string_view);     // select, slice
bool pass(NodeCall& call, std::string_view);     // the same numbers
bool create(NodeCall& call, std::string_view);   // of numbers, as torch.tensor()
bool as_tensor(NodeCall& call, std::string_view);

}  // namespace hg::convert::fold

namespace hg::convert {

// An op on tensors of which the import knows the numbers; false when it is not such.
bool run_known(NodeCall& call);

}  // namespace hg::convert
