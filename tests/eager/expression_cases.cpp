// SPDX-License-Identifier: Apache-2.0
// Calls the kernels described on standard input and prints their results, for
// expressions/compare.py. A case:
//   text a*x + 1
//   number a real 2.5                      (or: int 3, bool 1)
//   tensor x f32 2,3 3,1 0000803f...       (shape, strides, bytes; "-" for none)
//   grad x
//   run
// prints one line "out DTYPE SHAPE BYTES" per output, "grad ..." per gradient, or "error MESSAGE",
// and then "done".
#include <cstdio>
#include <deque>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "hg/expression.h"

namespace {

struct Case {
  std::string text;
  std::deque<std::string> names;
  std::deque<std::vector<uint8_t>> bytes;
  std::vector<hg::KernelArgument> arguments;
  std::vector<std::string> gradients;
};

hg::Sizes sizes_of(const std::string& list) {
  hg::Sizes sizes;
  std::istringstream in(list == "-" ? "" : list);
  for (std::string one; std::getline(in, one, ',');) sizes.push_back(std::stoll(one));
  return sizes;
}

std::string text_of(const hg::TensorData& data) {
  std::string shape, hex;
  for (const int64_t size : data.tensor.shape)
    shape += (shape.empty() ? "" : ",") + std::to_string(size);
  const auto* bytes = data.tensor.as<uint8_t>();
  for (int64_t i = 0; i < data.tensor.bytes(); ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", bytes[i]);
    hex += two;
  }
  return std::string(to_string(data.tensor.dtype)) + " " + (shape.empty() ? "-" : shape) + " " +
         (hex.empty() ? "-" : hex);
}

void read_argument(Case& one, const std::string& kind, std::istringstream& line) {
  std::string name, type;
  line >> name >> type;
  const std::string& kept = one.names.emplace_back(name);
  if (kind == "number") {
    double real = 0;
    int64_t whole = 0;
    if (type == "real")
      line >> real;
    else
      line >> whole;
    if (type == "real")
      one.arguments.emplace_back(kept, real);
    else if (type == "int")
      one.arguments.emplace_back(kept, whole);
    else
      one.arguments.emplace_back(kept, whole != 0);
    return;
  }
  std::string shape, strides, hex;
  line >> shape >> strides >> hex;
  std::vector<uint8_t>& bytes = one.bytes.emplace_back();
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  one.arguments.emplace_back(kept, hg::ConstTensor(bytes.data(), *hg::parse_dtype(type),
                                                   sizes_of(shape), sizes_of(strides)));
}

hg::Status run(const Case& one) {
  HG_TRY_ASSIGN(const hg::TextKernel kernel, hg::kernel("case", one.text));
  HG_TRY_ASSIGN(const std::vector<hg::TensorData> outputs, kernel.call(one.arguments));
  for (const hg::TensorData& y : outputs) std::cout << "out " << text_of(y) << "\n";
  if (one.gradients.empty()) return {};
  HG_TRY_ASSIGN(const std::vector<hg::TensorData> gradients,
                kernel.grad(one.arguments, one.gradients));
  for (const hg::TensorData& dx : gradients) std::cout << "grad " << text_of(dx) << "\n";
  return {};
}

}  // namespace

int main() {
  Case one;
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "text") {
      std::getline(line >> std::ws, one.text);
    } else if (word == "grad") {
      line >> one.gradients.emplace_back();
    } else if (word == "run") {
      const hg::Status status = run(one);
      if (!status.ok()) std::cout << "error " << status.message() << "\n";
      std::cout << "done" << std::endl;
      one = {};
    } else {
      read_argument(one, word, line);
    }
  }
  return 0;
}
