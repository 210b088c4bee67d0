// SPDX-License-Identifier: Apache-2.0
// std::stop_token and related classes, as in C++20, for C++ libraries that lack them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace hg::missing {

struct nostopstate_t {
  explicit nostopstate_t() = default;
};
inline constexpr nostopstate_t nostopstate{};

class stop_callback_base {
 public:
  virtual void call() noexcept = 0;

 protected:
  ~stop_callback_base() = default;
};

struct stop_state {
  std::atomic<bool> requested{false};
  std::atomic<int> sources{0};
  std::mutex mutex;
  std::condition_variable called;
  std::list<stop_callback_base*> callbacks;
  stop_callback_base* running = nullptr;
  std::thread::id runner;

  bool request() {
    std::unique_lock<std::mutex> lock(mutex);
    if (requested.exchange(true)) return false;
    runner = std::this_thread::get_id();
    while (!callbacks.empty()) {
      running = callbacks.front();
      callbacks.pop_front();
      stop_callback_base* const now = running;
      lock.unlock();
      now->call();
      lock.lock();
      running = nullptr;
      called.notify_all();
    }
    return true;
  }
  // Returns false without adding it if a stop was already requested.
  bool add(stop_callback_base* callback) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (requested) return false;
    callbacks.push_back(callback);
    return true;
  }
  // After it returns, no other thread runs the callback.
  void remove(stop_callback_base* callback) {
    std::unique_lock<std::mutex> lock(mutex);
    callbacks.remove(callback);
    if (runner == std::this_thread::get_id()) return;
    called.wait(lock, [&] { return running != callback; });
  }
};

class stop_token {
 public:
  stop_token() = default;
  explicit stop_token(std::shared_ptr<stop_state> state) : state_(std::move(state)) {}
  bool stop_requested() const noexcept { return state_ != nullptr && state_->requested; }
  bool stop_possible() const noexcept {
    return state_ != nullptr && (state_->requested || state_->sources > 0);
  }
  void swap(stop_token& other) noexcept { state_.swap(other.state_); }
  friend bool operator==(const stop_token& a, const stop_token& b) noexcept {
    return a.state_ == b.state_;
  }

 private:
  template <class Callback>
  friend class stop_callback;
  std::shared_ptr<stop_state> state_;
};

class stop_source {
 public:
  stop_source() : stop_source(std::make_shared<stop_state>()) {}
  explicit stop_source(nostopstate_t) noexcept {}
  stop_source(const stop_source& other) : stop_source(other.state_) {}
  stop_source(stop_source&& other) noexcept = default;
  stop_source& operator=(stop_source other) noexcept {
    state_.swap(other.state_);
    return *this;
  }
  ~stop_source() {
    if (state_ != nullptr) --state_->sources;
  }
  stop_token get_token() const noexcept { return stop_token(state_); }
  bool stop_possible() const noexcept { return state_ != nullptr; }
  bool stop_requested() const noexcept { return state_ != nullptr && state_->requested; }
  bool request_stop() noexcept { return state_ != nullptr && state_->request(); }
  friend bool operator==(const stop_source& a, const stop_source& b) noexcept {
    return a.state_ == b.state_;
  }

 private:
  explicit stop_source(std::shared_ptr<stop_state> state) : state_(std::move(state)) {
    if (state_ != nullptr) ++state_->sources;
  }
  std::shared_ptr<stop_state> state_;
};

template <class Callback>
class stop_callback final : private stop_callback_base {
 public:
  using callback_type = Callback;
  template <class From>
  explicit stop_callback(const stop_token& token, From&& callback)
      : callback_(std::forward<From>(callback)), state_(token.state_) {
    if (state_ != nullptr && !state_->add(this)) {
      state_.reset();
      call();
    }
  }
  ~stop_callback() {
    if (state_ != nullptr) state_->remove(this);
  }
  stop_callback(const stop_callback&) = delete;
  stop_callback& operator=(const stop_callback&) = delete;

 private:
  void call() noexcept override { std::forward<Callback>(callback_)(); }
  Callback callback_;
  std::shared_ptr<stop_state> state_;
};
template <class Callback>
stop_callback(stop_token, Callback) -> stop_callback<Callback>;

}  // namespace hg::missing
