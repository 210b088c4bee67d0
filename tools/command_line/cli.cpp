// SPDX-License-Identifier: Apache-2.0
// Exit codes, messages and value formats of the command line.
#include "tools/command_line/cli.h"

#include <charconv>
#include <cstdio>

#include "hg/version.h"

namespace hg::tools {

std::string_view to_string(Exit exit) {
  switch (exit) {
    case Exit::ok:
      return "ok";
    case Exit::usage:
      return "usage";
    case Exit::unreadable:
      return "unreadable";
    case Exit::unsupported:
      return "unsupported";
    case Exit::mismatch:
      return "mismatch";
  }
  return "unsupported";
}

Outcome outcome(const Status& status) {
  Exit exit = Exit::unsupported;
  switch (status.code()) {
    case Code::ok:
      return {};
    case Code::invalid_argument:
      exit = Exit::mismatch;
      break;
    case Code::not_found:
    case Code::corrupt_model:
      exit = Exit::unreadable;
      break;
    case Code::unsupported:
    case Code::out_of_memory:
    case Code::cancelled:
    case Code::device_lost:
    case Code::internal:
    case Code::busy:
      break;
  }
  return {exit, std::string(status.message())};
}

int finish(std::string_view tool, const Outcome& outcome) {
  if (!outcome.ok()) {
    std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(tool.size()), tool.data(),
                 outcome.message.c_str());
  }
  return static_cast<int>(outcome.exit);
}

std::string version_text(std::string_view tool) { return str_cat(tool, " ", HG_VERSION); }

Result<Device> parse_device(std::string_view word) {
  if (word == "cpu") return Device::cpu;
  if (word == "vulkan") return Device::vulkan;
  if (word == "auto") return Device::automatic;
  return invalid_argument("--device '", word, "' is not one of cpu, vulkan and auto");
}

Result<Precision> parse_precision(std::string_view word) {
  if (word == "f32") return Precision::f32;
  if (word == "bf16") return Precision::bf16;
  if (word == "i8") return Precision::i8;
  return invalid_argument("--precision '", word, "' is not one of f32, bf16 and i8");
}

Result<SymbolSizes> parse_dims(std::span<const std::string> words) {
  SymbolSizes dims;
  for (const std::string& word : words) {
    for (size_t start = 0; start <= word.size();) {
      const size_t comma = std::min(word.find(',', start), word.size());
      const std::string_view part = std::string_view(word).substr(start, comma - start);
      const size_t equals = part.find('=');
      int64_t value = 0;
      const char* end = part.data() + part.size();
      if (equals == 0 || equals == std::string_view::npos ||
          std::from_chars(part.data() + equals + 1, end, value).ptr != end ||
          equals + 1 == part.size() || value < 0) {
        return invalid_argument("--dim '", part, "' is not of the form n=4");
      }
      dims.emplace_back(part.substr(0, equals), value);
      start = comma + 1;
    }
  }
  return dims;
}

namespace {

std::string scaled_text(double value, double base, std::span<const char* const> units) {
  size_t unit = 0;
  while (value >= base && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  char out[32];
  std::snprintf(out, sizeof out, unit == 0 ? "%.0f" : value < 10 ? "%.2f" : "%.1f", value);
  return str_cat(out, *units[unit] ? " " : "", units[unit]);
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return scaled_text(static_cast<double>(bytes), 1024, kUnits);
}

std::string percent_text(double part) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.3g %%", part * 100);
  return digits;
}

std::string count_text(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  return scaled_text(count, 1000, kUnits);
}

}  // namespace hg::tools
