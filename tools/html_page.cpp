// SPDX-License-Identifier: Apache-2.0
#include "tools/html_page.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/graph/element.h"
#include "tools/draw/draw_graph.h"
#include "tools/draw/graph_boxes.h"
#include "tools/html_script.h"

namespace hg::tools {
namespace {

using nlohmann::ordered_json;

// Statistics of the finite elements (of complex ones, both parts): range, mean, deviation, and a
// histogram of equal bins. For f32, also the error of Precision::bf16.
ordered_json histogram(const State& state) {
  constexpr int kBins = 40;
  ordered_json row = {{"name", state.name},
                      {"type", str_cat(state.data.tensor.dtype, state.data.tensor.shape)}};
  if (state.data.empty()) {
    row["is_packed"] = true;
    return row;
  }
  const Tensor tensor = view_as_real(state.data.tensor);
  const auto each_finite = [&](auto&& take) {
    for (int64_t i = 0; i < tensor.count(); ++i)
      if (const double x = element(tensor, i); std::isfinite(x)) take(x);
  };
  int64_t finite = 0;
  double low = INFINITY, high = -INFINITY;
  each_finite([&](double x) {
    ++finite;
    low = std::min(low, x), high = std::max(high, x);
  });
  row["not_finite"] = tensor.count() - finite;
  if (finite == 0) return row;
  const auto count = static_cast<double>(finite);
  // Relative to the largest element, so that squares do not overflow.
  const double unit = std::max({-low, high, DBL_MIN});
  double mean = 0, squares = 0, bf16_largest = 0, bf16_squares = 0;
  std::array<int64_t, kBins> bins{};
  each_finite([&](double x) { mean += x / unit / count; });
  each_finite([&](double x) {
    squares += (x / unit - mean) * (x / unit - mean) / count;
    // Halves, so that differences do not overflow.
    const double at = high > low ? (x / 2 - low / 2) / (high / 2 - low / 2) : 0;
    ++bins[static_cast<size_t>(std::min(at * kBins, kBins - 1.0))];
    const double by = static_cast<float>(BFloat16(static_cast<float>(x))) - x;
    if (!std::isfinite(by)) return;  // beyond bf16's range
    bf16_largest = std::max(bf16_largest, std::abs(by));
    bf16_squares += by * by / count;
  });
  row["low"] = low;
  row["high"] = high;
  row["mean"] = std::clamp(mean * unit, low, high);
  row["deviation"] = low == high ? 0 : std::sqrt(squares) * unit;
  row["bins"] = bins;
  if (state.data.tensor.dtype != f32) return row;
  row["bf16_largest"] = bf16_largest;
  row["bf16_rms"] = std::sqrt(bf16_squares);
  return row;
}

ordered_json nodes_of(const Graph& graph, const std::map<std::string, double>& ms) {
  ordered_json nodes = ordered_json::array();
  const GraphBoxes boxes = boxes_of(graph);
  for (const Box& box : boxes.boxes) {
    ordered_json row = {
        {"op", box.title}, {"side", box.side}, {"lines", box.lines}, {"module", box.module}};
    nodes.push_back(std::move(row));
  }
  // Nodes come after the inputs, in order.
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const size_t at = graph.inputs().size() + i;
    if (at >= nodes.size()) break;
    const Node& node = graph.nodes()[i];
    ordered_json outputs = ordered_json::array(), inputs = ordered_json::array();
    for (const ValueId id : node.outputs) {
      const ValueInfo& value = graph.value_info(id);
      outputs.push_back(str_cat(value.name, " : ", value.type));
      if (const auto found = ms.find(value.name); found != ms.end())
        nodes[at]["ms"] = found->second;
    }
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const ValueInfo& value = graph.value_info(id);
      inputs.push_back(str_cat(value.name, " : ", value.type));
    }
    nodes[at]["name"] = graph.value_info(node.outputs[0]).name;
    nodes[at]["outputs"] = std::move(outputs);
    nodes[at]["inputs"] = std::move(inputs);
    nodes[at]["source"] = node.origin.source;
  }
  for (size_t i = 0; i < graph.inputs().size() && i < nodes.size(); ++i) {
    const ValueInfo& value = graph.value_info(graph.inputs()[i]);
    nodes[i]["name"] = value.name;
    nodes[i]["outputs"] = {str_cat(value.name, " : ", value.type)};
  }
  return nodes;
}

// No data may end the enclosing script element.
std::string for_script(const ordered_json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, ordered_json::error_handler_t::replace))
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

std::string for_text(const std::string& words) {
  std::string out;
  for (const char c : words)
    out += c == '<' ? std::string("&lt;") : c == '&' ? std::string("&amp;") : std::string(1, c);
  return out;
}

}  // namespace

std::string html_page(const Graph& graph, const PageParts& parts) {
  ordered_json weights = ordered_json::array();
  for (const State& state : graph.states()) {
    if (state.name.empty() || state.data.tensor.count() == 0) continue;
    weights.push_back(histogram(state));
    if (const auto found = parts.errors.find(state.name); found != parts.errors.end())
      weights.back()["error"] = found->second;
  }
  const ordered_json data = {{"nodes", nodes_of(graph, parts.ms)}, {"weights", weights}};
  std::string page =
      str_cat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>",
              for_text(parts.title), "</title>\n<style>", kPageStyle, "</style></head>\n<body><h1>",
              for_text(parts.title), "</h1>\n", kPageBody);
  page += str_cat("<div id=\"graph\" class=\"view\">", draw_graph(graph, parts.title), "</div>\n");
  page += str_cat("<div id=\"memory\" class=\"view\" hidden>",
                  parts.memory_svg.empty()
                      ? "<p>Known once every symbol has a size: hg-info --dim n=1 --html FILE.</p>"
                      : parts.memory_svg,
                  "</div>\n");
  page +=
      "<div id=\"time\" class=\"view\" hidden></div>\n<div id=\"weights\" class=\"view\" "
      "hidden></div>\n";
  page += str_cat("<script>const data = ", for_script(data), ";\n", kPageScript,
                  "</script></body></html>\n");
  return page;
}

}  // namespace hg::tools
