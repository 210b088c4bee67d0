// SPDX-License-Identifier: Apache-2.0
// A fixed number of sessions of one model for use from many threads. They share the packed weights.
//
//     HG_TRY_ASSIGN(hg::SessionPool pool, hg::SessionPool::create(model, {.threads = 1}, 8));
//     ...
//     hg::SessionPool::Lease session = pool.acquire();  // on any thread
//     HG_TRY(session->set_input("x", image));
//     HG_TRY(session->run());
#pragma once

#include <memory>
#include <utility>

#include "hg/session.h"

namespace hg {

class SessionPool {
 public:
  struct Body;  // lib/run/session_pool.cpp
  // Exclusive use of one session, returned to the pool on destruction. The pool then releases the
  // borrowed inputs and outputs; the session keeps its plans.
  class Lease {
   public:
    Lease(Lease&& other) noexcept : body_(std::exchange(other.body_, nullptr)), at_(other.at_) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    Session& operator*() const;
    Session* operator->() const { return &**this; }

   private:
    friend class SessionPool;
    Lease(Body* body, int at) : body_(body), at_(at) {}
    Body* body_;
    int at_;
  };

  // Creates `sessions` sessions, 1 to kMostSessions.
  static Result<SessionPool> create(const Model& model, const SessionOptions& options,
                                    int sessions);
  static constexpr int kMostSessions = 64;
  // Destroy or assign to a pool only if no Lease is alive.
  SessionPool(SessionPool&&) noexcept;
  SessionPool& operator=(SessionPool&&) noexcept;
  ~SessionPool();

  // Waits until a session is free. Thread-safe.
  Lease acquire();
  int size() const;

 private:
  explicit SessionPool(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
