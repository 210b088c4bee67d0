// SPDX-License-Identifier: Apache-2.0
// Prints expressions: operators with parentheses, functions with attributes.

#include "lib/lazy/node.h"

namespace hg {
namespace {

using Kind = LazyNode::Kind;

class Printer {
 public:
  explicit Printer(const Var& root) : nodes_(LazyNode::walk_from(std::span(&root, 1))) {
    uses_.assign(nodes_.size(), 0);
    for (const LazyNode* node : nodes_)
      for (const Var& input : node->inputs)
        if (input) ++uses_[place(input)];
    texts_.resize(nodes_.size());
  }

  std::string run(const Var& root) {
    std::string lines;
    for (const LazyNode* node : nodes_) {
      std::string& text = texts_[node->place];
      text = text_of(*node);
      const bool is_shared = uses_[node->place] > 1 && !node->is_leaf();
      if (!is_shared) continue;
      const std::string name = str_cat("t", shared_++);
      lines += str_cat(name, " = ", outer(text), "\n");
      text = name;
    }
    return lines + outer(of(root));
  }

 private:
  static size_t place(const Var& var) { return static_cast<size_t>(LazyNode::of(var).place); }

  // Omits the outermost parentheses.
  static std::string outer(const std::string& text) {
    if (!text.starts_with('(')) return text;
    int depth = 0;
    for (size_t i = 0; i + 1 < text.size(); ++i) {
      depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
      if (depth == 0) return text;
    }
    return text.substr(1, text.size() - 2);
  }

  std::string of(const Var& var) const {
    if (!var) return "none";
    const std::string& text = texts_[place(var)];
    return LazyNode::of(var).outputs > 1 ? str_cat(text, "[", LazyNode::output(var), "]") : text;
  }

  std::string list(std::span<const Var> vars) const {
    std::string text;
    for (const Var& var : vars) text += (text.empty() ? "" : ", ") + outer(of(var));
    return text;
  }

  std::string text_of(const LazyNode& node) {
    const std::span<const Var> in = node.inputs;
    const auto ys = static_cast<size_t>(node.ys), xs = static_cast<size_t>(node.xs);
    switch (node.kind) {
      case Kind::number:
        return str_cat(node.number.real);
      case Kind::leaf:
      case Kind::constant:
        return node.name.empty() ? str_cat("x", leaves_++) : node.name;
      case Kind::gradient:
        return str_cat("grad(", list(in.first(ys)), "; ", list(in.subspan(ys, xs)),
                       node.has_seeds ? "; " : "", list(in.subspan(ys + xs)), ")");
      case Kind::jvp:
        return str_cat("jvp(", list(in.first(ys)), "; ", list(in.subspan(ys, xs)), "; ",
                       list(in.subspan(ys + xs)), ")");
      case Kind::jacobian:
        return str_cat("jacobian(", list(in), ")");
      case Kind::hvp:
        return str_cat("hvp(", list(in.first(1)), "; ", list(in.subspan(1, xs)), "; ",
                       list(in.subspan(1 + xs)), ")");
      case Kind::op:
        break;
    }
    const std::string_view op = node.op ? node.op->name() : "?";
    constexpr std::pair<std::string_view, char> kSigns[] = {
        {"add", '+'}, {"sub", '-'}, {"mul", '*'}, {"div", '/'}};
    for (const auto& [name, sign] : kSigns)
      if (op == name && in.size() == 2)
        return str_cat("(", of(in[0]), " ", std::string(1, sign), " ", of(in[1]), ")");
    if (op == "neg" && in.size() == 1) return str_cat("(-", of(in[0]), ")");
    std::string text = str_cat(op, "(", list(in));
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      const NamedAttr& attr = node.attrs[i];
      if (node.op->signature.attributes[i].fallback == attr.value) continue;
      text += str_cat(text.ends_with('(') ? "" : ", ", attr.name, "=", attr.value);
    }
    return text + ")";
  }

  std::vector<LazyNode*> nodes_;
  std::vector<int> uses_;
  std::vector<std::string> texts_;
  int leaves_ = 0, shared_ = 0;
};

}  // namespace

std::string Var::text() const { return node_ ? Printer(*this).run(*this) : "none"; }

}  // namespace hg
