// SPDX-License-Identifier: Apache-2.0
// Turns nodes into boxes with text, lets the layout place them, and frames the modules whose boxes
// lie together.
#include "tools/draw/draw_graph.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "hg/op.h"
#include "tools/draw/layout.h"
#include "tools/draw/svg.h"

namespace hg::tools {
namespace {

constexpr double kPadding = 8, kTitleSize = 13, kTextSize = 10.5, kLineHeight = 14;
constexpr double kLabelHeight = 15;
constexpr size_t kLongestLine = 52;

// What a box stands for, told from the op's row and its inputs, not from its name.
enum Kind {
  kInput,
  kOutput,
  kWeighted,
  kScaled,
  kPointwise,
  kReducing,
  kMoving,
  kControlling,
  kOther
};
struct KindStyle {
  std::string_view fill, stroke, words;
};
constexpr std::array<KindStyle, 9> kStyles = {{
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

struct Box {
  Kind kind = kOther;
  std::string title, side;  // side: in small print beside the title
  std::vector<std::string> lines;
  std::string module;
  std::string tooltip;
  double label_room = 0;  // above it, for the names of modules that start here
};

std::string shortened(std::string line) {
  if (line.size() > kLongestLine) line = line.substr(0, kLongestLine - 3) + "...";
  return line;
}

std::string last_part(const std::string& module) {
  const size_t dot = module.rfind('.');
  return dot == std::string::npos ? module : module.substr(dot + 1);
}

// A list of equal elements is shown as one, since that is how torch takes it too.
Attr folded(const Attr& attr) {
  const auto* list = std::get_if<std::vector<Dim>>(&attr.value);
  if (list == nullptr || list->empty()) return attr;
  for (const Dim& dim : *list) {
    if (!(dim == list->front())) return attr;
  }
  return Attr(list->front());
}

// The attributes that are not at their default.
std::string attrs_text(const Node& node) {
  const std::vector<Signature::Attribute>& attributes = node.op->signature.attributes;
  std::string out;
  for (size_t i = 0; i < attributes.size() && i < node.attrs.size(); ++i) {
    const Attr attr = folded(node.attrs[i]);
    if (attr.is_none() || attr == Attr(std::string())) continue;
    if (!attributes[i].required && attr == folded(attributes[i].fallback)) continue;
    out += text(out.empty() ? "" : "  ", attributes[i].name, "=", attr);
  }
  return out;
}

class GraphDrawing {
 public:
  explicit GraphDrawing(const Graph& graph) : graph_(graph) {
    producer_.assign(static_cast<size_t>(graph.value_count()), -1);
    read_.assign(static_cast<size_t>(graph.value_count()), false);
    const auto read = [&](ValueId id) {
      if (id != kNoValue) read_[static_cast<size_t>(id)] = true;
    };
    for (const Node& node : graph.nodes())
      std::for_each(node.inputs.begin(), node.inputs.end(), read);
    for (const auto& [name, id] : graph.outputs()) read(id);
    for (const auto& [state, id] : graph.assignments()) read(id);
  }

  std::string draw(const std::string& title) {
    for (ValueId id : graph_.inputs()) add_input(id);
    for (const Node& node : graph_.nodes()) add_node(node);
    for (const auto& [name, id] : graph_.outputs()) {
      add_end(kOutput, name, id);
    }
    for (const auto& [state, value] : graph_.assignments()) {
      add_end(kOutput, text("update ", graph_.value_info(state).name), value);
    }
    make_label_room();
    lay_out(layout_);
    for (size_t i = 0; i < boxes_.size(); ++i) {
      layout_.boxes[i].y += boxes_[i].label_room;
      layout_.boxes[i].height -= boxes_[i].label_room;
    }
    for (LayoutEdge& edge : layout_.edges) {
      edge.points.back().y = layout_.boxes[static_cast<size_t>(edge.to)].y;
    }
    draw_modules();
    for (const LayoutEdge& edge : layout_.edges) svg_.arrow(edge.points, "#7b8794");
    for (size_t i = 0; i < boxes_.size(); ++i) draw_box(boxes_[i], layout_.boxes[i]);
    const double right = draw_heading(title);
    return svg_.finish(std::max(layout_.width, right), layout_.height, 70);
  }

 private:
  int add_box(Box box) {
    double width = Svg::text_width(box.title, kTitleSize, true);
    if (!box.side.empty()) width += 10 + Svg::text_width(box.side, kTextSize);
    for (const std::string& line : box.lines) {
      width = std::max(width, Svg::text_width(line, kTextSize));
    }
    LayoutBox place;
    place.width = width + 2 * kPadding;
    place.height =
        2 * kPadding + kTitleSize + kLineHeight * static_cast<double>(box.lines.size()) - 3;
    layout_.boxes.push_back(place);
    boxes_.push_back(std::move(box));
    return static_cast<int>(boxes_.size()) - 1;
  }

  void add_edge(ValueId value, int to) {
    const int from = producer_[static_cast<size_t>(value)];
    if (from < 0) return;
    // The edges of one box are added together, so an equal one is among the last.
    for (size_t i = layout_.edges.size(); i-- > 0 && layout_.edges[i].to == to;) {
      if (layout_.edges[i].from == from) return;
    }
    layout_.edges.push_back({from, to, {}});
  }

  void add_input(ValueId id) {
    const ValueInfo& info = graph_.value_info(id);
    Box box;
    box.kind = kInput;
    box.title = info.name;
    box.lines = {text(info.type)};
    producer_[static_cast<size_t>(id)] = add_box(std::move(box));
  }

  void add_end(Kind kind, std::string_view title, ValueId id) {
    Box box;
    box.kind = kind;
    box.title = title;
    box.lines = {text(graph_.value_info(id).type)};
    const int state = graph_.value_info(id).state;
    if (state >= 0) box.lines.push_back(graph_.states()[static_cast<size_t>(state)].name);
    add_edge(id, add_box(std::move(box)));
  }

  // A constant of one element as the number, or nothing.
  static std::string number_text(const State& state) {
    const Tensor& t = state.data.tensor;
    if (state.kind != State::Kind::constant || t.count() != 1 || t.data == nullptr) return "";
    if (t.dtype == f32) return text(double{*t.as<float>()});
    if (t.dtype == f64) return text(*t.as<double>());
    if (t.dtype == i64) return text(*t.as<int64_t>());
    return "";
  }

  // "weight f32[64, 3, 7, 7]", with neighbours of one type in one line, and numbers as themselves.
  void add_states(const Node& node, Box& box) const {
    const std::vector<Signature::Input>& inputs = node.op->signature.inputs;
    std::string names;
    TensorType type;
    const auto end_line = [&] {
      if (!names.empty()) box.lines.push_back(shortened(text(names, " ", type)));
      names.clear();
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      const ValueInfo& info = graph_.value_info(node.inputs[i]);
      if (info.state < 0) continue;
      const std::string& role = inputs[std::min(i, inputs.size() - 1)].name;
      const State& state = graph_.states()[static_cast<size_t>(info.state)];
      if (const std::string number = number_text(state); !number.empty()) {
        box.lines.push_back(text(role, " = ", number));
        continue;
      }
      if (!(info.type == type) || names.size() > 24) end_line();
      names += text(names.empty() ? "" : ", ", role);
      type = info.type;
    }
    end_line();
  }

  Kind kind_of(const Node& node) const {
    const OpDef& def = node.op->def;
    if ((def.traits & kControl) != 0) return kControlling;
    if (def.view != nullptr) return kMoving;
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
    if (def.alias != 0 && !(node.inputs.size() > 2 && scaled)) return kPointwise;
    if (weighted) return kWeighted;
    if (scaled) return kScaled;
    return shrinks ? kReducing : kOther;
  }

  void add_node(const Node& node) {
    Box box;
    box.kind = kind_of(node);
    box.title = std::string(node.op->name());
    box.module = node.origin.module;
    box.side = shortened(last_part(node.origin.module));
    for (ValueId id : node.outputs) {
      if (read_[static_cast<size_t>(id)]) box.lines.push_back(text(graph_.value_info(id).type));
    }
    if (std::string attrs = attrs_text(node); !attrs.empty()) box.lines.push_back(shortened(attrs));
    add_states(node, box);
    for (const std::shared_ptr<Graph>& subgraph : node.subgraphs) {
      box.lines.push_back(text("a graph of ", uint64_t{subgraph->nodes().size()}, " nodes"));
    }
    const std::string value_name =
        node.outputs.empty() ? "" : graph_.value_info(node.outputs[0]).name;
    box.tooltip = text(value_name, "  ", node.origin.module, "  ", node.origin.source);
    const std::vector<ValueId> inputs = node.inputs;
    const int index = add_box(std::move(box));
    for (ValueId id : inputs) {
      if (id != kNoValue) add_edge(id, index);
    }
    for (ValueId id : node.outputs) producer_[static_cast<size_t>(id)] = index;
  }

  // "a.b.c" as "a", "a.b" and "a.b.c".
  static std::vector<std::string> prefixes(const std::string& module) {
    std::vector<std::string> out;
    for (size_t dot = 0; dot != std::string::npos && !module.empty();) {
      dot = module.find('.', dot + 1);
      out.push_back(module.substr(0, dot));
    }
    return out;
  }

  // Counts the members of each module, and keeps a line free above the first of them for its name.
  void make_label_room() {
    for (const Box& box : boxes_) {
      for (const std::string& module : prefixes(box.module)) members_[module] += 1;
    }
    std::erase_if(members_, [](const auto& entry) { return entry.second < 2; });
    std::set<std::string> seen;
    for (size_t i = 0; i < boxes_.size(); ++i) {
      int last = 0;  // a module with the same members as one around it needs no frame
      for (const std::string& module : prefixes(boxes_[i].module)) {
        const auto found = members_.find(module);
        if (found == members_.end() || !seen.insert(module).second) continue;
        if (found->second != last) boxes_[i].label_room += kLabelHeight;
        last = found->second;
      }
      layout_.boxes[i].height += boxes_[i].label_room;
    }
  }

  void draw_box(const Box& box, const LayoutBox& place) {
    const KindStyle& style = kStyles[box.kind];
    const double left = place.x - place.width / 2;
    const double radius = box.kind == kInput || box.kind == kOutput ? 12 : 4;
    svg_.rect({left, place.y, place.width, place.height, radius, style.fill, style.stroke, 1.2,
               box.tooltip});
    double y = place.y + kPadding + kTitleSize - 3;
    svg_.text({left + kPadding, y, kTitleSize, "#1f2933", "start", true}, box.title);
    svg_.text({left + place.width - kPadding, y, kTextSize, "#616e7c", "end", false}, box.side);
    for (const std::string& line : box.lines) {
      y += kLineHeight;
      svg_.text({left + kPadding, y, kTextSize, "#323f4b", "start", false}, line);
    }
  }

  struct Frame {
    double left = 1e30, top = 1e30, right = -1e30, bottom = -1e30;
    int boxes = 0;
    int inside = 0;  // frames nested in it
    void include(double x, double y) {
      left = std::min(left, x), right = std::max(right, x);
      top = std::min(top, y), bottom = std::max(bottom, y);
    }
    bool touches(const LayoutBox& box) const {
      return box.x - box.width / 2 < right && box.x + box.width / 2 > left && box.y < bottom &&
             box.y + box.height > top;
    }
  };

  static bool within(const std::string& module, const std::string& prefix) {
    return module.starts_with(prefix) &&
           (module.size() == prefix.size() || module[prefix.size()] == '.');
  }

  // A module gets a frame when it has two boxes or more and no foreign box lies among them.
  void draw_modules() {
    std::map<std::string, Frame> frames;
    for (const auto& [module, count] : members_) frames[module].boxes = count;
    for (auto& [module, frame] : frames) {
      for (size_t i = 0; i < boxes_.size(); ++i) {
        if (!within(boxes_[i].module, module)) continue;
        const LayoutBox& box = layout_.boxes[i];
        frame.include(box.x - box.width / 2, box.y);
        frame.include(box.x + box.width / 2, box.y + box.height);
      }
      for (const LayoutEdge& edge : layout_.edges) {
        const bool inside = within(boxes_[static_cast<size_t>(edge.from)].module, module) &&
                            within(boxes_[static_cast<size_t>(edge.to)].module, module);
        if (!inside) continue;
        for (const Point& point : edge.points) frame.include(point.x, point.y);
      }
    }
    std::erase_if(frames, [&](const auto& entry) {
      for (size_t i = 0; i < boxes_.size(); ++i) {
        if (!within(boxes_[i].module, entry.first) && entry.second.touches(layout_.boxes[i])) {
          return true;
        }
      }
      return false;
    });
    // A frame around exactly one other frame says nothing new.
    std::set<std::string> drop;
    for (const auto& [outer, frame] : frames) {
      for (const auto& [inner, other] : frames) {
        if (inner != outer && within(inner, outer) && other.boxes == frame.boxes)
          drop.insert(outer);
      }
    }
    for (const std::string& module : drop) frames.erase(module);
    // Sorted by name an outer frame comes before its inner ones; from the back they are counted.
    for (auto outer = frames.rbegin(); outer != frames.rend(); ++outer) {
      for (const auto& [inner, frame] : frames) {
        if (inner != outer->first && within(inner, outer->first)) {
          outer->second.inside = std::max(outer->second.inside, frame.inside + 1);
        }
      }
    }
    for (const auto& [module, frame] : frames) {
      const double pad = std::min(6.0 + 5.0 * frame.inside, 21.0);
      const double top = frame.top - 6 - kLabelHeight * (frame.inside + 1);
      svg_.rect({frame.left - pad, top, frame.right - frame.left + 2 * pad,
                 frame.bottom + pad - top, 8, frame.inside % 2 == 0 ? "#fafbfc" : "#f3f6f9",
                 "#d5dce3", 1, module});
      svg_.text({frame.left - pad + 6, top + 12, 10, "#829ab1", "start", true}, module);
    }
  }

  // Returns how far the heading reaches to the right.
  double draw_heading(const std::string& title) {
    svg_.text({-40, -44, 16, "#1f2933", "start", true}, title);
    std::set<Kind> kinds;
    for (const Box& box : boxes_) kinds.insert(box.kind);
    double x = -40;
    for (Kind kind : kinds) {
      const KindStyle& style = kStyles[kind];
      svg_.rect({x, -34, 11, 11, 2, style.fill, style.stroke, 1, ""});
      svg_.text({x + 15, -24.5, 10.5, "#52606d", "start", false}, style.words);
      x += 15 + Svg::text_width(style.words, 10.5) + 14;
    }
    return std::max(x, -40 + Svg::text_width(title, 16, true));
  }

  const Graph& graph_;
  std::vector<Box> boxes_;
  std::vector<int> producer_;           // the box that makes each value
  std::vector<bool> read_;              // whether anything reads it
  std::map<std::string, int> members_;  // boxes in each module, those inside it counted too
  Layout layout_;
  Svg svg_;
};

}  // namespace

std::string draw_graph(const Graph& graph, const std::string& title) {
  return GraphDrawing(graph).draw(title);
}

}  // namespace hg::tools
