// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <algorithm>
#include <numeric>

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
  HG_CHECK(options.workers > 0 && options.most_waiting >= 0, "expected at least one session, got ",
           options.workers, ", and a queue of at least 0, got ", options.most_waiting);
  std::unique_ptr<Engine> engine(new Engine(std::move(tokenizer), options.most_waiting));
  for (int i = 0; i < options.workers; ++i) {
    HG_TRY_ASSIGN(hg::Generator generator, hg::Generator::create(model, options.session));
    engine->workers_.push_back(std::make_unique<Worker>(std::move(generator)));
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
  if (Worker* const worker = idle_worker(answer->task.prompt); worker != nullptr) {
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

// The worker that has read most of the prompt. One that would lose more than it could use does not
// count; then the worker whose last task is the oldest.
Engine::Worker* Engine::idle_worker(const std::vector<int32_t>& prompt) {
  Worker* best = nullptr;
  size_t best_shared = 0;
  for (const auto& worker : workers_) {
    if (worker->now) continue;
    size_t shared = shared_prefix(worker->past, prompt);
    if (2 * shared < worker->past.size()) shared = 0;
    if (best == nullptr || shared > best_shared ||
        (shared == best_shared && worker->last_task < best->last_task)) {
      best = worker.get();
      best_shared = shared;
    }
  }
  return best;
}

void Engine::give(Worker& worker, std::shared_ptr<Answer> answer) {
  worker.now = std::move(answer);
  worker.last_task = ++tasks_;
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
    for (const auto& worker : workers_)
      if (worker->now) worker->now->stop_.request_stop();
  }
  for (const auto& answer : waiting) answer->end({.status = hg::cancelled("the server stops")});
}

void Engine::work(Worker& worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return worker.now || ends_; });
    if (!worker.now) return;
    const std::shared_ptr<Answer> answer = worker.now;
    lock.unlock();
    Outcome outcome = generate(worker, *answer);
    lock.lock();
    worker.past = answer->task.prompt;
    if (!worker.generator.generation().sequences.empty()) {
      const std::vector<int32_t>& ids = worker.generator.generation().sequences[0].ids;
      worker.past.insert(worker.past.end(), ids.begin(), ids.end());
    }
    worker.now = nullptr;
    if (!queue_.empty()) {
      give(worker, std::move(queue_.front()));
      queue_.pop_front();
    }
    lock.unlock();
    finish(*answer, std::move(outcome));  // after which a client sees a free worker
    lock.lock();
  }
}

Outcome Engine::generate(Worker& worker, Answer& answer) {
  const Task& task = answer.task;
  Outcome outcome{.prompt_tokens = static_cast<int64_t>(task.prompt.size())};
  hg::GenerateOptions options = task.options;
  options.reuse_past = true;
  Transcript transcript(tokenizer_, task.stops, task.prompt.back(), options.log_probabilities);
  Transcript::Likely likely;
  if (task.alternatives > 0 || task.frequency_penalty != 0 || task.presence_penalty != 0 ||
      !task.bias.empty())
    options.on_logits = [&](int64_t, std::span<const int32_t> history, std::span<float> logits) {
      if (task.alternatives > 0) HG_TRY(find_likely(logits, task.alternatives, likely));
      return change_logits(task, history.subspan(task.prompt.size()), logits);
    };
  bool is_first = true;
  const auto add = [&](hg::Result<Piece> piece) {
    if (!piece.ok()) outcome.status = piece.status();
    if (piece.ok()) answer.add(*std::move(piece));
    return outcome.status.ok();
  };
  options.on_token = [&](const hg::GeneratedToken& token) {
    if (is_first) {
      const std::lock_guard lock(mutex_);
      statistics_.first_piece.add(Clock::now() - answer.start_);
      is_first = false;
    }
    return add(transcript.push(token, likely)) && !transcript.has_ended();
  };
  const hg::Result<hg::Generation> made =
      worker.generator.generate({&task.prompt, 1}, options, answer.stop_.get_token());
  if (!outcome.status.ok()) return outcome;
  if (!made.ok()) {
    outcome.status = made.status();
    return outcome;
  }
  if (!add(transcript.finish())) return outcome;
  // The end of a text can complete a stop string.
  outcome.finish = transcript.has_ended() ? hg::Finish::stop : made->sequences[0].finish;
  outcome.tokens = static_cast<int64_t>(made->sequences[0].ids.size());
  outcome.cached_tokens = made->reused;
  return outcome;
}

void Engine::finish(Answer& answer, Outcome outcome) {
  {
    const std::lock_guard lock(mutex_);
    const hg::Code code = outcome.status.code();
    ++(code == hg::Code::ok          ? statistics_.answered
       : code == hg::Code::cancelled ? statistics_.cancelled
                                     : statistics_.failed);
    if (code == hg::Code::ok) {
      statistics_.prompt_tokens += outcome.prompt_tokens;
      statistics_.cached_tokens += outcome.cached_tokens;
      statistics_.tokens += outcome.tokens;
      statistics_.answer.add(Clock::now() - answer.start_);
    }
  }
  answer.end(std::move(outcome));
}

Statistics Engine::statistics() const {
  const std::lock_guard lock(mutex_);
  Statistics now = statistics_;
  now.waiting = static_cast<int64_t>(queue_.size());
  now.running = std::count_if(workers_.begin(), workers_.end(),
                              [](const auto& worker) { return worker->now != nullptr; });
  return now;
}
