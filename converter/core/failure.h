// SPDX-License-Identifier: Apache-2.0
// Exit codes of a conversion, and the exceptions that end it early. Exceptions stop at main.
#pragma once

#include <string>
#include <utility>

#include "hg/status.h"

namespace hg::convert {

// The process's exit codes, and the `status` of a batch job.
enum class Exit : int {
  ok = 0,
  usage = 1,       // the command line is invalid or does not fit the model
  unreadable = 2,  // a file is missing, damaged or of another kind; or the output cannot be written
  unsupported = 3,  // the model uses something that the library does not support
  mismatch = 4,     // the converted model computes different results
};

struct Failure {
  Exit exit = Exit::unreadable;
  std::string message;  // one sentence that says what to do next
};

// An output, or the report, would replace a file that the conversion reads.
struct Overwriting : Failure {};

// Thrown by rows and by the interpreter. The converter reports it with the node's module path and
// source line, and continues, to find the other unsupported ops.
struct Refusal {
  std::string reason;      // "argument 'mode' is 'circular', which is not supported"
  std::string suggestion;  // what the user can do; may be empty
};

// Throws a Refusal with the status's message, unless the status is ok.
inline void require_ok(const Status& status, std::string suggestion = "") {
  if (!status.ok()) throw Refusal{std::string(status.message()), std::move(suggestion)};
}

}  // namespace hg::convert
