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

// A waiting thread releases the GIL, which the thread inside may need. The thread inside may enter
// again, unless this is rejected.
class Turn {
 public:
  class Held {
   public:
    // `refused`: the message for a thread that is already inside; null allows it to enter again.
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

  // Lets others enter during its lifetime. The thread must be inside once, without the GIL.
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

  // In a forked child, the thread that was inside does not exist.
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

// The instance of the process.
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
