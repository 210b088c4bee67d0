// SPDX-License-Identifier: Apache-2.0
// Sorts the nodes of an ONNX model. The specification requires a topological order, but some tools
// violate it, and ONNX Runtime also sorts.
#pragma once

#include <set>
#include <string>

#include "converter/load/onnx/file.h"

namespace hg::convert::onnx {

// Returns the values that a node reads, including those that its bodies read from the graphs around
// them.
std::set<std::string> names_read(const file::NodeProto& node);

// In all graphs, bodies and functions: removes nodes with unused results, and puts each node after
// the nodes whose results it reads. Keeps the order of nodes that are already sorted. Throws
// Failure (unreadable) if nodes form a cycle.
void sort_nodes(file::ModelProto& model);

}  // namespace hg::convert::onnx
