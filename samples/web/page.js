// SPDX-License-Identifier: Apache-2.0
// Turns mouse strokes into 8 x 8 pixels, and scores into bars.
const paper = document.getElementById('paper');
const seen = document.getElementById('seen').getContext('2d');
const state = document.getElementById('state');
const bars = document.getElementById('bars');
const side = 32;  // of the bitmap; its blocks of 4 x 4 are counted like the data set's images
const strokes = [];
let drawing = null, asked = 0, waits = false, again = false, threads = 0;

for (let digit = 0; digit < 10; ++digit) {
  const row = bars.appendChild(document.createElement('div'));
  row.className = 'row';
  row.innerHTML = `<span class="digit">${digit}</span><span class="track"><span class="bar"></span></span>` +
    '<span class="share"></span>';
}

function paint(context, size, place, width) {
  context.clearRect(0, 0, size, size);
  context.lineCap = context.lineJoin = 'round';
  context.lineWidth = width;
  for (const stroke of strokes) {
    context.beginPath();
    stroke.forEach((point, i) => context[i ? 'lineTo' : 'moveTo'](...place(point)));
    if (stroke.length === 1) context.lineTo(...place(stroke[0]));
    context.stroke();
  }
}

function show() {
  const context = paper.getContext('2d');
  context.strokeStyle = getComputedStyle(paper).color;
  paint(context, paper.width, ([x, y]) => [x * paper.width, y * paper.height], paper.width / 12);
}

// The strokes fill the bitmap, upright and centered.
function pixels() {
  const out = new Float32Array(64);
  const points = strokes.flat();
  if (points.length === 0) return out;
  const least = [0, 1].map((d) => Math.min(...points.map((p) => p[d])));
  const most = [0, 1].map((d) => Math.max(...points.map((p) => p[d])));
  const pen = 3.5;
  const scale = (side - pen) / Math.max(most[0] - least[0], most[1] - least[1], 0.2);
  const place = (p) => [0, 1].map((d) => side / 2 + (p[d] - (least[d] + most[d]) / 2) * scale);
  const bitmap = new OffscreenCanvas(side, side).getContext('2d', {willReadFrequently: true});
  paint(bitmap, side, place, pen);
  const {data} = bitmap.getImageData(0, 0, side, side);
  for (let y = 0; y < side; ++y)
    for (let x = 0; x < side; ++x)
      if (data[(y * side + x) * 4 + 3] >= 128) out[(y >> 2) * 8 + (x >> 2)] += 1 / 16;
  return out;
}

function show_pixels(values) {
  const image = seen.createImageData(8, 8);
  const ink = getComputedStyle(paper).color.match(/\d+/g).map(Number);
  values.forEach((value, i) => image.data.set([ink[0], ink[1], ink[2], Math.round(value * 255)], i * 4));
  seen.putImageData(image, 0, 0);
}

function show_scores(scores) {
  const top = Math.max(...scores);
  const powers = [...scores].map((score) => Math.exp(score - top));
  const sum = powers.reduce((a, b) => a + b);
  powers.forEach((power, digit) => {
    const share = power / sum, row = bars.children[digit];
    row.querySelector('.bar').style.width = `${share * 100}%`;
    row.querySelector('.share').textContent = `${(share * 100).toFixed(1)} %`;
    row.dataset.score = scores[digit];
    row.classList.toggle('best', scores[digit] === top);
  });
}

function show_nothing() {
  for (const row of bars.children) {
    row.querySelector('.bar').style.width = 0;
    row.querySelector('.share').textContent = '';
    row.classList.remove('best');
    delete row.dataset.score;
  }
}

const worker = new Worker('worker.js');
worker.onmessage = ({data}) => {
  if (data.trouble) {
    state.textContent = data.trouble;
    state.className = 'trouble';
    return;
  }
  if (data.threads) {
    threads = data.threads;
    state.textContent = `Ready, on ${threads} thread${threads > 1 ? 's' : ''}.`;
    document.body.dataset.ready = threads;
    return ask();
  }
  waits = false;
  if (data.id === asked && strokes.length > 0) {
    show_scores(data.scores);
    state.textContent = `Read in ${data.ms.toFixed(2)} ms on ${threads} thread${threads > 1 ? 's' : ''}.`;
    document.body.dataset.pixels = data.pixels.join(' ');
    document.body.dataset.answered = data.id;
  }
  if (again) ask();
};
worker.onerror = (error) => {
  state.textContent = error.message || 'The network cannot be loaded.';
  state.className = 'trouble';
};

// One request at a time; strokes drawn meanwhile are sent next.
function ask() {
  if (!threads || strokes.length === 0) return;
  if (waits) { again = true; return; }
  again = false;
  waits = true;
  const values = pixels();
  show_pixels(values);
  worker.postMessage({id: ++asked, pixels: values});
}

function clear() {
  strokes.length = 0;
  ++asked;
  drawing = null;
  show();
  seen.clearRect(0, 0, 8, 8);
  show_nothing();
  if (threads) state.textContent = 'Ready.';
}

function point_of(event) {
  const box = paper.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
}
paper.onpointerdown = (event) => {
  paper.setPointerCapture(event.pointerId);
  drawing = [point_of(event)];
  strokes.push(drawing);
  show();
  ask();
};
paper.onpointermove = (event) => {
  if (!drawing) return;
  drawing.push(point_of(event));
  show();
  ask();
};
paper.onpointerup = paper.onpointercancel = () => { drawing = null; };
document.getElementById('clear').onclick = clear;
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
