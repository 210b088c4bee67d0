// SPDX-License-Identifier: Apache-2.0
// Quantization-aware training: a graph that computes with the weights that quantize() would make.
#pragma once

#include "hg/graph.h"
#include "hg/quantize.h"

namespace hg {

// Rounds the weights that quantize() would quantize, before all their readers. Gradients pass
// through as if nothing was rounded (Bengio, Leonard, Courville 2013).
Status fake_quantize(Graph& graph, const QuantizeOptions& options);

}  // namespace hg
