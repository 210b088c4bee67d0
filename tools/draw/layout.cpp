// SPDX-License-Identifier: Apache-2.0
// Four steps: layers by longest path; one chain of bends per source for edges that cross layers;
// order within layers by barycenters; straight vertical lines, moved toward their neighbors.
#include "tools/draw/layout.h"

#include <algorithm>
#include <cstdint>

namespace hg::tools {
namespace {

// A box, or the point where a long edge passes through a layer.
struct Spot {
  int box = -1;  // -1 for a bend
  int layer = 0;
  int order = 0;  // within the layer
  double width = 0;
  double x = 0;
  std::vector<int> above, below;  // neighbors in the next layers
};

constexpr double kBendWidth = 10;

class Layering {
 public:
  explicit Layering(Layout& layout) : layout_(layout) {}

  void run() {
    assign_layers();
    make_spots();
    order_layers();
    place_x();
    write_back();
  }

 private:
  int layer_of_box(int box) const { return spots_[box].layer; }
  Spot& spot(int i) { return spots_[i]; }
  const Spot& spot(int i) const { return spots_[i]; }

  // Longest path from the sources. A source then moves down to just above its first reader.
  void assign_layers() {
    const size_t n = layout_.boxes.size();
    spots_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      spots_[i].box = static_cast<int>(i);
      spots_[i].width = layout_.boxes[i].width;
    }
    std::vector<std::vector<int>> readers(n);
    std::vector<bool> has_input(n, false);
    for (const LayoutEdge& edge : layout_.edges) {
      readers[edge.from].push_back(edge.to);
      has_input[edge.to] = true;
    }
    for (size_t i = 0; i < n; ++i) {
      for (int to : readers[i]) spot(to).layer = std::max(spot(to).layer, spots_[i].layer + 1);
    }
    for (size_t i = 0; i < n; ++i) {
      if (has_input[i] || readers[i].empty()) continue;
      int first = INT32_MAX;
      for (int to : readers[i]) first = std::min(first, spot(to).layer);
      spots_[i].layer = first - 1;
    }
  }

  void join(int upper, int lower) {
    std::vector<int>& below = spot(upper).below;
    if (std::find(below.begin(), below.end(), lower) != below.end()) return;
    below.push_back(lower);
    spot(lower).above.push_back(upper);
  }

  // All long edges of one source share their bends, so that a value with many readers is one line.
  void make_spots() {
    std::vector<std::vector<int>> chains(layout_.boxes.size());
    routes_.resize(layout_.edges.size());
    for (size_t e = 0; e < layout_.edges.size(); ++e) {
      const LayoutEdge& edge = layout_.edges[e];
      std::vector<int>& chain = chains[edge.from];
      const int top = layer_of_box(edge.from);
      const int bends = layer_of_box(edge.to) - top - 1;
      int last = edge.from;
      for (int k = 0; k < bends; ++k) {
        if (k == static_cast<int>(chain.size())) {
          Spot bend;
          bend.layer = top + 1 + k;
          bend.width = kBendWidth;
          chain.push_back(static_cast<int>(spots_.size()));
          spots_.push_back(bend);
        }
        join(last, chain[k]);
        last = chain[k];
        routes_[e].push_back(last);
      }
      join(last, edge.to);
    }
    int layers = 0;
    for (const Spot& s : spots_) layers = std::max(layers, s.layer + 1);
    layers_.resize(layers);
    // Depth first from the sources keeps branches together. Bends follow the boxes of their layer.
    std::vector<bool> seen(spots_.size(), false);
    for (size_t root = 0; root < spots_.size(); ++root) {
      std::vector<int> stack{static_cast<int>(root)};
      while (!stack.empty()) {
        const int at = stack.back();
        stack.pop_back();
        if (seen[at]) continue;
        seen[at] = true;
        layers_[spot(at).layer].push_back(at);
        const std::vector<int>& below = spot(at).below;
        for (size_t i = below.size(); i-- > 0;) {
          if (spot(below[i]).box < 0) stack.push_back(below[i]);
        }
        for (size_t i = below.size(); i-- > 0;) {
          if (spot(below[i]).box >= 0) stack.push_back(below[i]);
        }
      }
    }
    number_layers();
  }

  void number_layers() {
    for (const std::vector<int>& layer : layers_) {
      for (size_t i = 0; i < layer.size(); ++i) spot(layer[i]).order = static_cast<int>(i);
    }
  }

  // Counts pairs of crossing edges between neighboring layers, with a Fenwick tree.
  int64_t crossings() const {
    int64_t total = 0;
    std::vector<int> ends;
    for (size_t l = 0; l + 1 < layers_.size(); ++l) {
      std::vector<int64_t> tree(layers_[l + 1].size() + 1, 0);
      int64_t placed = 0;
      for (int upper : layers_[l]) {
        ends.clear();
        for (int lower : spot(upper).below) ends.push_back(spot(lower).order + 1);
        for (int end : ends) {
          int64_t left_or_equal = 0;
          for (int i = end; i > 0; i -= i & -i) left_or_equal += tree[i];
          total += placed - left_or_equal;
        }
        for (int end : ends) {
          ++placed;
          for (size_t i = static_cast<size_t>(end); i < tree.size(); i += i & (~i + 1)) ++tree[i];
        }
      }
    }
    return total;
  }

  void sort_layer(std::vector<int>& layer, bool by_above) {
    std::vector<double> centre(spots_.size(), 0);
    for (int at : layer) {
      const std::vector<int>& near = by_above ? spot(at).above : spot(at).below;
      double sum = 0;
      for (int other : near) sum += spot(other).order;
      centre[at] = near.empty() ? spot(at).order : sum / static_cast<double>(near.size());
    }
    std::stable_sort(layer.begin(), layer.end(),
                     [&](int a, int b) { return centre[a] < centre[b]; });
    for (size_t i = 0; i < layer.size(); ++i) spot(layer[i]).order = static_cast<int>(i);
  }

  void order_layers() {
    std::vector<std::vector<int>> best = layers_;
    int64_t fewest = crossings();
    for (int round = 0; round < 12 && fewest > 0; ++round) {
      if (round % 2 == 0) {
        for (size_t l = 1; l < layers_.size(); ++l) sort_layer(layers_[l], true);
      } else {
        for (size_t l = layers_.size(); l-- > 1;) sort_layer(layers_[l - 1], false);
      }
      const int64_t now = crossings();
      if (now < fewest) {
        fewest = now;
        best = layers_;
      }
    }
    layers_ = best;
    number_layers();
  }

  // The spots of one straight vertical line.
  struct Line {
    std::vector<int> spots;
    double x = 0;
  };

  // The middle one of several neighbors in a row, all boxes or all bends; otherwise -1.
  int middle(const std::vector<int>& near, bool bends) const {
    std::vector<int> same;
    for (int other : near) {
      if ((spot(other).box < 0) == bends) same.push_back(other);
    }
    if (same.empty()) return -1;
    std::sort(same.begin(), same.end(),
              [&](int a, int b) { return spot(a).order < spot(b).order; });
    return same[(same.size() - 1) / 2];
  }

  // Two spots that are each other's middle neighbor share a line. Boxes come before bends. Lines
  // never cross, so they can be ordered from left to right (Brandes and Koepf 2001).
  void make_lines() {
    std::vector<int> next(spots_.size(), -1);
    std::vector<bool> joined(spots_.size(), false);
    for (size_t l = 0; l + 1 < layers_.size(); ++l) {
      std::vector<std::pair<int, int>> taken;  // orders of joined spots, above and below
      for (bool bends : {false, true}) {
        for (int upper : layers_[l]) {
          if ((spot(upper).box < 0) != bends || next[upper] >= 0) continue;
          const int lower = middle(spot(upper).below, bends);
          if (lower < 0 || middle(spot(lower).above, bends) != upper) continue;
          const std::pair<int, int> here{spot(upper).order, spot(lower).order};
          const bool crosses = std::any_of(taken.begin(), taken.end(), [&](const auto& other) {
            return (other.first < here.first) != (other.second < here.second);
          });
          if (crosses) continue;
          taken.push_back(here);
          next[upper] = lower;
          joined[lower] = true;
        }
      }
    }
    line_of_.assign(spots_.size(), -1);
    for (size_t i = 0; i < spots_.size(); ++i) {
      if (joined[i]) continue;
      Line line;
      for (int at = static_cast<int>(i); at >= 0; at = next[at]) {
        line.spots.push_back(at);
        line_of_[at] = static_cast<int>(lines_.size());
      }
      lines_.push_back(std::move(line));
    }
  }

  double gap(int left, int right) const {
    return (spot(left).width + spot(right).width) / 2 + layout_.gap_x;
  }
  // The adjacent spot in its layer, or -1.
  int beside(int at, int step) const {
    const std::vector<int>& layer = layers_[spot(at).layer];
    const int order = spot(at).order + step;
    return order < 0 || order >= static_cast<int>(layer.size()) ? -1 : layer[order];
  }
  Line& line_at(int at) { return lines_[line_of_[at]]; }

  // As far left as the lines on the left allow, one line after another.
  void pack_lines() {
    std::vector<int> waiting(lines_.size(), 0);
    std::vector<int> ready;
    for (size_t i = 0; i < lines_.size(); ++i) {
      for (int at : lines_[i].spots) waiting[i] += beside(at, -1) >= 0 ? 1 : 0;
      if (waiting[i] == 0) ready.push_back(static_cast<int>(i));
    }
    while (!ready.empty()) {
      Line& line = lines_[ready.back()];
      order_of_lines_.push_back(ready.back());
      ready.pop_back();
      for (int at : line.spots) {
        const int right = beside(at, 1);
        if (right < 0) continue;
        Line& other = line_at(right);
        other.x = std::max(other.x, line.x + gap(at, right));
        const size_t index = static_cast<size_t>(line_of_[right]);
        if (--waiting[index] == 0) ready.push_back(static_cast<int>(index));
      }
    }
  }

  // Moves a line toward the mean of its neighbors, as far as adjacent lines allow. The ends of long
  // edges count little, so that a skip connection bends around a straight main line.
  void pull(Line& line) {
    double sum = 0, total = 0, least = -1e30, most = 1e30;
    for (int at : line.spots) {
      for (const std::vector<int>* near : {&spot(at).above, &spot(at).below}) {
        for (int other : *near) {
          if (&line_at(other) == &line) continue;
          const double weight = spot(at).box >= 0 && spot(other).box >= 0 ? 1 : 0.05;
          sum += weight * line_at(other).x;
          total += weight;
        }
      }
      if (const int left = beside(at, -1); left >= 0) {
        least = std::max(least, line_at(left).x + gap(left, at));
      }
      if (const int right = beside(at, 1); right >= 0) {
        most = std::min(most, line_at(right).x - gap(at, right));
      }
    }
    if (total > 0) line.x = std::max(least, std::min(most, sum / total));
  }

  void place_x() {
    make_lines();
    pack_lines();
    for (int round = 0; round < 24; ++round) {
      // Alternates the direction: starting from the right leaves room to move right, and vice
      // versa.
      if (round % 2 == 0) {
        for (size_t i = order_of_lines_.size(); i-- > 0;) pull(lines_[order_of_lines_[i]]);
      } else {
        for (int i : order_of_lines_) pull(lines_[i]);
      }
    }
    for (size_t i = 0; i < spots_.size(); ++i) spots_[i].x = line_at(static_cast<int>(i)).x;
  }

  void write_back() {
    double left = 0, right = 0;
    for (size_t i = 0; i < spots_.size(); ++i) {
      const double half = spots_[i].width / 2;
      left = i == 0 ? spots_[i].x - half : std::min(left, spots_[i].x - half);
      right = i == 0 ? spots_[i].x + half : std::max(right, spots_[i].x + half);
    }
    for (Spot& s : spots_) s.x -= left;
    layout_.width = right - left;

    std::vector<double> top(layers_.size(), 0), bottom(layers_.size(), 0);
    double y = 0;
    for (size_t l = 0; l < layers_.size(); ++l) {
      double height = 0;
      for (int at : layers_[l]) {
        if (spot(at).box < 0) continue;
        height = std::max(height, layout_.boxes[spot(at).box].height);
      }
      top[l] = y;
      bottom[l] = y + height;
      y += height + layout_.gap_y;
    }
    layout_.height = std::max(0.0, y - layout_.gap_y);
    for (const Spot& s : spots_) {
      if (s.box < 0) continue;
      LayoutBox& box = layout_.boxes[s.box];
      const size_t l = static_cast<size_t>(s.layer);
      box.x = s.x;
      box.y = (top[l] + bottom[l] - box.height) / 2;
    }
    for (size_t e = 0; e < layout_.edges.size(); ++e) {
      LayoutEdge& edge = layout_.edges[e];
      const LayoutBox& from = layout_.boxes[edge.from];
      edge.points = {{from.x, from.y + from.height}};
      for (int bend : routes_[e]) {
        const size_t l = static_cast<size_t>(spot(bend).layer);
        edge.points.push_back({spot(bend).x, top[l]});
        edge.points.push_back({spot(bend).x, bottom[l]});
      }
    }
    end_edges();
  }

  // Edges enter a box side by side, in the order of their origins.
  void end_edges() {
    std::vector<std::vector<size_t>> arriving(layout_.boxes.size());
    for (size_t e = 0; e < layout_.edges.size(); ++e) {
      arriving[layout_.edges[e].to].push_back(e);
    }
    for (size_t b = 0; b < arriving.size(); ++b) {
      std::vector<size_t>& edges = arriving[b];
      const LayoutBox& box = layout_.boxes[b];
      std::stable_sort(edges.begin(), edges.end(), [&](size_t p, size_t q) {
        return layout_.edges[p].points.back().x < layout_.edges[q].points.back().x;
      });
      const double step = std::min(24.0, 0.8 * box.width / static_cast<double>(edges.size()));
      // The straightest edge is in the middle, so that a straight line stays straight.
      double middle = static_cast<double>(edges.size() - 1) / 2;
      for (size_t k = 0; k < edges.size(); ++k) {
        const double away = layout_.edges[edges[k]].points.back().x - box.x;
        if (away < 0.5 && away > -0.5 && edges.size() < 4) middle = static_cast<double>(k);
      }
      for (size_t k = 0; k < edges.size(); ++k) {
        layout_.edges[edges[k]].points.push_back(
            {box.x + (static_cast<double>(k) - middle) * step, box.y});
      }
    }
  }

  Layout& layout_;
  std::vector<Spot> spots_;               // boxes first
  std::vector<std::vector<int>> routes_;  // the bends of each edge
  std::vector<std::vector<int>> layers_;
  std::vector<Line> lines_;
  std::vector<int> line_of_;         // of each spot
  std::vector<int> order_of_lines_;  // from left to right
};

}  // namespace

void lay_out(Layout& layout) { Layering(layout).run(); }

}  // namespace hg::tools
