// SPDX-License-Identifier: Apache-2.0
// Generation of tokens, and embeddings.
#include "hg/generator.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <set>

#include "hg/adapter.h"
#include "hg/batch_generator.h"
#include "hg/embedder.h"
#include "python/src/bind.h"
#include "python/src/callbacks.h"
#include "python/src/interrupt.h"
#include "python/src/numpy.h"
#include "python/src/options.h"
#include "python/src/tensors.h"
#include "python/src/turn.h"

namespace hg::python {
namespace {

struct LockedGenerator {
  explicit LockedGenerator(Generator made) : generator(std::move(made)) {}
  Generator generator;
  LockedGenerator* draft = nullptr;  // of the generation, which keeps it alive
  Turn turn;
};
struct LockedBatch {
  explicit LockedBatch(BatchGenerator made) : batch(std::move(made)) {}
  BatchGenerator batch;
  std::map<int64_t, LockedGenerator*> drafts;  // of sequences, which keep them alive
  Turn turn;
};
struct LockedEmbedder {
  explicit LockedEmbedder(Embedder made) : embedder(std::move(made)) {}
  Embedder embedder;
  Turn turn;
};
constexpr const char* kInside = "on_logits cannot use the generator that calls it";

template <class T>
nb::object copied(std::span<const T> values, DType dtype, void*& data) {
  nb::object array = new_array(dtype, {static_cast<int64_t>(values.size())}, data);
  std::copy(values.begin(), values.end(), static_cast<T*>(data));
  return array;
}

// Calls on_logits(prompt, history, logits), which may change the array of logits.
auto on_logits_from(nb::object function) {
  return [function = shared_object(std::move(function))](
             int64_t prompt, std::span<const int32_t> history, std::span<float> logits) {
    return with_python([&]() -> Status {
      void *ids = nullptr, *changed = nullptr;
      const nb::object past = copied(history, i32, ids);
      const nb::object array = copied(std::span<const float>(logits), f32, changed);
      (*function)(prompt, past, array);
      std::copy_n(static_cast<const float*>(changed), logits.size(), logits.begin());
      return {};
    });
  };
}

// An exception of on_logits, or of the status.
void raise_failed(const Status& status) {
  if (status.ok()) return;
  raise_kept(status.message());
  raise(status);
}

// Calls a function of the library without the GIL. Ctrl-C stops it.
template <class Call>
auto called(Call call) {
  const Interrupt interrupt;
  std::optional<decltype(call(interrupt.token()))> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(call(interrupt.token()));
  }
  return *std::move(made);
}

std::optional<DType> past_from(nb::handle past) {
  if (past.is_none()) return std::nullopt;
  return dtype_from(past);
}

LockedGenerator* create(const Model& model, const nb::dict& options, nb::handle past) {
  SessionOptions all = session_options(options);
  const std::optional<DType> stored = past_from(past);
  return new LockedGenerator(
      take(called([&](auto) { return Generator::create(model, std::move(all), stored); })));
}

// `texts` and `features`: of the encoder. `draft` may be null.
void begin(LockedGenerator& self, nb::handle prompts, nb::handle texts, nb::handle features,
           const nb::dict& given, nb::handle on_logits, LockedGenerator* draft) {
  std::vector<std::vector<int32_t>> ids;
  for (const nb::handle prompt : prompts) ids.push_back(ids_from(prompt));
  GenerateOptions options = generate_options(given);
  for (const nb::handle text : texts) options.encoder_ids.push_back(ids_from(text));
  Borrowed borrowed;
  if (!features.is_none()) {
    const DType wanted = f32;
    borrowed = Borrowed::from(features, "encoder_inputs", false, &wanted);
    options.encoder_features = borrowed.tensor;
  }
  if (!on_logits.is_none()) options.on_logits = on_logits_from(nb::borrow(on_logits));
  if (draft != nullptr) options.draft = &draft->generator;
  const Turn::Held held(self.turn, kInside);
  self.draft = draft;
  raise_failed(called([&](std::stop_token stop) {
    return options.num_beams > 1 ? self.generator.generate(ids, options, stop).status()
                                 : self.generator.begin(ids, std::move(options));
  }));
}

nb::list tuples_of(std::span<const GeneratedToken> tokens) {
  nb::list out;
  for (const GeneratedToken& token : tokens)
    out.append(nb::make_tuple(token.prompt, token.id, token.log_probability));
  return out;
}

// Tuples (prompt, id, log_probability).
nb::list step(LockedGenerator& self) {
  const Turn::Held held(self.turn, kInside);
  std::optional<Turn::Held> held_draft;
  if (self.draft != nullptr) held_draft.emplace(self.draft->turn, kInside);
  const auto made = called([&](std::stop_token stop) { return self.generator.step(stop); });
  raise_failed(made.status());
  return tuples_of(*made);
}

// (ids, finish, log_probabilities, score)
nb::tuple tuple_of(const GeneratedSequence& sequence) {
  nb::list ids, logs;
  for (const int32_t id : sequence.ids) ids.append(id);
  for (const float log : sequence.log_probabilities) logs.append(log);
  return nb::make_tuple(ids, std::string(to_string(sequence.finish)), logs, sequence.score);
}

// The sequences, the times in ms, and the tokens that were reused, proposed and accepted.
nb::tuple result(LockedGenerator& self) {
  const Turn::Held held(self.turn, kInside);
  const Generation& all = self.generator.generation();
  nb::list sequences;
  for (const GeneratedSequence& each : all.sequences) sequences.append(tuple_of(each));
  return nb::make_tuple(sequences, all.prompt_ms, all.decode_ms, all.reused, all.proposed,
                        all.accepted);
}

// ---- The past ----

nb::object append(LockedGenerator& self, nb::handle given) {
  const std::vector<int32_t> ids = ids_from(given);
  const Turn::Held held(self.turn, kInside);
  const std::span<const float> logits =
      take(called([&](std::stop_token stop) { return self.generator.append(ids, stop); }));
  void* data = nullptr;
  return copied(logits, f32, data);
}

LockedGenerator* forked(LockedGenerator& self) {
  const Turn::Held held(self.turn, kInside);
  return new LockedGenerator(take(called([&](auto) { return self.generator.fork(); })));
}

nb::list past_ids(LockedGenerator& self) {
  const Turn::Held held(self.turn, kInside);
  nb::list out;
  for (const int32_t id : take(self.generator.ids())) out.append(id);
  return out;
}

// ---- Batches ----

LockedBatch* create_batch(const Model& model, nb::handle given_rows, const nb::dict& options,
                          nb::handle past) {
  const int64_t rows = whole(given_rows);
  SessionOptions all = session_options(options);
  const std::optional<DType> stored = past_from(past);
  return new LockedBatch(take(
      called([&](auto) { return BatchGenerator::create(model, rows, std::move(all), stored); })));
}

// `draft` may be null.
int64_t add_to_batch(LockedBatch& self, nb::handle prompt, const nb::dict& given,
                     nb::handle on_logits, LockedGenerator* draft) {
  const std::vector<int32_t> ids = ids_from(prompt);
  GenerateOptions options = generate_options(given);
  if (!on_logits.is_none()) options.on_logits = on_logits_from(nb::borrow(on_logits));
  if (draft != nullptr) options.draft = &draft->generator;
  const Turn::Held held(self.turn, kInside);
  std::optional<Turn::Held> held_draft;
  if (draft != nullptr) held_draft.emplace(draft->turn, kInside);
  const int64_t id = take(
      called([&](std::stop_token stop) { return self.batch.add(ids, std::move(options), stop); }));
  if (draft != nullptr) self.drafts[id] = draft;
  return id;
}

void drop_drafts_of_ended(LockedBatch& self) {
  for (const EndedSequence& each : self.batch.ended()) self.drafts.erase(each.id);
}

nb::list step_batch(LockedBatch& self) {
  const Turn::Held held(self.turn, kInside);
  // Batches that share drafts take them in the same order.
  std::set<LockedGenerator*> drafts;
  for (const auto& [id, draft] : self.drafts) drafts.insert(draft);
  std::list<Turn::Held> held_drafts;
  for (LockedGenerator* const each : drafts) held_drafts.emplace_back(each->turn, kInside);
  const auto made = called([&](std::stop_token stop) { return self.batch.step(stop); });
  drop_drafts_of_ended(self);
  return tuples_of(take(made));
}

// The exception of a status, or None.
nb::object exception_of(const Status& status) {
  if (status.ok()) return nb::none();
  try {
    raise(status);
  } catch (const nb::python_error& error) {
    return nb::borrow(error.value());
  }
}

// (id, sequence, its exception or None, the tokens that were proposed and accepted)
nb::list ended_in_batch(LockedBatch& self) {
  const Turn::Held held(self.turn, kInside);
  nb::list out;
  for (const EndedSequence& each : self.batch.ended())
    out.append(nb::make_tuple(each.id, tuple_of(each.sequence), exception_of(each.status),
                              each.proposed, each.accepted));
  return out;
}

// ---- Embeddings ----

LockedEmbedder* create_embedder(const Model& model, const nb::dict& options) {
  SessionOptions all = session_options(options);
  return new LockedEmbedder(
      take(called([&](auto) { return Embedder::create(model, std::move(all)); })));
}

nb::object embedded(LockedEmbedder& self, nb::handle given, const std::string& pooling,
                    bool normalize) {
  const std::vector<int32_t> ids = ids_from(given);
  const EmbedOptions options = {.pooling = take(parse_pooling(pooling)), .normalize = normalize};
  const Turn::Held held(self.turn, kInside);
  const std::vector<float> made =
      take(called([&](std::stop_token stop) { return self.embedder.embed(ids, options, stop); }));
  void* data = nullptr;
  return copied(std::span<const float>(made), f32, data);
}

}  // namespace

void bind_generator(nb::module_& m) {
  nb::class_<LockedGenerator>(m, "GeneratorBase")
      .def_static("create", create, nb::arg("model"), nb::arg("options"), nb::arg("past").none())
      .def("begin_", begin, nb::arg("prompts"), nb::arg("texts"), nb::arg("features").none(),
           nb::arg("options"), nb::arg("on_logits").none(), nb::arg("draft").none())
      .def("step_", step)
      .def("result_", result)
      .def("end_",
           [](LockedGenerator& self, int64_t prompt) {
             const Turn::Held held(self.turn, kInside);
             check(self.generator.end(prompt));
           })
      .def("append_", append)
      .def("fork_", forked)
      .def("ids_", past_ids)
      .def("reset_",
           [](LockedGenerator& self) {
             const Turn::Held held(self.turn, kInside);
             self.generator.reset();
           })
      .def("set_adapters_",
           [](LockedGenerator& self, const std::vector<Model>& adapters) {
             const Turn::Held held(self.turn, kInside);
             check(called([&](auto) { return set_adapters(self.generator, adapters); }));
           })
      .def("truncate_",
           [](LockedGenerator& self, nb::handle length) {
             const Turn::Held held(self.turn, kInside);
             check(self.generator.truncate(whole(length)));
           })
      .def("save_",
           [](LockedGenerator& self, const std::string& path) {
             const Turn::Held held(self.turn, kInside);
             check(called([&](auto) { return self.generator.save(path); }));
           })
      .def("load_",
           [](LockedGenerator& self, const std::string& path) {
             const Turn::Held held(self.turn, kInside);
             check(called([&](auto) { return self.generator.load(path); }));
           })
      .def_prop_ro("vocabulary_",
                   [](const LockedGenerator& self) { return self.generator.vocabulary(); })
      .def_prop_ro("position_limit_",
                   [](const LockedGenerator& self) { return self.generator.position_limit(); });
  nb::class_<LockedBatch>(m, "BatchBase")
      .def_static("create", create_batch, nb::arg("model"), nb::arg("rows"), nb::arg("options"),
                  nb::arg("past").none())
      .def("add_", add_to_batch, nb::arg("prompt"), nb::arg("options"), nb::arg("on_logits").none(),
           nb::arg("draft").none())
      .def("step_", step_batch)
      .def("ended_", ended_in_batch)
      .def("end_",
           [](LockedBatch& self, int64_t id) {
             const Turn::Held held(self.turn, kInside);
             check(self.batch.end(id));
             drop_drafts_of_ended(self);
           })
      .def_prop_ro("running_", [](const LockedBatch& self) { return self.batch.running(); })
      .def_prop_ro("rows_", [](const LockedBatch& self) { return self.batch.rows(); });
  nb::class_<LockedEmbedder>(m, "EmbedderBase")
      .def_static("create", create_embedder)
      .def("embed_", embedded)
      .def_prop_ro("size_", [](const LockedEmbedder& self) { return self.embedder.size(); });
}

}  // namespace hg::python
