// SPDX-License-Identifier: Apache-2.0
// Runs the network off the page's thread, so the page stays responsive. It uses several threads if the server
// allows shared memory.
const folder = self.crossOriginIsolated ? 'threads' : 'plain';
const threads = folder === 'threads' ? Math.min(4, navigator.hardwareConcurrency || 1) : 1;
importScripts(`${folder}/digits.js`);

async function load() {
  const url = (name) => new URL(`${folder}/${name}`, self.location.href).href;
  const [code, file] = await Promise.all([
    make_digits({locateFile: url, mainScriptUrlOrBlob: url('digits.js')}),
    fetch('digits.hgm'),
  ]);
  if (!file.ok) throw new Error(`digits.hgm: ${file.status} ${file.statusText}`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const at = code._malloc(bytes.length);
  code.HEAPU8.set(bytes, at);
  const trouble = code._load_model(at, bytes.length, threads);
  code._free(at);
  if (trouble) throw new Error(code.UTF8ToString(trouble));
  return code;
}

const loading = load();
loading.then(() => postMessage({threads}), (error) => postMessage({trouble: error.message}));

onmessage = async ({data}) => {
  const code = await loading;
  code.HEAPF32.set(data.pixels, code._pixels() / 4);
  const begin = performance.now();
  const trouble = code._read_digit();
  const ms = performance.now() - begin;
  if (trouble) return postMessage({trouble: code.UTF8ToString(trouble)});
  const at = code._scores() / 4;
  postMessage({id: data.id, ms, pixels: data.pixels, scores: code.HEAPF32.slice(at, at + 10)});
};
