// SPDX-License-Identifier: Apache-2.0
// Reads script programs from text.
#include "tests/converter/script_text.h"

#include <cctype>
#include <cstdlib>
#include <stdexcept>

namespace hg::test {

using convert::Item;
using convert::ScriptBlock;
using convert::ScriptId;
using convert::ScriptNode;
using convert::ScriptProgram;

namespace {

class Parser {
 public:
  Parser(ScriptProgram& program, std::string_view text) : program_(program), text_(text) {}

  ScriptId define(const std::string& name) { return ids_[name] = program_.value_count++; }

  // Reads up to "return" or "yield", whose values become the outputs.
  void block(ScriptBlock& out) {
    for (;;) {
      const std::string word = peek();
      if (word == "return" || word == "yield") {
        next();
        if (peek() == "}") return;
        do {
          out.outputs.push_back(argument(out).first);
        } while (accept(","));
        return;
      }
      if (word == "if")
        branch(out);
      else if (word == "loop")
        loop(out);
      else
        node(out);
    }
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  std::string token() {
    skip();
    if (at_ >= text_.size()) throw std::runtime_error("the script text ends early");
    size_t end = at_;
    if (text_[at_] == '"') {
      end = text_.find('"', at_ + 1) + 1;
    } else if (text_.substr(at_, 2) == "->") {
      end = at_ + 2;
    } else if (std::string_view("(){},=[]").find(text_[at_]) != std::string_view::npos) {
      end = at_ + 1;
    } else {
      while (end < text_.size() && !std::isspace(static_cast<unsigned char>(text_[end])) &&
             std::string_view("(){},=[]").find(text_[end]) == std::string_view::npos)
        ++end;
    }
    return std::string(text_.substr(at_, end - at_));
  }
  std::string peek() { return token(); }
  std::string next() {
    const std::string t = token();
    at_ += t.size();
    return t;
  }
  bool accept(std::string_view wanted) {
    skip();
    if (at_ >= text_.size() || token() != wanted) return false;
    next();
    return true;
  }
  void expect(std::string_view wanted) {
    const std::string found = next();
    if (found != wanted)
      throw std::runtime_error("expected " + std::string(wanted) + ", found " + found);
  }

  ScriptId constant(ScriptBlock& block, const std::string& word) {
    ScriptNode node;
    node.kind = "prim::Constant";
    if (word == "true" || word == "false")
      node.constant = Item(word == "true");
    else if (word == "none")
      node.constant = Item();
    else if (word[0] == '"')
      node.constant = Item(word.substr(1, word.size() - 2));
    else if (word.find('.') != std::string::npos)
      node.constant = Item(std::atof(word.c_str()));
    else
      node.constant = Item(static_cast<int64_t>(std::atoll(word.c_str())));
    node.outputs.push_back(program_.value_count++);
    node.output_types.push_back("");
    block.nodes.push_back(node);
    return node.outputs[0];
  }

  // A value and its argument's name, which may be empty.
  std::pair<ScriptId, std::string> argument(ScriptBlock& block) {
    std::string word = next(), name;
    if (word[0] != '%' && word[0] != '"' && accept("=")) {
      name = word;
      word = next();
    }
    if (word[0] != '%') return {constant(block, word), name};
    const auto found = ids_.find(word);
    if (found == ids_.end()) throw std::runtime_error("no value " + word);
    return {found->second, name};
  }

  void results(ScriptNode& node) {  // %a:Tensor, %b:int
    do {
      const std::string word = next();
      const size_t colon = word.find(':');
      node.outputs.push_back(define(word.substr(0, colon)));
      node.output_types.push_back(colon == std::string::npos ? "Tensor" : word.substr(colon + 1));
    } while (accept(","));
  }

  void node(ScriptBlock& block) {
    ScriptNode node;
    std::vector<std::pair<std::string, std::string>> outputs;
    if (peek()[0] == '%') {
      do {
        const std::string word = next();
        const size_t colon = word.find(':');
        outputs.emplace_back(word.substr(0, colon),
                             colon == std::string::npos ? "Tensor" : word.substr(colon + 1));
      } while (accept(","));
      expect("=");
    }
    std::string kind = next();
    const size_t dot = kind.find('.');
    node.kind = kind.substr(0, dot);
    if (dot != std::string::npos) node.overload = kind.substr(dot + 1);
    if (accept("[")) {
      node.attribute = next();
      expect("]");
    }
    expect("(");
    while (!accept(")")) {
      const auto [id, name] = argument(block);
      node.inputs.push_back(id);
      node.argument_names.push_back(name);
      accept(",");
    }
    for (const auto& [name, type] : outputs) {
      node.outputs.push_back(define(name));
      node.output_types.push_back(type);
    }
    node.origin.source = "line:" + std::to_string(block.nodes.size());
    block.nodes.push_back(std::move(node));
  }

  void branch(ScriptBlock& block) {
    expect("if");
    ScriptNode node;
    node.kind = "prim::If";
    node.inputs.push_back(argument(block).first);
    if (accept("->")) results(node);
    node.blocks.resize(2);
    expect("{");
    this->block(node.blocks[0]);
    expect("}");
    expect("else");
    expect("{");
    this->block(node.blocks[1]);
    expect("}");
    block.nodes.push_back(std::move(node));
  }

  void loop(ScriptBlock& block) {
    expect("loop");
    ScriptNode node;
    node.kind = "prim::Loop";
    do {
      node.inputs.push_back(argument(block).first);
    } while (accept(","));
    if (accept("->")) results(node);
    node.blocks.resize(1);
    expect("(");
    while (!accept(")")) {
      node.blocks[0].inputs.push_back(define(next()));
      accept(",");
    }
    expect("{");
    this->block(node.blocks[0]);
    expect("}");
    block.nodes.push_back(std::move(node));
  }

  ScriptProgram& program_;
  std::string_view text_;
  size_t at_ = 0;
  std::map<std::string, ScriptId> ids_;
};

}  // namespace

ScriptProgram script(const std::vector<std::string>& inputs, std::string_view text) {
  ScriptProgram program;
  program.root = std::make_shared<convert::Object>();
  program.root->type = "__torch__.Module";
  Parser parser(program, text);
  program.body.inputs.push_back(parser.define("%self"));
  for (const std::string& name : inputs) {
    program.body.inputs.push_back(parser.define("%" + name));
    program.inputs.push_back({name, "Tensor", false, {}});
  }
  parser.block(program.body);
  return program;
}

void add_tensor(ScriptProgram& program, std::string name, State::Kind kind, TensorData data) {
  const auto index = static_cast<int32_t>(program.tensors.size());
  program.root->attributes.emplace_back(name, Item(convert::ScriptTensorIndex{index}));
  program.tensors.push_back({{std::move(name)}, kind, std::move(data)});
}

}  // namespace hg::test
