// SPDX-License-Identifier: Apache-2.0
// Op attributes and sizes from Python values.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "hg/op.h"

namespace hg::python {

namespace nb = nanobind;

bool is_forked();  // options.h

// By the op's signature: TypeError names an attribute that the op lacks, or that cannot be the
// value. The names borrow from the signature.
NamedAttrs attributes_from(const std::string& op, const nb::dict& given);
nb::object to_python(const Attr& attr);
// A number, or text that has symbols; a shape of such.
Dim dim_of(nb::handle size);
Shape shape_of(nb::handle sizes);
// The other way.
nb::tuple to_python(const Shape& shape);
const char* attribute_kind(AttrType type);

}  // namespace hg::python
