// SPDX-License-Identifier: Apache-2.0
#include "tools/draw/draw_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/draw/svg.h"

namespace hg::tools {
namespace {

constexpr double kCurveWidth = 720, kCurveHeight = 360;
constexpr size_t kMostPoints = 600;
constexpr std::string_view kColours[] = {"#9fb3c8", "#0b69a3", "#c2255c", "#3f9142"};

std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<Point> out;
  for (size_t i = 0; i < kMostPoints; ++i) {
    const size_t first = i * points.size() / kMostPoints;
    const size_t last = (i + 1) * points.size() / kMostPoints;
    Point mean{0, 0};
    for (size_t k = first; k < last; ++k) mean = {mean.x + points[k].x, mean.y + points[k].y};
    const auto count = static_cast<double>(last - first);
    out.push_back({mean.x / count, mean.y / count});
  }
  return out;
}

// 1, 2 or 5 times a power of ten that divides `span` into about `parts`.
double round_step(double span, double parts) {
  const double raw = std::max(span, 1e-300) / parts;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

std::string number_text(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.4g", value);
  return out;
}

}  // namespace

std::string draw_curves(std::span<const Curve> curves, const std::string& title,
                        const std::string& x_name, const std::string& y_name) {
  Point low{HUGE_VAL, HUGE_VAL}, high{-HUGE_VAL, -HUGE_VAL};
  std::vector<Curve> drawn;
  for (const Curve& curve : curves) {
    drawn.push_back({curve.name, thinned(curve.points)});
    for (const Point& p : drawn.back().points) {
      low = {std::min(low.x, p.x), std::min(low.y, p.y)};
      high = {std::max(high.x, p.x), std::max(high.y, p.y)};
    }
  }
  if (!(low.x <= high.x)) low = {0, 0}, high = {1, 1};
  if (low.x == high.x) high.x += 1;
  const bool is_log = low.y > 0 && high.y > 30 * low.y;
  const auto scaled = [&](double y) { return is_log ? std::log10(y) : y; };
  double bottom = scaled(low.y), top = scaled(high.y);
  if (bottom == top) bottom -= 0.5, top += 0.5;
  const auto at = [&](const Point& p) {
    return Point{(p.x - low.x) / (high.x - low.x) * kCurveWidth,
                 kCurveHeight - (scaled(p.y) - bottom) / (top - bottom) * kCurveHeight};
  };

  Svg svg;
  svg.text({0, -34, 16, "#1f2933", "start", true}, title);
  svg.rect({0, 0, kCurveWidth, kCurveHeight, 0, "#fbfcfd", "#9aa5b1", 1, ""});
  const double y_step = is_log ? 1 : round_step(top - bottom, 5);
  for (double y = std::ceil(bottom / y_step) * y_step; y <= top + 1e-9 * y_step; y += y_step) {
    const double value = is_log ? std::pow(10, y) : std::fabs(y) < y_step / 2 ? 0 : y;
    const double line = at({low.x, value}).y;
    if (!is_log || value > 0) {
      svg.line({-5, line}, {kCurveWidth, line}, "#e4e7eb", 1);
      svg.text({-9, line + 4, 10, "#52606d", "end", false}, number_text(value));
    }
  }
  const double x_step = std::max(1.0, round_step(high.x - low.x, 8));
  for (double x = std::ceil(low.x / x_step) * x_step; x <= high.x; x += x_step)
    svg.text({at({x, high.y}).x, kCurveHeight + 16, 10, "#52606d", "middle", false},
             number_text(x));
  svg.text({kCurveWidth / 2, kCurveHeight + 34, 11, "#52606d", "middle", false}, x_name);
  double legend = 0;
  svg.text({legend, -14, 11, "#52606d", "start", false}, y_name + " of");
  legend += Svg::text_width(y_name + " of", 11) + 14;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const std::string_view colour = kColours[i % std::size(kColours)];
    const double thick = i == 0 ? 1 : 2;
    const auto& points = drawn[i].points;
    std::vector<Point> places;
    for (const Point& p : points) places.push_back(at(p));
    if (places.size() == 1)
      svg.rect({places[0].x - 2, places[0].y - 2, 4, 4, 2, colour, colour, 1, ""});
    else if (!places.empty())
      svg.lines(places, colour, thick);
    svg.line({legend, -18}, {legend + 18, -18}, colour, thick + 1);
    svg.text({legend + 24, -14, 11, "#52606d", "start", false}, drawn[i].name);
    legend += Svg::text_width(drawn[i].name, 11) + 44;
  }
  return svg.finish(kCurveWidth, kCurveHeight + 20, 70);
}

}  // namespace hg::tools
