// SPDX-License-Identifier: Apache-2.0
// Parses the statements of a template by their tags.
#include <algorithm>
#include <utility>

#include "lib/text/jinja/expression_reader.h"

namespace hg::jinja {
namespace {

using StatementKind = Statement::Kind;
using OneStatement = std::unique_ptr<Statement>;

class Parser : public ExpressionReader {
 public:
  Parser(std::vector<Word> words, std::string_view name)
      : ExpressionReader(std::move(words), name) {}

  Result<Body> run() { return read_body({}); }

 private:
  static OneStatement make(StatementKind kind, int line) {
    auto made = std::make_unique<Statement>();
    made->kind = kind;
    made->line = line;
    return made;
  }

  Status expect_tag_end() {
    if (word().kind != Word::Kind::tag_end)
      return fail(word().line, "expected '%}', got ", shown());
    skip();
    return {};
  }

  // Statements up to a tag with one of the names, or up to the end if there are no names. The next
  // token is the name of that tag.
  Result<Body> read_body(std::initializer_list<std::string_view> ends) {
    const Deeper deeper(depth_);
    HG_TRY(check_depth());
    const int begin = word().line;
    Body body;
    while (true) {
      levels_ = 0;
      const int line = word().line;
      if (word().kind == Word::Kind::end) {
        if (ends.size() == 0) return body;
        return fail(begin, "the tag '", *std::prev(ends.end()), "' is missing");
      }
      if (word().kind == Word::Kind::data) {
        OneStatement made = make(StatementKind::data, line);
        made->name = word().text;
        skip();
        body.push_back(std::move(made));
      } else if (word().kind == Word::Kind::print_begin) {
        skip();
        OneStatement made = make(StatementKind::print, line);
        HG_TRY_ASSIGN(Expr value, read_tuple(true, false));
        made->values.push_back(std::move(value));
        if (word().kind != Word::Kind::print_end)
          return fail(word().line, "expected '}}', got ", shown());
        skip();
        body.push_back(std::move(made));
      } else {
        skip();
        if (std::any_of(ends.begin(), ends.end(), [&](auto name) { return is_name(name); }))
          return body;
        HG_TRY_ASSIGN(OneStatement made, read_statement());
        HG_TRY(expect_tag_end());
        body.push_back(std::move(made));
      }
    }
  }
  // The body of a tag after its first part, up to and including the end tag.
  Result<Body> read_whole_body(std::string_view end) {
    HG_TRY(expect_tag_end());
    HG_TRY_ASSIGN(Body body, read_body({end}));
    skip();
    return body;
  }

  Result<OneStatement> read_statement() {
    using ReadTag = Result<OneStatement> (Parser::*)(OneStatement);
    struct Row {
      std::string_view tag;
      StatementKind kind;
      ReadTag read;
    };
    static constexpr Row kTags[] = {
        {"if", StatementKind::branch, &Parser::read_if},
        {"for", StatementKind::loop, &Parser::read_for},
        {"set", StatementKind::assign, &Parser::read_set},
        {"macro", StatementKind::macro, &Parser::read_macro},
        {"call", StatementKind::call_block, &Parser::read_call_block},
        {"filter", StatementKind::filter_block, &Parser::read_filter_block},
        {"with", StatementKind::with, &Parser::read_with},
        {"generation", StatementKind::scope, &Parser::read_generation},
        {"break", StatementKind::loop_break, &Parser::read_jump},
        {"continue", StatementKind::loop_continue, &Parser::read_jump},
    };
    const int line = word().line;
    HG_TRY_ASSIGN(const std::string tag, any_name());
    for (const Row& row : kTags)
      if (row.tag == tag) return (this->*row.read)(make(row.kind, line));
    return fail(line, "the tag '", tag, "' is not supported");
  }

  Result<OneStatement> read_if(OneStatement made) {
    while (true) {
      HG_TRY_ASSIGN(Expr condition, read_tuple(false, false));
      made->values.push_back(std::move(condition));
      HG_TRY(expect_tag_end());
      HG_TRY_ASSIGN(Body body, read_body({"elif", "else", "endif"}));
      made->bodies.push_back(std::move(body));
      if (take_name("elif")) continue;
      if (take_name("else")) {
        HG_TRY_ASSIGN(made->otherwise, read_whole_body("endif"));
      } else {
        skip();
      }
      return made;
    }
  }

  Result<OneStatement> read_for(OneStatement made) {
    HG_TRY_ASSIGN(made->target, read_target("in", false));
    HG_TRY(expect_name("in"));
    HG_TRY_ASSIGN(Expr list, read_tuple(false, false, "recursive"));
    made->values.push_back(std::move(list));
    if (take_name("if")) {
      HG_TRY_ASSIGN(made->filter, read_expression());
    }
    if (is_name("recursive")) return fail(word().line, "recursive loops are not supported");
    HG_TRY(expect_tag_end());
    ++loops_;
    HG_TRY_ASSIGN(made->body, read_body({"else", "endfor"}));
    --loops_;
    if (take_name("else")) {
      HG_TRY_ASSIGN(made->otherwise, read_whole_body("endfor"));
    } else {
      skip();
    }
    return made;
  }

  Result<OneStatement> read_set(OneStatement made) {
    HG_TRY_ASSIGN(made->target, read_target("", true));
    if (take_sign("=")) {
      HG_TRY_ASSIGN(Expr value, read_tuple(true, false));
      made->values.push_back(std::move(value));
      return made;
    }
    made->kind = StatementKind::assign_block;
    if (made->target.is_tuple) return fail(made->line, "a block is assigned to several names");
    HG_TRY_ASSIGN(made->filter, read_filters(nullptr));
    HG_TRY_ASSIGN(made->body, read_whole_body("endset"));
    return made;
  }

  Result<OneStatement> read_macro(OneStatement made) {
    HG_TRY_ASSIGN(made->name, variable_name());
    HG_TRY(read_parameters(made->parameters));
    HG_TRY(read_macro_body(*made, "endmacro"));
    return made;
  }
  Result<OneStatement> read_call_block(OneStatement made) {
    if (is_sign("(")) HG_TRY(read_parameters(made->parameters));
    HG_TRY_ASSIGN(Expr call, read_expression());
    if (call->kind != Expression::Kind::call)
      return fail(made->line, "the tag 'call' needs a call of a macro");
    made->values.push_back(std::move(call));
    made->name = "caller";
    HG_TRY(read_macro_body(*made, "endcall"));
    return made;
  }
  Status read_macro_body(Statement& made, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const size_t before = used_.size();
    HG_TRY_ASSIGN(made.body, read_whole_body(end));
    loops_ = loops;
    for (size_t i = before; i < used_.size(); ++i) {
      made.takes_more |= used_[i] == "varargs";
      made.takes_named |= used_[i] == "kwargs";
      made.takes_caller |= used_[i] == "caller";
    }
    return {};
  }
  Status read_parameters(std::vector<Parameter>& parameters) {
    HG_TRY(expect_sign("("));
    while (!take_sign(")")) {
      if (!parameters.empty()) HG_TRY(expect_sign(","));
      const int line = word().line;
      HG_TRY_ASSIGN(std::string name, variable_name());
      for (const std::string_view taken : {"varargs", "kwargs", "caller"})
        if (name == taken) return fail(line, "a parameter named '", taken, "' is not supported");
      for (const Parameter& other : parameters)
        if (other.name == name) return fail(line, "the parameter '", name, "' is given twice");
      Expr otherwise;
      if (take_sign("=")) {
        HG_TRY_ASSIGN(otherwise, read_expression());
      } else if (!parameters.empty() && parameters.back().otherwise) {
        return fail(line, "the parameter '", name, "' has no default, but one before it has");
      }
      parameters.push_back({std::move(name), std::move(otherwise)});
    }
    return {};
  }

  Result<OneStatement> read_filter_block(OneStatement made) {
    HG_TRY_ASSIGN(Expr first, read_filter(nullptr));
    HG_TRY_ASSIGN(made->filter, read_filters(std::move(first)));
    HG_TRY_ASSIGN(made->body, read_whole_body("endfilter"));
    return made;
  }

  Result<OneStatement> read_with(OneStatement made) {
    while (word().kind != Word::Kind::tag_end) {
      if (!made->targets.empty()) HG_TRY(expect_sign(","));
      HG_TRY_ASSIGN(Target target, read_target("", false));
      made->targets.push_back(std::move(target));
      HG_TRY(expect_sign("="));
      HG_TRY_ASSIGN(Expr value, read_expression());
      made->values.push_back(std::move(value));
    }
    HG_TRY_ASSIGN(made->body, read_whole_body("endwith"));
    return made;
  }

  // transformers marks the assistant's text with this tag.
  Result<OneStatement> read_generation(OneStatement made) {
    const int loops = std::exchange(loops_, 0);
    HG_TRY_ASSIGN(made->body, read_whole_body("endgeneration"));
    loops_ = loops;
    return made;
  }

  Result<OneStatement> read_jump(OneStatement made) {
    if (loops_ == 0) return fail(made->line, "'break' and 'continue' belong into a loop");
    return made;
  }

  Result<std::string> variable_name() {
    constexpr std::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
    const int line = word().line;
    HG_TRY_ASSIGN(std::string name, any_name());
    if (std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants))
      return fail(line, "'", name, "' cannot be assigned");
    return name;
  }

  // `end`: a name that may end the target after a trailing comma.
  Result<Target> read_target(std::string_view end, bool with_attributes) {
    Target target;
    const bool in_brackets = take_sign("(");
    while (true) {
      if (!target.places.empty() && ((!end.empty() && is_name(end)) || is_sign(")") ||
                                     word().kind == Word::Kind::tag_end || is_sign("=")))
        break;
      const int line = word().line;
      Target::Place place;
      HG_TRY_ASSIGN(place.name, variable_name());
      if (is_sign(".")) {
        if (!with_attributes) return fail(line, "only 'set' assigns to an attribute");
        skip();
        HG_TRY_ASSIGN(place.attribute, any_name());
      } else if (is_sign("[")) {
        return fail(line, "a template cannot assign to a subscript");
      }
      target.places.push_back(std::move(place));
      if (!take_sign(",")) break;
      target.is_tuple = true;
    }
    if (in_brackets) HG_TRY(expect_sign(")"));
    return target;
  }

  int loops_ = 0;  // loops around the statement, within its macro
};

}  // namespace

Result<Body> parse(std::string_view source, std::string_view name) {
  HG_TRY_ASSIGN(std::vector<Word> words, words_of_template(source, name));
  return Parser(std::move(words), name).run();
}

}  // namespace hg::jinja
