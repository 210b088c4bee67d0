// SPDX-License-Identifier: Apache-2.0
// In place of process.cpp.
#include "converter/sandbox/process.h"
#include "converter/script/failure.h"

namespace hg::convert {

SandboxEnd run_in_sandbox(const Sandbox&, const std::function<std::string(const Tell&)>&,
                          const Tell&) {
  throw Failure{Exit::usage,
                "--sandbox: this hg-convert is built without it: it takes Linux and libseccomp"};
}

}  // namespace hg::convert
