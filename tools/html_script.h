// SPDX-License-Identifier: Apache-2.0
// The fixed parts of hg-info's page: style, frame and script.
#pragma once

#include <string_view>

namespace hg::tools {

inline constexpr std::string_view kPageStyle = R"(
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

inline constexpr std::string_view kPageBody = R"(
<nav><button data-view="graph" class="on">Graph</button><button data-view="memory">Memory</button>
<button data-view="time">Time</button><button data-view="weights">Weights</button>
<input id="search" placeholder="op, name or module"></nav>
<div id="modules"></div><div id="details">Click a node.</div>
)";

inline constexpr std::string_view kPageScript = R"(
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

}  // namespace hg::tools
