// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "converter/cli/command.h"

int main(int argc, char** argv) {
  // Exceeding a file size limit must be a write error and must not end the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const int code = hg::convert::run_command(argc, argv);
  // libtorch's destructors would remove thousands of operators from its tables one by one, which
  // takes a third of the time of a small conversion.
  std::fflush(nullptr);
  std::_Exit(code);
}
