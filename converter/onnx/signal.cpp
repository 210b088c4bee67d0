// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, windows, and n-grams of integers.
#include <algorithm>
#include <cmath>

#include "converter/onnx/contrib.h"

namespace hg::convert::onnx {
namespace {

// Returns [..., 1] or [..., 2] as complex pairs.
Value as_pairs(Node& n, const Value& x) {
  const int last = x.rank() - 1;
  if (x.dim(last) == Dim(2)) return x;
  if (!(x.dim(last) == Dim(1)))
    n.refuse(str_cat("its input is ", x.shape(), ", neither real nor complex"));
  return concat({x, x * 0.0}, last);
}

Value transformed(Node& n, const Value& x, int axis, bool inverse) {
  return n.op("fft", {x}, {{"dim", axis}, {"inverse", inverse}, {"norm", inverse ? "n" : "none"}});
}

void fourier(Node& n) {
  Value x = n.in(0);
  const bool inverse = n.flag("inverse"), onesided = n.flag("onesided");
  const int64_t given = n.opset() < 20 ? n.integer("axis", 1) : n.has(2) ? n.integer(2) : -2;
  const int axis = n.axis(given, x.rank());
  if (axis == x.rank() - 1) n.refuse("it runs along the parts of complex numbers");
  const DType dtype = x.dtype();
  x = cast(as_pairs(n, x), f64);            // sums over the whole axis, as in the specification
  const bool halved = inverse && onesided;  // the axis has one side of N elements
  Dim length = n.has(1) ? n.dim(1) : halved ? (x.dim(axis) - Dim(1)) * Dim(2) : x.dim(axis);
  const Dim held = halved ? floordiv(length, 2) + Dim(1) : length;
  if (!(held == x.dim(axis))) {
    Dims pads = one_each(2 * x.rank(), 0);
    pads[2 * axis + 1] = held - x.dim(axis);
    x = pad(x, std::move(pads));
  }
  if (halved) {  // element N - k is the conjugate of element k
    const Value side = flip(slice(x, axis, 1, ceildiv(length, 2)), {Dim(axis)});
    const int last = x.rank() - 1;
    x = concat({x, concat({slice(side, last, 0, 1), -slice(side, last, 1, 2)}, last)}, axis);
  }
  Value y = transformed(n, x, axis, inverse);
  if (halved) y = slice(y, x.rank() - 1, 0, 1);
  if (onesided && !inverse) y = slice(y, axis, 0, floordiv(length, 2) + Dim(1));
  n.give(cast(y, dtype));
}

void short_time_fourier(Node& n) {
  const Value signal = n.in(0);
  const bool complex = signal.rank() == 3 && signal.dim(2) == Dim(2);
  const int64_t step = n.integer(1);
  Dim length;
  if (n.has(3))
    length = n.dim(3);
  else if (n.has(2))
    length = n.type(2).shape.at(0);
  else
    n.refuse("neither a window nor a length of frames is given");
  const Value x =
      as_pairs(n, signal.rank() == 3 ? signal : reshape(signal, {signal.dim(0), signal.dim(1), 1}));
  // [batch, frames, 2, length] -> [batch, frames, length, 2]
  Value frames = permute(unfold(x, 1, length, step), {0, 1, 3, 2});
  if (n.has(2)) frames = frames * reshape(cast(n.in(2), x.dtype()), {1, 1, length, 1});
  Value y = transformed(n, frames, 2, false);
  if (n.flag("onesided", true) && !complex)
    y = slice(y, 2, 0, floordiv(length, 2) + Dim(1));
  else if (n.flag("onesided", true))
    n.refuse("one side of the transform of a complex signal");
  n.give(y);
}

DType output_dtype(Node& n) {
  const int64_t to = n.integer("output_datatype", 1);
  if (to != 1 && to != 11 && to != 10)
    n.refuse(str_cat("attribute 'output_datatype' is ", to, "; floats are supported"));
  return to == 1 ? f32 : to == 10 ? f16 : f64;
}

void window(Node& n, const std::vector<double>& terms) {
  Graph& g = n.graph();
  const Dim size = n.dim(0);
  const DType dtype = output_dtype(n);
  const Dim period = n.flag("periodic", true) ? size : size - Dim(1);
  const Value i = cast(g.call("arange", {}, {{"end", size}}), f64);
  const Value angle =
      i * (2 * M_PI) / cast(reshape(g.call("dims", {}, {{"values", Dims{period}}}), {}), f64);
  Value y = i * 0.0;
  for (size_t k = 0; k < terms.size(); ++k)
    y = y + hg::cos(angle * static_cast<double>(k)) * terms[k];
  n.give(cast(y, dtype));
}
void hann(Node& n) { window(n, {0.5, -0.5}); }
void hamming(Node& n) { window(n, {25.0 / 46, -21.0 / 46}); }
void blackman(Node& n) { window(n, {0.42, -0.5, 0.08}); }

// Counts the n-grams of the pool, with gaps of up to max_skip_count between elements.
void tf_idf(Node& n) {
  if (n.has("pool_strings")) n.refuse("it counts texts");
  const Value given = n.in(0);
  const Value x = given.rank() == 1 ? reshape(given, {1, given.dim(0)}) : given;
  if (!x.dim(1).is_constant()) n.refuse("its length is open", "give a number for it with --dim");
  const std::vector<int64_t> pool = n.integers("pool_int64s"), starts = n.integers("ngram_counts"),
                             indexes = n.integers("ngram_indexes");
  const int64_t least = n.integer("min_gram_length"), most = n.integer("max_gram_length"),
                skips = n.integer("max_skip_count"), length = x.dim(1).constant();
  const std::vector<double> weights = n.reals("weights");
  const std::string mode = n.string("mode");
  int64_t columns = 0;
  for (const int64_t i : indexes) columns = std::max(columns, i + 1);
  std::vector<Value> out(columns);
  Graph& g = n.graph();
  const Value none = expand(g.scalar(0.0, f32), {x.dim(0), 1});
  size_t gram = 0;
  for (size_t size = 1; size <= starts.size(); ++size) {
    const auto begin = static_cast<size_t>(starts[size - 1]);
    const size_t end = size < starts.size() ? static_cast<size_t>(starts[size]) : pool.size();
    for (size_t at = begin; at + size <= end; at += size, ++gram) {
      const auto width = static_cast<int64_t>(size);
      if (gram >= indexes.size()) n.refuse("the pool has more n-grams than indexes");
      if (width < least || width > most) continue;
      Value total = none;
      for (int64_t skip = 0; skip <= (width == 1 ? 0 : skips); ++skip) {
        const int64_t places = length - (width - 1) * (skip + 1);
        if (places <= 0) break;
        Value hit;
        for (int64_t j = 0; j < width; ++j) {
          const Value same = eq(slice(x, 1, j * (skip + 1), j * (skip + 1) + places),
                                constant_of(g, x.dtype(), static_cast<double>(pool[at + j])));
          hit = hit ? logical_and(hit, same) : same;
        }
        total = total + sum(cast(hit, f32), {Dim(1)}, true);
      }
      Value& column = out[indexes[gram]];
      const double weight = weights.empty() ? 1.0 : weights.at(gram);
      if (mode == "IDF") total = cast(gt(total, g.scalar(0.0, f32)), f32) * weight;
      if (mode == "TFIDF") total = total * weight;
      column = column ? column + total : total;
    }
  }
  Values parts;
  for (const Value& column : out) parts.push_back(column ? column : none);
  if (parts.empty()) n.refuse("it has no n-grams");
  const Value y = concat(parts, 1);
  n.give(given.rank() == 1 ? reshape(y, {Dim(columns)}) : y);
}

// One triangle per mel bin, [spectrum, bins]: it rises from one edge to the next and falls to the
// one after. Edges are evenly spaced on the mel scale, m = 2595 log10(1 + hertz / 700), and rounded
// down to indices of the spectrum.
void mel_weight_matrix(Node& n) {
  Graph& g = n.graph();
  const DType dtype = output_dtype(n);
  const Dim bins = n.dim(0), length = n.dim(1);
  const auto real = [&](int i) { return reshape(cast(n.in(i), f64), {}); };
  const auto mel = [](const Value& hertz) { return hg::log10(hertz / 700.0 + 1.0) * 2595.0; };
  const Value low = mel(real(3));
  const Dim edges = bins + Dim(2);
  const Value step = (mel(real(4)) - low) / cast(size_value(g, edges), f64);
  const Value mels = cast(places(g, edges, {1, edges}), f64) * step + low;
  const Value hertz = (pow(g.scalar(10.0, f64), mels / 2595.0) - 1.0) * 700.0;
  const Value at = hg::floor(hertz * cast(size_value(g, length + Dim(1)), f64) / real(2));
  const Value from = slice(at, 1, 0, bins), centre = slice(at, 1, 1, bins + Dim(1)),
              to = slice(at, 1, 2, edges);
  const Dim count = floordiv(length, 2) + Dim(1);
  const Value place = cast(places(g, count, {count, 1}), f64), none = g.scalar(0.0, f64);
  const auto between = [&](const Value& least, const Value& most) {
    return logical_and(ge(place, least), most);
  };
  const Value rise = where(eq(from, centre), g.scalar(1.0, f64), (place - from) / (centre - from)),
              fall = (to - place) / (to - centre);
  const Value y = where(between(centre, lt(place, to)), fall,
                        where(between(from, le(place, centre)), rise, none));
  n.give(cast(y, dtype));
}

constexpr Builtin kRows[] = {
    {"onnx::DFT", row<fourier>},
    {"onnx::STFT", row<short_time_fourier>},
    {"onnx::HannWindow", row<hann>},
    {"onnx::HammingWindow", row<hamming>},
    {"onnx::BlackmanWindow", row<blackman>},
    {"onnx::MelWeightMatrix", row<mel_weight_matrix>},
    {"onnx::TfIdfVectorizer", row<tf_idf>},
};

}  // namespace

Rows signal_rows() { return kRows; }

}  // namespace hg::convert::onnx
