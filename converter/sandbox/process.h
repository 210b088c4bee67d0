// SPDX-License-Identifier: Apache-2.0
// Runs work in a separate process that can do little more than compute and answer (confine.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hg::convert {

struct Sandbox {
  int64_t memory_bytes = 0;                // of address space, including the program itself
  std::vector<std::string> readable = {};  // files and folders, besides the system's libraries
  int input = -1;                          // standard input; -1: empty
  int result = -1;                         // a file that it may write, up to memory_bytes
};

struct SandboxEnd {
  bool has_answer = false;
  std::string answer;
  int signal = 0;               // that ended it before it answered; 0: none
  bool memory_refused = false;  // at least once
};

using Tell = std::function<void(const std::string&)>;

// Forks and runs `work` in the child. `work` returns the answer, and can use `result` under its
// number. The text that it passes to its argument is passed to `progress`. What it prints goes to
// standard error, with control characters replaced. The child ends before this returns, and when
// this process ends. Answers are limited to 64 MiB. The calling process must have one thread.
// Throws Failure if the system does not support the sandbox.
SandboxEnd run_in_sandbox(const Sandbox& sandbox,
                          const std::function<std::string(const Tell& progress)>& work,
                          const Tell& progress);

}  // namespace hg::convert
