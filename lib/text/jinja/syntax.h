// SPDX-License-Identifier: Apache-2.0
// The syntax tree of a template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/status.h"
#include "lib/text/jinja/value.h"

namespace hg::jinja {

struct Filter;  // filters.h
struct Test;    // tests.h
struct Expression;
using Expr = std::unique_ptr<Expression>;

struct Arguments {
  std::vector<Expr> in_order;
  std::vector<std::pair<std::string, Expr>> named;
};

struct Expression {
  enum class Kind : uint8_t {
    constant,     // value
    name,         // name
    list,         // parts
    tuple,        // parts
    dict,         // parts: key, value, ...
    attribute,    // parts[0] . name
    subscript,    // parts[0] [ parts[1] ]
    slice,        // parts[0] [ parts[1] : parts[2] : parts[3] ], of which 1 to 3 may be null
    call,         // parts[0] ( arguments )
    filter,       // parts[0] | filter ( arguments ); parts[0] is null in a block
    test,         // parts[0] is test ( arguments )
    conditional,  // parts[0] if parts[1] else parts[2], which may be null
    logic_and,
    logic_or,
    logic_not,
    compare,  // parts[0] operators[0] parts[1] operators[1] ...
    join,     // ~ of all parts
    binary,   // parts[0] name parts[1]
    unary,    // name parts[0]
  };
  Kind kind;
  int line;
  Value value;
  std::string name;
  std::vector<Expr> parts;
  std::vector<std::string> operators;
  Arguments arguments;
  const Filter* filter = nullptr;
  const Test* test = nullptr;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Parameter {
  std::string name;
  Expr otherwise;  // may be null
};

// Names that an assignment sets: one name, or several for the items of a value.
struct Target {
  struct Place {
    std::string name, attribute;  // attribute: of a namespace; empty: a variable
  };
  std::vector<Place> places;
  bool is_tuple = false;
};

struct Statement {
  enum class Kind : uint8_t {
    data,          // name: the text
    print,         // values
    branch,        // bodies[i] of the first true values[i], else `otherwise`
    loop,          // target, values[0], filter, body, otherwise
    assign,        // target, values[0]
    assign_block,  // target, filter, body
    macro,         // name, parameters, body
    call_block,    // values[0], a call; parameters, body
    filter_block,  // filter, body
    with,          // targets, values, body
    scope,         // body: a block of the tag `generation`
    loop_break,
    loop_continue,
  };
  Kind kind;
  int line;
  std::string name;
  std::vector<Expr> values;
  Expr filter;  // of a loop: its condition
  Target target;
  std::vector<Target> targets;
  std::vector<Parameter> parameters;
  Body body, otherwise;
  std::vector<Body> bodies;
  bool takes_more = false, takes_named = false, takes_caller = false;  // of a macro
};

// `source` must be valid UTF-8. Fails with name and line for unsupported parts.
Result<Body> parse(std::string_view source, std::string_view name);

// Counts a level of recursion while it lives.
class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(++depth) {}
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

}  // namespace hg::jinja
