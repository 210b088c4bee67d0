// SPDX-License-Identifier: Apache-2.0
// Evaluates the syntax tree. Variables are looked up in scopes: iterations, macro calls and some
// blocks have a scope of their own, branches do not.
#include "lib/text/jinja/run.h"

#include <utility>

#include "lib/text/jinja/filters.h"
#include "lib/text/jinja/functions.h"
#include "lib/text/jinja/operators.h"
#include "lib/text/jinja/tests.h"

namespace hg::jinja {
namespace {

constexpr int kMostDepth = 1000;  // of nested expressions, statements and calls
constexpr size_t kMostOutput = size_t{64} << 20;

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;

  void set(const std::string& name, Value value) {
    for (auto& [known, old] : variables) {
      if (known != name) continue;
      old = std::move(value);
      return;
    }
    variables.emplace_back(name, std::move(value));
  }
};
using ScopePtr = std::shared_ptr<Scope>;

enum class Flow : uint8_t { next, loop_break, loop_continue };

class Runner {
 public:
  Runner(const std::tm* now, std::string_view name) : name_(name) { state_.now = now; }
  // Macros refer to scopes, and scopes to macros.
  ~Runner() {
    for (const ScopePtr& scope : captured_) {
      scope->variables.clear();
      scope->parent.reset();
    }
    for (const auto& space : state_.namespaces) space->items.clear();
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Result<std::string> run(const Body& body, std::vector<std::pair<std::string, Value>> variables) {
    // The template's own variables hide those of the caller.
    const auto given = std::make_shared<Scope>();
    given->variables = std::move(variables);
    const auto scope = std::make_shared<Scope>(Scope{given, {}});
    std::string out;
    HG_TRY(exec(body, scope, out).status());
    return out;
  }

 private:
  // An error keeps the position where it first occurred.
  Status located(int line, Status status) {
    if (status.ok() || status.code() == Code::out_of_memory || located_) return status;
    located_ = true;
    return Status(status.code(), str_cat(name_, ": line ", line, ": ", status.message()));
  }

  Status enter() {
    if (depth_ > kMostDepth)
      return unsupported("the template nests more than ", kMostDepth, " operations");
    return state_.meter.spend(1);
  }

  // -- Statements ---------------------------------------------------------------------------------
  Result<Flow> exec(const Body& body, const ScopePtr& scope, std::string& out) {
    const Deeper deeper(depth_);
    for (const auto& statement : body) {
      if (Status status = enter(); !status.ok()) return located(statement->line, status);
      Result<Flow> flow = exec_one(*statement, scope, out);
      if (!flow.ok()) return located(statement->line, flow.status());
      if (out.size() > kMostOutput)
        return located(statement->line,
                       unsupported("the text exceeds ", uint64_t{kMostOutput}, " bytes"));
      if (*flow != Flow::next) return flow;
    }
    return Flow::next;
  }

  Result<Flow> exec_one(const Statement& s, const ScopePtr& scope, std::string& out) {
    using Kind = Statement::Kind;
    switch (s.kind) {
      case Kind::data:
        HG_TRY(state_.meter.grow(s.name.size()));
        out += s.name;
        return Flow::next;
      case Kind::print: {
        HG_TRY_ASSIGN(const Value value, eval(*s.values[0], scope));
        HG_TRY(append_str(state_.meter, out, value));
        return Flow::next;
      }
      case Kind::branch:
        for (size_t i = 0; i < s.values.size(); ++i) {
          HG_TRY_ASSIGN(const Value condition, eval(*s.values[i], scope));
          if (is_true(condition)) return exec(s.bodies[i], scope, out);
        }
        return exec(s.otherwise, scope, out);
      case Kind::loop:
        return exec_loop(s, scope, out);
      case Kind::assign: {
        HG_TRY_ASSIGN(Value value, eval(*s.values[0], scope));
        HG_TRY(assign(s.target, std::move(value), scope));
        return Flow::next;
      }
      case Kind::assign_block:
      case Kind::filter_block: {
        std::string text;
        HG_TRY_ASSIGN(const Flow flow, exec(s.body, inner(scope), text));
        if (flow != Flow::next) return flow;
        Value value = Value::text(std::move(text));
        if (s.filter) {
          HG_TRY_ASSIGN(value, filtered(*s.filter, std::move(value), scope));
        }
        if (s.kind == Kind::assign_block)
          HG_TRY(assign(s.target, std::move(value), scope));
        else
          HG_TRY(append_str(state_.meter, out, value));
        return Flow::next;
      }
      case Kind::macro: {
        HG_TRY_ASSIGN(Value macro, capture(s, scope));
        scope->set(s.name, std::move(macro));
        return Flow::next;
      }
      case Kind::call_block: {
        HG_TRY_ASSIGN(Value caller, capture(s, scope));
        HG_TRY_ASSIGN(const Value value, call(*s.values[0], scope, &caller));
        HG_TRY(append_str(state_.meter, out, value));
        return Flow::next;
      }
      case Kind::with: {
        const ScopePtr own = inner(scope);
        for (size_t i = 0; i < s.targets.size(); ++i) {
          HG_TRY_ASSIGN(Value value, eval(*s.values[i], scope));
          HG_TRY(assign(s.targets[i], std::move(value), own));
        }
        return exec(s.body, own, out);
      }
      case Kind::scope:
        return exec(s.body, inner(scope), out);
      case Kind::loop_break:
        return Flow::loop_break;
      case Kind::loop_continue:
        return Flow::loop_continue;
    }
    return internal_error("a statement of a template has no kind");
  }

  static ScopePtr inner(const ScopePtr& scope) { return std::make_shared<Scope>(Scope{scope, {}}); }

  Result<bool> passes(const Statement& s, const Value& item, const ScopePtr& scope) {
    const ScopePtr own = inner(scope);
    HG_TRY(assign(s.target, item, own));
    HG_TRY_ASSIGN(const Value condition, eval(*s.filter, own));
    return is_true(condition);
  }

  Result<Flow> exec_loop(const Statement& s, const ScopePtr& scope, std::string& out) {
    HG_TRY_ASSIGN(const Value list, eval(*s.values[0], scope));
    HG_TRY_ASSIGN(const std::vector<Value> all, items_of(state_.meter, list));
    const auto loop = std::make_shared<Loop>();
    std::vector<bool> chosen(all.size(), true);
    for (size_t i = 0; i < all.size(); ++i) {
      if (s.filter) {
        HG_TRY_ASSIGN(chosen[i], passes(s, all[i], scope));
      }
      if (chosen[i]) loop->items.push_back(all[i]);
    }
    // As in jinja2, `else` also runs if no iteration reached the end of the body.
    bool ends = false;
    const Value loop_value(Value::Any{std::shared_ptr<const Loop>(loop)});
    for (size_t i = 0; i < all.size(); ++i) {
      // jinja2 evaluates the condition of an item when the loop reaches it.
      if (s.filter) {
        HG_TRY_ASSIGN(const bool now, passes(s, all[i], scope));
        if (now != chosen[i]) return unsupported("the condition of a loop changes while it runs");
      }
      if (!chosen[i]) continue;
      HG_TRY(state_.meter.spend(4));
      const ScopePtr turn = inner(scope);
      turn->set("loop", loop_value);
      HG_TRY(assign(s.target, all[i], turn));
      HG_TRY_ASSIGN(const Flow flow, exec(s.body, turn, out));
      if (flow == Flow::loop_break) {
        if (const Sequence* sequence = list.as_sequence()) sequence->read = Sequence::Read::part;
        break;
      }
      ends |= flow == Flow::next;
      ++loop->at;
    }
    if (ends) return Flow::next;
    return exec(s.otherwise, inner(scope), out);
  }

  Status assign(const Target& target, Value value, const ScopePtr& scope) {
    if (!target.is_tuple) return assign(target.places[0], std::move(value), scope);
    if (value.is_undefined()) return undefined_error(value);
    HG_TRY_ASSIGN(std::vector<Value> items, items_of(state_.meter, value));
    if (items.size() != target.places.size())
      return invalid_argument(type_name(value), " of ", uint64_t{items.size()},
                              " items is assigned to ", uint64_t{target.places.size()}, " names");
    for (size_t i = 0; i < items.size(); ++i)
      HG_TRY(assign(target.places[i], std::move(items[i]), scope));
    return {};
  }
  Status assign(const Target::Place& place, Value value, const ScopePtr& scope) {
    if (place.attribute.empty()) {
      scope->set(place.name, std::move(value));
      return {};
    }
    HG_TRY_ASSIGN(const Value of, look_up(place.name, scope));
    Namespace* const space = of.as_namespace();
    if (space == nullptr)
      return invalid_argument("'", place.name, "' is ", type_name(of),
                              "; only attributes of a namespace can be set");
    for (auto& [name, old] : space->items) {
      if (name != place.attribute) continue;
      old = std::move(value);
      return {};
    }
    HG_TRY(state_.meter.grow(place.attribute.size() + sizeof(Value)));
    space->items.emplace_back(place.attribute, std::move(value));
    return {};
  }

  // -- Macros -------------------------------------------------------------------------------------
  Result<Value> capture(const Statement& s, const ScopePtr& scope) {
    HG_TRY(state_.meter.grow(sizeof(Scope) + sizeof(Function)));
    captured_.push_back(scope);
    auto made = std::make_shared<const Function>(
        Function{s.name, [this, &s, scope](Call& call) { return call_macro(s, call, scope); }});
    return Value(Value::Any(std::move(made)));
  }

  Result<Value> call_macro(const Statement& s, Call& call, const ScopePtr& definition) {
    const Deeper deeper(depth_);
    HG_TRY(enter());
    const ScopePtr scope = inner(definition);
    const size_t count = s.parameters.size();
    std::vector<Value> more;
    std::vector<std::pair<Value, Value>> named;
    std::vector<bool> given(count, false);
    for (size_t i = 0; i < call.in_order.size(); ++i) {
      if (i >= count) {
        more.push_back(call.in_order[i]);
        continue;
      }
      given[i] = true;
      scope->set(s.parameters[i].name, call.in_order[i]);
    }
    bool has_caller = false;
    for (auto& [name, value] : call.named) {
      size_t at = 0;
      while (at < count && s.parameters[at].name != name) ++at;
      if (at < count) {
        if (given[at])
          return invalid_argument("the macro '", s.name, "' gets the argument '", name, "' twice");
        given[at] = true;
        scope->set(name, value);
      } else if (name == "caller" && s.takes_caller) {
        has_caller = true;
        scope->set(name, value);
      } else {
        named.emplace_back(Value::text(name), value);
      }
    }
    if (!more.empty() && !s.takes_more)
      return invalid_argument("the macro '", s.name, "' takes ", uint64_t{count},
                              " arguments, got ", uint64_t{call.in_order.size()});
    if (!named.empty() && !s.takes_named)
      return invalid_argument("the macro '", s.name, "' has no parameter '",
                              *named[0].first.as_text(), "'");
    if (s.takes_caller && !has_caller)
      scope->set("caller", Value::undefined("the macro is not called by the tag 'call'"));
    if (s.takes_more) {
      HG_TRY_ASSIGN(Value tuple,
                    make_sequence(state_.meter, std::move(more), Sequence::Kind::tuple));
      scope->set("varargs", std::move(tuple));
    }
    if (s.takes_named) {
      HG_TRY_ASSIGN(Value dict, make_dict(state_.meter, std::move(named)));
      scope->set("kwargs", std::move(dict));
    }
    for (size_t i = 0; i < count; ++i) {
      if (given[i]) continue;
      const Parameter& parameter = s.parameters[i];
      Value value = Value::undefined(str_cat("the parameter '", parameter.name, "' was not given"));
      if (parameter.otherwise) {
        HG_TRY_ASSIGN(value, eval(*parameter.otherwise, scope));
      }
      scope->set(parameter.name, std::move(value));
    }
    std::string text;
    HG_TRY(exec(s.body, scope, text).status());
    return Value::text(std::move(text));
  }

  // -- Expressions --------------------------------------------------------------------------------
  Result<Value> look_up(const std::string& name, const ScopePtr& scope) {
    uint64_t steps = 1;
    for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get(), ++steps)
      for (const auto& [known, value] : at->variables)
        if (known == name) return value;
    HG_TRY(state_.meter.spend(steps));
    return find_function(name);
  }

  Result<Value> eval(const Expression& e, const ScopePtr& scope) {
    const Deeper deeper(depth_);
    if (Status status = enter(); !status.ok()) return located(e.line, status);
    Result<Value> value = eval_one(e, scope);
    if (!value.ok()) return located(e.line, value.status());
    return value;
  }

  Result<std::vector<Value>> eval_all(const std::vector<Expr>& parts, const ScopePtr& scope) {
    std::vector<Value> values;
    for (const Expr& part : parts) {
      HG_TRY_ASSIGN(Value value, eval(*part, scope));
      values.push_back(std::move(value));
    }
    return values;
  }

  Result<Value> eval_one(const Expression& e, const ScopePtr& scope) {
    using Kind = Expression::Kind;
    switch (e.kind) {
      case Kind::constant:
        return e.value;
      case Kind::name:
        return look_up(e.name, scope);
      case Kind::list:
      case Kind::tuple: {
        HG_TRY_ASSIGN(std::vector<Value> items, eval_all(e.parts, scope));
        return make_sequence(state_.meter, std::move(items),
                             e.kind == Kind::list ? Sequence::Kind::list : Sequence::Kind::tuple);
      }
      case Kind::dict: {
        HG_TRY_ASSIGN(std::vector<Value> parts, eval_all(e.parts, scope));
        std::vector<std::pair<Value, Value>> items;
        for (size_t i = 0; i < parts.size(); i += 2)
          items.emplace_back(std::move(parts[i]), std::move(parts[i + 1]));
        return make_dict(state_.meter, std::move(items));
      }
      case Kind::attribute: {
        HG_TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
        return attribute(state_, of, e.name);
      }
      case Kind::subscript: {
        HG_TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
        HG_TRY_ASSIGN(const Value key, eval(*e.parts[1], scope));
        return subscript(state_, of, key);
      }
      case Kind::slice:
        return eval_slice(e, scope);
      case Kind::call:
        return call(e, scope, nullptr);
      case Kind::filter: {
        HG_TRY_ASSIGN(Value value, eval(*e.parts[0], scope));
        return filter(e, std::move(value), scope);
      }
      case Kind::test: {
        HG_TRY_ASSIGN(Value value, eval(*e.parts[0], scope));
        HG_TRY_ASSIGN(Call made, arguments(e, scope));
        made.in_order.insert(made.in_order.begin(), std::move(value));
        const Result<bool> is = e.test->run(made);
        if (!is.ok()) return in_call("the test", e.name, is.status());
        return Value::flag(*is);
      }
      case Kind::conditional: {
        HG_TRY_ASSIGN(const Value condition, eval(*e.parts[1], scope));
        if (is_true(condition)) return eval(*e.parts[0], scope);
        if (e.parts[2]) return eval(*e.parts[2], scope);
        return Value::undefined("an 'if' without 'else' has no value");
      }
      case Kind::logic_and:
      case Kind::logic_or: {
        HG_TRY_ASSIGN(Value left, eval(*e.parts[0], scope));
        if (is_true(left) == (e.kind == Kind::logic_or)) return left;
        return eval(*e.parts[1], scope);
      }
      case Kind::logic_not: {
        HG_TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
        return Value::flag(!is_true(of));
      }
      case Kind::compare: {
        HG_TRY_ASSIGN(Value left, eval(*e.parts[0], scope));
        for (size_t i = 0; i < e.operators.size(); ++i) {
          HG_TRY_ASSIGN(Value right, eval(*e.parts[i + 1], scope));
          HG_TRY_ASSIGN(const bool holds, compare(state_.meter, e.operators[i], left, right));
          if (!holds) return Value::flag(false);
          left = std::move(right);
        }
        return Value::flag(true);
      }
      case Kind::join: {
        std::string text;
        for (const Expr& part : e.parts) {
          HG_TRY_ASSIGN(const Value value, eval(*part, scope));
          HG_TRY(append_str(state_.meter, text, value));
        }
        return Value::text(std::move(text));
      }
      case Kind::binary: {
        HG_TRY_ASSIGN(const Value left, eval(*e.parts[0], scope));
        HG_TRY_ASSIGN(const Value right, eval(*e.parts[1], scope));
        return binary(state_.meter, e.name, left, right);
      }
      case Kind::unary: {
        HG_TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
        return unary(e.name, of);
      }
    }
    return internal_error("an expression of a template has no kind");
  }

  Result<Value> eval_slice(const Expression& e, const ScopePtr& scope) {
    HG_TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
    Value bounds[3];
    const Value* given[3] = {};
    for (size_t i = 0; i < 3; ++i) {
      if (!e.parts[i + 1]) continue;
      HG_TRY_ASSIGN(bounds[i], eval(*e.parts[i + 1], scope));
      given[i] = &bounds[i];
    }
    return slice(state_.meter, of, given[0], given[1], given[2]);
  }

  Result<Call> arguments(const Expression& e, const ScopePtr& scope) {
    HG_TRY_ASSIGN(std::vector<Value> in_order, eval_all(e.arguments.in_order, scope));
    Call made{state_, std::move(in_order), {}};
    for (const auto& [name, part] : e.arguments.named) {
      HG_TRY_ASSIGN(Value value, eval(*part, scope));
      made.named.emplace_back(name, std::move(value));
    }
    return made;
  }

  Status in_call(std::string_view what, std::string_view name, const Status& status) const {
    if (located_ || status.code() == Code::out_of_memory) return status;
    return Status(status.code(), str_cat(what, " '", name, "': ", status.message()));
  }

  // `caller`: the body of a block of the tag `call`, or null.
  Result<Value> call(const Expression& e, const ScopePtr& scope, const Value* caller) {
    HG_TRY_ASSIGN(const Value of, eval(*e.parts[0], scope));
    if (of.is_undefined()) return located(e.line, undefined_error(of));
    const Function* function = of.as_function();
    if (function == nullptr)
      return located(e.line, invalid_argument(type_name(of), " cannot be called"));
    HG_TRY_ASSIGN(Call made, arguments(e, scope));
    if (caller != nullptr) made.named.emplace_back("caller", *caller);
    Result<Value> value = function->call(made);
    if (!value.ok())
      return located(e.line, function->name == "raise_exception"
                                 ? value.status()
                                 : in_call("the function", function->name, value.status()));
    return value;
  }

  Result<Value> filter(const Expression& e, Value value, const ScopePtr& scope) {
    if (value.is_safe() && e.name != "safe" && e.name != "string")
      return unsupported("a result of the filter 'safe' can only be printed");
    HG_TRY_ASSIGN(Call made, arguments(e, scope));
    made.in_order.insert(made.in_order.begin(), std::move(value));
    Result<Value> out = e.filter->run(made);
    if (!out.ok()) return in_call("the filter", e.name, out.status());
    return out;
  }

  // Applies the filters of a block. The first one has no value of its own.
  Result<Value> filtered(const Expression& e, Value value, const ScopePtr& scope) {
    if (e.parts[0]) {
      HG_TRY_ASSIGN(value, filtered(*e.parts[0], std::move(value), scope));
    }
    Result<Value> out = filter(e, std::move(value), scope);
    if (!out.ok()) return located(e.line, out.status());
    return out;
  }

  RunState state_;
  const std::string_view name_;
  int depth_ = 0;
  bool located_ = false;
  std::vector<ScopePtr> captured_;
};

}  // namespace

Result<std::string> run(const Body& body, std::vector<std::pair<std::string, Value>> variables,
                        const std::tm* now, std::string_view name) {
  return Runner(now, name).run(body, std::move(variables));
}

}  // namespace hg::jinja
