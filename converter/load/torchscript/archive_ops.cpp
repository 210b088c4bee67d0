// SPDX-License-Identifier: Apache-2.0
// Assumes the format of TorchScript's printer: one statement per line, and strings in double quotes
// with escapes.
#include "converter/load/torchscript/archive_ops.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace hg::convert {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view word_at(std::string_view code, size_t at) {
  size_t end = at;
  while (end < code.size() && is_word(code[end])) ++end;
  return code.substr(at, end - at);
}

// Returns the number of words in `a, b, `; 1 for an annotated or attribute target.
int count_targets(std::string_view targets) {
  int count = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (is_word(targets[i])) {
      if (i == 0 || !is_word(targets[i - 1])) ++count;
    } else if (targets[i] != ' ' && targets[i] != ',') {
      return 1;
    }
  }
  return std::max(count, 1);
}

// Returns the position after the string that begins at `at`. A string ends at the end of its line
// at the latest.
size_t skip_string(std::string_view code, size_t at) {
  for (++at; at < code.size() && code[at] != '\n'; ++at) {
    if (code[at] == '"') return at + 1;
    if (code[at] == '\\') ++at;
  }
  return std::min(at, code.size());
}

// An open bracket: the state of its current argument, and the call that the bracket belongs to, or
// null.
struct Brackets {
  OpUse* use = nullptr;
  int positional = 0;
  bool any = false, keyword = false;

  void finish_argument() {
    if (any && !keyword) ++positional;
    any = keyword = false;
  }
  void close() {
    finish_argument();
    if (use) use->positional = std::max(use->positional, positional);
  }
};

// Scans the code once. A stack of open brackets makes the time linear in the length, at any depth.
class Finder {
 public:
  Finder(std::string_view code, std::map<std::string, OpUse>& uses) : code_(code), uses_(uses) {}

  void run() {
    size_t line = 0, equals = std::string_view::npos;
    for (size_t at = 0; at < code_.size();) {
      const char c = code_[at];
      if (c == '"') {
        argument();
        at = skip_string(code_, at);
      } else if (is_word(c)) {
        at = read_word(at, line, equals);
      } else {
        if (c == '\n') {
          line = at + 1;
          equals = std::string_view::npos;
        } else if (c == '=' && equals == code_.npos &&
                   code_.substr(line, at + 2 - line).ends_with(" = ")) {
          equals = at;
        }
        read_sign(c);
        ++at;
      }
    }
    for (Brackets& open : open_) open.close();
  }

 private:
  void argument() {
    if (!open_.empty()) open_.back().any = true;
  }

  void read_sign(char c) {
    if (c == '(' || c == '[' || c == '{') {
      argument();
      open_.emplace_back();
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_.empty()) return;
      open_.back().close();
      open_.pop_back();
    } else if (c == ',') {
      if (!open_.empty()) open_.back().finish_argument();
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      argument();
    }
  }

  // Returns the position after the word at `at`; after the parenthesis if the words `ops.acme.wave`
  // are called.
  size_t read_word(size_t at, size_t line, size_t equals) {
    const std::string_view word = word_at(code_, at);
    const size_t after = at + word.size();
    if (word == "ops" && code_.substr(after, 1) == "." && (at == 0 || code_[at - 1] != '.')) {
      const std::string_view space = word_at(code_, after + 1);
      const size_t dot = after + 1 + space.size();
      const std::string_view op =
          code_.substr(dot, 1) == "." ? word_at(code_, dot + 1) : std::string_view();
      const size_t open = dot + 1 + op.size();
      if (!space.empty() && !op.empty() && code_.substr(open, 1) == "(") {
        OpUse& use = uses_[std::string(space) + "::" + std::string(op)];
        // Only a call that is the whole right side is unpacked into variables.
        if (equals + 2 == at)
          use.results = std::max(use.results, count_targets(code_.substr(line, equals - line)));
        argument();
        open_.push_back({.use = &use});
        return open + 1;
      }
    }
    if (!open_.empty() && !open_.back().any && code_.substr(after, 1) == "=" &&
        code_.substr(after, 2) != "==") {
      open_.back().keyword = true;
      if (open_.back().use) open_.back().use->keywords.emplace(word);
    }
    argument();
    return after;
  }

  std::string_view code_;
  std::map<std::string, OpUse>& uses_;
  std::vector<Brackets> open_;
};

}  // namespace

void find_op_uses(std::string_view code, std::map<std::string, OpUse>& uses) {
  Finder(code, uses).run();
}

}  // namespace hg::convert
