// SPDX-License-Identifier: Apache-2.0
// A drawing as SVG text. Sizes are pixels; text is escaped only here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/draw/layout.h"

namespace hg::tools {

class Svg {
 public:
  struct Rect {
    double x = 0, y = 0, width = 0, height = 0, radius = 0;
    std::string_view fill = "none", stroke = "none";
    double stroke_width = 1;
    std::string_view title = "";  // shown when the pointer is over it
    std::string_view id = "";     // for scripts of an enclosing page
  };
  struct Text {
    double x = 0, y = 0, size = 11;
    std::string_view fill = "#1f2933", anchor = "start";
    bool bold = false;
  };

  void rect(const Rect& rect);
  void text(const Text& style, std::string_view words);
  void line(Point from, Point to, std::string_view stroke, double width, bool dashed = false);
  void lines(std::span<const Point> points, std::string_view stroke, double width);
  // A curve through the points, vertical at each, with an arrow head at the end.
  void arrow(std::span<const Point> points, std::string_view stroke);
  // The whole file, with a margin around [0, width] x [0, height].
  std::string finish(double width, double height, double margin) const;

  // The approximate width of the words.
  static double text_width(std::string_view words, double size, bool bold = false);

 private:
  std::string body_;
};

}  // namespace hg::tools
