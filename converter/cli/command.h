// SPDX-License-Identifier: Apache-2.0
// The command line of hg-convert, for main and other front ends.
#pragma once

#include <string>

#include "converter/cli/options.h"

namespace hg::convert {

// A parsed command line: one conversion, a batch, the table of ops, or only text to print.
struct Command {
  Job job;
  std::string json;   // destination of the report; empty: none
  std::string batch;  // the file of jobs
  bool list_ops = false;
  bool sandbox = false;  // each conversion runs in a separate process
  int64_t sandbox_memory_mib = 4096;
  std::string said;  // the text of --help or --version
};
Command parse_command(int argc, const char* const* argv);  // throws Failure (usage)
// Executes the command and returns the exit code. Never throws.
int run_command(int argc, const char* const* argv);

}  // namespace hg::convert
