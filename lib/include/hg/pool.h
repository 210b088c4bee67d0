// SPDX-License-Identifier: Apache-2.0
// Batches requests from many threads. Waiting requests are concatenated along the first dim of all
// inputs and outputs, and a session runs them together. The pool has no threads: the thread of the
// oldest waiting request runs the batch for the others.
//
//     HG_TRY_ASSIGN(hg::Pool pool, hg::Pool::create(model, {.most_rows = 8}));
//     ...
//     HG_TRY_ASSIGN(hg::Pool::Answer answer, pool.run({.inputs = {image}}));  // on any thread
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
    // With one thread each, sessions that run at once do not compete for the processors.
    SessionOptions session = {.threads = 1};
    int sessions = 1;            // batches that run concurrently, 1 to SessionPool::kMostSessions
    int64_t most_rows = 16;      // per batch; 1: each request runs alone, of any size
    int64_t most_waiting = 256;  // limit of waiting requests; further ones fail with `busy`
    // How long a request waits for others while a session is free. With 0, batches only form while
    // all sessions are busy. Larger values make larger batches and add up to that latency.
    std::chrono::microseconds longest_wait{0};
  };

  // Counts since the pool was created.
  struct Statistics {
    int64_t answered = 0;
    int64_t refused = 0;    // because the queue was full
    int64_t cancelled = 0;  // by a stop token, a deadline or close()
    int64_t failed = 0;
    int64_t batches = 0;
    int64_t rows = 0;         // of all batches
    int64_t padded_rows = 0;  // added to reach a planned batch size
    int64_t waiting = 0;      // requests now
    int64_t running = 0;      // batches now
    // Histogram of answered requests by latency. Entry k counts latencies in [2^(k-1), 2^k)
    // microseconds; the last entry also counts longer ones.
    static constexpr int kTimes = 32;
    std::array<int64_t, kTimes> times = {};
    // Upper bound in microseconds of the latency of this share of the answers, such as 0.99,
    // according to `times`.
    double quantile(double share) const;
  };
  struct Request {
    // In the model's order; any strides. Borrowed until run() returns.
    std::vector<ConstTensor> inputs = {};
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
    std::stop_token stop = {};
  };
  struct Answer {
    std::vector<TensorData> outputs;      // in the model's order; only the rows of this request
    int64_t batch_rows = 0;               // of the batch that contained it
    std::chrono::microseconds waited{0};  // before its batch began
  };

  // Creates the sessions. With most_rows >= 2:
  //
  // - The first dim of all inputs and outputs must be the same symbol, the rows.
  // - Each output row must depend only on its own input row. The first batch also runs request by
  //   request to verify this. If an answer differs by more than rounding, that request and all
  //   later ones fail with `unsupported`.
  // - Models that draw random numbers are rejected.
  // - Batches are padded with copies of a row to 1, 2, 4, ... most_rows.
  //
  // Models whose runs change their state are always rejected.
  static Result<Pool> create(const Model& model, Options options);
  // Calls close().
  ~Pool();
  Pool(Pool&&) noexcept;
  Pool& operator=(Pool&&) noexcept;

  // Runs a request and returns its answer. Thread-safe; blocks. A request of more than most_rows
  // rows runs alone. A request that fails in a batch runs again alone, so that only faulty requests
  // fail.
  //
  // Fails with `busy` if most_waiting requests are waiting. Fails with `cancelled` if the deadline
  // passes, `stop` is requested or the pool is closed before the request runs. A running batch
  // stops when all its requests are stopped.
  Result<Answer> run(Request request);
  // Rejects new requests, cancels waiting ones, and returns when no batch is running. Thread-safe.
  void close();
  Statistics statistics() const;

 private:
  struct Body;  // lib/run/pool.cpp
  struct Inside;
  explicit Pool(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
