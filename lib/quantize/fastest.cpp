// SPDX-License-Identifier: Apache-2.0
#include "lib/quantize/fastest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/graph/clock.h"

namespace hg {
namespace {

constexpr int kLeastRounds = 3, kMostRounds = 100;
constexpr double kEnoughMs = 60;  // for a comparison

// A model that runs again and again with the same inputs. Its time is the sum of the shortest times
// of its steps, which other programs disturb less than the time of a whole run.
class TimedModel {
 public:
  static Result<TimedModel> create(const Model& model, Samples samples,
                                   const SessionOptions& options) {
    SessionOptions profiled = options;
    profiled.device = Device::cpu;
    profiled.gpu = {};
    profiled.packed = {};  // holds the weights of another graph
    profiled.profile = true;
    HG_TRY_ASSIGN(Session session, Session::create(model, profiled));
    HG_TRY(set_inputs(session, samples, 0));
    return TimedModel(std::move(session));
  }

  Status run() {
    HG_TRY(session_.run());
    const std::vector<ProfileRow> rows = session_.profile();
    least_.resize(rows.size(), std::numeric_limits<double>::infinity());
    for (size_t i = 0; i < rows.size(); ++i) least_[i] = std::min(least_[i], rows[i].ms);
    return {};
  }
  double ms() const {
    double all = 0;
    for (const double step : least_) all += step;
    return all;
  }
  void forget() { least_.clear(); }

 private:
  explicit TimedModel(Session session) : session_(std::move(session)) {}

  Session session_;
  std::vector<double> least_;
};

double rounded(double ms) { return std::round(ms * 1000) / 1000; }

// Runs both in turn, so that both see the same clock rates.
Result<std::pair<double, double>> compare_runs(TimedModel& a, TimedModel& b) {
  a.forget();
  b.forget();
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < kMostRounds; ++round) {
    if (round >= kLeastRounds && ms_since(begin) >= kEnoughMs) break;
    HG_TRY(a.run());
    HG_TRY(b.run());
  }
  return std::pair(a.ms(), b.ms());
}

}  // namespace

Result<Fastest> choose_fastest(Stays stays, const Compare& compare,
                               const std::function<void(int64_t, int64_t)>& measured) {
  Fastest made;
  made.layers.resize(stays.size());
  const auto all = std::count(stays.begin(), stays.end(), "");
  Stays floats = stays;
  int64_t done = 0;
  for (size_t i = 0; i < stays.size(); ++i) {
    if (!stays[i].empty()) continue;
    Stays other = stays;
    other[i] = "of its time";
    HG_TRY_ASSIGN(const auto times, compare(stays, other));
    const auto [ms, float_ms] = times;
    made.layers[i] = {ms, float_ms};
    floats[i] = "a run is faster with all layers in floats";
    if (float_ms <= ms)
      stays[i] = str_cat("a run takes ", rounded(float_ms), " ms with this layer in floats and ",
                         rounded(ms), " ms in 8 bits");
    if (measured) measured(++done, int64_t{all});
  }
  if (all > 0) {
    HG_TRY_ASSIGN(const auto times, compare(stays, floats));
    made.ms = times.first;
    made.float_ms = times.second;
    if (times.second <= times.first) {
      for (size_t i = 0; i < stays.size(); ++i)
        if (stays[i].empty()) stays[i] = floats[i];
      made.ms = times.second;
    }
  }
  made.stays = std::move(stays);
  return made;
}

Result<Fastest> find_fastest(const std::function<Result<Mixed>(const Stays&)>& mixed,
                             Samples samples, const std::function<void(int64_t, int64_t)>& measured,
                             const SessionOptions& session) {
  HG_TRY_ASSIGN(Mixed most, mixed({}));
  Stays current = most.stays;
  HG_TRY_ASSIGN(TimedModel timed, TimedModel::create(most.model, samples, session));
  std::optional<std::pair<Stays, TimedModel>> last;  // becomes `timed` if it is faster
  const auto compare = [&](const Stays& a, const Stays& b) -> Result<std::pair<double, double>> {
    // The reason may have changed since the model was made.
    const auto is_same = [](const std::string& x, const std::string& y) {
      return x.empty() == y.empty();
    };
    if (!std::equal(a.begin(), a.end(), current.begin(), is_same)) {
      timed = std::move(last->second);
      current = a;
    }
    HG_TRY_ASSIGN(const Mixed other, mixed(b));
    HG_TRY_ASSIGN(TimedModel made, TimedModel::create(other.model, samples, session));
    last.emplace(b, std::move(made));
    return compare_runs(timed, last->second);
  };
  return choose_fastest(std::move(most.stays), compare, measured);
}

}  // namespace hg
