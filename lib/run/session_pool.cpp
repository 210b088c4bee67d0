// SPDX-License-Identifier: Apache-2.0
// Tracks the free sessions of a pool, and waits for one.
#include "hg/session_pool.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "lib/graph/border.h"

namespace hg {

struct SessionPool::Body {
  std::vector<Session> sessions;
  std::mutex mutex;  // of `free`
  std::condition_variable freed;
  std::vector<int> free;  // the last one used is at the end: its memory is warm
};

SessionPool::SessionPool(std::unique_ptr<Body> body) : body_(std::move(body)) {}
SessionPool::SessionPool(SessionPool&&) noexcept = default;
SessionPool& SessionPool::operator=(SessionPool&&) noexcept = default;
SessionPool::~SessionPool() = default;

Result<SessionPool> SessionPool::create(const Model& model, const SessionOptions& options,
                                        int sessions) {
  return or_no_memory([&]() -> Result<SessionPool> {
    HG_CHECK(sessions >= 1 && sessions <= kMostSessions, "a pool has 1 to ", kMostSessions,
             " sessions, not ", sessions);
    HG_CHECK(options.states == nullptr,
             "the sessions of a pool run at once; they cannot share states");
    auto body = std::make_unique<Body>();
    for (int i = 0; i < sessions; ++i) {
      HG_TRY_ASSIGN(Session next, Session::create(model, options));
      body->sessions.push_back(std::move(next));
    }
    for (int i = sessions; i-- > 0;) body->free.push_back(i);
    return SessionPool(std::move(body));
  });
}

SessionPool::Lease SessionPool::acquire() {
  std::unique_lock<std::mutex> lock(body_->mutex);
  body_->freed.wait(lock, [&] { return !body_->free.empty(); });
  const int at = body_->free.back();
  body_->free.pop_back();
  return Lease(body_.get(), at);
}

int SessionPool::size() const { return static_cast<int>(body_->sessions.size()); }

SessionPool::Lease::~Lease() {
  if (body_ == nullptr) return;
  (**this).forget_tensors();
  {
    const std::lock_guard<std::mutex> lock(body_->mutex);
    body_->free.push_back(at_);
  }
  body_->freed.notify_one();
}

Session& SessionPool::Lease::operator*() const { return body_->sessions[at_]; }

}  // namespace hg
