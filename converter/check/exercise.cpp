// SPDX-License-Identifier: Apache-2.0
// Searches for inputs that reach branches not taken by the cases, and checks the outputs there.
// Work and the number of attempts limit the search, never time, so a slow machine finds the same
// inputs.
#include <algorithm>
#include <set>
#include <utility>

#include "converter/check/checker.h"
#include "converter/check/fitting_sizes.h"

namespace hg::convert {
namespace {

constexpr int kMostAttempts = 200;    // with other values
constexpr int kAlways = 6;            // first attempts, compared even if they take no new branch
constexpr int kFewSizes = 8;          // sizes to try if data or sizes decide anything
constexpr double kMostWork = 2e9;     // of all runs, in floating-point operations; cost estimates
constexpr double kWorkOfANode = 3e5;  // for a node, or an iteration or branch of one, on both sides
constexpr double kWorkOfASize = 2e7;  // and for a data-dependent size, which requires planning

double nodes_of(const Graph& graph) {
  double count = 0;
  for (const Node& node : graph.nodes()) {
    ++count;
    for (const auto& body : node.subgraphs) count += nodes_of(*body);
  }
  return count;
}

}  // namespace

struct Checker::Trying {
  Session session;
  std::vector<WaysRow> before = {};  // of the session, after the last run
  std::set<std::string> paths = {};  // that were compared
  double work_of_a_run = 0;          // without kernels
  double work_left = kMostWork;
  std::string refusal = {};  // libtorch's last reason to reject inputs
};

void Checker::exercise(Session& checked) {
  if (result_.cases.empty() || coverage_.is_complete()) return;
  progress_("searching inputs for the ways that were not taken");
  const Search search(specs_, result_.cases[0].sizes, job_);
  SessionOptions options;
  options.most_rounds = kMostRounds;
  Result<Session> session = Session::create(*model_, options);
  double sizes_of_data = 0;
  for (const WaysRow& row : checked.ways())
    if (row.op != "if" && row.op != "while") sizes_of_data += 1;
  const double work = kWorkOfANode * nodes_of(graph_) + kWorkOfASize * sizes_of_data;
  if (checked.flops() + work < kMostWork && session.ok()) {
    Trying trying{.session = *std::move(session), .work_of_a_run = work};
    const auto go_on = [&] { return result_.exit == Exit::ok && trying.work_left > 0; };
    int few = coverage_.has_rows() ? kFewSizes : 0;
    for (const Binding& sizes : search.sizes()) {
      if (!go_on()) break;
      if (few-- > 0 || coverage_.has_news(bindings_of(sizes))) try_one(trying, sizes, search, -1);
    }
    for (int number = 0; number < kMostAttempts; ++number)
      if (go_on() && !coverage_.has_all_rows())
        try_one(trying, search.sizes_of(number), search, number);
  }
  const auto admits = [&](const Bindings& sizes) { return !is_guarded(graph_, sizes); };
  for (std::string& way : coverage_.not_exercised(admits))
    result_.not_exercised.push_back(std::move(way));
}

// Tries attempt `number`, or the default values if it is negative. If libtorch rejects the inputs,
// draws the integers again as counts or lengths limited by the sizes.
void Checker::try_one(Trying& trying, const Binding& sizes, const Search& search, int number) {
  if (try_inputs(trying, sizes, search, number, nullptr)) return;
  std::vector<Draw> limited = draws(specs_, sizes);
  std::erase_if(limited, [](const Draw& draw) { return draw.most == Draw().most; });
  if (limited.empty()) return;
  const size_t turn = static_cast<size_t>(std::max(number, 0)) % limited.size();
  try_inputs(trying, sizes, search, number, &limited[turn]);
}

// Returns false if libtorch rejects the inputs.
bool Checker::try_inputs(Trying& trying, const Binding& sizes, const Search& search, int number,
                         const Draw* integers) {
  Search::Attempt attempt;
  try {
    attempt = search.attempt(sizes, number, integers);
  } catch (const Failure&) {
    return true;  // the inputs cannot have these sizes
  }
  Session& session = trying.session;
  // Each attempt starts with the buffers stored in the file.
  for (const auto& [target, source] : graph_.assignments()) {
    const ValueInfo& info = graph_.value_info(target);
    (void)session.set_value(info.name, model_->graph().states()[info.state].data.tensor);
  }
  const Status status = run(session, attempt.inputs);
  std::vector<WaysRow> after = session.ways();
  const std::vector<WaysRow> taken = rows_between(trying.before, after);
  trying.before = std::move(after);
  double ways = 0;  // executions of branches and loop bodies, which the graph has once
  for (const WaysRow& row : taken)
    for (const int64_t times : row.taken) ways += static_cast<double>(times);
  trying.work_left -=
      trying.work_of_a_run + kWorkOfANode * ways + (status.ok() ? session.flops() : kMostWork / 20);
  const std::string path = path_of(taken, sizes);
  if (status.ok() && number >= kAlways && trying.paths.count(path) > 0) return true;

  // For sizes that the file rejects, libtorch may crash, such as in an integer division by 0.
  if (!status.ok() && is_guarded(graph_, sizes)) return true;
  std::vector<TensorData> expected, again;
  try {
    expected = libtorch(attempt.inputs, job_.seed, kMostRounds);
    if (varies_) again = libtorch(attempt.inputs, job_.seed + 1, kMostRounds);
  } catch (const ReferenceFailure& failure) {
    trying.refusal = failure.reason;
    return false;  // nothing to compare with
  }
  const std::string with =
      str_cat(" with ", sizes.empty() ? "" : describe_sizes(sizes) + " and ", attempt.values);
  if (!status.ok() &&
      (has_refused_values_ || std::any_of(specs_.begin(), specs_.end(), is_integer_input))) {
    warn_of_refused_values(status, sizes, attempt.values, attempt.inputs);
    trying.refusal.clear();
    return false;
  }
  if (!status.ok()) {
    fail(Exit::mismatch, str_cat("libtorch runs the model", with,
                                 ", but the converted model fails: ", status.message(),
                                 other_numbers(attempt.inputs)));
    return true;
  }
  if (varies_ && again.size() != expected.size()) return true;
  if (integers != nullptr) refused_numbers_ = trying.refusal;
  note_drawn(attempt.inputs);
  CheckedCase report{sizes, attempt.values,
                     check_outputs(session, attempt.inputs, expected, again)};
  explain(session, report.outputs, attempt.inputs, expected, with);
  const bool is_right = result_.exit == Exit::ok;
  if (is_right) trying.paths.insert(path);
  if (!is_right || coverage_.add(taken, bindings_of(sizes)))
    result_.cases.push_back(std::move(report));
  return true;
}

}  // namespace hg::convert
