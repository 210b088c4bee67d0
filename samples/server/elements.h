// SPDX-License-Identifier: Apache-2.0
// Tensor elements as JSON, and the protocol's names of their types.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "hg/hg.h"

const char* datatype_of(hg::DType dtype);  // "FP32"

// Part of a request, for error messages: its first bytes, or only the type of a list or an object,
// which may be nested as deeply as a request is long.
std::string shown(const nlohmann::json& given);

// Copies `data`, flat or in rows, to a contiguous tensor. The number of elements must match, and
// each must fit the tensor's type. `where` begins error messages.
hg::Status read_elements(const nlohmann::json& data, const hg::Tensor& tensor,
                         const std::string& where);
// A flat list; non-finite elements become null.
nlohmann::json write_elements(const hg::Tensor& tensor);
