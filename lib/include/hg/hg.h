// SPDX-License-Identifier: Apache-2.0
// The public API for building, running and training models. Other headers are included by name.
#pragma once

#include "hg/dim.h"
#include "hg/forward_backward.h"
#include "hg/gpu.h"
#include "hg/graph.h"
#include "hg/kernel.h"
#include "hg/model.h"
#include "hg/op.h"
#include "hg/ops.h"
#include "hg/options.h"
#include "hg/pool.h"
#include "hg/quantize.h"
#include "hg/session.h"
#include "hg/session_pool.h"
#include "hg/status.h"
#include "hg/tensor.h"
#include "hg/train.h"
#include "hg/version.h"
