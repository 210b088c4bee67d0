// SPDX-License-Identifier: Apache-2.0
// The result of parsing a kernel: a list of expressions, each after its operands. Names are
// resolved and operators are calls.
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
    std::string name = {};  // of the function; of a word: the text between the quotes
    int64_t integer = 0;    // also a boolean, or the index of a parameter
    double real = 0;
    std::vector<int> arguments = {};                      // earlier expressions
    std::vector<std::pair<std::string, int>> named = {};  // named arguments
  };
  struct Parameter {
    std::string name = {};
    std::optional<DType> dtype = {};  // required dtype of its argument
    int components = 0;               // of a vector, along the argument's last dim; 0: none
    int fallback = -1;  // index of the expression, a number, that replaces a missing argument
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

  // Returns "kernel 'wave', line 1, column 5: " followed by the problem.
  std::string place(size_t at) const;
};

// If `parameters` is given, the text may use only these and its own names.
Result<Syntax> parse_kernel(std::string_view name, std::string_view text,
                            const std::vector<Syntax::Parameter>* parameters = nullptr);

// The names that a gradient text may use: the parameters, the outputs, and the gradient of each
// output, named "d" followed by the output's name.
std::vector<Syntax::Parameter> backward_parameters(const Syntax& syntax);

}  // namespace hg
