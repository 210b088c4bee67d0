// SPDX-License-Identifier: Apache-2.0
// What the servers of the samples have in common over cpp-httplib: options, bodies of limited size,
// errors, the end by a signal, and clients that leave.
#pragma once

#include <httplib.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000, connections = 32, read_timeout_s = 5, drain_ms = 0;
  int64_t most_bytes = 16 << 20;
};
void add_http_options(CLI::App& app, HttpOptions& options);

// Of an argument FILE.hgm or NAME=FILE.hgm: name and path.
std::pair<std::string, std::string> named_file(const std::string& given);

// Writes an error in the form of the server's protocol.
using Fail = std::function<void(httplib::Response& response, int status, std::string_view message)>;

// Reads the whole body and keeps at most `most` bytes, whatever the stated length, chunks or
// compression. Returns false if there is more or the body breaks off; `response` then says so.
bool read_body(const httplib::Request& request, const httplib::ContentReader& read, size_t most,
               const Fail& fail, httplib::Response& response, std::string& body);

// SIGTERM and SIGINT then wait for serve(). Call it before other threads start.
void block_end_signals();

// How open requests end. Without `is_idle`, the server waits for them without limit.
struct Ending {
  std::function<void()> close = {};    // called first: later requests are refused
  std::function<bool()> is_idle = {};  // no request is open
  std::chrono::seconds grace{0};       // for open requests
  std::function<void()> hurry = {};    // called if requests are still open after `grace`
};

// Serves until SIGTERM or SIGINT. `is_ready` then becomes false; after `drain_ms` open requests get
// their answers, and the server ends. Returns an exit code. `name`: of the program. `models`: how
// many it serves.
int serve(httplib::Server& server, const HttpOptions& options, const std::string& name,
          size_t models, const Fail& fail, std::atomic<bool>& is_ready, const Ending& ending = {});

// The client of a request that is being answered. cpp-httplib 0.11 does not give its socket, so it
// is searched among the open files of the process. Where the system does not list them, has_left()
// is always false.
class Client {
 public:
  explicit Client(const httplib::Request& request);
  // True if the client has closed its connection, or the half that it writes to.
  bool has_left() const;

 private:
  int socket_ = -1;
};
