// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/standard_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "converter/core/failure.h"
#include "hg/status.h"

namespace hg::convert {
namespace {

bool is_file_at_its_beginning() {
  struct stat status;
  return fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode) &&
         lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
}

}  // namespace

StandardInput::StandardInput() {
  if (is_file_at_its_beginning()) return;
  copy_ = std::tmpfile();
  if (!copy_) throw Failure{Exit::unreadable, str_cat("no temporary file: ", std::strerror(errno))};
  char buffer[1 << 16];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;)
    if (std::fwrite(buffer, 1, got, copy_) != got)
      throw Failure{Exit::unreadable, str_cat("standard input does not fit on the temporary disk: ",
                                              std::strerror(errno))};
  std::rewind(copy_);  // another process may use it as standard input
}

StandardInput::~StandardInput() {
  if (copy_) std::fclose(copy_);
}

int StandardInput::descriptor() const { return copy_ ? fileno(copy_) : STDIN_FILENO; }

}  // namespace hg::convert
