// SPDX-License-Identifier: Apache-2.0
#include "python/src/states.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "python/src/bind.h"
#include "python/src/errors.h"
#include "python/src/tensors.h"

namespace hg::python {
namespace {

std::shared_ptr<LockedStates> shared_states(const Model& model) {
  auto states = std::make_shared<LockedStates>();
  states->shared = take(SharedStates::create(model));
  return states;
}

nb::object state_value(LockedStates& states, const std::string& name) {
  const Turn::Held held(states.turn);
  return copied(take(states.shared->value(name)), Kind::numpy);
}

void set_state_value(LockedStates& states, const std::string& name, nb::handle value) {
  const Turn::Held held(states.turn);
  const DType dtype = take(states.shared->value(name)).dtype;
  const Borrowed borrowed = Borrowed::from(value, name, false, &dtype);
  check(states.shared->set_value(name, ConstTensor(borrowed.tensor)));
}

}  // namespace

void bind_states(nb::module_& m) {
  nb::class_<LockedStates>(m, "States",
                           "Buffers that the sessions of several entries share, by name. Reading "
                           "one copies it; assigning to one overwrites it.")
      .def("names", [](const LockedStates& states) { return states.shared->names(); })
      .def("__getitem__", state_value)
      .def("__setitem__", set_state_value, nb::arg("name"), nb::arg("value"))
      .def("__len__", [](const LockedStates& states) { return states.shared->names().size(); })
      .def(
          "reset",
          [](LockedStates& states) {
            const Turn::Held held(states.turn);
            states.shared->reset();
          },
          "Restores the values of the file.");
  m.def("shared_states", shared_states);
}

}  // namespace hg::python
