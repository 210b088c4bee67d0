// SPDX-License-Identifier: Apache-2.0
// Text kernels, element by element and in doubles: sums, products, sin, id(d), numbers, names and
// let, which samples use. tests/eager/expressions compares the whole language with PyTorch.
#include <cctype>
#include <cstdlib>
#include <string>
#include <utility>

#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

// Parses and computes at once, for one element.
class Reader {
 public:
  Reader(const Call& c, const Sizes& shape, int64_t element)
      : call_(c), shape_(shape), element_(element), next_(c.attrs.string("text").c_str()) {}

  // The outputs in order.
  std::vector<double> run() {
    std::vector<double> outputs;
    while (!at_end()) {
      const bool is_local = take("let ");
      const char* start = next_;
      const std::string target = name();
      if (target.empty() || !take("=")) next_ = start;
      const bool has_name = next_ != start;
      const double value = sum();
      if (has_name) names_.emplace_back(target, value);
      if (!is_local) outputs.push_back(value);
      take(";");
    }
    return outputs;
  }

 private:
  bool at_end() {
    while (*next_ == ' ') ++next_;
    return *next_ == '\0';
  }
  bool take(std::string_view sign) {
    if (at_end() || !std::string_view(next_).starts_with(sign)) return false;
    next_ += sign.size();
    return true;
  }
  std::string name() {
    std::string text;
    for (at_end(); std::isalpha(static_cast<unsigned char>(*next_)); ++next_) text += *next_;
    return text;
  }

  double sum() {
    double total = product();
    for (;;)
      if (take("+"))
        total += product();
      else if (take("-"))
        total -= product();
      else
        return total;
  }
  double product() {
    double total = factor();
    while (take("*")) total *= factor();
    return total;
  }
  double factor() {
    if (take("(")) {
      const double inner = sum();
      take(")");
      return inner;
    }
    const std::string text = name();
    if (text.empty()) {
      char* end = nullptr;
      const double number = std::strtod(next_, &end);
      next_ = end;
      return number;
    }
    if (take("(")) {
      const double inner = sum();
      take(")");
      if (text == "sin") return std::sin(inner);
      return static_cast<double>(position(shape_, element_)[static_cast<int>(inner)]);  // id
    }
    for (const auto& [known, value] : names_)
      if (known == text) return value;
    const Array& argument = call_.in[arguments_++];
    names_.emplace_back(text, Broadcast(argument, shape_).at(element_));
    return names_.back().second;
  }

  const Call& call_;
  const Sizes& shape_;
  int64_t element_;
  const char* next_;
  size_t arguments_ = 0;  // in order of first use
  std::vector<std::pair<std::string, double>> names_;
};

void expression(const Call& c) {
  const Sizes& shape = c.out[0].shape;
  for (int64_t i = 0; i < shape.count(); ++i) {
    const std::vector<double> outputs = Reader(c, shape, i).run();
    for (size_t k = 0; k < c.out.size(); ++k) c.out[k].at(i) = outputs[k];
  }
}

constexpr Row kRows[] = {{"expression", expression}};

}  // namespace

std::span<const Row> expression() { return kRows; }

}  // namespace hg::reference::rows
