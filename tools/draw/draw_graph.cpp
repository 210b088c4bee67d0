// SPDX-License-Identifier: Apache-2.0
// Lays out the boxes, and frames the modules whose boxes are next to each other.
#include "tools/draw/draw_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "tools/draw/graph_boxes.h"
#include "tools/draw/layout.h"
#include "tools/draw/svg.h"

namespace hg::tools {
namespace {

constexpr double kPadding = 8, kTitleSize = 13, kTextSize = 10.5, kLineHeight = 14;
constexpr double kLabelHeight = 15;

class GraphDrawing {
 public:
  explicit GraphDrawing(const Graph& graph) : boxes_(boxes_of(graph)) {
    for (const Box& box : boxes_.boxes) add_box(box);
    for (const Arrow& arrow : boxes_.arrows) layout_.edges.push_back({arrow.from, arrow.to, {}});
  }

  std::string draw(const std::string& title) {
    make_label_room();
    lay_out(layout_);
    for (size_t i = 0; i < boxes_.boxes.size(); ++i) {
      layout_.boxes[i].y += label_room_[i];
      layout_.boxes[i].height -= label_room_[i];
    }
    for (LayoutEdge& edge : layout_.edges) {
      edge.points.back().y = layout_.boxes[edge.to].y;
    }
    draw_modules();
    for (const LayoutEdge& edge : layout_.edges) svg_.arrow(edge.points, "#7b8794");
    for (size_t i = 0; i < boxes_.boxes.size(); ++i)
      draw_box(boxes_.boxes[i], layout_.boxes[i], str_cat("box", i));
    const double right = draw_heading(title);
    return svg_.finish(std::max(layout_.width, right), layout_.height, 70);
  }

 private:
  void add_box(const Box& box) {
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
  }

  // Counts the members of each module, and reserves a line above the first one for the module's
  // name.
  void make_label_room() {
    for (const Box& box : boxes_.boxes) {
      for (const std::string& module : modules_around(box.module)) members_[module] += 1;
    }
    std::erase_if(members_, [](const auto& entry) { return entry.second < 2; });
    label_room_.assign(boxes_.boxes.size(), 0);
    std::set<std::string> seen;
    for (size_t i = 0; i < boxes_.boxes.size(); ++i) {
      int last = 0;  // a module with the same members as its parent needs no frame
      for (const std::string& module : modules_around(boxes_.boxes[i].module)) {
        const auto found = members_.find(module);
        if (found == members_.end() || !seen.insert(module).second) continue;
        if (found->second != last) label_room_[i] += kLabelHeight;
        last = found->second;
      }
      layout_.boxes[i].height += label_room_[i];
    }
  }

  void draw_box(const Box& box, const LayoutBox& place, const std::string& id) {
    const BoxStyle& style = style_of(box.kind);
    const double left = place.x - place.width / 2;
    const double radius = box.kind == BoxKind::input || box.kind == BoxKind::output ? 12 : 4;
    svg_.rect({left, place.y, place.width, place.height, radius, style.fill, style.stroke, 1.2,
               box.tooltip, id});
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
    int inside = 0;  // nesting depth of the frames in it
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

  // A module gets a frame if it has at least two boxes and no foreign box among them.
  void draw_modules() {
    std::map<std::string, Frame> frames;
    for (const auto& [module, count] : members_) frames[module].boxes = count;
    for (auto& [module, frame] : frames) {
      for (size_t i = 0; i < boxes_.boxes.size(); ++i) {
        if (!within(boxes_.boxes[i].module, module)) continue;
        const LayoutBox& box = layout_.boxes[i];
        frame.include(box.x - box.width / 2, box.y);
        frame.include(box.x + box.width / 2, box.y + box.height);
      }
      for (const LayoutEdge& edge : layout_.edges) {
        const bool inside = within(boxes_.boxes[edge.from].module, module) &&
                            within(boxes_.boxes[edge.to].module, module);
        if (!inside) continue;
        for (const Point& point : edge.points) frame.include(point.x, point.y);
      }
    }
    std::erase_if(frames, [&](const auto& entry) {
      for (size_t i = 0; i < boxes_.boxes.size(); ++i) {
        if (!within(boxes_.boxes[i].module, entry.first) &&
            entry.second.touches(layout_.boxes[i])) {
          return true;
        }
      }
      return false;
    });
    // A frame around exactly one other frame adds no information.
    std::set<std::string> drop;
    for (const auto& [outer, frame] : frames) {
      for (const auto& [inner, other] : frames) {
        if (inner != outer && within(inner, outer) && other.boxes == frame.boxes)
          drop.insert(outer);
      }
    }
    for (const std::string& module : drop) frames.erase(module);
    // In order of names, an outer frame precedes its inner ones, so frames are counted from the
    // back.
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

  // Returns the right end of the heading.
  double draw_heading(const std::string& title) {
    svg_.text({-40, -44, 16, "#1f2933", "start", true}, title);
    std::set<BoxKind> kinds;
    for (const Box& box : boxes_.boxes) kinds.insert(box.kind);
    double x = -40;
    for (BoxKind kind : kinds) {
      const BoxStyle& style = style_of(kind);
      svg_.rect({x, -34, 11, 11, 2, style.fill, style.stroke, 1, ""});
      svg_.text({x + 15, -24.5, 10.5, "#52606d", "start", false}, style.words);
      x += 15 + Svg::text_width(style.words, 10.5) + 14;
    }
    return std::max(x, -40 + Svg::text_width(title, 16, true));
  }

  GraphBoxes boxes_;
  std::vector<double> label_room_;      // above each box, for the names of modules that start there
  std::map<std::string, int> members_;  // boxes in each module, including its inner modules
  Layout layout_;
  Svg svg_;
};

}  // namespace

std::string draw_graph(const Graph& graph, const std::string& title) {
  return GraphDrawing(graph).draw(title);
}

}  // namespace hg::tools
