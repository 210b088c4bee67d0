// SPDX-License-Identifier: Apache-2.0
// Lets Python threads take turns at objects that only one thread may use at a time.
#pragma once

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <new>
#include <thread>

#include "python/src/errors.h"

namespace hg::python {

namespace nb = nanobind;

// Who waits does so without the GIL, which what is inside may ask for. A thread that is inside may
// come in again, unless that is refused.
class Turn {
 public:
  class Held {
   public:
    // `refused`: what a thread is told that is inside already; null lets it in.
    explicit Held(Turn& turn, const char* refused = nullptr) : turn_(turn) {
      if (refused != nullptr && turn.owner_ == std::this_thread::get_id())
        raise(PyExc_RuntimeError, refused);
      if (!turn.mutex_.try_lock()) {
        const nb::gil_scoped_release released;
        turn.mutex_.lock();
      }
      if (turn.depth_++ == 0) turn.owner_ = std::this_thread::get_id();
    }
    ~Held() {
      if (--turn_.depth_ == 0) turn_.owner_ = std::thread::id();
      turn_.mutex_.unlock();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    Turn& turn_;
  };

  // Others may come in while it lives; the thread is inside once, and does not hold the GIL.
  class Paused {
   public:
    explicit Paused(Turn& turn) : turn_(turn) {
      turn.depth_ = 0;
      turn.owner_ = std::thread::id();
      turn.mutex_.unlock();
    }
    ~Paused() {
      turn_.mutex_.lock();
      turn_.depth_ = 1;
      turn_.owner_ = std::this_thread::get_id();
    }
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;

   private:
    Turn& turn_;
  };

  // In a child that was forked: whoever was inside is not there.
  void forget() {
    new (&mutex_) std::recursive_mutex;
    depth_ = 0;
    owner_ = std::thread::id();
  }

 private:
  std::recursive_mutex mutex_;
  int depth_ = 0;
  std::atomic<std::thread::id> owner_;
};

// The one that a process has for this purpose.
template <class Purpose>
Turn& turn_of() {
  static Turn* const made = [] {
    static Turn* const turn = new Turn();
    pthread_atfork(nullptr, nullptr, [] { turn->forget(); });
    return turn;
  }();
  return *made;
}

}  // namespace hg::python
