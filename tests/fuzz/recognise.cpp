// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: everything that hg-convert itself reads of a .pt file, in addition to libtorch.
// That is the kind of file (a zip archive's directory, a pickle), the op calls in an archive's
// code, and the reason why libtorch rejected it. A file is recognized, or rejected in one line.
#include "converter/load/recognise.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "converter/load/torchscript/archive_ops.h"
#include "converter/load/torchscript/load_failure.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = ::memfd_create("program", MFD_CLOEXEC);
  if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    hg::convert::recognise("/proc/self/fd/" + std::to_string(file), "file");
  } catch (const hg::convert::Failure& failure) {
    if (!failure.message.starts_with("file ") || failure.message.find('\n') != std::string::npos)
      std::abort();
  }
  ::close(file);
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::map<std::string, hg::convert::OpUse> uses;
  hg::convert::find_op_uses(text, uses);
  for (const auto& [op, use] : uses)
    if (op.find("::") == op.npos || use.positional < 0 || use.results < 1) std::abort();
  if (hg::convert::load_failure("file", text, "2.0").message.find('\n') != std::string::npos)
    std::abort();
  return 0;
}
