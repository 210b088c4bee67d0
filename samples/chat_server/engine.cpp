// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace {

using Clock = std::chrono::steady_clock;

// The most likely ids before any change of the logits.
hg::Status find_likely(std::span<const float> logits, int64_t count, Transcript::Likely& likely) {
  const size_t most = std::min(static_cast<size_t>(count), logits.size());
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  HG_TRY(hg::log_probability(logits, 0).status());  // fails for NaN, which cannot be sorted
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(most), ids.end(),
      [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  likely.clear();
  for (size_t i = 0; i < most; ++i) {
    HG_TRY_ASSIGN(const float value, hg::log_probability(logits, ids[i]));
    likely.emplace_back(ids[i], value);
  }
  return {};
}

// Changes logits by the tokens of the answer so far, and by the bias.
hg::Status change_logits(const Task& task, std::span<const int32_t> answer,
                         std::span<float> logits) {
  std::map<int32_t, int> counts;
  if (task.frequency_penalty != 0 || task.presence_penalty != 0)
    for (const int32_t id : answer) ++counts[id];
  for (const auto& [id, count] : counts)
    if (static_cast<size_t>(id) < logits.size())
      logits[static_cast<size_t>(id)] -=
          task.frequency_penalty * static_cast<float>(count) + task.presence_penalty;
  for (const auto& [id, bias] : task.bias) {
    HG_CHECK(static_cast<size_t>(id) < logits.size(), "logit_bias: the id ", id,
             " is outside the model's ", uint64_t{logits.size()}, " tokens");
    logits[static_cast<size_t>(id)] += bias;
  }
  return {};
}

size_t shared_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const size_t size = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin()).first -
      a.begin());
}

}  // namespace

// ---- Answers ----

Answer::Event Answer::next(Piece& piece, std::chrono::milliseconds longest_wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest_wait, [&] { return has_ended_ || !pieces_.empty(); });
  if (!pieces_.empty()) {
    piece = std::move(pieces_.front());
    pieces_.pop_front();
    return Event::piece;
  }
  return has_ended_ ? Event::end : Event::nothing;
}

void Answer::add(Piece piece) {
  if (piece.empty()) return;
  const std::lock_guard lock(mutex_);
  pieces_.push_back(std::move(piece));
  changed_.notify_all();
}

void Answer::end(Outcome outcome) {
  const std::lock_guard lock(mutex_);
  outcome_ = std::move(outcome);
  has_ended_ = true;
  changed_.notify_all();
}

void Times::add(Clock::duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  size_t bucket = 0;
  while (bucket < kBuckets && seconds > 1e-3 * static_cast<double>(int64_t{1} << bucket)) ++bucket;
  ++counts[bucket];
  sum_s += seconds;
}

// ---- The engine ----

hg::Result<std::unique_ptr<Engine>> Engine::create(const hg::Model& model, hg::Tokenizer tokenizer,
                                                   const Options& options) {
  HG_CHECK(options.workers > 0 && options.rows > 0 && options.most_waiting >= 0,
           "expected at least one session, got ", options.workers, ", one row, got ", options.rows,
           ", and a queue of at least 0, got ", options.most_waiting);
  std::unique_ptr<Engine> engine(new Engine(std::move(tokenizer), options.most_waiting));
  for (int i = 0; i < options.workers; ++i) {
    HG_TRY_ASSIGN(std::unique_ptr<Rows> rows, Rows::create(model, options.rows, options.session));
    engine->workers_.push_back(std::make_unique<Worker>());
    engine->workers_.back()->rows = std::move(rows);
  }
  for (const auto& worker : engine->workers_)
    worker->thread = std::thread([&engine = *engine, &worker = *worker] { engine.work(worker); });
  return engine;
}

Engine::~Engine() {
  stop();
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  for (const auto& worker : workers_)
    if (worker->thread.joinable()) worker->thread.join();
}

hg::Result<std::shared_ptr<Answer>> Engine::submit(Task task) {
  auto answer = std::make_shared<Answer>(std::move(task));
  const std::lock_guard lock(mutex_);
  if (stops_) {
    ++statistics_.refused;
    return hg::cancelled("the server stops");
  }
  if (Worker* const worker = free_worker(answer->task.prompt); worker != nullptr) {
    give(*worker, answer);
    return answer;
  }
  if (queue_.size() >= static_cast<size_t>(most_waiting_)) {
    ++statistics_.refused;
    return hg::Status(hg::Code::busy, hg::str_cat("the queue of ", most_waiting_,
                                                  " requests is full; try again later"));
  }
  queue_.push_back(answer);
  return answer;
}

// The worker that has read most of the prompt, if it would not lose more than it could use; then
// the least busy one, then the one whose last task is the oldest.
Engine::Worker* Engine::free_worker(const std::vector<int32_t>& prompt) {
  Worker* best = nullptr;
  size_t best_shared = 0;
  for (const auto& worker : workers_) {
    if (worker->busy >= worker->rows->count()) continue;
    size_t shared = shared_prefix(worker->past, prompt);
    if (2 * shared < worker->past.size()) shared = 0;
    const auto rank = [](const Worker& each) { return std::pair(each.busy, each.last_task); };
    if (best == nullptr || shared > best_shared ||
        (shared == best_shared && rank(*worker) < rank(*best))) {
      best = worker.get();
      best_shared = shared;
    }
  }
  return best;
}

void Engine::give(Worker& worker, std::shared_ptr<Answer> answer) {
  open_.insert(answer);
  worker.past = answer->task.prompt;
  worker.given.push_back(std::move(answer));
  worker.last_task = ++tasks_;
  ++worker.busy;
  changed_.notify_all();
}

void Engine::cancel(Answer& answer) {
  std::shared_ptr<Answer> waiting;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(queue_.begin(), queue_.end(),
                                    [&](const auto& each) { return each.get() == &answer; });
    if (found != queue_.end()) {
      waiting = *found;
      queue_.erase(found);
      ++statistics_.cancelled;
    }
  }
  if (waiting)
    waiting->end({.status = hg::cancelled("the request was cancelled")});
  else
    answer.stop_.request_stop();
}

void Engine::stop() {
  std::deque<std::shared_ptr<Answer>> waiting;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    waiting.swap(queue_);
    statistics_.cancelled += static_cast<int64_t>(waiting.size());
    for (const auto& answer : open_) answer->stop_.request_stop();
  }
  for (const auto& answer : waiting) answer->end({.status = hg::cancelled("the server stops")});
}

Statistics Engine::statistics() const {
  const std::lock_guard lock(mutex_);
  Statistics now = statistics_;
  now.waiting = static_cast<int64_t>(queue_.size());
  now.running = static_cast<int64_t>(open_.size());
  return now;
}

// ---- Workers ----

Engine::Running::Running(const hg::Tokenizer& tokenizer, std::shared_ptr<Answer> given)
    : answer(std::move(given)),
      transcript(tokenizer, answer->task.stops, answer->task.prompt.back(),
                 answer->task.options.log_probabilities) {}

void Engine::work(Worker& worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !worker.given.empty() || !worker.running.empty(); });
    if (worker.given.empty() && worker.running.empty()) return;
    const std::deque<std::shared_ptr<Answer>> given = std::exchange(worker.given, {});
    lock.unlock();
    for (const std::shared_ptr<Answer>& answer : given) begin(worker, answer);
    end_cancelled(worker);
    collect(worker);
    if (!worker.running.empty()) step(worker);
    lock.lock();
  }
}

void Engine::begin(Worker& worker, std::shared_ptr<Answer> answer) {
  auto running = std::make_unique<Running>(tokenizer_, answer);
  const hg::Result<int64_t> id =
      worker.rows->add(answer->task.prompt, options_of(*running), answer->stop_.get_token());
  if (id.ok())
    worker.running.emplace(*id, std::move(running));
  else
    finish(worker, *answer, {.status = id.status()});
}

hg::GenerateOptions Engine::options_of(Running& running) {
  const Task& task = running.answer->task;
  hg::GenerateOptions options = task.options;
  options.reuse_past = true;
  if (task.alternatives > 0 || task.frequency_penalty != 0 || task.presence_penalty != 0 ||
      !task.bias.empty())
    options.on_logits = [&running, &task](int64_t, std::span<const int32_t> history,
                                          std::span<float> logits) {
      if (task.alternatives > 0) HG_TRY(find_likely(logits, task.alternatives, running.likely));
      return change_logits(task, history.subspan(task.prompt.size()), logits);
    };
  options.on_token = [this, &running](const hg::GeneratedToken& token) {
    if (running.is_first) {
      const std::lock_guard lock(mutex_);
      statistics_.first_piece.add(Clock::now() - running.answer->start_);
      running.is_first = false;
    }
    hg::Result<Piece> piece = running.transcript.push(token, running.likely);
    running.failed = piece.status();
    if (piece.ok()) running.answer->add(*std::move(piece));
    return running.failed.ok() && !running.transcript.has_ended();
  };
  return options;
}

void Engine::end_cancelled(Worker& worker) {
  for (const auto& [id, running] : worker.running)
    if (running->answer->stop_.stop_requested() && worker.rows->end(id).ok())
      running->is_cancelled = true;
}

void Engine::step(Worker& worker) {
  // Only a sequence that runs alone can end a step early.
  const std::stop_token stop = worker.running.size() == 1
                                   ? worker.running.begin()->second->answer->stop_.get_token()
                                   : std::stop_token();
  const hg::Status status = worker.rows->step(stop);
  if (status.ok()) return collect(worker);
  if (status.code() == hg::Code::cancelled) return;  // end_cancelled() follows
  for (const auto& [id, running] : worker.running)
    if (worker.rows->end(id).ok()) running->failed = status;
  collect(worker);
}

void Engine::collect(Worker& worker) {
  for (const hg::EndedSequence& ended : worker.rows->ended()) {
    const auto found = worker.running.find(ended.id);
    if (found == worker.running.end()) continue;  // collected before
    finish(worker, *found->second, ended);
    worker.running.erase(found);
  }
}

void Engine::finish(Worker& worker, Running& running, const hg::EndedSequence& ended) {
  Answer& answer = *running.answer;
  Outcome outcome{.status = running.failed.ok() ? ended.status : running.failed,
                  .finish = ended.sequence.finish,
                  .prompt_tokens = static_cast<int64_t>(answer.task.prompt.size()),
                  .tokens = static_cast<int64_t>(ended.sequence.ids.size()),
                  .cached_tokens = ended.reused};
  if (running.is_cancelled) outcome.status = hg::cancelled("the request was cancelled");
  if (outcome.status.ok()) {
    hg::Result<Piece> rest = running.transcript.finish();
    outcome.status = rest.status();
    if (rest.ok()) answer.add(*std::move(rest));
    // The end of a text can complete a stop string.
    if (running.transcript.has_ended()) outcome.finish = hg::Finish::stop;
  }
  if (worker.rows->count() == 1) {  // the session keeps the answer
    const std::lock_guard lock(mutex_);
    worker.past.insert(worker.past.end(), ended.sequence.ids.begin(), ended.sequence.ids.end());
  }
  finish(worker, answer, std::move(outcome));
}

void Engine::finish(Worker& worker, Answer& answer, Outcome outcome) {
  {
    const std::lock_guard lock(mutex_);
    const hg::Code code = outcome.status.code();
    if (code == hg::Code::cancelled && stops_) outcome.status = hg::cancelled("the server stops");
    ++(code == hg::Code::ok          ? statistics_.answered
       : code == hg::Code::cancelled ? statistics_.cancelled
                                     : statistics_.failed);
    if (code == hg::Code::ok) {
      statistics_.prompt_tokens += outcome.prompt_tokens;
      statistics_.cached_tokens += outcome.cached_tokens;
      statistics_.tokens += outcome.tokens;
      statistics_.answer.add(Clock::now() - answer.start_);
    }
    std::erase_if(open_, [&](const auto& each) { return each.get() == &answer; });
    --worker.busy;
    if (!queue_.empty()) {
      give(worker, std::move(queue_.front()));
      queue_.pop_front();
    }
  }
  answer.end(std::move(outcome));
}
