// SPDX-License-Identifier: Apache-2.0
// Shared by all tools: exit codes, and one sentence on standard error for a failure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/kernel.h"
#include "hg/status.h"

namespace hg::tools {

// Exit codes, and their names in the answers of --batch.
enum class Exit : int { ok = 0, usage = 1, unreadable = 2, unsupported = 3, mismatch = 4 };
std::string_view to_string(Exit exit);

// How a job or a program ended, with a one-line reason if it failed.
struct Outcome {
  Exit exit = Exit::ok;
  std::string message;
  bool ok() const { return exit == Exit::ok; }
};

// not_found and corrupt_model: unreadable; invalid_argument: mismatch; all others: unsupported.
Outcome outcome(const Status& status);
template <class... Parts>
Outcome usage(const Parts&... parts) {
  return {Exit::usage, str_cat(parts...)};
}
template <class... Parts>
Outcome mismatch(const Parts&... parts) {
  return {Exit::mismatch, str_cat(parts...)};
}

// Prints the failure, if any, as "TOOL: MESSAGE" on standard error; returns the exit code for main.
int finish(std::string_view tool, const Outcome& outcome);

std::string version_text(std::string_view tool);  // "hg-run 0.2.0"

Result<Device> parse_device(std::string_view word);        // cpu, vulkan, auto
Result<Precision> parse_precision(std::string_view word);  // f32, bf16, i8
// Parses "n=1" and "n=1,h=224" as sizes of symbols.
using SymbolSizes = std::vector<std::pair<std::string, int64_t>>;
Result<SymbolSizes> parse_dims(std::span<const std::string> words);

std::string bytes_text(int64_t bytes);  // "12.3 MiB"
std::string count_text(double count);   // "1.82 G"
std::string percent_text(double part);  // "0.621 %"

}  // namespace hg::tools
