// SPDX-License-Identifier: Apache-2.0
// The checks that every sample row goes through. They fail as assertions of the running test.
#pragma once

#include "hg/hg.h"
#include "tests/sample_case.h"

namespace hg::test {

extern Gpu device_under_test;  // empty: the CPU

SessionOptions on_threads(int threads);

double tolerance_of(const Sample& sample, DType dtype);
// Each within `tolerance` of 1 + its size.
void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance, const std::string& what);

// The gradients of the op against finite differences of the op itself, in f64.
void check_gradient(const Sample& sample);
// The same bits after saving and loading; saved twice, the same file.
void check_saved(const Sample& sample, DType floats);
// Each allocation in its turn fails: that is out_of_memory or does no harm, leaks nothing, and the
// session gives the same bits afterwards.
void check_short_memory(const Sample& sample);

}  // namespace hg::test
