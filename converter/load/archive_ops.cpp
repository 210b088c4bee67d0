// SPDX-License-Identifier: Apache-2.0
// The printer of TorchScript writes one statement on a line, strings in double quotes with escapes.
#include "converter/load/archive_ops.h"

#include <algorithm>
#include <cctype>

namespace hg::convert {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view word_at(std::string_view code, size_t at) {
  size_t end = at;
  while (end < code.size() && is_word(code[end])) ++end;
  return code.substr(at, end - at);
}

// The targets of `a, b, = ops...`: commas between words before the first '=' of the line.
int count_targets(std::string_view line) {
  size_t equals = line.find(" = ");
  if (equals == std::string_view::npos) return 1;
  int targets = 0;
  for (size_t i = 0; i < equals; ++i) {
    if (is_word(line[i])) {
      if (i == 0 || !is_word(line[i - 1])) ++targets;
    } else if (line[i] != ' ' && line[i] != ',') {
      return 1;  // an annotated or attribute target
    }
  }
  return std::max(targets, 1);
}

// `at` is behind the opening parenthesis of a call.
void read_arguments(std::string_view code, size_t at, OpUse& use) {
  int depth = 0, positional = 0;
  bool in_string = false, any = false, keyword = false;
  auto finish = [&] {
    if (any && !keyword) ++positional;
    any = keyword = false;
  };
  for (; at < code.size(); ++at) {
    char c = code[at];
    if (in_string) {
      if (c == '\\')
        ++at;
      else if (c == '"')
        in_string = false;
      continue;
    }
    if (c == '"')
      in_string = any = true;
    else if (c == '(' || c == '[' || c == '{')
      ++depth, any = true;
    else if (c == ')' && depth == 0)
      break;
    else if (c == ')' || c == ']' || c == '}')
      --depth;
    else if (c == ',' && depth == 0)
      finish();
    else if (depth == 0 && !any && is_word(c)) {
      any = true;
      std::string_view word = word_at(code, at);
      size_t after = at + word.size();
      if (after + 1 < code.size() && code[after] == '=' && code[after + 1] != '=') {
        keyword = true;
        use.keywords.emplace(word);
      }
      at = after - 1;
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      any = true;
    }
  }
  finish();
  use.positional = std::max(use.positional, positional);
}

}  // namespace

void find_op_uses(std::string_view code, std::map<std::string, OpUse>& uses) {
  constexpr std::string_view kStart = "ops.";
  for (size_t at = code.find(kStart); at != std::string_view::npos;
       at = code.find(kStart, at + 1)) {
    if (at > 0 && (is_word(code[at - 1]) || code[at - 1] == '.')) continue;
    std::string_view space = word_at(code, at + kStart.size());
    size_t dot = at + kStart.size() + space.size();
    if (space.empty() || dot >= code.size() || code[dot] != '.') continue;
    std::string_view op = word_at(code, dot + 1);
    size_t open = dot + 1 + op.size();
    if (op.empty() || open >= code.size() || code[open] != '(') continue;
    OpUse& use = uses[std::string(space) + "::" + std::string(op)];
    read_arguments(code, open + 1, use);
    size_t line = code.rfind('\n', at);
    line = line == std::string_view::npos ? 0 : line + 1;
    std::string_view before = code.substr(line, at - line);
    before.remove_prefix(std::min(before.find_first_not_of(' '), before.size()));
    // Only a call that is the whole right side is unpacked.
    if (before.ends_with(" = ")) use.results = std::max(use.results, count_targets(before));
  }
}

}  // namespace hg::convert
