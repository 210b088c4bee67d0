// SPDX-License-Identifier: Apache-2.0
#include "converter/load/exported/guards.h"

#include <charconv>
#include <regex>
#include <string_view>
#include <vector>

#include "converter/core/failure.h"

namespace hg::convert {
namespace {

using Value = ExportedGraph::Value;
using Input = std::function<const Value*(const std::string&)>;

constexpr int kMostGuardNesting = 100;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Parses the subset of Python's number expressions that PyTorch uses when it prints guards.
class GuardReader {
 public:
  GuardReader(const std::string& line, const Input& input, ExportedGraph& graph, ScriptBlock& block)
      : line_(line), rest_(line), input_(input), graph_(graph), block_(block) {}

  Value whole() {
    const Value result = disjunction();
    space();
    if (!rest_.empty()) fail();
    return result;
  }

 private:
  [[noreturn]] void fail() const {
    throw Refusal{str_cat("the program's guard '", line_.substr(0, 300), "' cannot be kept"), ""};
  }

  void space() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }

  bool take(std::string_view token) {
    space();
    if (!rest_.starts_with(token)) return false;
    // A word ends before a character that is not a letter.
    if (is_letter(token.back()) && rest_.size() > token.size() && is_letter(rest_[token.size()]))
      return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void want(std::string_view token) {
    if (!take(token)) fail();
  }

  Value compute(std::string_view target, const std::vector<Value>& arguments,
                const std::string& type) {
    return graph_.compute(target, arguments, type, block_);
  }

  // A number computed from two numbers: real if one of them is.
  Value number(std::string_view target, const Value& a, const Value& b) {
    if (a.type == "bool" || b.type == "bool") fail();
    const bool real = a.type == "float" || b.type == "float" || target == "_operator.truediv";
    return compute(target, {a, b}, real ? "float" : "int");
  }

  Value disjunction() {
    Value result = conjunction();
    while (take("or")) result = both("_operator.or_", result, conjunction());
    return result;
  }

  Value conjunction() {
    Value result = inversion();
    while (take("and")) result = both("_operator.and_", result, inversion());
    return result;
  }

  Value both(std::string_view target, const Value& a, const Value& b) {
    if (a.type != "bool" || b.type != "bool") fail();
    return compute(target, {a, b}, "bool");
  }

  Value inversion() {
    if (++depth_ > kMostGuardNesting) fail();
    const Value result =
        take("not") ? compute("torch.sym_not", {inversion()}, "bool") : comparison();
    --depth_;
    return result;
  }

  // A chain such as 2 <= n <= 64 consists of two comparisons.
  Value comparison() {
    Value left = sum(), result;
    while (const char* target = relation()) {
      const Value right = sum();
      const Value holds = compute(target, {left, right}, "bool");
      result = result.id < 0 ? holds : both("_operator.and_", result, holds);
      left = right;
    }
    return result.id < 0 ? left : result;
  }

  const char* relation() {
    static constexpr std::pair<std::string_view, const char*> kRelations[] = {
        {"==", "_operator.eq"}, {"!=", "_operator.ne"}, {"<=", "_operator.le"},
        {">=", "_operator.ge"}, {"<", "_operator.lt"},  {">", "_operator.gt"}};
    for (const auto& [token, target] : kRelations)
      if (take(token)) return target;
    return nullptr;
  }

  Value sum() {
    Value result = product();
    for (;;) {
      if (take("+"))
        result = number("_operator.add", result, product());
      else if (take("-"))
        result = number("_operator.sub", result, product());
      else
        return result;
    }
  }

  Value product() {
    Value result = factor();
    for (;;) {
      if (take("//"))
        result = number("_operator.floordiv", result, factor());
      else if (take("/"))
        result = number("_operator.truediv", result, factor());
      else if (take("%"))
        result = number("_operator.mod", result, factor());
      else if (take("*"))
        result = number("_operator.mul", result, factor());
      else
        return result;
    }
  }

  Value factor() {
    if (++depth_ > kMostGuardNesting) fail();
    Value result;
    if (take("-")) {
      const Value of = factor();
      result = compute("_operator.neg", {of}, of.type);
    } else {
      result = atom();
      if (take("**")) result = number("_operator.pow", result, factor());
    }
    --depth_;
    return result;
  }

  Value atom() {
    space();
    if (rest_.empty()) fail();
    if (is_digit(rest_[0])) return literal();
    if (take("(")) {
      const Value result = disjunction();
      want(")");
      return result;
    }
    if (take("L[")) return of_input();
    if (take("True")) return graph_.constant(true, "bool", block_);
    if (take("False")) return graph_.constant(false, "bool", block_);
    for (const std::string_view name : {"max", "min"})  // with Python's name or torch's
      if (take(name) || take(str_cat("torch.sym_", name)))
        return extreme(str_cat("torch.sym_", name));
    for (const auto& [name, target] :
         {std::pair("math.floor", "math.floor"), std::pair("math.ceil", "math.ceil"),
          std::pair("math.trunc", "math.trunc"), std::pair("int", "torch.sym_int")})
      if (take(name)) return compute(target, {argument()}, "int");
    for (const auto& [name, target] :
         {std::pair("torch.sym_float", "torch.sym_float"), std::pair("float", "torch.sym_float"),
          std::pair("torch._sym_sqrt", "torch._sym_sqrt"),
          std::pair("math.log2", "torch._sym_log2")})
      if (take(name)) return compute(target, {argument()}, "float");
    if (take("abs")) {
      const Value of = argument();
      return compute("_operator.abs", {of}, of.type);
    }
    fail();
  }

  Value literal() {
    size_t length = 0;
    while (length < rest_.size() && (is_digit(rest_[length]) || rest_[length] == '.')) ++length;
    const std::string_view digits = rest_.substr(0, length);
    rest_.remove_prefix(length);
    if (!rest_.empty() && is_letter(rest_[0])) fail();
    const auto read = [&](auto number, const char* type) {
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (error != std::errc() || end != digits.data() + digits.size()) fail();
      return graph_.constant(number, type, block_);
    };
    return digits.find('.') == digits.npos ? read(int64_t{}, "int") : read(double{}, "float");
  }

  Value argument() {
    want("(");
    const Value result = disjunction();
    want(")");
    return result;
  }

  Value extreme(const std::string& target) {
    want("(");
    Value result = sum();
    while (take(",")) result = number(target, result, sum());
    want(")");
    return result;
  }

  // Reads ['tree']['a'][0].field.size()[1]; the first bracket has been read.
  Value of_input() {
    std::string name;
    do {
      const std::string_view key = rest_.substr(0, rest_.find(']'));
      rest_.remove_prefix(key.size());
      want("]");
      const bool quoted = key.size() > 1 && (key[0] == '\'' || key[0] == '"');
      if (!name.empty()) name += '_';
      for (const char c : quoted ? key.substr(1, key.size() - 2) : key)
        name += is_letter(c) || is_digit(c) ? c : '_';
      for (; rest_.starts_with('.') && !is_property(); rest_.remove_prefix(name_length()))
        name += str_cat("_", rest_.substr(1, name_length() - 1));
    } while (take("["));
    const Value* value = input_(name);
    if (value == nullptr) fail();
    if (value->type != "Tensor") return *value;
    if (take(".size()[")) return of_tensor("aten::size", *value);
    if (take(".stride()[")) return of_tensor("aten::stride", *value);
    want(".storage_offset()");
    return graph_.constant(0, "int", block_);  // inputs begin at offset 0 of their memory
  }

  // Returns the length of ".field", with which rest_ begins, including the dot.
  size_t name_length() const {
    size_t length = 1;
    while (length < rest_.size() && (is_letter(rest_[length]) || is_digit(rest_[length]))) ++length;
    return length;
  }
  // Returns whether the next name is a method of a tensor, which is called.
  bool is_property() const { return rest_.substr(name_length()).starts_with('('); }

  Value of_tensor(const char* kind, const Value& tensor) {
    const Value dim = literal();
    want("]");
    return graph_.emit({kind, "int", {"self", "dim"}, {tensor, dim}, {"int"}}, block_)[0];
  }

  const std::string& line_;
  std::string_view rest_;
  const Input& input_;
  ExportedGraph& graph_;
  ScriptBlock& block_;
  int depth_ = 0;
};

}  // namespace

std::string guard_in_words(const std::string& line) {
  static const std::regex kInput(R"(L\['([^']*)'\])"), kSize(R"(\.size\(\)\[)");
  constexpr size_t kMostLetters = 100;
  const std::string begin = line.substr(0, 200);  // std::regex uses stack for each character
  std::string words = std::regex_replace(std::regex_replace(begin, kInput, "$1"), kSize, ".shape[");
  if (words.size() > kMostLetters) words.replace(kMostLetters, std::string::npos, "...");
  return words;
}

void read_guard(const std::string& line, const Input& input, ExportedGraph& graph,
                ScriptBlock& block) {
  const std::string message = str_cat("the guard of torch.export, ", guard_in_words(line));
  graph.require(GuardReader(line, input, graph, block).whole(), message, block);
}

}  // namespace hg::convert
