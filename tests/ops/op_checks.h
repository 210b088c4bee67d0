// SPDX-License-Identifier: Apache-2.0
// The checks that every sample row goes through. They fail as assertions of the running test.
#pragma once

#include "hg/hg.h"
#include "tests/ops/sample_case.h"

namespace hg::test {

extern Gpu device_under_test;  // empty: the CPU

SessionOptions on_threads(int threads);

double tolerance_of(const Sample& sample, DType dtype);
// Each element is within `tolerance` * (1 + its size).
void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance, const std::string& what);

// Compares the op's gradients with finite differences of the op, in f64.
void check_gradient(const Sample& sample);
// A saved and loaded model gives the same bits; saving it again gives the same file.
void check_saved(const Sample& sample, DType floats);
// Makes each allocation fail in turn. The result is out_of_memory or correct, nothing leaks, and
// the session gives the same bits afterwards.
void check_short_memory(const Sample& sample);

}  // namespace hg::test
