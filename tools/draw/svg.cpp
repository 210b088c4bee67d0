// SPDX-License-Identifier: Apache-2.0
// Writes SVG elements. Numbers have one decimal, which is finer than a screen.
#include "tools/draw/svg.h"

#include <cstdio>

#include "hg/status.h"

namespace hg::tools {
namespace {

std::string number(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f", value);
  std::string digits = out;
  if (digits.ends_with(".0")) digits.resize(digits.size() - 2);
  return digits == "-0" ? "0" : digits;
}

std::string escaped(std::string_view words) {
  std::string out;
  for (char c : words) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (static_cast<unsigned char>(c) >= ' ') {
      out += c;
    }
  }
  return out;
}

}  // namespace

void Svg::rect(const Rect& r) {
  body_ += str_cat("<rect x=\"", number(r.x), "\" y=\"", number(r.y), "\" width=\"",
                   number(r.width), "\" height=\"", number(r.height), "\"");
  if (!r.id.empty()) body_ += str_cat(" id=\"", escaped(r.id), "\"");
  if (r.radius > 0) body_ += str_cat(" rx=\"", number(r.radius), "\"");
  body_ += str_cat(" fill=\"", r.fill, "\"");
  if (r.stroke != "none") {
    body_ += str_cat(" stroke=\"", r.stroke, "\" stroke-width=\"", number(r.stroke_width), "\"");
  }
  body_ += r.title.empty() ? "/>\n" : str_cat("><title>", escaped(r.title), "</title></rect>\n");
}

void Svg::text(const Text& t, std::string_view words) {
  body_ += str_cat("<text x=\"", number(t.x), "\" y=\"", number(t.y), "\" font-size=\"",
                   number(t.size), "\" fill=\"", t.fill, "\"");
  if (t.anchor != "start") body_ += str_cat(" text-anchor=\"", t.anchor, "\"");
  if (t.bold) body_ += " font-weight=\"bold\"";
  body_ += str_cat(">", escaped(words), "</text>\n");
}

void Svg::line(Point from, Point to, std::string_view stroke, double width, bool dashed) {
  body_ +=
      str_cat("<line x1=\"", number(from.x), "\" y1=\"", number(from.y), "\" x2=\"", number(to.x),
              "\" y2=\"", number(to.y), "\" stroke=\"", stroke, "\" stroke-width=\"", number(width),
              "\"", dashed ? " stroke-dasharray=\"5 4\"" : "", "/>\n");
}

void Svg::lines(std::span<const Point> points, std::string_view stroke, double width) {
  body_ += "<polyline points=\"";
  for (const Point& p : points)
    body_ += str_cat(&p == points.data() ? "" : " ", number(p.x), ",", number(p.y));
  body_ +=
      str_cat("\" fill=\"none\" stroke=\"", stroke, "\" stroke-width=\"", number(width), "\"/>\n");
}

void Svg::arrow(std::span<const Point> points, std::string_view stroke) {
  std::string path = str_cat("M", number(points[0].x), " ", number(points[0].y));
  for (size_t i = 1; i < points.size(); ++i) {
    const Point a = points[i - 1], b = points[i];
    if (a.x == b.x) {
      path += str_cat(" L", number(b.x), " ", number(b.y));
      continue;
    }
    const double middle = (a.y + b.y) / 2;
    path += str_cat(" C", number(a.x), " ", number(middle), " ", number(b.x), " ", number(middle),
                    " ", number(b.x), " ", number(b.y));
  }
  body_ += str_cat("<path d=\"", path, "\" fill=\"none\" stroke=\"", stroke,
                   "\" stroke-width=\"1.3\" marker-end=\"url(#head)\"/>\n");
}

std::string Svg::finish(double width, double height, double margin) const {
  const std::string w = number(width + 2 * margin), h = number(height + 2 * margin);
  const std::string m = number(-margin);
  return str_cat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w, "\" height=\"", h, "\" viewBox=\"",
      m, " ", m, " ", w, " ", h, "\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">\n",
      "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" "
      "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0.5 L8 4 L0 7.5 z\" fill=\"#52606d\"/>"
      "</marker></defs>\n<rect x=\"",
      m, "\" y=\"", m, "\" width=\"", w, "\" height=\"", h, "\" fill=\"#ffffff\"/>\n", body_,
      "</svg>\n");
}

double Svg::text_width(std::string_view words, double size, bool bold) {
  // Slightly more than the mean width of DejaVu Sans, the widest of the usual fonts.
  return static_cast<double>(words.size()) * size * (bold ? 0.67 : 0.59);
}

}  // namespace hg::tools
