// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "lib/platform/thread.h"

namespace hg {

bool Thread::start(void (*f)(void*), void* arg) {
  f_ = f;
  arg_ = arg;
  // A new thread inherits the signal mask of its creator. Signals belong to the host, but its
  // handlers of faults must also see those of this thread.
  sigset_t all, before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    sigdelset(&all, fault);
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
  handle_ = (uintptr_t)thread;  // a number or a pointer, depending on the system
#if defined(__linux__) && defined(CPU_COUNT)
  // The processors of the process, not of the thread that started this one.
  cpu_set_t set;
  if (error == 0 && sched_getaffinity(getpid(), sizeof(set), &set) == 0)
    pthread_setaffinity_np(thread, sizeof(set), &set);
#endif
  process_ = error == 0 ? getpid() : 0;
  return error == 0;
}

void Thread::join() {
  if (process_ == getpid()) pthread_join((pthread_t)handle_, nullptr);
}

int processor_count() {
#if defined(__linux__) && defined(CPU_COUNT)
  cpu_set_t set;  // fails with more than 1024 processors
  if (sched_getaffinity(getpid(), sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace hg
