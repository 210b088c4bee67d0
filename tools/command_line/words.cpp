// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line/words.h"

#include <algorithm>
#include <cctype>
#include <unordered_set>

namespace hg::tools {

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    parts.push_back(trim(text.substr(start, i - start)));
    start = i + 1;
  }
  return parts;
}

std::string closest_name(std::string_view name, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    // Levenshtein's distance, one row at a time.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        size_t replace = diagonal + (name[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = candidate;
    }
  }
  return best;
}

std::string unknown_key(std::string_view key, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), key) != known.end()) return {};
  std::string text = "a job has no \"";
  text.append(key).append("\"; it has ");
  for (const std::string& each : known) text.append(&each == known.data() ? "" : ", ").append(each);
  return text;
}

namespace {

// Joins `line` with the lines of `left` that count on from one of its numbers, and removes these.
// Returns an empty text if no two of them do.
std::string joined(const std::string& line, std::unordered_set<std::string>& left) {
  constexpr std::string_view kDigits = "0123456789";
  const size_t name = line.find(": ");
  size_t end = 0;
  for (size_t at; (at = line.find_first_of(kDigits, end)) < name;) {
    end = line.find_first_not_of(kDigits, at);
    const std::string before = line.substr(0, at), digits = line.substr(at, end - at),
                      after = line.substr(end);
    if (digits.size() > 9 || (digits.size() > 1 && digits[0] == '0')) continue;
    const int first = std::stoi(digits);
    int last = first;
    while (left.contains(before + std::to_string(last + 1) + after)) ++last;
    if (last - first < 2) continue;
    for (int i = first + 1; i <= last; ++i) left.erase(before + std::to_string(i) + after);
    return before + "{" + digits + ".." + std::to_string(last) + "}" + after;
  }
  return {};
}

}  // namespace

std::vector<std::string> join_numbered(const std::vector<std::string>& lines) {
  std::unordered_set<std::string> left(lines.begin(), lines.end());
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    if (left.erase(line) == 0) continue;
    const std::string range = joined(line, left);
    out.push_back(range.empty() ? line : range);
  }
  return out;
}

}  // namespace hg::tools
