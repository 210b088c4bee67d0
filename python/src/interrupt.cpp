// SPDX-License-Identifier: Apache-2.0
#include "python/src/interrupt.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace hg::python {
namespace {

std::atomic<Interrupt*> innermost = nullptr;  // of the main thread
struct sigaction python_action = {};

// request_stop() takes no lock here, because these tokens have no callbacks.
void on_signal(int number, siginfo_t* info, void* context) {
  if (Interrupt* interrupt = innermost.load()) interrupt->stop();
  if ((python_action.sa_flags & SA_SIGINFO) != 0)
    python_action.sa_sigaction(number, info, context);
  else if (python_action.sa_handler != SIG_DFL && python_action.sa_handler != SIG_IGN)
    python_action.sa_handler(number);
}

}  // namespace

Interrupt::Interrupt() {
  if (syscall(SYS_gettid) != getpid()) return;
  outer_ = innermost.load();
  is_set_ = true;
  if (outer_ == nullptr) {
    struct sigaction now = {};
    sigaction(SIGINT, nullptr, &before_);
    // A host that ignores Ctrl-C, or is ended by it, continues to do so.
    if ((before_.sa_flags & SA_SIGINFO) == 0 &&
        (before_.sa_handler == SIG_DFL || before_.sa_handler == SIG_IGN)) {
      is_set_ = false;
      return;
    }
    python_action = before_;
    innermost = this;
    now.sa_sigaction = on_signal;
    now.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGINT, &now, nullptr);
    return;
  }
  innermost = this;
}

Interrupt::~Interrupt() {
  if (!is_set_) return;
  innermost = outer_;
  if (outer_ == nullptr) sigaction(SIGINT, &before_, nullptr);
}

}  // namespace hg::python
