// SPDX-License-Identifier: Apache-2.0
// Reads a Dim from text. Grammar:
//   sum := product (('+' | '-') product)*        product := factor ('*' factor)*
//   factor := number | symbol | name '(' sum ',' sum ')' | 'sum' '(' sum ')' | '(' sum ')'
//             | '-' factor | '@' number
//   size := sum [' where @0 = ' factor (', @1 = ' factor) ...]
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "lib/graph/atom.h"
#include "lib/graph/border.h"
#include "lib/graph/dim_text.h"

namespace hg {
namespace {

constexpr int kMaxDepth = 32;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Parser {
 public:
  Parser(std::string_view text, NamedSizes& named) : text_(text), named_(named) {}

  Result<Dim> all() {
    HG_TRY_ASSIGN(Dim dim, sum(0));
    skip();
    if (at_ != text_.size()) return error("has trailing characters");
    return dim;
  }

  Status definition() {
    HG_TRY_ASSIGN(Dim size, factor(0));
    skip();
    if (at_ != text_.size()) return error("has trailing characters");
    named_.sizes.push_back(std::move(size));
    return {};
  }

 private:
  Status error(std::string_view what) const {
    return invalid_argument("the size '", text_, "' ", what, " at character ", int64_t(at_ + 1));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Result<Dim> sum(int depth) {
    HG_TRY_ASSIGN(Dim first, product(depth));
    std::vector<Dim> parts = {std::move(first)};
    for (;;) {
      const bool plus = take('+');
      if (!plus && !take('-')) return total(parts);
      HG_TRY_ASSIGN(Dim next, product(depth));
      parts.push_back(plus ? std::move(next) : -next);
    }
  }
  // Adds in pairs, because adding to a long sum copies it.
  static Dim total(std::vector<Dim>& parts) {
    for (size_t step = 1; step < parts.size(); step *= 2)
      for (size_t i = 0; i + step < parts.size(); i += 2 * step)
        parts[i] = parts[i] + parts[i + step];
    return std::move(parts[0]);
  }
  Result<Dim> product(int depth) {
    HG_TRY_ASSIGN(Dim total, factor(depth));
    while (take('*')) {
      HG_TRY_ASSIGN(const Dim next, factor(depth));
      total = total * next;
    }
    const auto sum = DimAlgebra::sum(total);  // sum(...) is one of several factors, or the sum
    return sum.size() == 1 && DimAlgebra::constant(total) == 0
               ? of_product(sum[0].product, sum[0].coefficient)
               : total;
  }
  Result<Dim> factor(int depth) {
    if (depth > kMaxDepth) return error("is nested too deeply");
    if (take('-')) {
      HG_TRY_ASSIGN(const Dim value, factor(depth + 1));
      return -value;
    }
    if (take('(')) {
      HG_TRY_ASSIGN(Dim value, sum(depth + 1));
      if (!take(')')) return error("misses ')'");
      return value;
    }
    if (take('@')) return named();
    if (at_ >= text_.size()) return error("ends too early");
    return is_digit(text_[at_]) ? number() : word(depth);
  }
  Result<Dim> named() {
    HG_TRY_ASSIGN(const Dim index, number());
    const auto k = static_cast<uint64_t>(index.constant());
    if (k >= named_.sizes.size()) return error("has a name that is not defined");
    const Dim& size = named_.sizes[k];
    const uint64_t summands = DimAlgebra::sum(size).size() + 1;
    if (summands > named_.summands_left) return error("is too long");
    named_.summands_left -= summands;
    return size;
  }
  Result<Dim> number() {
    int64_t value = 0;
    const auto [end, problem] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem != std::errc()) return error("has a number that is too large");
    at_ = static_cast<size_t>(end - text_.data());
    return Dim(value);
  }
  Result<Dim> word(int depth) {
    const size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == start) return error("has an unexpected character");
    const std::string_view name = text_.substr(start, at_ - start);
    if (!take('(')) return Dim(name);
    HG_TRY_ASSIGN(const Dim a, sum(depth + 1));
    if (name == "sum") return take(')') ? Result<Dim>(sum_atom(a)) : error("misses ')'");
    if (!take(',')) return error("misses ','");
    HG_TRY_ASSIGN(const Dim b, sum(depth + 1));
    if (!take(')')) return error("misses ')'");
    if (name == "floordiv") return floordiv(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "min") return min(a, b);
    if (name == "max") return max(a, b);
    if (name == "mul") return a * b;
    return error("calls a function other than floordiv, mod, min, max, mul and sum");
  }

  std::string_view text_;
  NamedSizes& named_;
  size_t at_ = 0;
};

}  // namespace

bool is_size(const Dim& dim) {
  if (dim.is_constant()) return dim.constant() >= 0;
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  return std::all_of(symbols.begin(), symbols.end(), [](const std::string& name) {
    return !name.empty() && !is_digit(name[0]) && std::all_of(name.begin(), name.end(), is_word);
  });
}

Status define_size(std::string_view text, NamedSizes& named) {
  return Parser(text, named).definition();
}

Result<Dim> parse_size(std::string_view text, NamedSizes& named) {
  return Parser(text, named).all();
}

Result<Dim> Dim::parse(std::string_view text) {
  return or_no_memory([&]() -> Result<Dim> {
    constexpr std::string_view kWhere = " where @0 = ";
    NamedSizes named;
    const size_t end = text.find(kWhere);
    for (size_t at = end; at < text.size();) {
      at = text.find('=', at) + 2;
      const size_t next = text.find(str_cat(", @", uint64_t{named.sizes.size() + 1}, " = "), at);
      HG_TRY(define_size(text.substr(at, next - at), named));
      at = next;
    }
    return parse_size(text.substr(0, end), named);
  });
}

}  // namespace hg
