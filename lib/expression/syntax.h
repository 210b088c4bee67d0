// SPDX-License-Identifier: Apache-2.0
// What the parser makes of a kernel's text: a list in which every expression comes after those that
// it uses, with names resolved and operators turned into calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/tensor.h"

namespace hg {

struct Syntax {
  struct Expression {
    enum class Kind : uint8_t { integer, real, boolean, word, parameter, call };
    Kind kind = Kind::integer;
    size_t at = 0;          // offset in the text
    std::string name = {};  // of the function; of a word: what stands between the quotes
    int64_t integer = 0;    // also a boolean, and the index of a parameter
    double real = 0;
    std::vector<int> arguments = {};                      // earlier expressions
    std::vector<std::pair<std::string, int>> named = {};  // arguments with a name
  };
  struct Parameter {
    std::string name = {};
    std::optional<DType> dtype = {};  // what its argument must be
    int components = 0;               // of a small vector, along the argument's last dim; 0: none
    int fallback = -1;  // the expression, a number, that stands for a missing argument
  };
  struct Output {
    std::string name = {};
    int expression = 0;
  };

  std::string kernel;  // its name, for messages
  std::string text;
  std::vector<Expression> expressions;
  std::vector<Parameter> parameters;
  std::vector<Output> outputs;

  // "kernel 'wave', line 1, column 5: " and what is wrong there.
  std::string place(size_t at) const;
};

// `parameters`, when given, are all that the text may use beside its own names.
Result<Syntax> parse_kernel(std::string_view name, std::string_view text,
                            const std::vector<Syntax::Parameter>* parameters = nullptr);

// What the text of a gradient may use: the parameters, the outputs, and the gradient of each
// output, whose name is the output's after a "d".
std::vector<Syntax::Parameter> backward_parameters(const Syntax& syntax);

}  // namespace hg
