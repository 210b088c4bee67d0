// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "converter/cli/command.h"

int main(int argc, char** argv) {
  // A limit on file sizes shall be an error of writing, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const int code = hg::convert::run_command(argc, argv);
  // libtorch's destructors take its thousands of operators off their tables one by one, for a third
  // of what a small conversion takes.
  std::fflush(nullptr);
  std::_Exit(code);
}
