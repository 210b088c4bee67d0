// SPDX-License-Identifier: Apache-2.0
#include "tools/draw/graph_boxes.h"

#include <algorithm>
#include <array>

#include "hg/op.h"

namespace hg::tools {
namespace {

constexpr size_t kLongestLine = 52;

constexpr std::array<BoxStyle, 9> kStyles = {{
    {"#e4e7eb", "#616e7c", "input"},
    {"#cbd2d9", "#3e4c59", "output"},
    {"#dceefb", "#2680c2", "with weights"},
    {"#e3f9e5", "#3f9142", "with scales"},
    {"#fff3c4", "#cb9e1f", "pointwise"},
    {"#ffe3ec", "#bc0a6f", "reducing"},
    {"#f5f7fa", "#9aa5b1", "view"},
    {"#fadede", "#ba2525", "control flow"},
    {"#eae2f8", "#653cad", "other"},
}};

std::string shortened(std::string line) {
  if (line.size() <= kLongestLine) return line;
  size_t end = kLongestLine - 3;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80)
    --end;  // keeps UTF-8 characters whole
  return line.substr(0, end) + "...";
}

std::string last_part(const std::string& module) {
  const size_t dot = module.rfind('.');
  return dot == std::string::npos ? module : module.substr(dot + 1);
}

// A list of equal elements is shown as one number, which torch also accepts.
Attr folded(const Attr& attr) {
  const auto* list = std::get_if<std::vector<Dim>>(&attr.value);
  if (list == nullptr || list->empty()) return attr;
  for (const Dim& dim : *list) {
    if (!(dim == list->front())) return attr;
  }
  return Attr(list->front());
}

// The attributes that differ from their default.
std::string attrs_text(const Node& node) {
  const std::vector<Signature::Attribute>& attributes = node.op->signature.attributes;
  std::string out;
  for (size_t i = 0; i < attributes.size() && i < node.attrs.size(); ++i) {
    const Attr attr = folded(node.attrs[i]);
    if (attr.is_none() || attr == Attr(std::string())) continue;
    if (!attributes[i].required && attr == folded(attributes[i].fallback)) continue;
    out += str_cat(out.empty() ? "" : "  ", attributes[i].name, "=", attr);
  }
  return out;
}

class BoxMaker {
 public:
  explicit BoxMaker(const Graph& graph) : graph_(graph) {
    producer_.assign(graph.value_count(), -1);
    read_.assign(graph.value_count(), false);
    const auto read = [&](ValueId id) {
      if (id != kNoValue) read_[id] = true;
    };
    for (const Node& node : graph.nodes())
      std::for_each(node.inputs.begin(), node.inputs.end(), read);
    for (const auto& [name, id] : graph.outputs()) read(id);
    for (const auto& [state, id] : graph.assignments()) read(id);
  }

  GraphBoxes make() {
    for (ValueId id : graph_.inputs()) add_input(id);
    for (const Node& node : graph_.nodes()) add_node(node);
    for (const auto& [name, id] : graph_.outputs()) add_end(name, id);
    for (const auto& [state, value] : graph_.assignments())
      add_end(str_cat("update ", graph_.value_info(state).name), value);
    return std::move(made_);
  }

 private:
  int add_box(Box box) {
    made_.boxes.push_back(std::move(box));
    return static_cast<int>(made_.boxes.size()) - 1;
  }

  void add_arrow(ValueId value, int to) {
    const int from = producer_[value];
    if (from < 0) return;
    // Arrows to one box are added together, so an equal one is among the last.
    for (size_t i = made_.arrows.size(); i-- > 0 && made_.arrows[i].to == to;) {
      if (made_.arrows[i].from == from) return;
    }
    made_.arrows.push_back({from, to});
  }

  void add_input(ValueId id) {
    const ValueInfo& info = graph_.value_info(id);
    Box box;
    box.kind = BoxKind::input;
    box.title = info.name;
    box.lines = {str_cat(info.type)};
    producer_[id] = add_box(std::move(box));
  }

  void add_end(std::string_view title, ValueId id) {
    Box box;
    box.kind = BoxKind::output;
    box.title = title;
    box.lines = {str_cat(graph_.value_info(id).type)};
    const int state = graph_.value_info(id).state;
    if (state >= 0) box.lines.push_back(graph_.states()[state].name);
    add_arrow(id, add_box(std::move(box)));
  }

  // The number of a constant of one element; otherwise nothing.
  static std::string number_text(const State& state) {
    const Tensor& t = state.data.tensor;
    if (state.kind != State::Kind::constant || t.count() != 1 || t.data == nullptr) return "";
    if (t.dtype == f32) return str_cat(double{*t.as<float>()});
    if (t.dtype == f64) return str_cat(*t.as<double>());
    if (t.dtype == i64) return str_cat(*t.as<int64_t>());
    return "";
  }

  // "weight f32[64, 3, 7, 7]", with neighbors of one type on one line; numbers are shown as
  // numbers.
  void add_states(const Node& node, Box& box) const {
    const std::vector<Signature::Input>& inputs = node.op->signature.inputs;
    std::string names;
    TensorType type;
    const auto end_line = [&] {
      if (!names.empty()) box.lines.push_back(shortened(str_cat(names, " ", type)));
      names.clear();
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      const ValueInfo& info = graph_.value_info(node.inputs[i]);
      if (info.state < 0) continue;
      const std::string& role = inputs[std::min(i, inputs.size() - 1)].name;
      const State& state = graph_.states()[info.state];
      if (const std::string number = number_text(state); !number.empty()) {
        box.lines.push_back(str_cat(role, " = ", number));
        continue;
      }
      if (!(info.type == type) || names.size() > 24) end_line();
      names += str_cat(names.empty() ? "" : ", ", role);
      type = info.type;
    }
    end_line();
  }

  BoxKind kind_of(const Node& node) const {
    const OpDef& def = node.op->def;
    if ((def.traits & kControl) != 0) return BoxKind::controlling;
    if (def.view != nullptr) return BoxKind::moving;
    bool weighted = false, scaled = false, shrinks = false;
    const int rank_out = node.outputs.empty() ? 0 : graph_.value_info(node.outputs[0]).type.rank();
    for (ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const ValueInfo& info = graph_.value_info(id);
      const bool state = info.state >= 0;
      weighted = weighted || (state && info.type.rank() >= 2);
      scaled = scaled || (state && info.type.rank() == 1);
      shrinks = shrinks || (!state && info.type.rank() > rank_out);
    }
    if (def.alias != 0 && !(node.inputs.size() > 2 && scaled)) return BoxKind::pointwise;
    if (weighted) return BoxKind::weighted;
    if (scaled) return BoxKind::scaled;
    return shrinks ? BoxKind::reducing : BoxKind::other;
  }

  void add_node(const Node& node) {
    Box box;
    box.kind = kind_of(node);
    box.title = std::string(node.op->name());
    box.module = node.origin.module;
    box.side = shortened(last_part(node.origin.module));
    for (ValueId id : node.outputs) {
      if (read_[id]) box.lines.push_back(str_cat(graph_.value_info(id).type));
    }
    if (std::string attrs = attrs_text(node); !attrs.empty()) box.lines.push_back(shortened(attrs));
    add_states(node, box);
    for (const std::shared_ptr<Graph>& subgraph : node.subgraphs) {
      box.lines.push_back(str_cat("a graph of ", uint64_t{subgraph->nodes().size()}, " nodes"));
    }
    const std::string value_name =
        node.outputs.empty() ? "" : graph_.value_info(node.outputs[0]).name;
    box.tooltip = str_cat(value_name, "  ", node.origin.module, "  ", node.origin.source);
    const std::vector<ValueId> inputs = node.inputs;
    const int index = add_box(std::move(box));
    for (ValueId id : inputs) {
      if (id != kNoValue) add_arrow(id, index);
    }
    for (ValueId id : node.outputs) producer_[id] = index;
  }

  const Graph& graph_;
  GraphBoxes made_;
  std::vector<int> producer_;  // the box that produces each value
  std::vector<bool> read_;     // whether anything reads it
};

}  // namespace

const BoxStyle& style_of(BoxKind kind) { return kStyles[static_cast<size_t>(kind)]; }

GraphBoxes boxes_of(const Graph& graph) { return BoxMaker(graph).make(); }

std::vector<std::string> modules_around(const std::string& module) {
  std::vector<std::string> out;
  for (size_t dot = 0; dot != std::string::npos && !module.empty();) {
    dot = module.find('.', dot + 1);
    out.push_back(module.substr(0, dot));
  }
  return out;
}

}  // namespace hg::tools
