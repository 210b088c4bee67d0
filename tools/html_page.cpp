// SPDX-License-Identifier: Apache-2.0
#include "tools/html_page.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/graph/element.h"
#include "tools/draw/draw_graph.h"
#include "tools/draw/graph_boxes.h"

namespace hg::tools {
namespace {

// The fixed parts of the page: style, frame and script.
constexpr std::string_view kPageStyle = R"(
body { margin: 0; font: 14px system-ui, sans-serif; color: #1f2933; display: grid; height: 100vh;
  grid-template: auto auto 1fr / 16em 1fr 24em; }
h1 { font-size: 16px; margin: 8px; grid-column: 1 / 4; }
nav { grid-column: 1 / 4; padding: 0 8px; border-bottom: 1px solid #cbd2d9; }
nav button { border: 0; background: none; padding: 6px 10px; font: inherit; cursor: pointer; }
nav button.on { border-bottom: 3px solid #2b6cb0; }
#modules, #details { overflow: auto; padding: 8px; }
#modules summary, #modules a { cursor: pointer; white-space: nowrap; }
#modules details, #modules a { display: block; margin-left: 12px; }
#details table { border-collapse: collapse; } #details td { vertical-align: top; padding: 2px 6px; }
.view { grid-column: 2; grid-row: 3; overflow: auto; border: solid #cbd2d9; border-width: 0 1px; }
#graph { overflow: hidden; cursor: grab; } #graph svg { transform-origin: 0 0; }
#details { grid-column: 3; grid-row: 3; } #modules { grid-column: 1; grid-row: 3; }
rect[id].picked { stroke: #c53030; stroke-width: 4; } rect[id].found { stroke: #2b6cb0; stroke-width: 3; }
.bar { background: #90cdf4; height: 12px; display: inline-block; }
[hidden] { display: none !important; }
)";

constexpr std::string_view kPageBody = R"(
<nav><button data-view="graph" class="on">Graph</button><button data-view="memory">Memory</button>
<button data-view="time">Time</button><button data-view="weights">Weights</button>
<input id="search" placeholder="op, name or module"></nav>
<div id="modules"></div><div id="details">Click a node.</div>
)";

constexpr std::string_view kPageScript = R"(
const $ = id => document.getElementById(id);
const make = (tag, text, parent) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
};
// Views.
for (const button of document.querySelectorAll('nav button')) button.onclick = () => {
  for (const other of document.querySelectorAll('nav button')) {
    other.classList.toggle('on', other === button);
    $(other.dataset.view).hidden = other !== button;
  }
};
// The graph: wheel zooms at the pointer, dragging moves.
const svg = $('graph').querySelector('svg');
let x = 0, y = 0, scale = 1, from = null, moved = false;
const place = () => { svg.style.transform = `translate(${x}px, ${y}px) scale(${scale})`; };
$('graph').onwheel = event => {
  event.preventDefault();
  const box = $('graph').getBoundingClientRect(), by = Math.exp(-event.deltaY / 500);
  const px = event.clientX - box.left, py = event.clientY - box.top;
  x = px - (px - x) * by; y = py - (py - y) * by; scale *= by;
  place();
};
$('graph').onpointerdown = event => { from = [event.clientX - x, event.clientY - y]; moved = false; };
window.onpointermove = event => {
  if (!from) return;
  const dx = event.clientX - from[0], dy = event.clientY - from[1];
  if (Math.abs(dx - x) + Math.abs(dy - y) > 3) moved = true;
  x = dx; y = dy; place();
};
window.onpointerup = () => { from = null; };
// Details of a node.
function pick(i, centre) {
  const node = data.nodes[i], details = $('details'), rect = $('box' + i);
  for (const old of svg.querySelectorAll('.picked')) old.classList.remove('picked');
  if (rect) rect.classList.add('picked');
  details.textContent = '';
  make('h2', node.op, details);
  const table = make('table', undefined, details);
  const row = (key, value) => {
    if (value === undefined || value === '' || value.length === 0) return;
    const line = make('tr', undefined, table);
    make('td', key, line);
    const cell = make('td', undefined, line);
    for (const part of Array.isArray(value) ? value : [value]) make('div', part, cell);
  };
  row('name', node.name); row('result', node.outputs); row('inputs', node.inputs);
  row('module', node.module); row('source', node.source); row('says', node.lines);
  if (node.ms !== undefined) row('ms', node.ms.toFixed(4));
  if (centre && rect) {
    const box = $('graph').getBoundingClientRect(), at = rect.getBoundingClientRect();
    x += box.left + box.width / 2 - at.left - at.width / 2;
    y += box.top + box.height / 2 - at.top - at.height / 2;
    place();
  }
}
svg.addEventListener('click', event => {
  if (moved) return;
  const at = svg.createSVGPoint();
  at.x = event.clientX; at.y = event.clientY;
  const point = at.matrixTransform(svg.getScreenCTM().inverse());
  for (const rect of svg.querySelectorAll('rect[id^=box]')) {
    const r = rect.getBBox();
    if (point.x >= r.x && point.x <= r.x + r.width && point.y >= r.y && point.y <= r.y + r.height)
      return pick(Number(rect.id.slice(3)), false);
  }
});
// The module tree.
const tree = {nodes: [], inside: new Map()};
data.nodes.forEach((node, i) => {
  let at = tree;
  for (const part of (node.module || '').split('.').filter(Boolean)) {
    if (!at.inside.has(part)) at.inside.set(part, {nodes: [], inside: new Map()});
    at = at.inside.get(part);
  }
  at.nodes.push(i);
});
function show(at, parent) {
  for (const [name, inner] of at.inside) {
    const details = make('details', undefined, parent);
    make('summary', name, details);
    details.addEventListener('toggle', () => {
      if (details.open && details.children.length === 1) show(inner, details);
    });
  }
  for (const i of at.nodes) {
    const link = make('a', `${data.nodes[i].op} ${data.nodes[i].name || ''}`, parent);
    link.onclick = () => pick(i, true);
  }
}
show(tree, $('modules'));
$('search').oninput = event => {
  const words = event.target.value;
  data.nodes.forEach((node, i) => {
    const found = words && `${node.op} ${node.name} ${node.module}`.includes(words);
    const rect = $('box' + i);
    if (rect) rect.classList.toggle('found', Boolean(found));
  });
};
// Time and weights.
const timed = data.nodes.map((node, i) => [node, i]).filter(([node]) => node.ms !== undefined);
timed.sort((a, b) => b[0].ms - a[0].ms);
if (!timed.length)
  make('p', 'No profile: hg-bench MODEL --trace trace.json, then hg-info MODEL --compiled --trace trace.json --html FILE.', $('time'));
for (const [node, i] of timed) {
  const line = make('div', undefined, $('time'));
  make('span', '', line).className = 'bar';
  line.firstChild.style.width = 300 * node.ms / timed[0][0].ms + 'px';
  make('span', ` ${node.ms.toFixed(4)} ms ${node.op} ${node.name}`, line);
  line.onclick = () => pick(i, true);
}
for (const w of data.weights) {
  make('h3', `${w.name} ${w.type}`, $('weights'));
  if (w.error !== undefined)
    make('p', `quantized: off by ${n(100 * w.error)} % of the weight's norm`, $('weights'));
  if (!w.bins) {
    make('p', w.is_packed ? 'only kept as its kernel has packed it' : 'no finite element', $('weights'));
    continue;
  }
  const n = v => v.toPrecision(4);
  make('p', `${n(w.low)} to ${n(w.high)}, mean ${n(w.mean)}, deviation ${n(w.deviation)}` +
       (w.not_finite ? `, ${w.not_finite} not finite` : ''), $('weights'));
  if (w.bf16_largest !== undefined)
    make('p', `as bf16 off by at most ${n(w.bf16_largest)}, rms ${n(w.bf16_rms)}`, $('weights'));
  const most = Math.max(...w.bins), ns = 'http://www.w3.org/2000/svg';
  const plot = $('weights').appendChild(document.createElementNS(ns, 'svg'));
  plot.setAttribute('width', 400); plot.setAttribute('height', 80);
  w.bins.forEach((count, i) => {
    const bar = plot.appendChild(document.createElementNS(ns, 'rect')), height = 80 * count / most;
    const set = {x: i * 10, y: 80 - height, width: 9, height, fill: '#90cdf4'};
    for (const [key, value] of Object.entries(set)) bar.setAttribute(key, value);
  });
}
)";

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
