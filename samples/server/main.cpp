// SPDX-License-Identifier: Apache-2.0
// An HTTP server for models: the Open Inference Protocol v2 with one hg::Pool per model. Shows
// requests from many threads in batches, deadlines, a bounded queue, metrics and a graceful stop.
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>

#include "hg/pool.h"
#include "http/http.h"
#include "protocol.h"

namespace {

struct Served {
  hg::Model model;
  hg::Pool pool;
};
using Models = std::map<std::string, std::unique_ptr<Served>>;

struct Arguments {
  std::vector<std::string> models;
  HttpOptions http;
  int sessions = 2, most_rows = 16, most_waiting = 64, delay_us = 0;
};

hg::Status load(const Arguments& arguments, Models& models) {
  for (const std::string& given : arguments.models) {
    const auto [name, path] = named_file(given);
    HG_TRY_ASSIGN(hg::Model model, hg::Model::load(path));
    hg::Pool::Options options;
    options.sessions = arguments.sessions;
    options.most_rows = arguments.most_rows;
    options.most_waiting = arguments.most_waiting;
    options.longest_wait = std::chrono::microseconds(arguments.delay_us);
    HG_TRY_ASSIGN(hg::Pool pool, hg::Pool::create(model, options));
    HG_CHECK(models.emplace(name, new Served{std::move(model), std::move(pool)}).second,
             "there are two models '", name, "'; give another as NAME=FILE");
  }
  return {};
}

int http_status(hg::Code code, bool is_late) {
  switch (code) {
    case hg::Code::ok:
      return 200;
    case hg::Code::not_found:
      return 404;
    case hg::Code::busy:
      return 503;
    case hg::Code::cancelled:
      return is_late ? 504 : 503;
    case hg::Code::invalid_argument:
      return 400;
    default:
      return 500;
  }
}

void fail(httplib::Response& response, int status, std::string_view message) {
  response.status = status;
  if (status == 503) response.set_header("Retry-After", "1");
  response.set_content(error_text(message), "application/json");
}

hg::Status infer(const std::string& name, Served& served, const httplib::Request& request,
                 std::string_view body, httplib::Response& response, bool& is_late) {
  int64_t json_bytes = -1;
  if (request.has_header("Inference-Header-Content-Length")) {
    const std::string given = request.get_header_value("Inference-Header-Content-Length");
    HG_CHECK(!given.empty() && given.size() < 16 &&
                 given.find_first_not_of("0123456789") == std::string::npos,
             "Inference-Header-Content-Length is '", given, "'");
    json_bytes = std::stoll(given);
  }
  HG_TRY_ASSIGN(const InferRequest asked, read_request(body, json_bytes, served.model.graph()));
  hg::Pool::Request work{.inputs = asked.inputs};
  if (asked.timeout.count() > 0) work.deadline = std::chrono::steady_clock::now() + asked.timeout;
  hg::Result<hg::Pool::Answer> answer = served.pool.run(work);
  is_late = std::chrono::steady_clock::now() >= work.deadline;
  HG_TRY(answer.status());
  HG_TRY_ASSIGN(const std::string text,
                write_answer(name, asked, served.model.graph(), answer->outputs, json_bytes));
  if (json_bytes >= 0)
    response.set_header("Inference-Header-Content-Length", std::to_string(json_bytes));
  response.set_content(text, json_bytes < 0 ? "application/json" : "application/octet-stream");
  return {};
}

// For Prometheus: text format 0.0.4.
std::string metrics(const Models& models) {
  std::string text;
  const auto add = [&](const char* name, const char* type, auto&& value_of) {
    text += hg::str_cat("# TYPE hologram_", name, " ", type, "\n");
    for (const auto& [model, served] : models)
      text += hg::str_cat("hologram_", name, "{model=\"", model, "\"} ",
                          value_of(served->pool.statistics()), "\n");
  };
  using S = const hg::Pool::Statistics&;
  add("requests_answered_total", "counter", [](S s) { return s.answered; });
  add("requests_refused_total", "counter", [](S s) { return s.refused; });
  add("requests_cancelled_total", "counter", [](S s) { return s.cancelled; });
  add("requests_failed_total", "counter", [](S s) { return s.failed; });
  add("batches_total", "counter", [](S s) { return s.batches; });
  add("rows_total", "counter", [](S s) { return s.rows; });
  add("requests_waiting", "gauge", [](S s) { return s.waiting; });
  add("batches_running", "gauge", [](S s) { return s.running; });
  text += "# TYPE hologram_answer_seconds histogram\n";
  for (const auto& [model, served] : models) {
    const hg::Pool::Statistics counts = served->pool.statistics();
    int64_t sum = 0;
    const auto row = [&](const std::string& le) {
      text += hg::str_cat("hologram_answer_seconds_bucket{model=\"", model, "\",le=\"", le, "\"} ",
                          sum, "\n");
    };
    for (int k = 0; k + 1 < hg::Pool::Statistics::kTimes; ++k) {
      sum += counts.times[static_cast<size_t>(k)];
      if (k >= 4 && k <= 26) row(hg::str_cat(static_cast<double>(int64_t{1} << k) * 1e-6));
    }
    sum = counts.answered;
    row("+Inf");
    text += hg::str_cat("hologram_answer_seconds_count{model=\"", model, "\"} ", sum, "\n");
  }
  return text;
}

void add_routes(httplib::Server& server, const Models& models, size_t most_bytes,
                const std::atomic<bool>& is_ready) {
  const auto ready = [&is_ready](const httplib::Request&, httplib::Response& response) {
    response.status = is_ready ? 200 : 503;
  };
  const auto find = [&models](const httplib::Request& request, httplib::Response& response) {
    const auto found = models.find(request.matches[1]);
    if (found == models.end())
      fail(response, 404, hg::str_cat("there is no model '", request.matches[1].str(), "'"));
    return found == models.end() ? nullptr : found->second.get();
  };
  const std::string model = R"(/v2/models/([^/]+)(?:/versions/1)?)";
  server.Get("/v2", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(R"({"name":"hologram","version":")" + std::string(hg::version()) +
                             R"(","extensions":["binary_tensor_data"]})",
                         "application/json");
  });
  server.Get("/v2/health/live", [](const httplib::Request&, httplib::Response&) {});
  server.Get("/v2/health/ready", ready);
  server.Get(model + "/ready", [find, ready](const httplib::Request& q, httplib::Response& r) {
    if (find(q, r) != nullptr) ready(q, r);
  });
  server.Get(model, [find](const httplib::Request& request, httplib::Response& response) {
    if (const Served* const served = find(request, response); served != nullptr)
      response.set_content(describe(request.matches[1], served->model.graph()), "application/json");
  });
  server.Post(model + "/infer",
              [find, most_bytes](const httplib::Request& q, httplib::Response& response,
                                 const httplib::ContentReader& read) {
                std::string body;
                if (!read_body(q, read, most_bytes, fail, response, body)) return;
                Served* const served = find(q, response);
                if (served == nullptr) return;
                bool is_late = false;
                const hg::Status status = infer(q.matches[1], *served, q, body, response, is_late);
                if (!status.ok())
                  fail(response, http_status(status.code(), is_late), status.message());
              });
  server.Get("/metrics", [&models](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics(models), "text/plain; version=0.0.4");
  });
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Serves models by the Open Inference Protocol v2."};
  app.add_option("models", arguments.models, "FILE.hgm or NAME=FILE.hgm")->required();
  add_http_options(app, arguments.http);
  app.add_option("--sessions", arguments.sessions, "batches of a model that run at a time");
  app.add_option("--most-rows", arguments.most_rows, "of a batch; 1: each request runs alone");
  app.add_option("--most-waiting", arguments.most_waiting, "requests; more get 503");
  app.add_option("--delay-us", arguments.delay_us, "that a request waits for others");
  CLI11_PARSE(app, argc, argv);
  block_end_signals();
  Models models;
  if (const hg::Status status = load(arguments, models); !status.ok()) {
    std::fprintf(stderr, "server: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::atomic<bool> is_ready = true;
  httplib::Server server;
  add_routes(server, models, static_cast<size_t>(arguments.http.most_bytes), is_ready);
  return serve(server, arguments.http, "server", models.size(), fail, is_ready);
}
