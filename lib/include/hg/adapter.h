// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters: fine-tune a model with two small matrices for each chosen layer. The weights
// of the model stay as they are, in floats or quantized (LoRA, Hu et al. 2021; QLoRA, Dettmers et
// al. 2023).
//
//     HG_TRY_ASSIGN(hg::Model model, hg::add_adapter(base, {.layers = {"q_proj", "v_proj"}}));
//     HG_TRY_ASSIGN(hg::Trainer trainer, hg::Trainer::create(model, options));
//     HG_TRY(trainer.fit(data, {.epochs = 3}));
//     HG_TRY_ASSIGN(const hg::Model trained, trainer.model());
//     HG_TRY_ASSIGN(const hg::Model adapter, hg::take_adapter(trained));
//     HG_TRY(adapter.save("adapter.hgm"));
//
// An adapted layer computes y = layer(x) + (scale * x A^T) B^T. Three states hold its adapter:
//   LAYER.lora_A.weight  parameter [rank, in]; of a convolution [rank, in, kernel...]
//   LAYER.lora_B.weight  parameter [out, rank]; of a convolution [out, rank, 1...]
//   LAYER.lora_scale     buffer [rank]
// LAYER is the name of the layer's weight without ".weight". The states are f64 if the
// weight is f64, otherwise f32. An adapter is a model that has only such states.
//
// All functions are thread-safe if no thread changes their models, and fail with out_of_memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hg/model.h"
#include "hg/session.h"

namespace hg {

class Generator;  // hg/generator.h

struct AdapterOptions {
  // Patterns of layers: '*' matches any characters, '?' one. A pattern matches a name, or its part
  // after a dot: "q_proj" and "layers.*.q_proj" match "model.layers.0.attn.q_proj".
  std::vector<std::string> layers = {};
  int64_t rank = 8;
  double alpha = 8;   // all scales are alpha / rank
  uint64_t seed = 0;  // of A, which is uniform in +-1 / sqrt(in); B is 0
};

// Returns a copy of the model with a new adapter, which changes results by rounding at most. It
// shares the weights. Layers are `linear`, `matmul` of a 2-dim weight on the right, and `conv` with
// one group, whose weight is a state that no run changes, directly or quantized by quantize(). All
// entries of a model are adapted. Several layers that read one weight share one adapter.
//
// A Trainer of the copy trains the adapter alone, and all other layers run as in inference, unless
// rules thaw them.
//
// Fails with invalid_argument if a pattern matches no layer, if a layer already has an adapter, or
// if the rank is below 1; with unsupported if a layer has an activation.
Result<Model> add_adapter(const Model& model, const AdapterOptions& options);

// Returns the adapter of a model, sharing its memory. Fails with not_found if the model has none.
Result<Model> take_adapter(const Model& model);

// Returns a copy of the model with the sum of these adapters, which may differ in layers and rank.
// `rank` leaves room for others: a layer gets this rank, or the sum of the adapters' if that is
// larger. set_adapters() fills such room. A single adapter without room keeps its optimizer's
// state, so that training resumes.
//
// Fails with invalid_argument if an adapter does not fit the model, or if the model has an adapter.
Result<Model> apply_adapters(const Model& model, std::span<const Model> adapters, int64_t rank = 0);

// Switches the adapters of a session of a model that has layers with room for them. Layers that no
// adapter has compute as the base model does. Without adapters, all do. Needs no new plan.
//
// Fails with invalid_argument if an adapter has a layer that the session does not adapt, another
// shape, or if the sum of the ranks is too large; the session is then unchanged.
Status set_adapters(Session& session, std::span<const Model> adapters);

// Does the same for a generator, and ends its generation. The text that the model has read stays:
// the next call that continues it reads it again with the new adapters. The past of several
// sequences is forgotten. Also fails with unsupported for an encoder-decoder.
Status set_adapters(Generator& generator, std::span<const Model> adapters);

// Returns a copy of the model whose weights include its adapter: W + B diag(scale) A, rounded to
// the weight's dtype. Quantized weights of adapted layers become floats. A weight that other nodes
// also read is copied. Optimizer state is dropped. Fails with not_found if the model has no
// adapter.
Result<Model> merge_adapters(const Model& model);

}  // namespace hg
