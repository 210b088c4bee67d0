// SPDX-License-Identifier: Apache-2.0
// The settings of a decoder from a GGUF file's metadata. Rejects by name a setting that is unknown
// or that the architecture does not have.
#pragma once

#include <cstdint>
#include <string>

#include "converter/load/gguf/architectures.h"
#include "converter/load/gguf/file.h"

namespace hg::convert::gguf {

struct Settings {
  const Architecture* architecture = nullptr;
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  int64_t context = 0;  // 0: not stated
  int64_t window = 0;   // keys that a query sees in layers with a window; 0: all
  int64_t rotated = 0;  // rotated dims per head
  double rope_base = 10000, rope_scale = 1;  // positions are divided by the scale
  double eps = 1e-5;
  double score_scale = 0, score_softcap = 0, logit_softcap = 0;  // 0: no softcap
  int64_t experts = 0, experts_used = 0;
};

// Throws Failure.
Settings read_settings(const File& file);

}  // namespace hg::convert::gguf
