// SPDX-License-Identifier: Apache-2.0
// What most programs need: Status, Tensor, Graph with the builders of ops, Model and Session. Other
// headers are included by name, such as hg/train.h; docs/api/README.md lists them.
#pragma once

#include "hg/graph.h"
#include "hg/model.h"
#include "hg/op.h"
#include "hg/ops.h"
#include "hg/options.h"
#include "hg/session.h"
#include "hg/status.h"
#include "hg/tensor.h"
#include "hg/version.h"
