// SPDX-License-Identifier: Apache-2.0
// Conditions in text that a size is 0 or 1.
#include "lib/graph/condition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "hg/hg.h"
#include "lib/graph/split_mix.h"

namespace hg {
namespace {

Dim less(const Dim& a, const Dim& b) { return min(max(b - a, 0), 1); }
Dim differ(const Dim& a, const Dim& b) { return min(max(max(a - b, b - a), 0), 1); }
Dim equal(const Dim& a, const Dim& b) { return 1 - differ(a, b); }

TEST(Condition, ReadsAsWords) {
  const Dim n = "n", m = "m";
  const auto words = [](const Dim& term, bool holds = true) {
    return condition_text(term, holds).value_or("none");
  };
  EXPECT_EQ(words(less(n, 4)), "n < 4");
  EXPECT_EQ(words(less(n, 4), false), "4 <= n");
  EXPECT_EQ(words(less(3, 2 * n)), "3 < 2*n");
  EXPECT_EQ(words(equal(n, 1)), "n == 1");
  EXPECT_EQ(words(differ(n, 1)), "n != 1");
  EXPECT_EQ(words(equal(n, m), false), "n != m");
  EXPECT_EQ(words(min(1, n)), "n != 0");
  EXPECT_EQ(words(max(equal(n, 1), min(1, n))), "n == 1 or n != 0");
  EXPECT_EQ(words(min(max(equal(n, 1), less(m, 3)), less(n, m))), "(n == 1 or m < 3) and n < m");
  EXPECT_EQ(words(equal(max(n, m), n)), "m <= n");
  EXPECT_EQ(words(equal(max(n, m), n), false), "n < m");
  EXPECT_EQ(words(equal(min(n, m) + 1, n + 1)), "n <= m");
  EXPECT_EQ(words(less(max(n, m), 4)), "m < 4 and n < 4");
  EXPECT_EQ(words(less(min(n, m), 4)), "m < 4 or n < 4");
  EXPECT_EQ(words(equal(max(n, m), 4)), "none");
  EXPECT_EQ(words(n), "none");
  EXPECT_EQ(words(mod(n, 2)), "none");
}

// Evaluates the text: `or` of `and` of comparisons and parentheses.
class Reader {
 public:
  Reader(std::string_view text, const Bindings& sizes) : text_(text), sizes_(sizes) {}
  bool read_or() {
    bool value = read_and();
    while (take(" or ")) value = read_and() || value;
    return value;
  }

 private:
  bool take(std::string_view word) {
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool read_and() {
    bool value = read_one();
    while (take(" and ")) value = read_one() && value;
    return value;
  }
  bool read_one() {
    if (take("(")) {
      const bool value = read_or();
      EXPECT_TRUE(take(")"));
      return value;
    }
    for (const std::string_view op : {" == ", " != ", " <= ", " < "}) {
      const size_t end = std::min({text_.find(" and "), text_.find(" or "), text_.find(')')});
      const std::string_view words = text_.substr(0, end);
      const size_t at = words.find(op);
      if (at == std::string_view::npos) continue;
      text_.remove_prefix(words.size());
      const int64_t a = *Dim::parse(words.substr(0, at))->evaluate(sizes_);
      const int64_t b = *Dim::parse(words.substr(at + op.size()))->evaluate(sizes_);
      return op == " == " ? a == b : op == " != " ? a != b : op == " <= " ? a <= b : a < b;
    }
    ADD_FAILURE() << text_;
    return false;
  }

  std::string_view text_;
  const Bindings& sizes_;
};

TEST(Condition, SaysWhatTheTermIs) {
  uint64_t state = 7;
  const auto draw = [&](uint64_t count) { return static_cast<int64_t>(split_mix(state) % count); };
  const auto sum = [&] {
    return Dim("n") * (draw(5) - 2) + Dim("m") * (draw(3) - 1) + (draw(7) - 3);
  };
  Dim before = 0;
  const auto side = [&]() -> Dim {
    const Dim again = before;
    before = sum();
    switch (draw(6)) {
      case 0:
        return max(again, before);
      case 1:
        return min(again, before) + draw(2);
      default:
        return before;
    }
  };
  const std::function<Dim(int)> term = [&](int depth) -> Dim {
    switch (draw(depth > 0 ? 7 : 3)) {
      case 0:
        return less(side(), side());
      case 1:
        return equal(side(), side());
      case 2:
        return differ(side(), side());
      case 3:
        return 1 - term(depth - 1);
      case 4:
        return max(term(depth - 1), term(depth - 1));
      case 5:
        return term(depth - 1) * term(depth - 1);
      default:
        return min(term(depth - 1), term(depth - 1));
    }
  };
  int said = 0;
  for (int i = 0; i < 3000; ++i) {
    const Dim all = term(3);
    const bool holds = draw(2) == 1;
    const auto words = condition_text(all, holds);
    if (!words) continue;
    ++said;
    for (int64_t n = 0; n < 5; ++n)
      for (int64_t m = 0; m < 5; ++m) {
        Bindings sizes;
        ASSERT_TRUE(sizes.bind("n", n).ok() && sizes.bind("m", m).ok());
        ASSERT_EQ(Reader(*words, sizes).read_or(), (*all.evaluate(sizes) == 1) == holds)
            << str_cat(all) << "\n"
            << *words << " at n=" << n << ", m=" << m;
      }
  }
  EXPECT_GT(said, 1000);
}

}  // namespace
}  // namespace hg
