// SPDX-License-Identifier: Apache-2.0
// Typed builders for the ops, one header for each table of lib/ops. Every function adds a node to
// the graph of its first argument; docs/ops.md lists the attributes and their meaning.
#pragma once

#include "hg/graph.h"
#include "hg/ops/activation.h"
#include "hg/ops/attention.h"
#include "hg/ops/binary.h"
#include "hg/ops/compare.h"
#include "hg/ops/complex.h"
#include "hg/ops/conv.h"
#include "hg/ops/detection.h"
#include "hg/ops/image.h"
#include "hg/ops/linalg.h"
#include "hg/ops/loss.h"
#include "hg/ops/matmul.h"
#include "hg/ops/movement.h"
#include "hg/ops/norm.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/pool.h"
#include "hg/ops/reduce.h"
#include "hg/ops/rnn.h"
#include "hg/ops/scan.h"
#include "hg/ops/search.h"
#include "hg/ops/sort.h"
#include "hg/ops/special.h"
#include "hg/ops/unary.h"
#include "hg/words.h"
