// SPDX-License-Identifier: Apache-2.0
// Library options from Python dicts.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "hg/generator.h"
#include "hg/options.h"
#include "hg/train.h"
#include "python/src/errors.h"

namespace hg::python {

// From keyword arguments. ValueError for an invalid value, TypeError for an unknown name.
SessionOptions session_options(const nb::dict& given);
TrainOptions train_options(const nb::dict& given);
Optimizer optimizer_from(const nb::dict& given);
// Without the callbacks.
GenerateOptions generate_options(const nb::dict& given);

// Token ids, any sequence of integers.
std::vector<int32_t> ids_from(nb::handle ids);

// Bytes, or text such as "512M".
int64_t bytes_from(nb::handle object);
std::vector<std::pair<std::string, int64_t>> dims_from(const nb::dict& dims);

// In a forked child OpenMP's threads are gone, so sessions created there have one thread.
bool is_forked();

void bind_options(nb::module_& m);

}  // namespace hg::python
