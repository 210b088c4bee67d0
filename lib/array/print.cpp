// SPDX-License-Identifier: Apache-2.0
// Prints arrays by PyTorch's rules (torch/_tensor_str.py): all numbers in one format and width,
// lines of 80 characters. Of more than 1000 elements it prints only the first and last three of
// each dim.
#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/array/access.h"
#include "lib/graph/element.h"
#include "lib/platform/chars.h"

namespace hg {
namespace {

constexpr int64_t kMostElements = 1000, kEdge = 3;
constexpr int kLine = 80, kPrecision = 4;

std::string number(double value, std::chars_format format, int precision) {
  char text[400];
  const auto [end, problem] = to_chars(text, text + sizeof text, value, format, precision);
  return std::string(text, problem == std::errc() ? end : text);
}

// The indices to print along a dim: all, or those at both ends.
bool leaves_out(int64_t size, bool summarize) { return summarize && size > 2 * kEdge; }

// The number format, chosen from all numbers that will be printed.
class Format {
 public:
  void add(double value) {
    if (!std::isfinite(value) || value == 0) return;
    const double size = std::abs(value);
    least_ = has_any_ ? std::min(least_, size) : size;
    most_ = has_any_ ? std::max(most_, size) : size;
    has_any_ = true;
    whole_ = whole_ && value == std::ceil(value);
    values_.push_back(value);
  }
  void finish() {
    if (!has_any_) return;
    scientific_ = most_ / least_ > 1000 || most_ > 1e8 || (!whole_ && least_ < 1e-4);
    for (const double value : values_) width_ = std::max(width_, plain(value).size());
    values_.clear();
  }
  size_t width() const { return width_; }
  std::string text(double value) const {
    const std::string shown = plain(value);
    return std::string(width_ > shown.size() ? width_ - shown.size() : 0, ' ') + shown;
  }

 private:
  std::string plain(double value) const {
    if (scientific_) return number(value, std::chars_format::scientific, kPrecision);
    if (!whole_) return number(value, std::chars_format::fixed, kPrecision);
    return number(value, std::chars_format::fixed, 0) + (std::isfinite(value) ? "." : "");
  }
  bool has_any_ = false, whole_ = true, scientific_ = false;
  double least_ = 0, most_ = 0;
  size_t width_ = 1;
  std::vector<double> values_;
};

class Printer {
 public:
  explicit Printer(const Tensor& tensor)
      : tensor_(tensor), summarize_(tensor.count() > kMostElements) {
    measure(tensor_);
    real_.finish();
    imaginary_.finish();
  }
  std::string text() const { return block(tensor_, 7); }

 private:
  static Tensor at(const Tensor& tensor, int64_t index) {
    Tensor part = tensor;
    part.data = part.as<std::byte>() + index * part.strides[0] * size_of(part.dtype);
    part.shape.erase(0);
    part.strides.erase(0);
    return part;
  }
  template <class Visit>
  void each_shown(const Tensor& tensor, const Visit& visit) const {
    const int64_t size = tensor.shape[0];
    const bool gap = leaves_out(size, summarize_);
    for (int64_t i = 0; i < size; ++i)
      if (!gap || i < kEdge || i >= size - kEdge) visit(i);
  }

  void measure(const Tensor& tensor) {
    if (tensor.rank() > 0) {
      each_shown(tensor, [&](int64_t i) { measure(at(tensor, i)); });
      return;
    }
    if (is_float(tensor.dtype)) real_.add(element(tensor, 0));
    if (is_complex(tensor.dtype)) {
      real_.add(element(view_as_real(tensor), 0));
      imaginary_.add(element(view_as_real(tensor), 1));
    }
    if (!is_float(tensor.dtype) && !is_complex(tensor.dtype))
      width_ = std::max(width_, exact(tensor).size());
  }
  // For integers and bool.
  static std::string exact(const Tensor& tensor) {
    if (tensor.dtype == boolean) return element(tensor, 0) != 0 ? "True" : "False";
    if (tensor.dtype == i64) return str_cat(*tensor.as<int64_t>());
    return str_cat(static_cast<int64_t>(element(tensor, 0)));
  }
  std::string one(const Tensor& tensor) const {
    if (is_float(tensor.dtype)) return real_.text(element(tensor, 0));
    if (is_complex(tensor.dtype)) {
      std::string imaginary = imaginary_.text(element(view_as_real(tensor), 1)) + "j";
      imaginary.erase(0, imaginary.find_first_not_of(' '));
      return real_.text(element(view_as_real(tensor), 0)) + (imaginary[0] == '-' ? "" : "+") +
             imaginary;
    }
    const std::string shown = exact(tensor);
    return std::string(width_ - shown.size(), ' ') + shown;
  }
  size_t element_width() const {
    if (is_complex(tensor_.dtype)) return real_.width() + imaginary_.width() + 1;
    return is_float(tensor_.dtype) ? real_.width() : width_;
  }

  std::string block(const Tensor& tensor, size_t indent) const {
    if (tensor.rank() == 0) return one(tensor);
    const bool is_line = tensor.rank() == 1, gap = leaves_out(tensor.shape[0], summarize_);
    std::vector<std::string> parts;
    each_shown(tensor, [&](int64_t i) {
      if (gap && i == tensor.shape[0] - kEdge) parts.push_back(is_line ? " ..." : "...");
      parts.push_back(block(at(tensor, i), indent + 1));
    });
    const size_t per_line =
        is_line
            ? std::max<size_t>(1, (kLine - std::min<size_t>(indent, kLine)) / (element_width() + 2))
            : 1;
    std::string next_line = ",";
    next_line.append(is_line ? 1 : static_cast<size_t>(tensor.rank() - 1), '\n');
    next_line.append(indent + 1, ' ');
    std::string out = "[";
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) out += i % per_line == 0 ? next_line : ", ";
      out += parts[i];
    }
    return out + "]";
  }

  Tensor tensor_;
  bool summarize_;
  Format real_, imaginary_;
  size_t width_ = 1;
};

}  // namespace

void append_text(std::string& out, const Array& array) {
  if (array.is_empty() || array.is_freed()) {
    out += array.is_empty() ? "tensor(empty)" : "tensor(freed)";
    return;
  }
  if (!array.to_host().ok()) {
    out += "tensor(lost)";
    return;
  }
  const DType dtype = array.dtype();
  std::string text = "tensor(";
  std::vector<std::string> suffixes;
  bool is_usual = dtype == f32;
  if (array.count() == 0) {
    text += "[]";
    if (array.rank() != 1) {
      suffixes.push_back("size=(");
      for (int d = 0; d < array.rank(); ++d)
        suffixes.back() += str_cat(d > 0 ? ", " : "", array.shape()[d]);
      suffixes.back() += ")";
    }
  } else {
    text += Printer(array.tensor()).text();
    is_usual = is_usual || dtype == i64 || dtype == boolean || dtype == c64;
  }
  if (!is_usual) suffixes.push_back(str_cat("dtype=", dtype));
  const size_t line = text.rfind('\n');
  // PyTorch counts one character more than there are.
  size_t length = line == std::string::npos ? text.size() + 2 : text.size() - line + 1;
  for (const std::string& suffix : suffixes) {
    const bool fits = length + suffix.size() + 2 <= kLine;
    text += (fits ? ", " : ",\n       ") + suffix;
    length = fits ? length + suffix.size() + 2 : 7 + suffix.size();
  }
  out += text + ")";
}

std::string to_text(const Array& array) {
  std::string out;
  append_text(out, array);
  return out;
}

}  // namespace hg
