// SPDX-License-Identifier: Apache-2.0
// Tensor elements as JSON, and the protocol's names of their types.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "hg/hg.h"

const char* datatype_of(hg::DType dtype);  // "FP32"

// What a request gave, for the sentence of an error: its first bytes, or only the type of a list or
// an object, which may lie in each other as deep as a request is long.
std::string shown(const nlohmann::json& given);

// `data`, flat or in rows, into a contiguous tensor, which must get as many elements as it has,
// each within its type. `where` begins the sentence of an error.
hg::Status read_elements(const nlohmann::json& data, const hg::Tensor& tensor,
                         const std::string& where);
// Flat; what is not finite becomes null.
nlohmann::json write_elements(const hg::Tensor& tensor);
