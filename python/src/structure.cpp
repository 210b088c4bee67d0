// SPDX-License-Identifier: Apache-2.0
#include "python/src/structure.h"

#include <algorithm>

#include "python/src/tensors.h"

namespace hg::python {
namespace {

// Structures that are too deep, or contain themselves, raise RecursionError.
struct Deeper {
  Deeper() {
    if (Py_EnterRecursiveCall(" in nested inputs") != 0) throw nb::python_error();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
};

// Whether a list consists of tensors, not of numbers.
bool is_structure(nb::handle object) {
  if (PyDict_Check(object.ptr())) return true;
  if (!is_container(object)) return false;
  const Deeper deeper;
  for (const nb::handle each : object)
    if (is_tensor(each) || is_structure(each) || each.is_none()) return true;
  return nb::len(object) == 0;
}

// The index of a name; -1 if an object is not a name.
int64_t place_of(nb::handle key, std::span<const nb::object> names) {
  if (!PyUnicode_Check(key.ptr())) return -1;
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].ptr() == key.ptr() || PyUnicode_Compare(names[i].ptr(), key.ptr()) == 0)
      return static_cast<int64_t>(i);
  return -1;
}

class Flat {
 public:
  explicit Flat(std::span<const nb::object> names) : names_(names) {}

  void add(nb::handle object, nb::handle key = {}) {
    if (object.is_none()) return;
    if (!is_structure(object)) {
      check(key);
      leaves.push_back(nb::borrow(object));
      return;
    }
    const Deeper deeper;
    if (PyDict_Check(object.ptr())) {
      for (const auto& [name, value] : nb::borrow<nb::dict>(object)) add(value, name);
      return;
    }
    for (const nb::handle each : object) add(each);
  }
  std::vector<nb::object> leaves;

 private:
  void check(nb::handle key) const {
    const int64_t place = key.is_valid() ? place_of(key, names_) : -1;
    if (place < 0 || place == static_cast<int64_t>(leaves.size())) return;
    raise(PyExc_TypeError,
          str_cat("a dict has '", words(key), "' at place ", int64_t(leaves.size()),
                  ", which is that of another one; give them by name, or in order"));
  }
  std::span<const nb::object> names_;
};

// The dict of a structure that is one dict with only names as keys; otherwise not valid.
nb::object only_dict(nb::handle structure, std::span<const nb::object> names) {
  nb::object one = nb::borrow(structure);
  for (int depth = 0; depth < 2 && !PyDict_Check(one.ptr()) && is_container(one); ++depth) {
    if (nb::len(one) != 1) return {};
    one = nb::object(one[0]);
  }
  if (!PyDict_Check(one.ptr()) || nb::len(one) == 0) return {};
  for (const auto& [name, value] : nb::borrow<nb::dict>(one))
    if (place_of(name, names) < 0 || (is_container(value) && is_structure(value))) return {};
  return one;
}

}  // namespace

bool is_container(nb::handle object) {
  return PyTuple_Check(object.ptr()) || PyList_Check(object.ptr()) || PyDict_Check(object.ptr());
}

std::vector<nb::object> in_order(nb::handle structure, std::span<const nb::object> names) {
  if (const nb::object dict = only_dict(structure, names); dict.is_valid()) {
    std::vector<nb::object> out(names.size());
    for (const auto& [name, value] : nb::borrow<nb::dict>(dict))
      if (!value.is_none()) out[static_cast<size_t>(place_of(name, names))] = nb::borrow(value);
    return out;
  }
  Flat flat(names);
  if (PyTuple_Check(structure.ptr()))
    for (const nb::handle each : structure) flat.add(each);
  else
    flat.add(structure);
  return std::move(flat.leaves);
}

}  // namespace hg::python
