// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements: computes the source position of every output element.
#include <cstring>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// y[p] = x[from(p)]
template <class From>
void move(const Call& c, const From& from) {
  for_positions(c.out[0].shape, [&](int64_t i, const Sizes& p) {
    c.out[0].at(i) = c.in[0].at(flat(c.in[0].shape, from(p)));
  });
}

void same_order(const Call& c) {  // reshape, contiguous
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = c.in[0].at(i);
}

// The bytes of `value` as an element of `dtype`, and the value of such bytes.
void to_bytes(double value, DType dtype, void* to) {
  const auto put = [&](auto element) { std::memcpy(to, &element, sizeof(element)); };
  switch (dtype) {
    case f32:
      return put(static_cast<float>(value));
    case f64:
      return put(value);
    case f16:
      return put(Half(static_cast<float>(value)));
    case bf16:
      return put(BFloat16(static_cast<float>(value)));
    case u8:
    case boolean:
      return put(static_cast<uint8_t>(value));
    default:  // two's complement, low bytes first
      return put(static_cast<int64_t>(value));
  }
}
double of_bytes(const void* from, DType dtype) {
  const auto get = [&](auto element) {
    std::memcpy(&element, from, sizeof(element));
    return element;
  };
  switch (dtype) {
    case f32:
      return get(float{});
    case f64:
      return get(double{});
    case f16:
      return static_cast<float>(get(Half()));
    case bf16:
      return static_cast<float>(get(BFloat16()));
    case i64:
      return static_cast<double>(get(int64_t{}));
    case i32:
      return get(int32_t{});
    case i16:
      return get(int16_t{});
    case i8:
      return get(int8_t{});
    default:
      return get(uint8_t{});
  }
}
void view_dtype(const Call& c) {
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    std::byte bytes[8] = {};
    to_bytes(c.in[0].at(i), c.in[0].dtype, bytes);
    c.out[0].at(i) = of_bytes(bytes, c.out[0].dtype);
  }
}

void permute(const Call& c) {
  const Sizes dims = c.attrs.axes("dims", c.in[0].shape.rank());
  move(c, [&](const Sizes& p) {
    Sizes q(p.rank(), 0);
    for (int i = 0; i < p.rank(); ++i) q[dims[i]] = p[i];
    return q;
  });
}

void expand(const Call& c) {
  const Sizes& in = c.in[0].shape;
  move(c, [&](const Sizes& p) {
    Sizes q(in.rank(), 0);
    for (int i = 0; i < in.rank(); ++i) q[i] = in[i] == 1 ? 0 : p[p.rank() - in.rank() + i];
    return q;
  });
}

void slice(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  const int64_t start = c.attrs.integer("start"), step = c.attrs.integer("step");
  move(c, [&](Sizes p) {
    p[dim] = start + p[dim] * step;
    return p;
  });
}

void flip(const Call& c) {
  const Sizes dims = c.attrs.axes("dims", c.in[0].shape.rank());
  move(c, [&](Sizes p) {
    for (const int64_t d : dims) {
      const int dim = static_cast<int>(d);
      p[dim] = c.in[0].shape[dim] - 1 - p[dim];
    }
    return p;
  });
}

// The position in x of element p of its diagonal, which is the last dim.
auto on_diagonal(const Call& c, int rank) {
  const int a = c.attrs.axis("dim1", rank), b = c.attrs.axis("dim2", rank);
  const int64_t offset = c.attrs.integer("offset");
  return [=](const Sizes& p) {
    Sizes q(rank, 0);
    for (int i = 0, k = 0; i < rank; ++i)
      if (i != a && i != b) q[i] = p[k++];
    q[a] = p.back() + (offset < 0 ? -offset : 0);
    q[b] = p.back() + (offset > 0 ? offset : 0);
    return q;
  };
}

void diagonal(const Call& c) { move(c, on_diagonal(c, c.in[0].shape.rank())); }

void unfold(const Call& c) {
  const int rank = c.in[0].shape.rank();
  const int dim = c.attrs.axis("dim", rank);
  const int64_t step = c.attrs.integer("step");
  move(c, [&](const Sizes& p) {
    Sizes q(rank, 0);
    for (int i = 0; i < rank; ++i) q[i] = p[i];
    q[dim] = p[dim] * step + p.back();
    return q;
  });
}

auto strided_place(const Call& c) {
  const Sizes stride = c.attrs.integers("stride");
  const int64_t offset = c.attrs.integer("storage_offset");
  return [=](const Sizes& p) {
    int64_t at = offset;
    for (int i = 0; i < p.rank(); ++i) at += p[i] * stride[i];
    return at;
  };
}

void as_strided(const Call& c) {
  const auto place = strided_place(c);
  for_positions(c.out[0].shape,
                [&](int64_t i, const Sizes& p) { c.out[0].at(i) = c.in[0].at(place(p)); });
}

void concat(const Call& c) {
  const int dim = c.attrs.axis("dim", c.out[0].shape.rank());
  int64_t before = 0;  // along dim
  for (const Array& part : c.in) {
    for_positions(part.shape, [&](int64_t i, Sizes p) {
      p[dim] += before;
      c.out[0].at(flat(c.out[0].shape, p)) = part.at(i);
    });
    before += part.shape[dim];
  }
}

void pad(const Call& c) {
  const Sizes& in = c.in[0].shape;
  const Sizes pads = c.attrs.integers("pads");
  const std::string& mode = c.attrs.string("mode");
  const double value = c.attrs.real("value");
  for_positions(c.out[0].shape, [&](int64_t i, Sizes p) {
    bool outside = false;
    for (int d = 0; d < in.rank(); ++d) {
      int64_t& at = p[d];
      at -= pads[2 * d];
      if (at >= 0 && at < in[d]) continue;
      if (mode == "reflect")
        at = at < 0 ? -at : 2 * (in[d] - 1) - at;
      else if (mode == "replicate")
        at = at < 0 ? 0 : in[d] - 1;
      else if (mode == "circular")
        at = ((at % in[d]) + in[d]) % in[d];
      else
        outside = true;
    }
    c.out[0].at(i) = outside ? value : c.in[0].at(flat(in, p));
  });
}

void triangle(const Call& c, bool lower) {
  const int64_t diagonal = c.attrs.integer("diagonal");
  for_positions(c.out[0].shape, [&](int64_t i, const Sizes& p) {
    const int64_t above = p.back() - p[p.rank() - 2] - diagonal;
    c.out[0].at(i) = (lower ? above <= 0 : above >= 0) ? c.in[0].at(i) : 0;
  });
}
void tril(const Call& c) { triangle(c, true); }
void triu(const Call& c) { triangle(c, false); }

void roll(const Call& c) {
  const Sizes& in = c.in[0].shape;
  const Sizes shifts = c.attrs.integers("shifts"), dims = c.attrs.axes("dims", in.rank());
  move(c, [&](Sizes p) {
    for (int i = 0; i < dims.rank(); ++i) {
      const int dim = static_cast<int>(dims[i]);
      p[dim] = (((p[dim] - shifts[i]) % in[dim]) + in[dim]) % in[dim];
    }
    return p;
  });
}

void repeat(const Call& c) {
  const Sizes& in = c.in[0].shape;
  move(c, [&](const Sizes& p) {
    Sizes q(in.rank(), 0);
    for (int i = 0; i < in.rank(); ++i) q[i] = p[p.rank() - in.rank() + i] % in[i];
    return q;
  });
}

// x with y's elements written to the positions that `place` returns.
template <class Place>
void scatter(const Call& c, const Place& place) {
  same_order(c);
  for_positions(c.in[1].shape,
                [&](int64_t i, const Sizes& p) { c.out[0].at(place(p)) = c.in[1].at(i); });
}

void slice_scatter(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  const int64_t start = c.attrs.integer("start"), step = c.attrs.integer("step");
  scatter(c, [&](Sizes p) {
    p[dim] = start + p[dim] * step;
    return flat(c.in[0].shape, p);
  });
}
void diagonal_scatter(const Call& c) {
  const Sizes& in = c.in[0].shape;
  const auto place = on_diagonal(c, in.rank());
  scatter(c, [&](const Sizes& p) { return flat(in, place(p)); });
}
void as_strided_scatter(const Call& c) { scatter(c, strided_place(c)); }

void full(const Call& c) {
  const double value = c.attrs.real("value");
  for (double& y : c.out[0].values) y = value;
}
void arange(const Call& c) {
  const int64_t start = c.attrs.integer("start"), step = c.attrs.integer("step");
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = static_cast<double>(start + i * step);
}
void linspace(const Call& c) {
  const double start = c.attrs.real("start"), end = c.attrs.real("end");
  const int64_t count = c.out[0].count();
  for (int64_t i = 0; i < count; ++i)
    c.out[0].at(i) = count == 1 ? start : start + (end - start) * double(i) / double(count - 1);
}
void eye(const Call& c) {
  for_positions(c.out[0].shape, [&](int64_t i, const Sizes& p) { c.out[0].at(i) = p[0] == p[1]; });
}

constexpr Row kRows[] = {
    {"reshape", same_order},
    {"contiguous", same_order},
    {"detach", same_order},
    {"view_dtype", view_dtype},
    {"permute", permute},
    {"expand", expand},
    {"slice", slice},
    {"flip", flip},
    {"diagonal", diagonal},
    {"unfold", unfold},
    {"as_strided", as_strided},
    {"concat", concat},
    {"pad", pad},
    {"tril", tril},
    {"triu", triu},
    {"roll", roll},
    {"repeat", repeat},
    {"slice_scatter", slice_scatter},
    {"diagonal_scatter", diagonal_scatter},
    {"as_strided_scatter", as_strided_scatter},
    {"full", full},
    {"arange", arange},
    {"linspace", linspace},
    {"eye", eye},
};

}  // namespace

std::span<const Row> movement() { return kRows; }

}  // namespace hg::reference::rows
