// SPDX-License-Identifier: Apache-2.0
#include "python/src/attributes.h"

#include <nanobind/stl/string.h>

#include "python/src/errors.h"
#include "python/src/own_ops.h"
#include "python/src/tensors.h"

namespace hg::python {
namespace {

// Text is a size that depends on symbols.
Dim size_from(nb::handle value) {
  return nb::isinstance<nb::str>(value) ? dim_of(value) : Dim(whole(value));
}

double real_from(nb::handle value) {
  const double real = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return real;
}

bool is_list(nb::handle value) {
  return !nb::isinstance<nb::str>(value) && PySequence_Check(value.ptr()) != 0;
}

template <class T, class One>
std::vector<T> list_from(nb::handle value, One one) {
  std::vector<T> out;
  if (!is_list(value)) {
    out.push_back(T(one(value)));
    return out;
  }
  for (const nb::handle each : value) out.push_back(T(one(each)));
  return out;
}

Attr attr_from(nb::handle value, AttrType type) {
  if (value.is_none()) return {};
  const auto word = [](nb::handle each) { return words(each); };
  switch (type) {
    case AttrType::boolean:
      return truth(value);
    case AttrType::integer:
      return whole(value);
    case AttrType::real:
      return real_from(value);
    case AttrType::string:
      return word(value);
    case AttrType::dtype:
      return dtype_from(value);
    case AttrType::integers:
      return list_from<Dim>(value, size_from);
    case AttrType::reals:
      return list_from<double>(value, real_from);
    case AttrType::strings:
      return list_from<std::string>(value, word);
  }
  return {};
}

struct Visit {
  nb::object operator()(std::monostate) const { return nb::none(); }
  nb::object operator()(bool value) const { return nb::bool_(value); }
  nb::object operator()(const Dim& value) const {
    if (value.is_constant()) return nb::int_(value.constant());
    return nb::str(str_cat(value).c_str());
  }
  nb::object operator()(double value) const { return nb::float_(value); }
  nb::object operator()(const std::string& value) const { return nb::str(value.c_str()); }
  nb::object operator()(DType value) const { return nb::str(python_name(value)); }
  template <class T>
  nb::object operator()(const std::vector<T>& values) const {
    nb::list out;
    for (const T& value : values) out.append((*this)(value));
    return nb::tuple(out);
  }
};

}  // namespace

NamedAttrs attributes_from(const std::string& op, const nb::dict& given) {
  const Op* known = registry().find(op);
  if (known == nullptr) {
    std::string message = "there is no op '" + op + "'";
    if (const std::string_view close = registry().closest(op); !close.empty())
      message += str_cat("; did you mean '", close, "'?");
    raise(PyExc_ValueError, message);
  }
  return attributes_from(op, known->signature, known->def.signature, given);
}

NamedAttrs attributes_from(const std::string& op, const Signature& signature, std::string_view text,
                           const nb::dict& given) {
  NamedAttrs out;
  for (const auto& [key, value] : given) {
    const std::string name = words(key);
    const int i = signature.find_attribute(name);
    if (i < 0) raise(PyExc_TypeError, str_cat(op, " has no attribute '", name, "': ", text));
    const Signature::Attribute& attribute = signature.attributes[i];
    try {
      out.push_back({attribute.name, attr_from(value, attribute.type)});
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
      raise(PyExc_TypeError,
            str_cat(op, ": ", name, " cannot be ", words(nb::repr(value)), ": ", text));
    }
  }
  return out;
}

nb::object to_python(const Attr& attr) { return std::visit(Visit{}, attr.value); }

Dim dim_of(nb::handle size) {
  if (nb::isinstance<nb::str>(size)) return take(Dim::parse(words(size)));
  return Dim(whole(size));
}

Shape shape_of(nb::handle sizes) {
  Shape shape;
  for (const nb::handle size : sizes) shape.push_back(dim_of(size));
  return shape;
}

nb::tuple to_python(const Shape& shape) {
  nb::list sizes;
  for (const Dim& dim : shape)
    if (dim.is_constant())
      sizes.append(nb::int_(dim.constant()));
    else
      sizes.append(nb::str(str_cat(dim).c_str()));
  return nb::tuple(sizes);
}

const char* attribute_kind(AttrType type) {
  constexpr const char* kNames[] = {"bool",  "int",   "float",   "str",
                                    "dtype", "int[]", "float[]", "str[]"};
  return kNames[static_cast<int>(type)];
}

}  // namespace hg::python
