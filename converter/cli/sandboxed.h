// SPDX-License-Identifier: Apache-2.0
// A conversion in a separate process; only the answer and the .hgm file leave it.
#pragma once

#include <cstdint>
#include <string>

#include "converter/cli/convert.h"
#include "converter/sandbox/process.h"

namespace hg::convert {

// The text that hg-convert prints about a conversion.
struct Answer {
  Exit exit = Exit::ok;
  std::string message = {};  // one sentence, if exit is not ok
  std::string remarks = {};  // lines for standard error: notes, warnings, unsupported ops
  std::string summary = {};  // lines about the written file, if exit is ok
  std::string report = {};   // JSON; empty if not requested, or if it would replace a file
};

Answer answer_of(const Report& report, bool with_json);

// Serialization between processes. unpacked() treats its text as untrusted: it replaces control
// characters and throws Failure unless the text is an answer.
std::string packed(const Answer& answer);
Answer unpacked(const std::string& text);

// Returns the same answer with another exit code and message.
Answer failed(Answer answer, Exit exit, const std::string& message);

// As convert() followed by answer_of(). Reads the file that the process returns, and writes it
// again. Never throws.
Answer convert_in_sandbox(const Job& job, int64_t memory_mib, bool with_json, const Tell& progress);

}  // namespace hg::convert
