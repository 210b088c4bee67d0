// SPDX-License-Identifier: Apache-2.0
// The command line of hg-convert, for main and other front ends.
#pragma once

#include <string>

#include "converter/cli/options.h"

namespace hg::convert {

// What a command line asks for: one conversion, a batch, the table of ops, or only what it says.
struct Command {
  Job job;
  std::string json;   // where the report goes; empty: nowhere
  std::string batch;  // the file of jobs
  bool list_ops = false;
  bool sandbox = false;  // each conversion in a process of its own
  int64_t sandbox_memory_mib = 4096;
  std::string said;  // the answer to --help or --version
};
Command parse_command(int argc, const char* const* argv);  // throws Failure (usage)
// Does it and returns the exit code. Never throws.
int run_command(int argc, const char* const* argv);

}  // namespace hg::convert
