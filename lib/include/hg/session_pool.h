// SPDX-License-Identifier: Apache-2.0
// Sessions of one model for requests from many threads, with one copy of the packed weights.
//
//   HG_TRY_ASSIGN(hg::SessionPool pool, hg::SessionPool::create(model, {.threads = 1}, 8));
//   ...
//   hg::SessionPool::Lease session = pool.acquire();  // on any thread
//   HG_TRY(session->set_input("x", image));
//   HG_TRY(session->run());
#pragma once

#include <memory>
#include <utility>

#include "hg/session.h"

namespace hg {

class SessionPool {
 public:
  struct Body;  // lib/run/session_pool.cpp
  // The use of one session of the pool, which gets it back when this ends. What its inputs and
  // outputs were set to is forgotten then; the sizes that it planned for are not.
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

  // `sessions` of them, between 1 and kMostSessions.
  static Result<SessionPool> create(const Model& model, const SessionOptions& options,
                                    int sessions);
  static constexpr int kMostSessions = 64;
  // A pool is destroyed, or assigned to, only while no lease of it lives.
  SessionPool(SessionPool&&) noexcept;
  SessionPool& operator=(SessionPool&&) noexcept;
  ~SessionPool();

  // Any thread may call it; it waits until a session is free.
  Lease acquire();
  int size() const;

 private:
  explicit SessionPool(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace hg
