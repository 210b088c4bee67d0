// SPDX-License-Identifier: Apache-2.0
// Op attributes and sizes from Python values.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "hg/op.h"

namespace hg::python {

namespace nb = nanobind;

bool is_forked();  // options.h

// Converts attributes by the op's signature. TypeError names an attribute that the op does not
// have, or whose value is invalid. The names borrow from the signature.
NamedAttrs attributes_from(const std::string& op, const nb::dict& given);
// The same for a signature and its text.
NamedAttrs attributes_from(const std::string& op, const Signature& signature, std::string_view text,
                           const nb::dict& given);
nb::object to_python(const Attr& attr);
// A number, or text with symbols; and a shape of such.
Dim dim_of(nb::handle size);
Shape shape_of(nb::handle sizes);
// The reverse conversions.
nb::tuple to_python(const Shape& shape);
const char* attribute_kind(AttrType type);

}  // namespace hg::python
