// SPDX-License-Identifier: Apache-2.0
// The settings of a decoder from a GGUF file's metadata. Rejects by name a setting that is unknown
// or that the architecture does not have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "converter/load/gguf/file.h"

namespace hg::convert::gguf {

enum class Norm { rms, layer };
// Which rows of q and k a rotation pairs: none, neighboring rows, or rows from both halves of a
// head.
enum class Rope { none, neighbors, halves };
enum class QkNorm { none, per_head, whole };
enum class Activation { silu, gelu, gelu_tanh };
// The tensor that has the gate of the MLP: none, ffn_gate, or the first half of ffn_up.
enum class Gate { none, own, in_up };

// The differences between the decoder architectures of GGUF files, one row each. A tensor that only
// some files of an architecture have (biases, an untied output, experts) needs no field. A tensor
// that every file of an architecture must have does, so that its absence is an error.
struct Architecture {
  std::string_view name;
  Norm norm = Norm::rms;
  Rope rope = Rope::halves;
  bool norm_before = true;  // x + f(norm(x))
  bool norm_after = false;  // x + norm(f(x))
  bool parallel = false;    // x + attention(norm(x)) + mlp(norm(x))
  QkNorm qk_norm = QkNorm::none;
  Activation activation = Activation::silu;
  Gate gate = Gate::own;
  bool biases = false;            // every projection has a bias
  bool positions = false;         // position_embd is added to the embedding
  bool rope_factors = false;      // rope_freqs divides the frequencies, if the file has it
  bool shared_expert = false;     // layers with experts have one that all rows use, and its gate
  bool scaled_embedding = false;  // by the square root of the width
  bool softcaps = false;
  // Which layers use the window that the file states. 0: none; kAllLayers: all; n: all except every
  // n-th.
  int window_period = 0;
  int64_t window = 0;           // if the file does not state one; 0: none
  double window_rope_base = 0;  // of layers with a window; 0: as in the other layers
  // Number of layers of the model variant whose scores are divided by sqrt(width / heads).
  int layers_with_width_scale = 0;
  bool experts_normalized = false;  // weights of the chosen experts sum to 1
};

inline constexpr int kAllLayers = 1 << 20;

inline constexpr Architecture kArchitectures[] = {
    {.name = "llama", .rope = Rope::neighbors, .rope_factors = true, .experts_normalized = true},
    {.name = "qwen2"},
    {.name = "qwen2moe", .shared_expert = true},
    {.name = "qwen3", .qk_norm = QkNorm::per_head},
    {.name = "qwen3moe", .qk_norm = QkNorm::per_head, .experts_normalized = true},
    {.name = "gemma2",
     .norm_after = true,
     .activation = Activation::gelu_tanh,
     .scaled_embedding = true,
     .softcaps = true,
     .window_period = 2,
     .window = 4096,
     .layers_with_width_scale = 46},
    {.name = "gemma3",
     .norm_after = true,
     .qk_norm = QkNorm::per_head,
     .activation = Activation::gelu_tanh,
     .scaled_embedding = true,
     .window_period = 6,
     .window_rope_base = 10000,
     .layers_with_width_scale = 62},
    {.name = "phi3", .gate = Gate::in_up, .window_period = kAllLayers},
    {.name = "olmo2", .norm_before = false, .norm_after = true, .qk_norm = QkNorm::whole},
    {.name = "gpt2",
     .norm = Norm::layer,
     .rope = Rope::none,
     .activation = Activation::gelu_tanh,
     .gate = Gate::none,
     .biases = true,
     .positions = true},
    {.name = "starcoder2",
     .norm = Norm::layer,
     .activation = Activation::gelu_tanh,
     .gate = Gate::none,
     .biases = true,
     .window_period = kAllLayers},
    {.name = "falcon",
     .norm = Norm::layer,
     .parallel = true,
     .activation = Activation::gelu,
     .gate = Gate::none},
};

struct Settings {
  const Architecture* architecture = nullptr;
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  int64_t context = 0;  // 0: not stated
  int64_t window = 0;   // keys that a query sees in layers with a window; 0: all
  int64_t rotated = 0;  // rotated dims per head
  double rope_base = 10000, rope_scale = 1;  // positions are divided by the scale
  double eps = 0;
  double score_scale = 0, score_softcap = 0, logit_softcap = 0;  // 0: no softcap
  int64_t experts = 0, experts_used = 0;
  bool shared_expert = false;
};

// Throws Failure.
Settings read_settings(const File& file);

}  // namespace hg::convert::gguf
