// SPDX-License-Identifier: Apache-2.0
// Generation of tokens.
#include "hg/generator.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>

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

LockedGenerator* create(const Model& model, const nb::dict& options) {
  SessionOptions all = session_options(options);
  std::optional<Result<Generator>> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(Generator::create(model, std::move(all)));
  }
  return new LockedGenerator(take(*std::move(made)));
}

// `texts` and `features`: of the encoder.
void begin(LockedGenerator& self, nb::handle prompts, nb::handle texts, nb::handle features,
           const nb::dict& given, nb::handle on_logits) {
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
  const Turn::Held held(self.turn, kInside);
  const Interrupt interrupt;
  Status status;
  {
    const nb::gil_scoped_release released;
    status = options.num_beams > 1
                 ? self.generator.generate(ids, options, interrupt.token()).status()
                 : self.generator.begin(ids, std::move(options));
  }
  raise_failed(status);
}

// Tuples (prompt, id, log_probability).
nb::list step(LockedGenerator& self) {
  const Turn::Held held(self.turn, kInside);
  const Interrupt interrupt;
  std::optional<Result<std::span<const GeneratedToken>>> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(self.generator.step(interrupt.token()));
  }
  raise_failed(made->status());
  nb::list out;
  for (const GeneratedToken& token : **made)
    out.append(nb::make_tuple(token.prompt, token.id, token.log_probability));
  return out;
}

// (ids, finish, log_probabilities, score) per sequence, the times in ms, and the tokens that were
// reused.
nb::tuple result(LockedGenerator& self) {
  const Turn::Held held(self.turn, kInside);
  const Generation& all = self.generator.generation();
  nb::list sequences;
  for (const GeneratedSequence& each : all.sequences) {
    nb::list ids, logs;
    for (const int32_t id : each.ids) ids.append(id);
    for (const float log : each.log_probabilities) logs.append(log);
    sequences.append(nb::make_tuple(ids, std::string(to_string(each.finish)), logs, each.score));
  }
  return nb::make_tuple(sequences, all.prompt_ms, all.decode_ms, all.reused);
}

}  // namespace

void bind_generator(nb::module_& m) {
  nb::class_<LockedGenerator>(m, "GeneratorBase")
      .def_static("create", create)
      .def("begin_", begin, nb::arg("prompts"), nb::arg("texts"), nb::arg("features").none(),
           nb::arg("options"), nb::arg("on_logits").none())
      .def("step_", step)
      .def("result_", result)
      .def("end_",
           [](LockedGenerator& self, int64_t prompt) {
             const Turn::Held held(self.turn, kInside);
             check(self.generator.end(prompt));
           })
      .def_prop_ro("vocabulary_",
                   [](const LockedGenerator& self) { return self.generator.vocabulary(); })
      .def_prop_ro("position_limit_",
                   [](const LockedGenerator& self) { return self.generator.position_limit(); });
}

}  // namespace hg::python
