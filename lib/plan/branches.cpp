// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/branches.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/graph/disjoint_sets.h"
#include "lib/graph/options.h"
#include "lib/plan/sort_falling.h"

namespace hg {
namespace {

// Estimates in microseconds for a typical current machine. They only need to rank the alternatives.
constexpr double kFlops = 80e3, kBytes = 40e3;  // per microsecond of one thread
constexpr double kStepUs = 0.1;                 // of any step
constexpr double kRegion = 5;                   // to share work among threads and join them
constexpr double kNextRegion = 1.5;             // the same directly after another region
constexpr double kShared = 0.87;  // efficiency of n threads in kernels that share their work
constexpr double kBeside = 0.95;  // efficiency of n threads in branches
constexpr int64_t kMostRead = 4;  // bytes read per byte written
constexpr double kLeastGain = 2;
constexpr double kWorthwhileBeside = 0.85;  // of the time without branches

constexpr int kMostSteps = 128;  // of a group
constexpr int kMostLanes = 4;    // per thread

// How much the arena may grow: always kFreeBytes; otherwise a fraction of the arena and weights of
// at most kGrowth times the fraction of the time that is saved, and at most kMostGrowth.
constexpr int64_t kFreeBytes = 64 << 10;
constexpr double kGrowth = 0.5, kMostGrowth = 1.0 / 16;

// -- Dependencies ---------------------------------------------------------------------------------

// A block or a state that a step reads or writes, and which bytes of it.
struct Access {
  int step = 0;
  int64_t begin = 0, end = 0;
  bool writes = false;
};

Access access(int step, const PlacedTensor& placed, bool writes) {
  const Tensor& tensor = placed.tensor;
  const int64_t size = size_of(tensor.dtype);
  Access a{step, placed.place.offset, placed.place.offset, writes};
  if (tensor.count() == 0) return a;
  a.end += size;
  for (int d = 0; d < tensor.rank(); ++d) {
    const int64_t reach = (tensor.shape[d] - 1) * tensor.strides[d] * size;
    (reach < 0 ? a.begin : a.end) += reach;
  }
  return a;
}

// For each step the earlier ones, at most kMostSteps back, that must run before it: it reads what
// they write, or writes what they read or write.
std::vector<std::vector<int>> needs_of(const Plan& plan) {
  std::vector<std::vector<int>> needs(plan.steps.size());
  std::map<std::pair<Place::Kind, int32_t>, std::vector<Access>> known;  // by block or state
  for (int step = 0; step < static_cast<int>(plan.steps.size()); ++step) {
    const Step& s = plan.steps[step];
    std::vector<int>& mine = needs[step];
    const auto touch = [&](const PlacedTensor& placed, bool writes) {
      const Place& place = placed.place;
      const bool is_block = place.kind == Place::Kind::arena && place.index == plan.part;
      if (!is_block && place.kind != Place::Kind::state) return;
      std::vector<Access>& all = known[{place.kind, is_block ? place.block : place.index}];
      const Access here = access(step, placed, writes);
      for (auto before = all.rbegin(); before != all.rend(); ++before) {
        if (step - before->step > kMostSteps) break;
        if (before->step < step && (writes || before->writes) && before->begin < here.end &&
            here.begin < before->end)
          mine.push_back(before->step);
      }
      all.push_back(here);
    };
    for (const PlacedTensor& in : s.inputs) touch(in, false);
    for (const PlacedTensor& out : s.outputs) touch(out, true);
  }
  return needs;
}

// If a run fails, a different order of steps must not have changed other states. Control flow has
// plans of its own.
bool may_be_beside(const Step& step) {
  return step.kind == StepKind::kernel && !step.on_device() &&
         std::none_of(step.outputs.begin(), step.outputs.end(),
                      [](const PlacedTensor& out) { return out.place.kind == Place::Kind::state; });
}

// -- Costs ----------------------------------------------------------------------------------------

// The time of a step on one thread, and on all threads if its kernel is expected to share work.
struct Cost {
  double alone = 0, shared = 0;
};
Cost cost_of(const Graph& graph, const Step& step, int threads) {
  const Op* const op = step.node < 0 ? nullptr : graph.nodes()[step.node].op;
  int64_t bytes = 0;
  for (const PlacedTensor& out : step.outputs) bytes += out.tensor.bytes();
  // Without a FLOP count, an op may read only a few rows of a large table.
  const bool counts = op != nullptr && op->def.flops != nullptr;
  bytes = counts ? step.bytes : std::min(step.bytes, kMostRead * bytes);
  double us = std::max(step.flops / kFlops, static_cast<double>(bytes) / kBytes);
  double waiting = kRegion;
  if (counts && (op->def.traits & kScan)) {
    // gates: [time, batch, width]. Each time step reads the weights and waits for all threads.
    const Sizes& gates = step.inputs[0].tensor.shape;
    us *= std::max(1.0, 2.0 / static_cast<double>(std::max<int64_t>(1, gates[1])));
    waiting = std::max(waiting, kNextRegion * static_cast<double>(gates[0]));
  }
  us += kStepUs;
  return {us, std::min(us, waiting + us / (kShared * threads))};
}

double beside_us(double longest) { return kRegion + longest / kBeside; }
bool gains(double longest, double apart) {
  return beside_us(longest) <= std::min(kWorthwhileBeside * apart, apart - kLeastGain);
}

// Assigns the costs, largest first, to the bin with the smallest sum. Returns the bin of each cost.
std::vector<int> fill_bins(std::span<const double> costs, int bins, double& fullest) {
  std::vector<int> bin_of(costs.size());
  std::vector<double> sums(bins, 0);
  for (const int i : falling(costs)) {
    const auto least = std::min_element(sums.begin(), sums.end());
    *least += costs[i];
    bin_of[i] = static_cast<int>(least - sums.begin());
  }
  fullest = *std::max_element(sums.begin(), sums.end());
  return bin_of;
}

// The steps from `begin` on, grouped into sets of dependent steps. A root represents each set.
class StepSets {
 public:
  explicit StepSets(int begin) : begin_(begin) {}
  // Adds the next step. Dependencies before `begin` are ignored.
  void add(double us, std::span<const int> needs) {
    const size_t step = sets_.add();
    us_.push_back(us);
    ++count_;
    total_ += us;
    longest_ = std::max(longest_, us);
    for (const int need : needs) {
      if (need < begin_) continue;
      const size_t root = sets_.root(at(need)), own = sets_.root(step);
      if (root == own) continue;
      sets_.join(root, own);
      us_[root] += us_[own];
      longest_ = std::max(longest_, us_[root]);
      --count_;
    }
  }
  int root_of(int step) { return begin_ + static_cast<int>(sets_.root(at(step))); }
  int count() const { return count_; }
  double total() const { return total_; }
  double longest() const { return longest_; }
  // The roots and the costs of their sets.
  void list(std::vector<int>& roots, std::vector<double>& us) const {
    roots.clear();
    us.clear();
    for (size_t i = 0; i < sets_.size(); ++i) {
      if (!sets_.is_root(i)) continue;
      roots.push_back(begin_ + static_cast<int>(i));
      us.push_back(us_[i]);
    }
  }

 private:
  size_t at(int step) const { return static_cast<size_t>(step - begin_); }
  int begin_, count_ = 0;
  double total_ = 0, longest_ = 0;
  DisjointSets sets_;
  std::vector<double> us_;
};

Branches branches_of(int begin, int end, int threads, std::span<const double> us,
                     const std::vector<std::vector<int>>& needs) {
  StepSets sets(begin);
  for (int i = begin; i < end; ++i) sets.add(us[i], needs[i]);
  std::vector<int> roots;
  std::vector<double> costs;
  sets.list(roots, costs);
  double fullest = 0;
  const int most = std::min(sets.count(), kMostLanes * threads);
  std::vector<int> lane_of = fill_bins(costs, most, fullest);
  Branches branches{begin, end, {}};
  branches.lanes.resize(most);
  for (int i = begin; i < end; ++i) {
    const auto root = std::lower_bound(roots.begin(), roots.end(), sets.root_of(i));
    const int lane = lane_of[root - roots.begin()];
    branches.lanes[lane].push_back(i);
  }
  // Orders the lanes so that each thread first gets neighboring lanes whose costs add up to equal
  // shares.
  std::vector<double> sums;
  for (const auto& lane : branches.lanes) {
    sums.push_back(0);
    for (const int32_t step : lane) sums.back() += us[step];
  }
  const std::vector<int> thread_of = fill_bins(sums, threads, fullest);
  std::vector<double> threads_first;
  for (const int thread : thread_of) threads_first.push_back(-thread);
  std::vector<std::vector<int32_t>> lanes;
  for (const int i : falling(threads_first)) lanes.push_back(std::move(branches.lanes[i]));
  branches.lanes = std::move(lanes);
  return branches;
}

// Bytes alive at each step, and bytes that become alive there. Workspaces count for one thread if
// they are divided among threads.
struct Bytes {
  explicit Bytes(const Plan& plan, int threads)
      : alive(plan.steps.size(), 0), born(plan.steps.size(), 0) {
    for (const Block& block : plan.blocks) {
      const int64_t bytes = align_up(block.lifetime.bytes);
      const auto end = static_cast<size_t>(block.lifetime.last) + 1;
      born[block.lifetime.first] += bytes;
      alive[block.lifetime.first] += bytes;
      if (end < alive.size()) alive[end] -= bytes;
    }
    std::partial_sum(alive.begin(), alive.end(), alive.begin());
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      if (plan.steps[i].workspace.block < 0) continue;
      const Block& block = plan.blocks[plan.steps[i].workspace.block];
      const int64_t bytes = align_up(block.lifetime.bytes);
      born[i] -= bytes - align_up(bytes / threads);
    }
  }
  std::vector<int64_t> alive, born;
};

bool are_apart(const Branches& branches, const std::vector<std::vector<int>>& needs) {
  std::vector<int> lane_of(needs.size(), -1);
  for (size_t lane = 0; lane < branches.lanes.size(); ++lane)
    for (const int32_t step : branches.lanes[lane]) lane_of[step] = static_cast<int>(lane);
  for (int i = branches.begin; i < branches.end; ++i)
    for (const int need : needs[i])
      if (need >= branches.begin && lane_of[need] != lane_of[i]) return false;
  return true;
}

bool have_same_steps(const Plan& a, const Plan& b) {
  return a.next_node == b.next_node && std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(),
                                                  b.steps.end(), [](const Step& x, const Step& y) {
                                                    return x.node == y.node && x.kind == y.kind &&
                                                           x.label == y.label;
                                                  });
}

// Groups of steps whose lanes may run concurrently. No group has more than `spare` bytes alive
// beyond the plan's peak. Finds the sequence of groups and single steps with the least time:
// best[i] is the time of the first i steps, and the last group or step of them starts at from[i].
// `divides`: whether workspaces are expected to be divided among threads. `saved`: the fraction of
// the time that is saved.
std::vector<Branches> find_branches(const Graph& graph, const Plan& plan, int threads,
                                    int64_t spare, bool divides, double* saved) {
  const auto count = static_cast<int>(plan.steps.size());
  const auto at = [](int i) { return static_cast<size_t>(i); };
  if (count < 2 || threads < 2) return {};
  const std::vector<std::vector<int>> needs = needs_of(plan);
  const Bytes bytes(plan, divides ? threads : 1);
  const int64_t most = *std::max_element(bytes.alive.begin(), bytes.alive.end()) + spare;
  std::vector<double> us(at(count)), shared(at(count)), best(at(count) + 1, 0);
  for (int i = 0; i < count; ++i) {
    const Cost cost = cost_of(graph, plan.steps[at(i)], threads);
    us[at(i)] = cost.alone;
    shared[at(i)] = cost.shared;
  }
  std::vector<int> from(at(count) + 1, -1), roots;
  std::vector<double> costs;
  for (int begin = 0; begin < count; ++begin) {
    const auto offer = [&](int end, double time) {
      if (from[at(end)] >= 0 && best[at(end)] <= time) return;
      best[at(end)] = time;
      from[at(end)] = begin;
    };
    offer(begin + 1, best[at(begin)] + shared[at(begin)]);
    StepSets sets(begin);
    double apart = 0;  // sequential time
    int64_t alive = bytes.alive[at(begin)];
    for (int i = begin; i < std::min(count, begin + kMostSteps); ++i) {
      if (!may_be_beside(plan.steps[at(i)])) break;
      sets.add(us[at(i)], needs[at(i)]);
      apart += shared[at(i)];
      if (i > begin) alive += bytes.born[at(i)];
      if (alive > most) break;
      if (sets.count() < 2) continue;
      const double longest = std::max(sets.longest(), sets.total() / threads);
      if (!gains(longest, apart)) continue;
      double fullest = 0;
      sets.list(roots, costs);
      fill_bins(costs, threads, fullest);
      if (gains(fullest, apart)) offer(i + 1, best[at(begin)] + beside_us(fullest));
    }
  }
  std::vector<Branches> found;
  for (int end = count; end > 0; end = from[at(end)])
    if (end - from[at(end)] > 1)
      found.push_back(branches_of(from[at(end)], end, threads, us, needs));
  std::reverse(found.begin(), found.end());
  *saved = 1 - best.back() / std::accumulate(shared.begin(), shared.end(), 0.0);
  return found;
}

int64_t weights_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const State& state : graph.states()) bytes += state.data.tensor.bytes();
  return bytes;
}

// Plans again, with kernels in branches prepared for one thread and memory laid out for the groups.
Result<Plan> with_branches(PlanRequest request, const Plan& plan, std::vector<Branches> found) {
  std::vector<char> alone(request.graph->nodes().size(), 0);
  const auto prepare_again = [&] {
    if (request.prepared == nullptr) return;
    for (auto& [node, prepared] : *request.prepared)
      if (alone[node]) prepared.step.reset();
  };
  for (const Branches& branches : found)
    for (int i = branches.begin; i < branches.end; ++i)
      if (const int32_t node = plan.steps[i].node; node >= 0) alone[node] = 1;
  NodeOrder schedule = plan.schedule;
  if (plan.next_node < request.graph->nodes().size())
    schedule.push_back(static_cast<int32_t>(plan.next_node));
  request.schedule = &schedule;
  request.alone = &alone;
  request.join = plan.joined > 0;
  int32_t expand_node = -1;
  prepare_again();
  HG_TRY_ASSIGN(Plan beside, make_plan(request, &expand_node));
  prepare_again();
  if (!have_same_steps(plan, beside)) return plan;
  const std::vector<std::vector<int>> needs = needs_of(beside);
  std::erase_if(found, [&](const Branches& branches) { return !are_apart(branches, needs); });
  // Values that live during any part of a group live during the whole group.
  for (const Branches& branches : found)
    for (Block& block : beside.blocks) {
      Lifetime& lifetime = block.lifetime;
      if (lifetime.first < branches.end && lifetime.last >= branches.begin)
        lifetime.first = std::min(lifetime.first, branches.begin);
    }
  beside.branches = std::move(found);
  beside.alone = std::move(alone);
  place_blocks(beside);
  return beside;
}

// A tensor of a step: its inputs, then its outputs.
const PlacedTensor& tensor_of(const Step& step, int32_t index) {
  const auto i = static_cast<size_t>(index);
  return i < step.inputs.size() ? step.inputs[i] : step.outputs[i - step.inputs.size()];
}

}  // namespace

void note_apart(Plan& plan) {
  struct Touch {
    int32_t lane, step, tensor;
    bool writes;
  };
  plan.apart.clear();
  for (const Branches& branches : plan.branches) {
    std::map<std::pair<Place::Kind, int32_t>, std::vector<Touch>> known;  // by block or state
    for (size_t lane = 0; lane < branches.lanes.size(); ++lane)
      for (const int32_t index : branches.lanes[lane]) {
        const Step& step = plan.steps[index];
        const size_t reads = step.inputs.size(), all = reads + step.outputs.size();
        for (size_t i = 0; i < all; ++i) {
          const Place& place = tensor_of(step, static_cast<int32_t>(i)).place;
          const bool is_block = place.kind == Place::Kind::arena && place.index == plan.part;
          if (!is_block && place.kind != Place::Kind::state) continue;
          const Touch here{static_cast<int32_t>(lane), index, static_cast<int32_t>(i), i >= reads};
          auto& touches = known[{place.kind, is_block ? place.block : place.index}];
          for (const Touch& other : touches)
            if (other.lane != here.lane && (other.writes || here.writes))
              plan.apart.push_back({other.step, other.tensor, here.step, here.tensor});
          touches.push_back(here);
        }
      }
  }
}

bool is_still_apart(const Plan& plan) {
  return std::none_of(plan.apart.begin(), plan.apart.end(), [&](const ApartPair& pair) {
    const Access a = access(0, tensor_of(plan.steps[pair.step_a], pair.tensor_a), false);
    const Access b = access(0, tensor_of(plan.steps[pair.step_b], pair.tensor_b), false);
    return a.begin < b.end && b.begin < a.end;
  });
}

Result<Plan> run_side_by_side(const PlanRequest& request, Plan plan) {
  const SessionOptions& options = *request.options;
  if (request.threads < 2 || request.device != nullptr || options.keep_all_values ||
      is_disabled(options, "branches"))
    return plan;
  const bool is_short = saves_memory(options);
  const int64_t all = weights_bytes(*request.graph) + plan.arena_bytes;
  const int64_t free = is_short ? 0 : kFreeBytes;
  const int64_t most =
      is_short ? 0 : std::max(free, static_cast<int64_t>(kMostGrowth * double(all)));
  const std::pair<int64_t, bool> attempts[] = {{most, true}, {free, true}, {free, false}};
  for (const auto& [spare, divides] : attempts) {
    double saved = 0;  // fraction of the time
    std::vector<Branches> found =
        find_branches(*request.graph, plan, request.threads, spare, divides, &saved);
    if (found.empty()) return plan;
    HG_TRY_ASSIGN(Plan beside, with_branches(request, plan, std::move(found)));
    const int64_t grown = beside.arena_bytes - plan.arena_bytes;
    if (grown <= free || (grown <= spare && double(grown) <= kGrowth * saved * double(all)))
      return beside;
  }
  return plan;
}

}  // namespace hg
