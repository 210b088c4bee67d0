// SPDX-License-Identifier: Apache-2.0
// Generates the answers of one model. Requests wait in a bounded queue for a row of a worker. Each
// worker is a thread with a batch that sequences join and leave; all share the weights. A worker
// keeps the past of its last prompt, so the next turn of a chat reads only what is new.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "hg/text/tokenizer.h"
#include "rows.h"
#include "transcript.h"

struct Task {
  std::vector<int32_t> prompt;
  hg::GenerateOptions options = {};  // without callbacks
  std::vector<std::string> stops = {};
  int64_t alternatives = 0;  // to report for each token; needs options.log_probabilities
  float frequency_penalty = 0, presence_penalty = 0;
  std::map<int32_t, float> bias = {};
};

struct Outcome {
  hg::Status status;
  hg::Finish finish = hg::Finish::length;
  int64_t prompt_tokens = 0, tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, from an earlier request
};

// The answer to a task while it is generated. Thread-safe.
class Answer {
 public:
  explicit Answer(Task given) : task(std::move(given)) {}
  const Task task;

  enum class Event { piece, end, nothing };
  // Waits for the next piece or the end.
  Event next(Piece& piece, std::chrono::milliseconds longest_wait);
  const Outcome& outcome() const { return outcome_; }  // after the end

 private:
  friend class Engine;
  void add(Piece piece);
  void end(Outcome outcome);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_;
  bool has_ended_ = false;
  Outcome outcome_;
  std::stop_source stop_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Times in buckets of powers of two, from 1 ms to 2^kBuckets ms.
struct Times {
  static constexpr size_t kBuckets = 20;
  std::array<int64_t, kBuckets + 1> counts = {};  // the last one: all longer times
  double sum_s = 0;
  void add(std::chrono::steady_clock::duration time);
};

struct Statistics {
  int64_t answered = 0, refused = 0, cancelled = 0, failed = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
  int64_t waiting = 0, running = 0;
  Times first_piece, answer;
};

class Engine {
 public:
  struct Options {
    int workers = 1;
    int rows = 4;  // sequences of a worker that run together; 1 if the model allows no more
    int most_waiting = 32;
    hg::SessionOptions session = {};
  };
  // The tokenizer must have the ids of the model.
  static hg::Result<std::unique_ptr<Engine>> create(const hg::Model& model, hg::Tokenizer tokenizer,
                                                    const Options& options);
  ~Engine();  // cancels all answers

  // Starts a task, or adds it to the queue. Fails with busy if the queue is full.
  hg::Result<std::shared_ptr<Answer>> submit(Task task);
  // Ends an answer with cancelled, at the latest after the next token.
  void cancel(Answer& answer);
  // Ends all answers, and refuses later ones.
  void stop();

  Statistics statistics() const;
  int64_t vocabulary() const { return workers_[0]->rows->vocabulary(); }
  int64_t position_limit() const { return workers_[0]->rows->position_limit(); }

 private:
  // A sequence of a worker, with its callbacks.
  struct Running {
    Running(const hg::Tokenizer& tokenizer, std::shared_ptr<Answer> given);
    std::shared_ptr<Answer> answer;
    Transcript transcript;
    Transcript::Likely likely = {};
    hg::Status failed = {};  // text that cannot be decoded
    bool is_first = true, is_cancelled = false;
  };
  struct Worker {
    std::unique_ptr<Rows> rows;
    std::map<int64_t, std::unique_ptr<Running>> running = {};  // by id of the sequence
    // With the engine's mutex:
    std::deque<std::shared_ptr<Answer>> given = {};  // not yet started
    int64_t busy = 0;                                // given and running
    std::vector<int32_t> past = {};                  // what the next prompt can share
    uint64_t last_task = 0;                          // number of the last task
    std::thread thread = {};
  };
  Engine(hg::Tokenizer tokenizer, int most_waiting)
      : tokenizer_(std::move(tokenizer)), most_waiting_(most_waiting) {}
  Worker* free_worker(const std::vector<int32_t>& prompt);
  void give(Worker& worker, std::shared_ptr<Answer> answer);
  void work(Worker& worker);
  void begin(Worker& worker, std::shared_ptr<Answer> answer);
  hg::GenerateOptions options_of(Running& running);
  void end_cancelled(Worker& worker);
  void step(Worker& worker);
  void collect(Worker& worker);
  void finish(Worker& worker, Running& running, const hg::EndedSequence& ended);
  void finish(Worker& worker, Answer& answer, Outcome outcome);

  const hg::Tokenizer tokenizer_;
  const int most_waiting_;
  std::vector<std::unique_ptr<Worker>> workers_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Answer>> queue_;
  std::set<std::shared_ptr<Answer>> open_;  // given to workers
  uint64_t tasks_ = 0;
  bool stops_ = false, ends_ = false;  // no new tasks; threads end
  Statistics statistics_;
};
