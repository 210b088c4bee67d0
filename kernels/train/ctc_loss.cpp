// SPDX-License-Identifier: Apache-2.0
// CTC with the forward and backward recursions of Graves et al. 2006, in logarithms. The labels are
// the targets with blanks between and around them: label s of 2 length + 1.
#include <algorithm>
#include <cmath>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct CtcState {
  int64_t time = 0, batch = 0, classes = 0;
  int64_t row = 0;      // targets of a sample in the padded form
  int64_t longest = 0;  // of any target
  int64_t blank = 0;
  bool padded = true, zero_infinity = false;
  int64_t labels() const { return 2 * longest + 1; }
};

CtcState read(const PrepareContext& c, int first) {
  CtcState s;
  const Tensor &x = c.in(first), &targets = c.in(first + 1);
  s.time = x.shape[0];
  s.batch = x.shape[1];
  s.classes = x.shape[2];
  s.padded = targets.rank() == 2;
  s.longest = s.row = targets.shape.back();
  s.blank = c.attrs().integer("blank");
  s.zero_infinity = c.attrs().flag("zero_infinity");
  return s;
}
int64_t width(const PrepareContext& c) { return c.out(0).dtype == f64 ? 8 : 4; }

Status ctc_prepare(PrepareContext& c) {  // two rows of alpha per sample
  const CtcState s = read(c, 0);
  c.set_workspace(s.batch * 2 * s.labels() * width(c));
  c.make_state(s);
  return {};
}
Status ctc_grad_prepare(PrepareContext& c) {  // all of alpha, two rows of beta, the shares
  const CtcState s = read(c, 1);
  c.set_workspace(s.batch * ((s.time + 2) * s.labels() + s.classes) * width(c));
  c.make_state(s);
  return {};
}

template <class W>
W log_add(W a, W b) {
  if (a < b) std::swap(a, b);
  if (a == -std::numeric_limits<W>::infinity()) return a;
  return a + std::log1p(std::exp(b - a));
}

// One sample: its labels and log probabilities. Invalid classes are clamped.
template <class T>
struct Sample {
  const CtcState& s;
  const T* log_probs;
  const int64_t* targets;
  int64_t time, length;

  Sample(const RunContext& c, const CtcState& state, int first, int64_t i) : s(state) {
    const int64_t* lengths = c.in(first + 3).as<int64_t>();
    log_probs = c.in(first).as<T>() + i * s.classes;
    targets = c.in(first + 1).as<int64_t>();
    int64_t offset = i * s.row;
    if (!s.padded) {
      offset = 0;
      for (int64_t k = 0; k < i; ++k) offset += lengths[k];
    }
    targets += offset;
    time = c.in(first + 2).as<int64_t>()[i];
    length = lengths[i];
  }
  int64_t labels() const { return 2 * length + 1; }
  int64_t label(int64_t k) const {
    return k % 2 == 0 ? s.blank : std::clamp<int64_t>(targets[k / 2], 0, s.classes - 1);
  }
  bool may_skip(int64_t k) const {  // from label k - 2 to k
    return k >= 2 && k % 2 == 1 && label(k) != label(k - 2);
  }
  Wide<T> at(int64_t t, int64_t k) const {
    return load(log_probs + t * s.batch * s.classes + label(k));
  }
};

// Whether all lengths fit log_probs and the targets.
bool has_its_lengths(const RunContext& c, const CtcState& s, int first) {
  const int64_t* times = c.in(first + 2).as<int64_t>();
  const int64_t* lengths = c.in(first + 3).as<int64_t>();
  for (int64_t i = 0, left = s.row; i < s.batch; ++i) {
    if (times[i] < 0 || times[i] > s.time || lengths[i] < 0 || lengths[i] > left) return false;
    if (!s.padded) left -= lengths[i];
  }
  return true;
}
constexpr const char* kOtherLengths = "a length is negative, or beyond what there is";

// alpha[k]: the log probability of all beginnings that end in label k at time t.
template <class T>
void first_alpha(const Sample<T>& a, Wide<T>* now) {
  for (int64_t k = 0; k < a.labels(); ++k)
    now[k] = k < 2 ? a.at(0, k) : -std::numeric_limits<Wide<T>>::infinity();
}
template <class T>
void next_alpha(const Sample<T>& a, int64_t t, const Wide<T>* before, Wide<T>* now) {
  for (int64_t k = 0; k < a.labels(); ++k) {
    Wide<T> sum = before[k];
    if (k > 0) sum = log_add(sum, before[k - 1]);
    if (a.may_skip(k)) sum = log_add(sum, before[k - 2]);
    now[k] = sum + a.at(t, k);
  }
}
// -log of the probability of both ends. Without time steps, only the empty target is possible.
template <class T>
Wide<T> loss_of(const Sample<T>& a, const Wide<T>* last) {
  if (a.time == 0) return a.length == 0 ? 0 : std::numeric_limits<Wide<T>>::infinity();
  Wide<T> sum = last[a.labels() - 1];
  if (a.length > 0) sum = log_add(sum, last[a.labels() - 2]);
  return -sum;
}

void ctc_run(const RunContext& c) noexcept {
  const CtcState& s = c.state<CtcState>();
  if (!has_its_lengths(c, s, 0)) return c.fail(kOtherLengths);
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    c.parallel_for(s.batch, grain_of(s.time * s.labels() * 8), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Sample<T> a(c, s, 0, i);
        W* now = c.workspace<W>() + i * 2 * s.labels();
        W* before = now + s.labels();
        if (a.time > 0) first_alpha(a, now);
        for (int64_t t = 1; t < a.time; ++t) {
          std::swap(now, before);
          next_alpha(a, t, before, now);
        }
        const W loss = loss_of(a, now);
        store(c.out(0).as<T>() + i, s.zero_infinity && std::isinf(loss) ? W(0) : loss);
      }
    });
  });
}

void ctc_grad_run(const RunContext& c) noexcept {
  const CtcState& s = c.state<CtcState>();
  if (!has_its_lengths(c, s, 1)) return c.fail(kOtherLengths);
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    constexpr W kNever = -std::numeric_limits<W>::infinity();
    c.parallel_for(s.batch, grain_of(s.time * s.labels() * 16), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Sample<T> a(c, s, 1, i);
        W* alpha = c.workspace<W>() + i * ((s.time + 2) * s.labels() + s.classes);
        W* now = alpha + s.time * s.labels();  // beta[k]: all endings that start in label k at t
        W* before = now + s.labels();
        W* share = before + s.labels();
        if (a.time > 0) first_alpha(a, alpha);
        for (int64_t t = 1; t < a.time; ++t)
          next_alpha(a, t, alpha + (t - 1) * s.labels(), alpha + t * s.labels());
        const W loss = loss_of(a, alpha + (a.time > 0 ? a.time - 1 : 0) * s.labels());
        const W dy = load(c.in(0).as<T>() + i);
        T* dx = c.out(0).as<T>() + i * s.classes;
        const int64_t step = s.batch * s.classes;
        const bool nothing = s.zero_infinity && std::isinf(loss);
        for (int64_t t = s.time - 1; t >= 0; --t) {
          if (t >= a.time || nothing) {
            for (int64_t k = 0; k < s.classes; ++k) dx[t * step + k] = T();
            continue;
          }
          std::swap(now, before);
          for (int64_t k = 0; k < a.labels(); ++k) {
            if (t == a.time - 1) {
              now[k] = k >= a.labels() - 2 ? a.at(t, k) : kNever;
              continue;
            }
            W sum = before[k];
            if (k + 1 < a.labels()) sum = log_add(sum, before[k + 1]);
            if (k + 2 < a.labels() && a.may_skip(k + 2)) sum = log_add(sum, before[k + 2]);
            now[k] = sum + a.at(t, k);
          }
          for (int64_t k = 0; k < s.classes; ++k) share[k] = kNever;
          for (int64_t k = 0; k < a.labels(); ++k) {
            W& through = share[a.label(k)];
            through = log_add(through, alpha[t * s.labels() + k] + now[k]);
          }
          for (int64_t k = 0; k < s.classes; ++k) {
            const W p = load(a.log_probs + t * step + k);
            store(dx + t * step + k, (std::exp(p) - std::exp(share[k] + loss - p)) * dy);
          }
        }
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "ctc_loss", .name = "recursion", .prepare = ctc_prepare, .run = ctc_run},
    {.op = "ctc_loss_grad", .name = "recursion", .prepare = ctc_grad_prepare, .run = ctc_grad_run},
};

}  // namespace

std::span<const KernelDef> ctc_loss() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
