// SPDX-License-Identifier: Apache-2.0
// An HTTP server for language models: the completions, chat completions and embeddings of OpenAI's
// API. Shows hg::Embedder, and hg::BatchGenerator with streams, stop strings, seeds, the past of
// earlier turns, clients that leave, a bounded queue, metrics and a graceful stop.
#include <atomic>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <map>
#include <memory>
#include <random>

#include "http/http.h"
#include "reply.h"
#include "served.h"

namespace {

using Models = std::map<std::string, std::unique_ptr<Served>>;

constexpr std::chrono::milliseconds kWait{100};  // between looks whether the client has left

struct Arguments {
  std::vector<std::string> models;
  HttpOptions http;
  ServedOptions served;
  int grace_s = 30;
};

struct State {
  const Models& models;
  const size_t most_bytes;
  const int64_t created = std::time(nullptr);
  std::atomic<bool> is_ready = true, is_closed = false;
  std::atomic<int> open = 0;  // requests
};

hg::Status load(const Arguments& arguments, Models& models) {
  HG_CHECK(arguments.served.most_tokens > 0 && arguments.served.most_context > 0,
           "--most-tokens and --most-context must be at least 1");
  for (const std::string& given : arguments.models) {
    const auto [name, path] = named_file(given);
    HG_TRY_ASSIGN(std::unique_ptr<Served> served, Served::load(path, arguments.served));
    HG_CHECK(models.emplace(name, std::move(served)).second, "there are two models '", name,
             "'; give another as NAME=FILE");
  }
  return {};
}

void refuse(httplib::Response& response, const ApiError& error) {
  response.status = error.status;
  if (error.status == 503) response.set_header("Retry-After", "1");
  response.set_content(error_text(error), "application/json");
}

void fail(httplib::Response& response, int status, std::string_view message) {
  refuse(response, {status, std::string(message)});
}

ApiError no_model(const std::string& name) {
  return {404, hg::str_cat("there is no model '", name, "'"), "model", "model_not_found"};
}

std::string random_id() {
  constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";
  std::random_device random;
  std::string id;
  for (int i = 0; i < 24; ++i) id += kDigits[random() % 32];
  return id;
}

// A request that is being answered. Cancels its answers unless they have ended.
struct Open {
  Open(State& all, const httplib::Request& request) : state(all), client(request) { ++state.open; }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  ~Open() {
    for (const auto& answer : answers) engine->cancel(*answer);
    --state.open;
  }

  // Waits for the next event of an answer. Returns `nothing` if the client has left.
  Answer::Event next(size_t index, Piece& piece) {
    for (;;) {
      const Answer::Event event = answers[index]->next(piece, kWait);
      if (event != Answer::Event::nothing || client.has_left()) return event;
    }
  }
  std::vector<Outcome> outcomes() const {
    std::vector<Outcome> all;
    for (const auto& answer : answers) all.push_back(answer->outcome());
    return all;
  }

  State& state;
  const Client client;
  Engine* engine = nullptr;
  std::vector<std::shared_ptr<Answer>> answers;
};

// Collects the pieces up to the end. `piece`: the first one of the first answer.
void answer_whole(Open& open, const Reply& reply, Answer::Event event, Piece piece,
                  httplib::Response& response) {
  std::vector<Piece> all(open.answers.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) event = open.next(i, piece);
    for (; event == Answer::Event::piece; event = open.next(i, piece)) {
      all[i].text += piece.text;
      std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(all[i].tokens));
      piece = {};
    }
    if (event == Answer::Event::nothing) return;  // nobody reads an answer
    const Outcome& outcome = open.answers[i]->outcome();
    if (!outcome.status.ok()) return refuse(response, error_of(outcome.status));
  }
  response.set_content(reply.whole(all, open.outcomes()), "application/json");
}

// Writes the events in one call: cpp-httplib makes no further calls while it stops. One answer
// follows the other. `piece`: the first one, unless `event` is the end.
bool write_events(Open& open, const Reply& reply, Answer::Event event, Piece piece,
                  httplib::DataSink& sink) {
  const auto write = [&](const std::string& text) {
    return text.empty() || sink.write(text.data(), text.size());
  };
  for (size_t i = 0; i < open.answers.size(); ++i) {
    bool goes_on = write(reply.begin(i));
    if (i > 0) event = open.next(i, piece);
    for (; goes_on && event == Answer::Event::piece; event = open.next(i, piece)) {
      goes_on = write(reply.piece(i, piece));
      piece = {};
    }
    if (!goes_on || event == Answer::Event::nothing) return false;
    const Outcome& outcome = open.answers[i]->outcome();
    if (!write(reply.end(i, outcome))) return false;
    if (!outcome.status.ok()) {  // an event of an error is the last one
      sink.done();
      return true;
    }
  }
  if (!write(reply.last(open.outcomes()))) return false;
  sink.done();
  return true;
}

void complete(State& state, bool is_chat, const httplib::Request& request,
              const httplib::ContentReader& read, httplib::Response& response) {
  std::string body;
  if (!read_body(request, read, state.most_bytes, fail, response, body)) return;
  const auto open = std::make_shared<Open>(state, request);
  if (state.is_closed) return refuse(response, {503, "the server stops", {}, "stopping"});
  CompletionRequest asked;
  if (const auto error = read_request(body, is_chat, asked)) return refuse(response, *error);
  const auto found = state.models.find(asked.model);
  if (found == state.models.end()) return refuse(response, no_model(asked.model));
  Task task;
  if (const auto error = found->second->prepare(asked, task)) return refuse(response, *error);
  open->engine = &found->second->engine();
  for (int64_t i = 0; i < asked.answers; ++i) {
    hg::Result<std::shared_ptr<Answer>> answer = open->engine->submit(task);
    if (!answer.ok()) return refuse(response, error_of(answer.status()));
    open->answers.push_back(*std::move(answer));
    ++task.options.sampler.seed;  // each answer draws its own tokens
  }
  const Reply reply(asked, random_id(), std::time(nullptr));
  // The HTTP status is known after the first event.
  Piece first;
  const Answer::Event event = open->next(0, first);
  if (!asked.streams) return answer_whole(*open, reply, event, std::move(first), response);
  if (event == Answer::Event::nothing) return;
  if (event == Answer::Event::end && !open->answers[0]->outcome().status.ok())
    return refuse(response, error_of(open->answers[0]->outcome().status));
  response.set_header("Cache-Control", "no-cache");
  const auto provider = [open, reply, event, first](size_t, httplib::DataSink& sink) {
    return write_events(*open, reply, event, first, sink);
  };
  if (request.version == "HTTP/1.0")  // has no chunks: the end of the connection ends the answer
    response.set_content_provider("text/event-stream", provider);
  else
    response.set_chunked_content_provider("text/event-stream", provider);
}

void embed(State& state, const httplib::Request& request, const httplib::ContentReader& read,
           httplib::Response& response) {
  std::string body;
  if (!read_body(request, read, state.most_bytes, fail, response, body)) return;
  const Open open(state, request);
  if (state.is_closed) return refuse(response, {503, "the server stops", {}, "stopping"});
  EmbeddingRequest asked;
  if (const auto error = read_request(body, asked)) return refuse(response, *error);
  const auto found = state.models.find(asked.model);
  if (found == state.models.end()) return refuse(response, no_model(asked.model));
  std::vector<std::vector<float>> embeddings;
  int64_t tokens = 0;
  if (const auto error = found->second->embed(asked, embeddings, tokens))
    return refuse(response, *error);
  response.set_content(embeddings_text(asked, embeddings, tokens), "application/json");
}

void add_times(std::string& text, const std::string& name, const Models& models,
               Times Statistics::*times) {
  text += "# TYPE " + name + " histogram\n";
  for (const auto& [model, served] : models) {
    const Statistics counts = served->engine().statistics();
    int64_t sum = 0;
    for (size_t k = 0; k <= Times::kBuckets; ++k) {
      sum += (counts.*times).counts[k];
      text += hg::str_cat(name, "_bucket{model=\"", model, "\",le=\"");
      text +=
          k == Times::kBuckets ? "+Inf" : hg::str_cat(1e-3 * static_cast<double>(int64_t{1} << k));
      text += hg::str_cat("\"} ", sum, "\n");
    }
    text += hg::str_cat(name, "_sum{model=\"", model, "\"} ", (counts.*times).sum_s, "\n");
    text += hg::str_cat(name, "_count{model=\"", model, "\"} ", sum, "\n");
  }
}

// For Prometheus: text format 0.0.4.
std::string metrics(const Models& models) {
  std::string text;
  const auto add = [&](const char* name, const char* type, int64_t Statistics::*value) {
    text += hg::str_cat("# TYPE hologram_", name, " ", type, "\n");
    for (const auto& [model, served] : models)
      text += hg::str_cat("hologram_", name, "{model=\"", model, "\"} ",
                          served->engine().statistics().*value, "\n");
  };
  add("requests_answered_total", "counter", &Statistics::answered);
  add("requests_refused_total", "counter", &Statistics::refused);
  add("requests_cancelled_total", "counter", &Statistics::cancelled);
  add("requests_failed_total", "counter", &Statistics::failed);
  add("prompt_tokens_total", "counter", &Statistics::prompt_tokens);
  add("cached_prompt_tokens_total", "counter", &Statistics::cached_tokens);
  add("completion_tokens_total", "counter", &Statistics::tokens);
  add("requests_waiting", "gauge", &Statistics::waiting);
  add("requests_running", "gauge", &Statistics::running);
  add_times(text, "hologram_first_token_seconds", models, &Statistics::first_piece);
  add_times(text, "hologram_answer_seconds", models, &Statistics::answer);
  return text;
}

void add_routes(httplib::Server& server, State& state) {
  server.Get("/v1/models", [&](const httplib::Request&, httplib::Response& response) {
    std::vector<std::string> names;
    for (const auto& [name, served] : state.models) names.push_back(name);
    response.set_content(models_text(names, state.created), "application/json");
  });
  server.Get("/v1/models/(.+)", [&](const httplib::Request& request, httplib::Response& response) {
    const std::string name = request.matches[1];
    if (state.models.contains(name))
      response.set_content(model_text(name, state.created), "application/json");
    else
      refuse(response, no_model(name));
  });
  for (const bool is_chat : {false, true})
    server.Post(is_chat ? "/v1/chat/completions" : "/v1/completions",
                [&state, is_chat](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& read) {
                  complete(state, is_chat, request, read, response);
                });
  server.Post(
      "/v1/embeddings",
      [&state](const httplib::Request& request, httplib::Response& response,
               const httplib::ContentReader& read) { embed(state, request, read, response); });
  server.Get("/health/live", [](const httplib::Request&, httplib::Response&) {});
  server.Get("/health/ready", [&](const httplib::Request&, httplib::Response& response) {
    response.status = state.is_ready ? 200 : 503;
  });
  server.Get("/metrics", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics(state.models), "text/plain; version=0.0.4");
  });
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  ServedOptions& served = arguments.served;
  arguments.http.connections = 64;
  std::string pooling = "mean";
  CLI::App app{"Serves language models by OpenAI's API."};
  app.add_option("models", arguments.models, "FILE.hgm or NAME=FILE.hgm")->required();
  add_http_options(app, arguments.http);
  app.add_option("--entry", served.entry, "of the file that is the language model");
  app.add_option("--tokenizer", served.tokenizer, "a tokenizer.json instead of the models' own");
  app.add_option("--chat-template", served.chat_template, "a file instead of the models' own");
  app.add_option("--sessions", served.engine.workers, "threads of a model, each with a batch");
  app.add_option("--rows", served.engine.rows, "requests of a session that run together");
  app.add_option("--most-waiting", served.engine.most_waiting, "requests; more get 503");
  app.add_option("--most-tokens", served.most_tokens, "of an answer");
  app.add_option("--most-context", served.most_context, "tokens of prompt and answer");
  app.add_option("--threads", served.engine.session.threads, "of a session; 0: all");
  app.add_option("--pooling", pooling, "of embeddings: mean, last or first");
  app.add_option("--grace", arguments.grace_s, "seconds for open requests after SIGTERM");
  CLI11_PARSE(app, argc, argv);
  if (const hg::Result<hg::Pooling> parsed = hg::parse_pooling(pooling); parsed.ok()) {
    served.pooling = *parsed;
  } else {
    std::fprintf(stderr, "chat_server: %s\n", std::string(parsed.status().message()).c_str());
    return 1;
  }
  block_end_signals();
  Models models;
  if (const hg::Status status = load(arguments, models); !status.ok()) {
    std::fprintf(stderr, "chat_server: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  State state{models, static_cast<size_t>(arguments.http.most_bytes)};
  const Ending ending = {.close = [&] { state.is_closed = true; },
                         .is_idle = [&] { return state.open == 0; },
                         .grace = std::chrono::seconds(arguments.grace_s),
                         .hurry =
                             [&] {
                               for (const auto& [name, each] : models) each->engine().stop();
                             }};
  httplib::Server server;
  add_routes(server, state);
  return serve(server, arguments.http, "chat_server", models.size(), fail, state.is_ready, ending);
}
