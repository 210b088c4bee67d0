// SPDX-License-Identifier: Apache-2.0
// Work in a separate process that can do little more than compute and answer (confine.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hg::convert {

struct Sandbox {
  int64_t memory_bytes = 0;                // of address space, the program's own included
  std::vector<std::string> readable = {};  // files and whole folders, beside the system's libraries
  int input = -1;                          // its standard input; -1: an empty one
  int result = -1;                         // a file that it may write, up to memory_bytes
};

struct SandboxEnd {
  bool has_answer = false;
  std::string answer;
  int signal = 0;               // that ended it before it answered, or 0
  bool memory_refused = false;  // at least once
};

using Tell = std::function<void(const std::string&)>;

// Forks, and runs `work` there, which returns its answer and finds `result` under its number; what
// it tells comes to `progress`. What it prints goes to standard error, control characters replaced.
// Nothing of the process is left when this returns, and none outlives this one. An answer ends at
// 64 MiB. The calling process must have one thread. Throws Failure where the system has no sandbox.
SandboxEnd run_in_sandbox(const Sandbox& sandbox,
                          const std::function<std::string(const Tell& progress)>& work,
                          const Tell& progress);

}  // namespace hg::convert
