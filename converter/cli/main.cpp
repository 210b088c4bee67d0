// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "converter/cli/command.h"

int main(int argc, char** argv) {
  // A limit on file sizes shall be an error of writing, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  return hg::convert::run_command(argc, argv);
}
