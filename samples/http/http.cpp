// SPDX-License-Identifier: Apache-2.0
#include "http.h"

#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <future>
#include <system_error>
#include <thread>

#include "hg/status.h"

namespace {

// SIGTERM and SIGINT.
sigset_t end_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  return ends;
}

// True if `of` (getpeername or getsockname) of the socket is this numeric address.
bool is_address(int socket, int (*of)(int, sockaddr*, socklen_t*), const std::string& host,
                int port) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (of(socket, any, &size) != 0) return false;
  char name[NI_MAXHOST], service[NI_MAXSERV];
  return getnameinfo(any, size, name, sizeof name, service, sizeof service,
                     NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
         host == name && std::to_string(port) == service;
}

bool wait_until(const std::function<bool()>& is_true, std::chrono::seconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace

void add_http_options(CLI::App& app, HttpOptions& options) {
  app.add_option("--host", options.host);
  app.add_option("--port", options.port, "0: any that is free; it is printed");
  app.add_option("--connections", options.connections, "that are served at a time");
  app.add_option("--most-bytes", options.most_bytes, "of a request");
  app.add_option("--read-timeout", options.read_timeout_s, "seconds without a byte");
  app.add_option("--drain-ms", options.drain_ms, "between not ready and the end");
}

std::pair<std::string, std::string> named_file(const std::string& given) {
  const size_t equals = given.find('=');
  if (equals != std::string::npos) return {given.substr(0, equals), given.substr(equals + 1)};
  const std::string name = given.substr(given.find_last_of('/') + 1);
  return {name.substr(0, name.rfind(".hgm")), given};
}

bool read_body(const httplib::Request& request, const httplib::ContentReader& read, size_t most,
               const Fail& fail, httplib::Response& response, std::string& body) {
  if (request.is_multipart_form_data()) {
    read([](const httplib::MultipartFormData&) { return true; },
         [](const char*, size_t) { return true; });
    fail(response, 415, "a form of parts is no request of the protocol");
    return false;
  }
  bool fits = true;
  const bool is_whole = read([&](const char* data, size_t size) {
    fits = fits && size <= most - body.size();
    if (fits) body.append(data, size);
    return true;
  });
  if (is_whole && !fits)
    fail(response, 413, hg::str_cat("the body has more than ", uint64_t{most}, " bytes"));
  // Each error could be the whole answer, and there may be thousands.
  if (is_whole && fits && !request.ranges.empty()) {
    fail(response, 400, "answers have no ranges");
    return false;
  }
  return is_whole && fits;
}

void block_end_signals() {
  const sigset_t ends = end_signals();
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
}

int serve(httplib::Server& server, const HttpOptions& options, const std::string& name,
          size_t models, const Fail& fail, std::atomic<bool>& is_ready, const Ending& ending) {
  server.new_task_queue = [&] {
    return new httplib::ThreadPool(static_cast<size_t>(options.connections));
  };
  server.set_read_timeout(options.read_timeout_s);
  server.set_keep_alive_timeout(options.read_timeout_s);
  server.set_payload_max_length(static_cast<size_t>(options.most_bytes));
  server.set_tcp_nodelay(true);
  // Requests that HTTP itself rejects.
  server.set_error_handler([&](const httplib::Request& request, httplib::Response& response) {
    if (response.body.empty())
      fail(response, response.status,
           hg::str_cat(request.method, " ", request.path, ": HTTP status ", response.status));
  });
  int port = options.port;
  if (port == 0) port = server.bind_to_any_port(options.host);
  if (port < 0 || (options.port != 0 && !server.bind_to_port(options.host, port))) {
    std::fprintf(stderr, "%s: %s:%d cannot be bound\n", name.c_str(), options.host.c_str(), port);
    return 1;
  }
  std::printf("serving %zu %s on %s:%d\n", models, models == 1 ? "model" : "models",
              options.host.c_str(), port);
  std::fflush(stdout);
  std::future<void> listening = std::async(std::launch::async, [&] { server.listen_after_bind(); });
  const sigset_t ends = end_signals();
  int signal = 0;
  sigwait(&ends, &signal);
  is_ready = false;  // load balancers use other servers
  std::this_thread::sleep_for(std::chrono::milliseconds(options.drain_ms));
  if (ending.close) ending.close();
  // cpp-httplib ends its streams in stop(), so they must end before.
  if (ending.is_idle && !wait_until(ending.is_idle, ending.grace)) {
    ending.hurry();
    wait_until(ending.is_idle, std::chrono::seconds(options.read_timeout_s));
  }
  server.stop();  // accepts no more connections; open ones get their answers
  listening.wait();
  std::printf("stopped\n");
  return 0;
}

Client::Client(const httplib::Request& request) {
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string text = file.path().filename().string();
    int number = -1;
    std::from_chars(text.data(), text.data() + text.size(), number);
    if (number < 0 || !is_address(number, getpeername, request.remote_addr, request.remote_port) ||
        !is_address(number, getsockname, request.local_addr, request.local_port))
      continue;
    socket_ = number;
    return;
  }
}

bool Client::has_left() const {
  if (socket_ < 0) return false;
  char byte;
  const ssize_t got = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}
