// SPDX-License-Identifier: Apache-2.0
// The main function of tests whose random cases are chosen on the command line.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace hg::test {

// Calls take(name, value) for each argument that gtest does not know, then runs all tests. An
// argument is "--name=value", or "--name" with an empty value.
template <class Take>
int run_with_options(int argc, char** argv, const Take& take) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--")) continue;
    const size_t equals = argument.find('=');
    take(argument.substr(2, equals - 2),
         equals == argument.npos ? std::string() : argument.substr(equals + 1));
  }
  return RUN_ALL_TESTS();
}

}  // namespace hg::test
