// SPDX-License-Identifier: Apache-2.0
// The queue of a Pool: waiting requests, the leaders of batches, and results.
#include "hg/pool.h"

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "hg/session_pool.h"
#include "lib/graph/access.h"
#include "lib/graph/border.h"
#include "lib/graph/clock.h"
#include "lib/graph/draws.h"
#include "lib/graph/readable.h"
#include "lib/run/pool_batch.h"

namespace hg {
namespace {

struct Batch;

// A request from its call to its answer. It belongs to the calling thread, which does not return
// before its batch has finished.
struct Waiting {
  BatchPart part;
  std::condition_variable changed;
  Clock::time_point arrived;
  Batch* batch = nullptr;  // once it is in a batch; invalid when is_done
  bool is_done = false;
  bool is_stopped = false;
};

// Requests that run together. The thread of the first one leads.
struct Batch {
  std::vector<Waiting*> all;
  int64_t rows = 0;         // of all requests
  int64_t padded_rows = 0;  // in addition to them
  size_t left = 0;          // requests that nobody stopped
  bool is_proved = false;   // its results equal those of single requests
  std::stop_source stop;
};

// The rows of a graph: the symbol that is the first dim of all inputs and outputs.
Status check_rows(const Graph& graph) {
  std::optional<Dim> rows;
  const auto check = [&](std::string_view what, std::string_view name, const TensorType& type,
                         bool decides) -> Status {
    const bool is_symbol = !type.shape.empty() && !type.shape[0].symbol().empty();
    if (is_symbol && decides && !rows) rows = type.shape[0];
    if (is_symbol && rows && type.shape[0] == *rows) return {};
    return unsupported(what, " '", name, "' is ", type, "; requests run together along the first ",
                       "dim of all inputs and outputs, which must be one symbol, such as n; give ",
                       "Pool::Options::most_rows as 1 to run each alone");
  };
  for (const ValueId id : graph.inputs())
    HG_TRY(check("input", graph.value_info(id).name, graph.value_info(id).type, true));
  for (const auto& [name, id] : graph.outputs())
    HG_TRY(check("output", name, graph.value_info(id).type, false));
  HG_CHECK(rows, "the model has no inputs, so requests have no rows");
  return {};
}

Status closed() {
  return or_no_memory([] { return cancelled("the pool is closed"); });
}

// Whether their rows may be concatenated.
bool go_together(const BatchPart& a, const BatchPart& b) {
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if (a.inputs[i].dtype != b.inputs[i].dtype || a.inputs[i].rank() != b.inputs[i].rank())
      return false;
    for (int d = 1; d < a.inputs[i].rank(); ++d)
      if (a.inputs[i].shape[d] != b.inputs[i].shape[d]) return false;
  }
  return true;
}

}  // namespace

struct Pool::Body {
  Options options;
  std::vector<BatchRunner> runners;
  std::vector<TensorType> inputs;  // of the model

  mutable std::mutex mutex;  // guards all below
  std::deque<Waiting*> queue;
  std::vector<size_t> free;  // runners; the last one used is at the end: its memory is warm
  bool is_closed = false;
  bool is_proved = false;
  Status mixes;  // why requests cannot run together
  int64_t inside = 0;
  std::condition_variable left;  // notified when `inside` decreases
  Statistics counts;

  bool batches() const { return options.most_rows > 1; }
  Status check(const Request& request, BatchPart& part) const;
  Status enter(std::unique_lock<std::mutex>& lock, Waiting& own, Clock::time_point deadline);
  void stop(Waiting& waiting);
  void wake_first();
  Clock::time_point due(const Waiting& first) const;
  bool is_due(const Waiting& first, Clock::time_point now) const;
  Status wait(std::unique_lock<std::mutex>& lock, Waiting& own, Clock::time_point deadline);
  void take(Batch& batch);
  Status lead(std::unique_lock<std::mutex>& lock);
  void finish(Batch& batch, const Status& status, Clock::time_point begin);
  Status run_batch(BatchRunner& runner, Batch& batch, bool proves);
};

// Counts a thread inside run(), for which close() waits.
struct Pool::Inside {
  explicit Inside(Body& body) : body(body) {
    const std::lock_guard<std::mutex> lock(body.mutex);
    ++body.inside;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    const std::lock_guard<std::mutex> lock(body.mutex);
    if (--body.inside == 0) body.left.notify_all();
  }
  Body& body;
};

double Pool::Statistics::quantile(double share) const {
  int64_t all = 0;
  for (const int64_t count : times) all += count;
  const double wanted = share * static_cast<double>(all);
  int64_t sum = 0;
  for (int k = 0; k < kTimes; ++k) {
    sum += times[static_cast<size_t>(k)];
    if (sum > 0 && static_cast<double>(sum) >= wanted) return static_cast<double>(int64_t{1} << k);
  }
  return 0;
}

Pool::Pool(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Pool::Pool(Pool&&) noexcept = default;
Pool& Pool::operator=(Pool&& other) noexcept {
  if (body_ != nullptr) close();
  body_ = std::move(other.body_);
  return *this;
}
Pool::~Pool() {
  if (body_ != nullptr) close();
}

Result<Pool> Pool::create(const Model& model, Options options) {
  return or_no_memory([&]() -> Result<Pool> {
    HG_CHECK(options.sessions >= 1 && options.sessions <= SessionPool::kMostSessions,
             "a pool has 1 to ", SessionPool::kMostSessions, " sessions, not ", options.sessions);
    HG_CHECK(options.most_rows >= 1, "most_rows is ", options.most_rows, "; it must be 1 or more");
    HG_CHECK(options.most_waiting >= 1, "most_waiting is ", options.most_waiting,
             "; it must be 1 or more");
    HG_CHECK(options.longest_wait.count() >= 0, "longest_wait is negative");
    HG_CHECK(!options.session.device_outputs, "the outputs of a pool are on the host");
    HG_CHECK(options.session.states == nullptr,
             "the sessions of a pool run at once; they cannot share states");
    if (!options.session.entry.empty()) {
      HG_TRY_ASSIGN(const Model entry, model.entry(options.session.entry));
      options.session.entry.clear();
      return create(entry, std::move(options));
    }
    const Graph& graph = model.graph();
    HG_TRY(graph.status());
    if (!graph.assignments().empty())
      return unsupported("runs of this model change its state, for example '",
                         graph.value_info(graph.assignments()[0].first).name,
                         "', so requests would not be independent");
    if (options.most_rows > 1) {
      HG_TRY(check_rows(graph));
      if (draws(graph))
        return unsupported(
            "the model draws random numbers, which differ between a batch and single requests");
    }
    auto body = std::make_unique<Body>();
    for (const ValueId id : graph.inputs()) body->inputs.push_back(graph.value_info(id).type);
    for (int i = 0; i < options.sessions; ++i) {
      HG_TRY_ASSIGN(Session session, Session::create(model, options.session));
      body->runners.emplace_back(std::move(session), options.most_rows);
      body->free.push_back(static_cast<size_t>(options.sessions - 1 - i));
    }
    body->options = std::move(options);
    return Pool(std::move(body));
  });
}

Status Pool::Body::check(const Request& request, BatchPart& part) const {
  HG_CHECK(request.inputs.size() == inputs.size(), "the request has ",
           uint64_t{request.inputs.size()}, " inputs; the model takes ", uint64_t{inputs.size()});
  part.inputs = request.inputs;
  part.rows = 1;
  if (!batches()) return {};
  part.rows = request.inputs[0].rank() > 0 ? request.inputs[0].shape[0] : 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ConstTensor& input = request.inputs[i];
    const TensorType& type = inputs[i];
    bool fits =
        input.dtype == type.dtype && input.rank() == type.rank() && input.shape[0] == part.rows;
    for (int d = 0; fits && d < input.rank(); ++d)
      fits = input.shape[d] >= 0 &&
             (!type.shape[d].is_constant() || type.shape[d].constant() == input.shape[d]);
    HG_CHECK(fits, "input ", uint64_t{i}, " of the request is ", input.dtype, input.shape,
             ", of a request of ", part.rows, " rows; the model takes ", type);
    HG_CHECK(is_readable(input), "input ", uint64_t{i}, " of the request has ",
             unreadable_part(input));
  }
  return {};
}

Result<Pool::Answer> Pool::run(Request request) {
  return or_no_memory([&]() -> Result<Answer> {
    Body& body = *body_;
    Waiting own;
    const Status fits = body.check(request, own.part);
    own.arrived = Clock::now();
    const Inside inside(body);  // until no batch of `stopping` runs
    const std::stop_callback stopping(request.stop, [&] {
      const std::lock_guard<std::mutex> lock(body.mutex);
      body.stop(own);
    });
    std::unique_lock<std::mutex> lock(body.mutex);
    const Status status = fits.ok() ? body.enter(lock, own, request.deadline) : fits;
    const auto time =
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - own.arrived);
    Statistics& counts = body.counts;
    if (!status.ok()) {
      ++(status.code() == Code::cancelled ? counts.cancelled
         : status.code() == Code::busy    ? counts.refused
                                          : counts.failed);
      return status;
    }
    ++counts.answered;
    const auto k = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(time.count())));
    ++counts.times[std::min(k, counts.times.size() - 1)];
    return Answer{std::move(own.part.outputs), own.part.batch_rows, own.part.waited};
  });
}

// Called with the mutex held, as all functions below except run_batch().
Status Pool::Body::enter(std::unique_lock<std::mutex>& lock, Waiting& own,
                         Clock::time_point deadline) {
  if (is_closed) return closed();
  HG_TRY(mixes);
  if (static_cast<int64_t>(queue.size()) >= options.most_waiting)
    return busy("the pool is full: ", options.most_waiting, " requests wait");
  queue.push_back(&own);
  if (queue.front() != &own) queue.front()->changed.notify_one();  // may be due now
  return wait(lock, own, deadline);
}

void Pool::Body::stop(Waiting& waiting) {
  if (waiting.is_done || std::exchange(waiting.is_stopped, true)) return;
  if (waiting.batch != nullptr && --waiting.batch->left == 0) waiting.batch->stop.request_stop();
  waiting.changed.notify_one();
}

void Pool::Body::wake_first() {
  if (!queue.empty()) queue.front()->changed.notify_one();
}

// The time at which the first request has waited long enough.
Clock::time_point Pool::Body::due(const Waiting& first) const {
  const auto most = std::chrono::duration_cast<std::chrono::microseconds>(Clock::time_point::max() -
                                                                          first.arrived);
  return options.longest_wait < most ? first.arrived + options.longest_wait
                                     : Clock::time_point::max();
}

// Whether the first request should run now: its batch is full, or it has waited long enough.
bool Pool::Body::is_due(const Waiting& first, Clock::time_point now) const {
  if (!batches() || first.part.rows >= options.most_rows || first.part.rows == 0 ||
      now >= due(first))
    return true;
  int64_t left = options.most_rows;
  for (const Waiting* other : queue) {
    if (!go_together(first.part, other->part)) continue;
    if (other->part.rows >= left) return true;
    left -= other->part.rows;
  }
  return false;
}

// Returns when its batch has run, on this thread or another.
Status Pool::Body::wait(std::unique_lock<std::mutex>& lock, Waiting& own,
                        Clock::time_point deadline) {
  const auto give_up = [&](Status status) -> Status {
    const bool was_first = queue.front() == &own;
    queue.erase(std::find(queue.begin(), queue.end(), &own));
    if (was_first) wake_first();
    return status;
  };
  for (;;) {
    if (own.is_done) return std::move(own.part.status);
    if (own.batch != nullptr) {
      own.changed.wait(lock);
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (own.is_stopped)
      return give_up(
          or_no_memory([] { return cancelled("the request was stopped before it ran"); }));
    if (is_closed) return give_up(closed());
    if (!mixes.ok()) return give_up(mixes);
    if (now >= deadline)
      return give_up(
          or_no_memory([] { return cancelled("the deadline passed before the request ran"); }));
    const bool may_lead = queue.front() == &own && !free.empty();
    if (may_lead && is_due(own, now)) {
      Status status = or_no_memory([&] { return lead(lock); });
      if (own.batch == nullptr) return give_up(std::move(status));
      continue;
    }
    Clock::time_point until = deadline;
    if (may_lead) until = std::min(until, due(own));
    if (until == Clock::time_point::max())
      own.changed.wait(lock);
    else
      own.changed.wait_until(lock, until);
  }
}

// Takes the first request and those that fit with it, in the order of the queue.
void Pool::Body::take(Batch& batch) {
  const BatchPart& first = queue.front()->part;
  const bool alone = !batches() || first.rows >= options.most_rows || first.rows == 0;
  batch.all.reserve(queue.size());
  for (Waiting* other : queue) {
    const BatchPart& part = other->part;
    const bool fits = &part == &first ||
                      (!alone && !other->is_stopped && part.rows > 0 &&
                       batch.rows + part.rows <= options.most_rows && go_together(first, part));
    if (!fits) continue;
    other->batch = &batch;
    batch.all.push_back(other);
    batch.rows += part.rows;
  }
  batch.left = batch.all.size();
  std::erase_if(queue, [](const Waiting* other) { return other->batch != nullptr; });
}

// Fails if no request was taken.
Status Pool::Body::lead(std::unique_lock<std::mutex>& lock) {
  Batch batch;
  Status status = internal_error("a callback of the host threw an exception");
  take(batch);
  const size_t at = free.back();
  free.pop_back();
  const bool proves = !is_proved;
  ++counts.running;
  wake_first();
  lock.unlock();
  const Clock::time_point begin = Clock::now();
  // Wakes all waiting threads, whatever happens.
  struct AtEnd {
    const std::function<void()> call;
    ~AtEnd() { call(); }
  };
  const auto end = [&] {
    lock.lock();
    free.push_back(at);
    finish(batch, status, begin);
  };
  const AtEnd at_end{std::cref(end)};
  status = or_no_memory([&] { return run_batch(runners[at], batch, proves); });
  return {};
}

void Pool::Body::finish(Batch& batch, const Status& status, Clock::time_point begin) {
  --counts.running;
  ++counts.batches;
  counts.rows += batch.rows;
  counts.padded_rows += batch.padded_rows;
  is_proved |= batch.is_proved;
  if (status.code() == Code::unsupported && batch.all.size() > 1) mixes = status;
  for (Waiting* other : batch.all) {
    if (!status.ok()) other->part.status = status;
    other->part.batch_rows = batch.rows;
    other->part.waited =
        std::chrono::duration_cast<std::chrono::microseconds>(begin - other->arrived);
    other->is_done = true;
    other->changed.notify_one();
  }
  if (!mixes.ok())
    for (Waiting* other : queue) other->changed.notify_one();
  wake_first();
}

// Fails for the whole batch. An error of a single request is stored in that request.
Status Pool::Body::run_batch(BatchRunner& runner, Batch& batch, bool proves) {
  std::vector<BatchPart*> parts;
  for (Waiting* other : batch.all) parts.push_back(&other->part);
  const std::stop_token stop = batch.stop.get_token();
  const int64_t padded = batches() ? padded_rows(batch.rows, options.most_rows) : 1;
  // Until the rows of requests are known to be independent, single requests are not padded either.
  if (parts.size() == 1 && (padded == batch.rows || proves))
    return runner.run_alone(*parts[0], stop);
  Status status = runner.gather(parts);
  if (status.ok()) {
    batch.padded_rows = padded - batch.rows;
    status = runner.run(parts, stop);
  }
  if (status.ok() && proves) {
    HG_TRY_ASSIGN(batch.is_proved, runner.prove(parts, stop));
  }
  if (status.ok() || parts.size() == 1 || status.code() == Code::cancelled) return status;
  for (BatchPart* part : parts) part->status = runner.run_alone(*part, stop);
  return {};
}

void Pool::close() {
  std::unique_lock<std::mutex> lock(body_->mutex);
  body_->is_closed = true;
  for (Waiting* waiting : body_->queue) waiting->changed.notify_one();
  body_->left.wait(lock, [&] { return body_->inside == 0; });
}

Pool::Statistics Pool::statistics() const {
  const std::lock_guard<std::mutex> lock(body_->mutex);
  Statistics all = body_->counts;
  all.waiting = static_cast<int64_t>(body_->queue.size());
  return all;
}

}  // namespace hg
