// SPDX-License-Identifier: Apache-2.0
// The order of the nodes of an ONNX model. The specification requires a topological one, but not
// every tool keeps it, and ONNX Runtime sorts too.
#pragma once

#include <set>
#include <string>

#include "converter/load/onnx/file.h"

namespace hg::convert::onnx {

// The values that a node reads, including those that its bodies read from the graphs around them.
std::set<std::string> names_read(const file::NodeProto& node);

// In all graphs, bodies and functions: removes the nodes whose results nothing uses, and puts each
// node behind the nodes whose results it reads. Nodes that are in order keep their places. Throws
// Failure (unreadable) if nodes form a cycle.
void sort_nodes(file::ModelProto& model);

}  // namespace hg::convert::onnx
