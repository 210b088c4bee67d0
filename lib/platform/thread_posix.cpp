// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <thread>

#include "lib/platform/thread.h"

namespace hg {

bool Thread::start(void (*f)(void*), void* arg) {
  f_ = f;
  arg_ = arg;
  // A new thread has the mask of its creator: signals stay the host's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(
      &thread, nullptr,
      [](void* self) -> void* {
        const Thread& t = *static_cast<const Thread*>(self);
        t.f_(t.arg_);
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  handle_ = (uintptr_t)thread;  // a number or a pointer, by system
  return error == 0;
}

void Thread::join() { pthread_join((pthread_t)handle_, nullptr); }

int processor_count() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace hg
