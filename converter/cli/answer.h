// SPDX-License-Identifier: Apache-2.0
// The text that hg-convert prints about a conversion, which may have run in another process.
#pragma once

#include <string>

#include "converter/cli/convert.h"

namespace hg::convert {

struct Answer {
  Exit exit = Exit::ok;
  std::string message = {};  // one sentence, when exit is not ok
  std::string remarks = {};  // lines for standard error: notes, warnings, all that is not supported
  std::string summary = {};  // lines about what was written, when exit is ok
  std::string report = {};   // as JSON; empty where none was asked for
};

Answer answer_of(const Report& report, bool with_json);

// Between processes. What others wrote must be an answer: control characters are replaced, and
// anything else throws Failure.
std::string packed(const Answer& answer);
Answer unpacked(const std::string& text);

// The same with another end.
Answer failed(Answer answer, Exit exit, const std::string& message);

}  // namespace hg::convert
