// SPDX-License-Identifier: Apache-2.0
// The trainer. Python code runs loops over iterables, progress bars and callbacks.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <optional>

#include "hg/forward_backward.h"
#include "python/src/bind.h"
#include "python/src/calls.h"
#include "python/src/interrupt.h"
#include "python/src/options.h"
#include "python/src/tensors.h"
#include "python/src/turn.h"

namespace hg::python {
namespace {

// The memory that a Dataset borrows, kept alive while it is used.
struct Data {
  Data(nb::handle given_inputs, nb::handle given_targets) {
    add(given_inputs, "input", set.inputs);
    add(given_targets, "target", set.targets);
  }
  Dataset set;

 private:
  void add(nb::handle list, const char* what, std::vector<ConstTensor>& to) {
    int64_t at = 0;
    for (const nb::handle each : list) {
      memory_.push_back(Borrowed::from(each, str_cat(what, " ", at++)));
      to.emplace_back(memory_.back().tensor);
    }
  }
  std::deque<Borrowed> memory_;
};

nb::dict progress_of(const Progress& p) {
  nb::dict out;
  out["step"] = p.step;
  out["steps"] = p.steps;
  out["epoch"] = p.epoch;
  out["epochs"] = p.epochs;
  out["loss"] = p.loss;
  out["lr"] = p.lr;
  out["ms"] = p.ms;
  out["is_epoch"] = p.is_epoch;
  out["is_best"] = p.is_best;
  if (p.validation != nullptr)
    out["validation"] = nb::make_tuple(p.validation->loss, p.validation->metrics);
  return out;
}

// A trainer that threads use in turn: functions that change it, or read more than one number, run
// one at a time.
struct LockedTrainer {
  explicit LockedTrainer(Trainer given) : trainer(std::move(given)) {}
  Trainer trainer;
  mutable Turn turn;
};
constexpr const char* kInside = "a function that a trainer calls cannot use that trainer";

double step(LockedTrainer& self, nb::handle inputs, nb::handle targets, bool update) {
  const Data data(inputs, targets);
  const Turn::Held held(self.turn, kInside);
  Trainer& trainer = self.trainer;
  const Interrupt interrupt;
  std::optional<Result<double>> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(update ? trainer.step(data.set.inputs, data.set.targets, interrupt.token())
                        : trainer.backward(data.set.inputs, data.set.targets, interrupt.token()));
  }
  return take(*std::move(made));
}

void fit(LockedTrainer& self, nb::handle inputs, nb::handle targets, const nb::dict& given,
         nb::handle validation, nb::object on_progress) {
  const Data data(inputs, targets);
  std::optional<Data> held_out;
  if (!validation.is_none()) {
    const nb::tuple pair = nb::cast<nb::tuple>(validation);
    held_out.emplace(pair[0], pair[1]);
  }
  FitOptions options;
  options.epochs = whole(given["epochs"]);
  options.batch = whole(given["batch"]);
  options.shuffle = nb::cast<bool>(given["shuffle"]);
  options.finish = nb::cast<bool>(given["finish"]);
  options.patience = whole(given["patience"]);
  options.best_path = words(given["best_path"]);
  if (held_out) options.validation = &held_out->set;
  const Turn::Held held(self.turn, kInside);
  Interrupt interrupt;
  options.stop = interrupt.token();
  std::optional<nb::python_error> raised;
  options.on_progress = [&](const Progress& progress) {
    const Turn::Paused paused(self.turn);  // the callback may call evaluate and save
    const nb::gil_scoped_acquire acquired;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      const nb::object answer = on_progress(progress_of(progress));
      return answer.ptr() != Py_False;
    } catch (nb::python_error& error) {
      raised.emplace(std::move(error));
      return false;
    }
  };
  Status status;
  {
    const nb::gil_scoped_release released;
    status = self.trainer.fit(data.set, options);
  }
  if (raised) throw std::move(*raised);
  check(status);
}

nb::object evaluate(LockedTrainer& self, nb::handle inputs, nb::handle targets, int64_t batch) {
  const Data data(inputs, targets);
  const Turn::Held held(self.turn, kInside);
  const Interrupt interrupt;
  std::optional<Result<Evaluation>> made;
  {
    const nb::gil_scoped_release released;
    made.emplace(self.trainer.evaluate(data.set, batch, interrupt.token()));
  }
  const Evaluation evaluation = take(*std::move(made));
  return nb::make_tuple(evaluation.loss, evaluation.metrics);
}

// Current values by name, in the session's own memory.
nb::object value(nb::handle self, const std::string& name) {
  const Trainer& trainer = nb::inst_ptr<LockedTrainer>(self)->trainer;
  return view_of(take(trainer.session().value(name)), self, false);
}

}  // namespace

void bind_train(nb::module_& m) {
  // The parts of a model by name, as in hg/forward_backward.h.
  m.def("with_states", [](const Model& model, const nb::dict& contents) {
    std::vector<Borrowed> borrowed;
    std::vector<std::pair<std::string, ConstTensor>> given;
    for (const auto& [name, value] : contents) {
      borrowed.push_back(Borrowed::from(value, words(name)));
      given.emplace_back(words(name), borrowed.back().tensor);
    }
    return take(with_states(model, given));
  });
  m.def(
      "split_gradients",
      [](const Model& model, const std::string& mode, const std::vector<int>& inputs,
         const std::optional<std::vector<int>>& outputs) {
        using Mode = ForwardBackwardOptions::Mode;
        ForwardBackward made =
            take(split_gradients(model, {.mode = mode == "training"    ? Mode::training
                                                 : mode == "inference" ? Mode::inference
                                                                       : Mode::as_traced,
                                         .rules = {},
                                         .inputs = inputs,
                                         .outputs = outputs}));
        nb::dict out;
        out["forward"] = nb::cast(std::move(made.forward));
        out["backward"] = nb::cast(std::move(made.backward));
        out["states"] = made.states;
        out["updated"] = made.updated;
        out["trained"] = made.trained;
        out["inputs"] = made.differentiable_inputs;
        out["outputs"] = made.differentiable_outputs;
        out["moved"] = made.moved_outputs;
        nb::list kept;
        for (const KeptValue& each : made.kept)
          kept.append(nb::make_tuple(each.value, each.input, each.for_size));
        out["kept"] = kept;
        out["notes"] = made.notes;
        return out;
      },
      nb::arg("model"), nb::arg("mode"), nb::arg("inputs"), nb::arg("outputs").none() = nb::none());
  nb::class_<LockedTrainer>(m, "TrainerBase")
      .def_static(
          "create",
          [](const Model& model, const nb::dict& options) {
            const TrainOptions o = train_options(options);
            std::optional<Result<Trainer>> made;
            {
              const nb::gil_scoped_release released;
              made.emplace(Trainer::create(model, o));
            }
            return new LockedTrainer(take(*std::move(made)));
          },
          nb::rv_policy::take_ownership)
      .def("step_", step)
      .def("fit_", fit, nb::arg("inputs"), nb::arg("targets"), nb::arg("options"),
           nb::arg("validation").none(), nb::arg("on_progress"))
      .def("evaluate_", evaluate)
      .def("value_", value)
      .def("end_epoch_", [](LockedTrainer& t, double loss) { t.trainer.end_epoch(loss); })
      .def("set_lr_", [](LockedTrainer& t, double lr) { t.trainer.set_lr(lr); })
      .def("lr_", [](const LockedTrainer& t) { return t.trainer.lr(); })
      .def("updates_", [](const LockedTrainer& t) { return t.trainer.updates(); })
      .def("trained_", [](const LockedTrainer& t) { return t.trainer.trained(); })
      .def("notes_", [](const LockedTrainer& t) { return t.trainer.notes(); })
      .def("model_",
           [](const LockedTrainer& t) {
             const Turn::Held held(t.turn, kInside);
             return take(t.trainer.model());
           })
      .def("adapter_",
           [](const LockedTrainer& t) {
             const Turn::Held held(t.turn, kInside);
             return take(t.trainer.adapter());
           })
      .def("save_",
           [](const LockedTrainer& t, const std::string& path) {
             const Turn::Held held(t.turn, kInside);
             Status status;
             {
               const nb::gil_scoped_release released;
               status = t.trainer.save(path);
             }
             check(status);
           })
      .def("memory_",
           [](LockedTrainer& t, const nb::dict& dims) {
             const auto sizes = dims_from(dims);
             const Turn::Held held(t.turn, kInside);
             Status status;
             if (!sizes.empty()) {
               const nb::gil_scoped_release released;
               status = t.trainer.plan(sizes);
             }
             check(status);
             return take(t.trainer.session().memory());
           })
      .def("rows_",
           [](const LockedTrainer& t) {
             const Turn::Held held(t.turn, kInside);
             return t.trainer.session().profile();
           })
      .def("graph_", [](const LockedTrainer& t) {
        const Turn::Held held(t.turn, kInside);
        return Graph(t.trainer.session().compiled_graph());
      });
}

}  // namespace hg::python
