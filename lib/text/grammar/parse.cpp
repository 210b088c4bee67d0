// SPDX-License-Identifier: Apache-2.0
// Reads the rules of a grammar. Characters become sequences of bytes, repetitions become rules.
#include <algorithm>
#include <map>
#include <string>

#include "lib/graph/border.h"
#include "lib/graph/utf8.h"
#include "lib/text/grammar/rules.h"
#include "lib/text/text_file.h"
#include "lib/text/unicode.h"

namespace hg {
namespace {

using Element = Grammar::Rules::Element;
using Sequence = std::vector<Element>;
using Range = std::pair<uint32_t, uint32_t>;  // of characters, both included

constexpr uint32_t kLastChar = 0x10ffff;
constexpr size_t kMostElements = 1 << 20;
constexpr int kMostGroups = 200;  // of groups

Element element_of(uint32_t low, uint32_t high) {
  Element made;
  for (uint32_t byte = low; byte <= high; ++byte) made.bytes.set(byte);
  return made;
}

// The UTF-8 of the characters from `low` to `high`, which have `length` bytes each: sequences of
// ranges of bytes, without the marks in their upper bits.
void add_bytes(uint32_t low, uint32_t high, int length, Sequence before,
               std::vector<Sequence>& out) {
  if (length == 1) {
    before.push_back(element_of(low, high));
    out.push_back(std::move(before));
    return;
  }
  const int shift = 6 * (length - 1);
  const uint32_t rest = (uint32_t{1} << shift) - 1;
  const auto lead = [&](uint32_t value) { return value >> shift; };
  if (lead(low) == lead(high)) {
    before.push_back(element_of(lead(low), lead(low)));
    return add_bytes(low & rest, high & rest, length - 1, std::move(before), out);
  }
  // Parts whose following bytes have all values, between those at both ends.
  if ((low & rest) != 0) {
    add_bytes(low, low | rest, length, before, out);
    return add_bytes((low | rest) + 1, high, length, std::move(before), out);
  }
  if ((high & rest) != rest) {
    add_bytes(low, (high & ~rest) - 1, length, before, out);
    return add_bytes(high & ~rest, high, length, std::move(before), out);
  }
  before.push_back(element_of(lead(low), lead(high)));
  for (int i = 1; i < length; ++i) before.push_back(element_of(0, 0x3f));
  out.push_back(std::move(before));
}

// Sequences of bytes for characters.
std::vector<Sequence> bytes_of(const std::vector<Range>& ranges) {
  struct Length {
    uint32_t low, high, mark;  // of the first byte
    int bytes;
  };
  constexpr Length kLengths[] = {{0, 0x7f, 0, 1},
                                 {0x80, 0x7ff, 0xc0, 2},
                                 {0x800, 0xd7ff, 0xe0, 3},
                                 {0xe000, 0xffff, 0xe0, 3},
                                 {0x10000, kLastChar, 0xf0, 4}};
  std::vector<Sequence> out;
  for (const auto& [low, high] : ranges)
    for (const Length& length : kLengths) {
      const uint32_t from = std::max(low, length.low), to = std::min(high, length.high);
      const size_t begin = out.size();
      if (from <= to) add_bytes(from, to, length.bytes, {}, out);
      for (size_t k = begin; k < out.size(); ++k)
        for (size_t i = 0; i < out[k].size(); ++i) {
          const ByteSet values = out[k][i].bytes;
          out[k][i].bytes.reset();
          for (uint32_t value = 0; value < 256; ++value)
            if (values[value]) out[k][i].bytes.set(value | (i > 0 ? 0x80 : length.mark));
        }
    }
  return out;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<std::shared_ptr<const Grammar::Rules>> read() {
    HG_TRY(skip_space());
    while (at_ < text_.size()) HG_TRY(read_rule());
    for (const auto& [name, rule] : names_)
      if (bodies_[static_cast<size_t>(rule)].empty())
        return wrong(lines_[static_cast<size_t>(rule)], "there is no rule '", name, "'");
    const auto root = names_.find("root");
    if (root == names_.end()) return invalid_argument("grammar: there is no rule 'root'");
    return finish(root->second);
  }

 private:
  template <class... Words>
  static Status wrong(int64_t line, const Words&... words) {
    return invalid_argument("grammar, line ", line, ": ", words...);
  }
  template <class... Words>
  Status wrong_here(const Words&... words) const {
    return wrong(
        1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'),
        words...);
  }

  bool sees(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool take(std::string_view word) {
    if (!sees(word)) return false;
    at_ += word.size();
    return true;
  }
  Status skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else if (std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
        ++at_;
      else
        break;
    }
    return {};
  }
  std::string_view name_here() const {
    size_t end = at_;
    const auto is_part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_';
    };
    while (end < text_.size() && is_part(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  // Whether a name and ::= follow.
  bool begins_rule() const {
    size_t at = at_ + name_here().size();
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    return at > at_ && text_.substr(at).starts_with("::=");
  }

  int32_t new_rule() {
    bodies_.emplace_back();
    lines_.push_back(
        1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
    return static_cast<int32_t>(bodies_.size()) - 1;
  }
  int32_t rule_named(std::string_view name) {
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    return names_.emplace(std::string(name), new_rule()).first->second;
  }
  static Element call(int32_t rule) {
    Element made;
    made.rule = rule;
    return made;
  }
  Status add(Sequence& to, const Element& element) {
    if (++count_ > kMostElements) return wrong_here("the grammar is too large");
    to.push_back(element);
    return {};
  }

  Status read_rule() {
    if (!begins_rule()) return wrong_here("expected a rule, name ::= text");
    const std::string_view name = name_here();
    const int32_t rule = rule_named(name);
    if (!bodies_[static_cast<size_t>(rule)].empty())
      return wrong_here("there are two rules '", name, "'");
    at_ = text_.find("::=", at_) + 3;
    HG_TRY(skip_space());
    HG_TRY_ASSIGN(auto body, read_alternatives(0));
    bodies_[static_cast<size_t>(rule)] = std::move(body);
    return {};
  }

  Result<std::vector<Sequence>> read_alternatives(int depth) {
    if (depth > kMostGroups) return wrong_here("groups are nested too deeply");
    std::vector<Sequence> all;
    do {
      HG_TRY(skip_space());
      HG_TRY_ASSIGN(auto one, read_sequence(depth));
      all.push_back(std::move(one));
    } while (take("|"));
    return all;
  }

  Result<Sequence> read_sequence(int depth) {
    Sequence all;
    while (at_ < text_.size() && !sees("|") && !sees(")") && !begins_rule()) {
      HG_TRY_ASSIGN(Sequence item, read_item(depth));
      HG_TRY(repeat(item));
      for (const Element& element : item) HG_TRY(add(all, element));
      HG_TRY(skip_space());
    }
    return all;
  }

  Result<Sequence> read_item(int depth) {
    if (take("(")) {
      HG_TRY_ASSIGN(auto body, read_alternatives(depth + 1));
      if (!take(")")) return wrong_here("expected ')'");
      return Sequence{one_of(std::move(body))};
    }
    if (take("\"")) return read_text();
    if (take("[")) return read_set();
    if (take(".")) return chars({{0, kLastChar}});
    const std::string_view name = name_here();
    if (name.empty()) return wrong_here("unexpected '", text_.substr(at_, 1), "'");
    at_ += name.size();
    return Sequence{call(rule_named(name))};
  }

  Element one_of(std::vector<Sequence> body) {
    if (body.size() == 1 && body[0].size() == 1) return body[0][0];
    const int32_t rule = new_rule();
    bodies_[static_cast<size_t>(rule)] = std::move(body);
    return call(rule);
  }

  Result<Sequence> chars(const std::vector<Range>& ranges) {
    std::vector<Sequence> all = bytes_of(ranges);
    if (all.empty()) return wrong_here("the set has no character");
    Sequence bytes;  // those of one byte become one element
    std::vector<Sequence> body;
    for (Sequence& each : all) {
      if (each.size() == 1 && !bytes.empty()) {
        bytes[0].bytes |= each[0].bytes;
      } else {
        (each.size() == 1 ? bytes : body.emplace_back()) = std::move(each);
      }
    }
    if (!bytes.empty()) body.push_back(std::move(bytes));
    for (const Sequence& each : body) count_ += each.size();
    return Sequence{one_of(std::move(body))};
  }

  // A character of a text or set, or an escape.
  Result<uint32_t> read_char() {
    if (at_ >= text_.size()) return wrong_here("the text ends inside quotes or a set");
    if (text_[at_] != '\\') {
      const uint32_t c = next_char(text_, at_);
      return c;
    }
    if (++at_ >= text_.size()) return wrong_here("the text ends after a backslash");
    const char kind = text_[at_++];
    const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits == 0) {
      constexpr std::string_view kFrom = "nrt\\\"[]-^'", kTo = "\n\r\t\\\"[]-^'";
      const size_t found = kFrom.find(kind);
      if (found == std::string_view::npos)
        return wrong_here("unknown escape '\\", std::string_view(&kind, 1), "'");
      return static_cast<uint32_t>(kTo[found]);
    }
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return wrong_here("expected ", uint64_t{digits}, " hexadecimal digits");
      value = value << 4 | static_cast<uint32_t>(digit);
    }
    if (value > kLastChar || (value >= 0xd800 && value <= 0xdfff))
      return wrong_here("the escape is no character");
    return value;
  }

  Result<Sequence> read_text() {
    Sequence all;
    while (!take("\"")) {
      HG_TRY_ASSIGN(const uint32_t c, read_char());
      const std::vector<Sequence> bytes = bytes_of({Range{c, c}});
      for (const Element& each : bytes[0]) HG_TRY(add(all, each));
    }
    // One element, which a repetition repeats.
    if (all.size() == 1) return all;
    return Sequence{one_of({std::move(all)})};
  }

  Result<Sequence> read_set() {
    const bool is_negated = take("^");
    std::vector<Range> ranges;
    while (!take("]")) {
      HG_TRY_ASSIGN(const uint32_t low, read_char());
      uint32_t high = low;
      if (sees("-") && !text_.substr(at_).starts_with("-]")) {
        ++at_;
        HG_TRY_ASSIGN(high, read_char());
      }
      if (high < low) return wrong_here("a range of the set ends before it begins");
      ranges.emplace_back(low, high);
    }
    std::sort(ranges.begin(), ranges.end());
    std::vector<Range> merged;
    for (const Range& range : ranges) {
      if (!merged.empty() && range.first <= merged.back().second + 1)
        merged.back().second = std::max(merged.back().second, range.second);
      else
        merged.push_back(range);
    }
    if (!is_negated) return chars(merged);
    std::vector<Range> others;
    uint32_t next = 0;
    for (const auto& [low, high] : merged) {
      if (low > next) others.emplace_back(next, low - 1);
      next = high + 1;
    }
    if (next <= kLastChar) others.emplace_back(next, kLastChar);
    return chars(others);
  }

  Result<int64_t> read_number() {
    int64_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = 10 * value + (text_[at_] - '0');
      if (value > 100000) return wrong_here("more than 100000 repetitions");
    }
    if (at_ == begin) return wrong_here("expected a number of repetitions");
    return value;
  }

  // Applies the repetition that follows to the item.
  Status repeat(Sequence& item) {
    int64_t least = 0, most = -1;  // -1: any number
    while (take(" ") || take("\t")) continue;
    if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (take("{")) {
      HG_TRY_ASSIGN(least, read_number());
      most = least;
      if (take(",")) {
        most = -1;
        if (!sees("}")) {
          HG_TRY_ASSIGN(most, read_number());
        }
      }
      if (!take("}")) return wrong_here("expected '}'");
      if (most >= 0 && most < least) return wrong_here("{", least, ",", most, "} allows nothing");
    } else if (!take("*")) {
      return {};
    }
    const Element one = item[0];
    item.clear();
    for (int64_t i = 0; i < least; ++i) HG_TRY(add(item, one));
    if (most < 0) {
      const int32_t rule = new_rule();
      bodies_[static_cast<size_t>(rule)] = {{one, call(rule)}, {}};
      item.push_back(call(rule));
      return {};
    }
    // Each optional item contains the next one.
    int32_t inner = -1;
    for (int64_t i = least; i < most; ++i) {
      Sequence some;
      HG_TRY(add(some, one));
      if (inner >= 0) HG_TRY(add(some, call(inner)));
      inner = new_rule();
      bodies_[static_cast<size_t>(inner)] = {std::move(some), {}};
    }
    if (inner >= 0) item.push_back(call(inner));
    return {};
  }

  // Rules with an alternative whose elements all hold.
  std::vector<bool> rules_where(bool byte_holds) const {
    std::vector<bool> found(bodies_.size());
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t r = 0; r < bodies_.size(); ++r) {
        if (found[r]) continue;
        found[r] = std::any_of(bodies_[r].begin(), bodies_[r].end(), [&](const Sequence& body) {
          return all_hold(body, found, byte_holds);
        });
        changed |= found[r];
      }
    }
    return found;
  }
  static bool all_hold(const Sequence& body, const std::vector<bool>& found, bool byte_holds) {
    return std::all_of(body.begin(), body.end(), [&](const Element& each) {
      return each.rule >= 0 ? found[static_cast<size_t>(each.rule)] : byte_holds;
    });
  }

  // A rule that begins with itself, before a further element, would grow its stack for ever.
  Status refuse_left_recursion() const {
    const std::vector<bool> empty = rules_where(false);
    struct Edge {
      size_t to;
      bool is_last;
    };
    std::vector<std::vector<Edge>> edges(bodies_.size());
    for (size_t r = 0; r < bodies_.size(); ++r)
      for (const Sequence& body : bodies_[r])
        for (size_t i = 0; i < body.size() && body[i].rule >= 0; ++i) {
          edges[r].push_back({static_cast<size_t>(body[i].rule), i + 1 == body.size()});
          if (!empty[static_cast<size_t>(body[i].rule)]) break;
        }
    // Strongly connected components, by two searches (Kosaraju).
    std::vector<std::vector<size_t>> back(bodies_.size());
    for (size_t r = 0; r < edges.size(); ++r)
      for (const Edge& edge : edges[r]) back[edge.to].push_back(r);
    std::vector<size_t> order, part(bodies_.size(), SIZE_MAX);
    std::vector<bool> seen(bodies_.size());
    for (size_t first = 0; first < bodies_.size(); ++first) {
      if (seen[first]) continue;
      std::vector<std::pair<size_t, size_t>> path = {{first, 0}};
      seen[first] = true;
      while (!path.empty()) {
        auto& [r, i] = path.back();
        if (i == edges[r].size()) {
          order.push_back(r);
          path.pop_back();
          continue;
        }
        const size_t to = edges[r][i++].to;
        if (!seen[to]) {
          seen[to] = true;
          path.emplace_back(to, 0);
        }
      }
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (part[*it] != SIZE_MAX) continue;
      std::vector<size_t> waiting = {*it};
      part[*it] = *it;
      while (!waiting.empty()) {
        const size_t r = waiting.back();
        waiting.pop_back();
        for (const size_t from : back[r])
          if (part[from] == SIZE_MAX) {
            part[from] = *it;
            waiting.push_back(from);
          }
      }
    }
    for (size_t r = 0; r < edges.size(); ++r)
      for (const Edge& edge : edges[r])
        if (part[r] == part[edge.to] && !edge.is_last)
          return wrong(lines_[r], "a rule begins with itself, so its text never begins");
    return {};
  }

  Result<std::shared_ptr<const Grammar::Rules>> finish(int32_t root) const {
    HG_TRY(refuse_left_recursion());
    const std::vector<bool> ends = rules_where(true);
    if (!ends[static_cast<size_t>(root)])
      return wrong(lines_[static_cast<size_t>(root)], "no text of the rule 'root' ends");
    auto rules = std::make_shared<Grammar::Rules>();
    rules->root = root;
    for (const std::vector<Sequence>& body : bodies_) {
      std::vector<int32_t>& firsts = rules->alternatives.emplace_back();
      for (const Sequence& sequence : body) {
        if (!all_hold(sequence, ends, true)) continue;  // a text that begins so never ends
        firsts.push_back(static_cast<int32_t>(rules->elements.size()));
        rules->elements.insert(rules->elements.end(), sequence.begin(), sequence.end());
        rules->elements.emplace_back().is_end = true;
      }
    }
    return std::shared_ptr<const Grammar::Rules>(std::move(rules));
  }

  std::string_view text_;
  size_t at_ = 0, count_ = 0;
  std::map<std::string, int32_t, std::less<>> names_;
  std::vector<std::vector<Sequence>> bodies_;  // empty: not yet read
  std::vector<int64_t> lines_;
};

}  // namespace

Result<Grammar> Grammar::parse(std::string_view rules) {
  return or_no_memory([&]() -> Result<Grammar> {
    HG_CHECK(is_utf8(rules), "grammar: the text is not UTF-8");
    HG_TRY_ASSIGN(auto read, Reader(rules).read());
    return Grammar(std::move(read));
  });
}

Result<Grammar> Grammar::load(const std::string& path) {
  HG_TRY_ASSIGN(const std::string text, read_text_file(path));
  return parse(text);
}

}  // namespace hg
