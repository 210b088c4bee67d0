// SPDX-License-Identifier: Apache-2.0
// Models and graphs.
#include "hg/model.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/src/attributes.h"
#include "python/src/bind.h"
#include "python/src/calls.h"
#include "python/src/options.h"
#include "python/src/own_ops.h"
#include "tools/draw/draw_memory.h"

namespace hg::python {
namespace {

// (name, dtype, shape) of a value; open sizes are text.
nb::tuple spec_of(std::string_view name, const TensorType& type) {
  return nb::make_tuple(nb::str(name.data(), name.size()), nb::str(python_name(type.dtype)),
                        to_python(type.shape));
}

nb::list inputs_of(const Model& model) {
  nb::list out;
  for (const ValueId id : model.graph().inputs()) {
    const ValueInfo& info = model.graph().value_info(id);
    out.append(spec_of(info.name, info.type));
  }
  return out;
}

nb::list outputs_of(const Model& model) {
  nb::list out;
  for (const auto& [name, id] : model.graph().outputs())
    out.append(spec_of(name, model.graph().value_info(id).type));
  return out;
}

// Weights by name, as read-only arrays; tied weights occur under each of their names.
nb::dict states_of(nb::handle self, State::Kind kind) {
  const Model& model = *nb::inst_ptr<Model>(self);
  nb::dict out;
  for (const State& state : model.graph().states()) {
    if (state.kind != kind) continue;
    const nb::object view = view_of(state.data.tensor, self, true);
    out[state.name.c_str()] = view;
    for (const std::string& alias : state.aliases) out[alias.c_str()] = view;
  }
  return out;
}

Model model_of(const nb::bytes& bytes) {
  return take(Model::read({static_cast<const std::byte*>(bytes.data()), bytes.size()}, registry()));
}

// A model that can be called; the first call creates its session.
struct CallableModel : Model {
  explicit CallableModel(const Model& model) : Model(model) {}
  std::atomic<Calls*> calls = nullptr;
  nb::object session;  // keeps the sessions alive
  nb::ft_mutex mutex;  // guards `session`
};

Calls& session_of(nb::handle self) {
  CallableModel& model = *nb::inst_ptr<CallableModel>(self);
  if (Calls* calls = model.calls.load(std::memory_order_acquire)) return *calls;
  // Other threads may run meanwhile. The first one to finish sets the session for all.
  nb::object made = self.attr("session")();
  const nb::ft_lock_guard lock(model.mutex);
  if (!model.session.is_valid()) {
    model.session = std::move(made);
    model.calls.store(nb::inst_ptr<Calls>(model.session), std::memory_order_release);
  }
  return *model.calls.load();
}

PyObject* call_model(PyObject* self, PyObject* arguments, PyObject* named) {
  return guarded([&]() -> nb::object {
    if (!nb::inst_ready(self)) raise(PyExc_TypeError, "the model was not initialized");
    return session_of(self).call(arguments, named);
  });
}

nb::bytes bytes_of(const Model& file) {
  const std::vector<std::byte> bytes = take(file.serialize());
  return nb::bytes(bytes.data(), bytes.size());
}

void save(const Model& file, const std::string& path) {
  Status status;
  {
    const nb::gil_scoped_release released;
    status = file.save(path);
  }
  check(status);
}

nb::dict info_of(const Model::Info& info) {
  nb::dict out;
  out["producer"] = info.producer;
  out["source"] = info.source;
  out["source_hash"] = info.source_hash;
  out["not_exercised"] = info.not_exercised;
  nb::dict quantized;
  for (const Model::QuantizedState& state : info.quantized)
    quantized[state.name.c_str()] = state.error;
  out["quantized"] = quantized;
  return out;
}

nb::dict attachments_of(const Model& model) {
  nb::dict out;
  for (const Model::Attachment& each : model.info().attachments)
    out[nb::str(each.name.data(), each.name.size())] =
        nb::bytes(each.content.data(), each.content.size());
  return out;
}

void set_attachments(Model& model, const std::vector<std::pair<std::string, nb::bytes>>& files) {
  Model::Info info = model.info();
  info.attachments.clear();
  for (const auto& [name, content] : files)
    info.attachments.push_back({name, std::string(content.c_str(), content.size())});
  model.set_info(std::move(info));
}

}  // namespace

void bind_model(nb::module_& m) {
  nb::class_<Model>(m, "ModelBase")
      .def(nb::init<>())
      .def_static("load_file",
                  [](const std::string& path, bool verify) {
                    std::optional<Result<Model>> made;
                    {
                      const nb::gil_scoped_release released;
                      made.emplace(Model::load(path, registry(), {.verify_weights = verify}));
                    }
                    return take(*std::move(made));
                  })
      .def_static("read", model_of)
      .def("entries_", &Model::entries)
      .def("entry_",
           [](const Model& model, const std::string& name) { return take(model.entry(name)); })
      .def("add_entry_", [](Model& model, const std::string& name,
                            const Model& entry) { check(model.add_entry(name, entry.graph())); })
      .def_prop_ro("inputs_", inputs_of)
      .def_prop_ro("outputs_", outputs_of)
      .def_prop_ro("graph_", [](const Model& model) { return Graph(model.graph()); })
      .def_prop_ro(
          "info", [](const Model& model) { return info_of(model.info()); },
          "producer, source and source_hash of the file, branches that the conversion's check did "
          "not exercise, and the error of each quantized weight by name")
      .def("parameters_", [](nb::handle self) { return states_of(self, State::Kind::parameter); })
      .def("buffers_", [](nb::handle self) { return states_of(self, State::Kind::buffer); })
      .def_prop_rw("attachments_", attachments_of, set_attachments)
      .def("save_", save)
      .def("serialize", bytes_of, "The bytes of the .hgm file.")
      .def("session_", [](const Model& model, const nb::dict& options) {
        nb::dict own;
        std::shared_ptr<LockedStates> states;
        for (const auto& [name, value] : options)
          if (words(name) != "states")
            own[name] = value;
          else if (!value.is_none())
            states = nb::cast<std::shared_ptr<LockedStates>>(value);
        auto calls = std::make_unique<Calls>(model, session_options(own), std::move(states));
        calls->open();
        return calls.release();
      });

  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_model)}, {0, nullptr}};
  nb::class_<CallableModel, Model>(m, "CallableModel", nb::type_slots(slots))
      .def(nb::init<const Model&>())
      .def_prop_ro(
          "_default", [](nb::handle self) -> Calls& { return session_of(self); },
          nb::rv_policy::reference_internal);

  m.def("draw_memory", [](Calls& calls, const nb::dict& dims) {
    const Memory memory = calls.memory(dims);
    const std::vector<ArenaBlock> blocks = calls.arena_blocks(dims);
    return tools::draw_memory(blocks, memory, "");
  });
  m.def("compiled_graph", &Calls::compiled_graph);
}

}  // namespace hg::python
