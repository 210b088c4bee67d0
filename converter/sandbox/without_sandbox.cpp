// SPDX-License-Identifier: Apache-2.0
// Replaces process.cpp where the sandbox is not supported.
#include "converter/core/failure.h"
#include "converter/sandbox/process.h"

namespace hg::convert {

SandboxEnd run_in_sandbox(const Sandbox&, const std::function<std::string(const Tell&)>&,
                          const Tell&) {
  throw Failure{Exit::usage,
                "--sandbox: this hg-convert is built without it: it takes Linux and libseccomp"};
}

}  // namespace hg::convert
