// SPDX-License-Identifier: Apache-2.0
// Calls the ops described on standard input by an Executor, as an expression and, with tensors
// alone, as a block of a named model, for promotion/compare.py. A case:
//   op add
//   tensor f32 2,3 0000803f...             (shape, bytes; "-" for none)
//   number real 2.5                        (or: int 3, bool 1)
//   run
// prints "eager DTYPE SHAPE BYTES", "lazy ..." and "named ...", or "eager error MESSAGE", and then
// "done".
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "hg/call.h"
#include "hg/eager.h"
#include "hg/named.h"
#include "hg/var.h"

namespace {

struct Case {
  std::string op;
  struct Operand {
    hg::Array array;  // empty: the number
    hg::Number number;
  };
  std::vector<Operand> operands;
};

std::string text_of(const hg::Array& array) {
  const hg::Result<hg::Array> dense = array.contiguous();
  if (!dense.ok()) return "error " + std::string(dense.status().message());
  std::string shape, hex;
  for (const int64_t size : dense->shape())
    shape += (shape.empty() ? "" : ",") + std::to_string(size);
  const auto* bytes = dense->tensor().as<uint8_t>();
  for (int64_t i = 0; i < dense->bytes(); ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", bytes[i]);
    hex += two;
  }
  return std::string(to_string(dense->dtype())) + " " + (shape.empty() ? "-" : shape) + " " +
         (hex.empty() ? "-" : hex);
}

void print(const char* how, const hg::Result<hg::Array>& made) {
  std::cout << how << " "
            << (made.ok() ? text_of(*made) : "error " + std::string(made.status().message()))
            << "\n";
}

hg::Result<hg::Array> eager(const Case& one, hg::ExecutorBase& ex) {
  std::vector<hg::Operand> operands;
  for (const Case::Operand& each : one.operands)
    operands.push_back(each.array ? hg::Operand(each.array) : hg::Operand(each.number));
  return ex.call(one.op, operands);
}

// The second evaluation uses a plan that reads numbers.
hg::Result<hg::Array> lazy(const Case& one, const hg::Lazy& plans) {
  const hg::Op& op = *hg::Registry::built_in().find(one.op);
  std::vector<hg::Argument> attrs;
  std::vector<std::vector<int64_t>> lists(op.signature.attributes.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    const hg::Signature::Attribute& attr = op.signature.attributes[i];
    HG_TRY_ASSIGN(hg::Argument argument, hg::Argument::of(attr.name, attr.fallback, lists[i]));
    attrs.push_back(argument);
  }
  for (const bool is_other : {true, false}) {
    std::vector<hg::Var> vars;
    for (const Case::Operand& each : one.operands) {
      if (each.array) {
        vars.emplace_back(each.array, plans);
        continue;
      }
      hg::Number number = each.number;
      if (is_other && number.kind == hg::f64) number.real += 1;
      if (is_other && number.kind == hg::i64) number.real = static_cast<double>(++number.whole);
      vars.emplace_back(number);
    }
    const hg::Result<hg::Array> made = hg::Var::one(one.op, vars, attrs).value();
    if (!is_other) return made;
  }
  return hg::internal_error("nothing ran");
}

hg::Result<hg::Array> named(const Case& one) {
  std::vector<hg::nn::Block> blocks;
  hg::NamedArrays data;
  hg::nn::Block call = hg::nn::Call(one.op);
  for (size_t i = 0; i < one.operands.size(); ++i) {
    const hg::Array& array = one.operands[i].array;
    const std::string name = "x" + std::to_string(i);
    // The dtype f32 of an input means the program's dtype, which is f32 too.
    blocks.push_back(hg::nn::Input(name, hg::to_shape(array.shape()), array.dtype()));
    data.emplace_back(name, array);
    call = call.input(name);
  }
  blocks.push_back(call.output("y"));
  HG_TRY_ASSIGN(hg::nn::Program program, hg::nn::compile(hg::nn::Group(blocks), {}));
  HG_TRY_ASSIGN(hg::NamedArrays outputs, program.evaluate({}, data));
  return outputs[std::string_view("y")];
}

hg::Sizes sizes_of(const std::string& list) {
  hg::Sizes sizes;
  std::istringstream in(list == "-" ? "" : list);
  for (std::string one; std::getline(in, one, ',');) sizes.push_back(std::stoll(one));
  return sizes;
}

Case::Operand operand_of(const std::string& kind, std::istringstream& line) {
  std::string type;
  line >> type;
  if (kind == "number") {
    double real = 0;
    int64_t whole = 0;
    if (type == "real") {
      line >> real;
      return {{}, real};
    }
    line >> whole;
    return {{}, type == "bool" ? hg::Number(whole != 0) : hg::Number(whole)};
  }
  std::string shape, hex;
  line >> shape >> hex;
  hg::Array array = *hg::Array::allocate(*hg::parse_dtype(type), sizes_of(shape));
  for (int64_t i = 0; i < array.bytes(); ++i)
    array.tensor().as<uint8_t>()[i] =
        static_cast<uint8_t>(std::stoi(hex.substr(static_cast<size_t>(2 * i), 2), nullptr, 16));
  return {array, {}};
}

}  // namespace

int main() {
  hg::ExecutorBase ex = *hg::ExecutorBase::create({.threads = 1});
  const hg::Lazy plans(hg::SessionOptions{.threads = 1});
  Case one;
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "op") {
      line >> one.op;
    } else if (word == "run") {
      print("eager", eager(one, ex));
      print("lazy", lazy(one, plans));
      bool has_number = false;
      for (const Case::Operand& each : one.operands) has_number |= !each.array;
      if (!has_number) print("named", named(one));
      std::cout << "done" << std::endl;
      one = {};
    } else {
      one.operands.push_back(operand_of(word, line));
    }
  }
  return 0;
}
