// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: converts bytes as an exported program (.pt2) or an ONNX model. They may be
// rejected, but must not crash, hang or use more memory than they justify; a written file must
// load.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "converter/cli/convert.h"
#include "hg/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = ::memfd_create("program", MFD_CLOEXEC);
  if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  static const std::string written = (std::filesystem::temp_directory_path() /
                                      hg::str_cat("hg-fuzz-", int64_t{::getpid()}, ".hgm"))
                                         .string();
  hg::convert::Job job;
  job.model = hg::str_cat("/proc/self/fd/", int64_t{file});
  job.output = written;
  job.check = false;
  const hg::convert::Report report = hg::convert::convert(job, [](const std::string&) {});
  ::close(file);
  if (report.exit != hg::convert::Exit::ok) {
    if (report.message.empty()) std::abort();
    return 0;
  }
  const bool loads = hg::Model::load(written).ok();
  std::filesystem::remove(written);
  if (!loads) std::abort();
  return 0;
}
