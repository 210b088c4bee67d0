// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while the library works without the GIL.
#pragma once

#include <csignal>
#include <stop_token>

namespace hg::python {

// While it lives on the main thread, SIGINT asks its token to stop, beside what Python does with
// the signal. On other threads, where Python handles no signals either, it does nothing.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  std::stop_token token() const { return source_.get_token(); }
  // From the main thread's Python code that runs in between, as callbacks do.
  void stop() { source_.request_stop(); }

 private:
  std::stop_source source_;
  Interrupt* outer_ = nullptr;
  bool is_set_ = false;
  struct sigaction before_ = {};
};

}  // namespace hg::python
