// SPDX-License-Identifier: Apache-2.0
// Requests from many threads, run together: sessions of one model take what waits in batches along
// the first dim of all inputs and outputs. The pool has no threads of its own: of those that wait,
// the one whose request came first runs the batch for all of them.
//
//   HG_TRY_ASSIGN(hg::Pool pool, hg::Pool::create(model, {.most_rows = 8}));
//   ...
//   HG_TRY_ASSIGN(hg::Pool::Answer answer, pool.run({.inputs = {image}}));  // on any thread
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "hg/session.h"

namespace hg {

class Pool {
 public:
  struct Options {
    // With one thread, or with the host's pool of threads: OpenMP keeps a team for each thread that
    // ever ran a batch.
    SessionOptions session = {.threads = 1};
    int sessions = 1;            // batches that run at a time, 1 to SessionPool::kMostSessions
    int64_t most_rows = 16;      // of a batch; 1: each request runs alone, whatever its sizes
    int64_t most_waiting = 256;  // requests; one more is refused as `busy`
    // How long a request waits for others while a session is free. With 0 batches are what came
    // while all sessions were busy; more makes larger batches of few requests, each of which waits
    // so long.
    std::chrono::microseconds longest_wait{0};
  };

  // Since the pool was created.
  struct Statistics {
    int64_t answered = 0;
    int64_t refused = 0;    // as the queue was full
    int64_t cancelled = 0;  // by a stop token, a deadline or close()
    int64_t failed = 0;
    int64_t batches = 0;
    int64_t rows = 0;         // of all batches
    int64_t padded_rows = 0;  // beside them, to come to a size that is planned for
    int64_t waiting = 0;      // requests at present
    int64_t running = 0;      // batches at present
    // Of what was answered, by the time from call to answer: k counts those of less than 2^k
    // microseconds that are no less than 2^(k-1); the last one all that took longer.
    static constexpr int kTimes = 32;
    std::array<int64_t, kTimes> times = {};
    // The microseconds that this share of all answers, such as 0.99, took at most, by these counts.
    double quantile(double share) const;
  };
  struct Request {
    // In the model's order, borrowed until run() returns; any strides.
    std::vector<ConstTensor> inputs = {};
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
    std::stop_token stop = {};
  };
  struct Answer {
    std::vector<TensorData> outputs;  // in the model's order, of the request's own rows
    int64_t batch_rows = 0;           // of the batch it was in
    std::chrono::microseconds waited{0};
  };

  // With most_rows of 2 or more the first dim of all inputs and outputs must be one symbol, the
  // rows, and each row must be computed from its own row alone: the first batch is run by single
  // requests, too, and where an answer differs by more than rounding, that and all further ones are
  // `unsupported`. Models that draw random numbers, or that runs change, are refused. Batches are
  // padded by copies of a row to 1, 2, 4, ... most_rows.
  static Result<Pool> create(const Model& model, Options options);
  // Calls close().
  ~Pool();
  Pool(Pool&&) noexcept;
  Pool& operator=(Pool&&) noexcept;

  // Waits for the answer. Any thread may call it. A request of more than most_rows rows runs alone;
  // one that fails in a batch runs alone again, so that it fails for itself. `busy` when
  // most_waiting others wait; `cancelled` when the deadline passes, `stop` is asked for or the pool
  // is closed before it runs. A batch that runs is stopped when all of its requests are.
  Result<Answer> run(Request request);
  // Refuses what comes from now on, ends what waits, and returns when nothing runs. Any thread may
  // call it.
  void close();
  Statistics statistics() const;

 private:
  struct Body;  // lib/run/pool.cpp
  struct Inside;
  explicit Pool(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
