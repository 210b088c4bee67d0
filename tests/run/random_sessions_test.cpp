// SPDX-License-Identifier: Apache-2.0
// A session with random options, and with inputs and outputs in any memory, is stopped, stepped,
// rejected and run again. After each run it must have the same bits as a plain session with the
// same inputs. HG_MODEL=FILE.hgm runs that model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>

#include "hg/hg.h"
#include "tests/support/elements.h"
#include "tests/support/random_case.h"
#include "tests/support/session_memory.h"
#include "tests/support/session_models.h"
#include "tests/support/temporary_file.h"

namespace hg::test {
namespace {

std::map<std::string, int> counts;  // how often each event happened

// ---- Options ----

// A host's pool that runs tasks in another order, and may ask a run to stop.
struct HostPool {
  std::mt19937_64 random;
  std::stop_source* stop = nullptr;
  int calls_left = 0;  // calls until it asks
  static void run(void* host, int64_t count, void (*task)(void*, int64_t), void* arg) {
    HostPool& pool = *static_cast<HostPool*>(host);
    if (pool.stop != nullptr && pool.calls_left-- == 0) pool.stop->request_stop();
    const int64_t shift = count > 0 ? static_cast<int64_t>(pool.random() % count) : 0;
    for (int64_t i = count; i-- > 0;) task(arg, (i + shift) % count);
  }
};

// The host's memory for a session, between guards, filled with bytes that are not zero.
struct HostMemory {
  int64_t live = 0, arenas = 0;
  static constexpr size_t kGuard = 64;
  Allocator allocator() {
    return {[](void* host, size_t bytes) -> void* {
              static_cast<HostMemory*>(host)->live += static_cast<int64_t>(bytes);
              auto* const memory =
                  static_cast<unsigned char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
              std::memset(memory, 0xff, (bytes + 127) / 64 * 64);
              return memory;
            },
            [](void* host, void* memory, size_t bytes) {
              static_cast<HostMemory*>(host)->live -= static_cast<int64_t>(bytes);
              for (size_t i = bytes; i < (bytes + 127) / 64 * 64; ++i)
                if (static_cast<unsigned char*>(memory)[i] != 0xff) ++counts["GUARD OVERWRITTEN"];
              std::free(memory);
            },
            this};
  }
  ArenaObserver observer() {
    return {[](void* host, void*, size_t bytes) {
              static_cast<HostMemory*>(host)->arenas += static_cast<int64_t>(bytes);
            },
            [](void* host, void*, size_t bytes) {
              static_cast<HostMemory*>(host)->arenas -= static_cast<int64_t>(bytes);
            },
            this};
  }
};

std::string wrong(const char* what, const Status& status) {
  return str_cat(what, ": ", status.message());
}

std::string differ(const Tensor& got, const Tensor& right) {
  if (got.dtype != right.dtype || !(got.shape == right.shape))
    return str_cat("is ", got.dtype, got.shape, ", not ", right.dtype, right.shape);
  const Result<TensorData> a = TensorData::copy_of(got), b = TensorData::copy_of(right);
  if (!a.ok() || !b.ok()) return "cannot be copied";
  const auto *x = a->tensor.as<uint8_t>(), *y = b->tensor.as<uint8_t>();
  const int64_t size = size_of(got.dtype);
  for (int64_t i = 0; i < a->tensor.bytes(); ++i)
    if (x[i] != y[i])
      return str_cat("has other bits from element ", i / size, " of ", got.count(),
                     " on: ", read_element(a->tensor, i / size), ", not ",
                     read_element(b->tensor, i / size));
  return "";
}

// ---- One case ----

class Case {
 public:
  explicit Case(uint64_t seed) : random_(seed * 2 + 1), memory_(random_), seed_(seed) {
    pool_.random.seed(seed);
  }

  // Returns what went wrong, or an empty text.
  std::string run() {
    model_ = session_model(random_(), chosen("HG_MODEL"));
    if (!model_.model) return "";
    if (prints_graphs()) std::printf("%s", model_.model->graph().text().c_str());
    const SessionOptions same = options_of_both();
    same_ = same;
    Result<Session> plain = Session::create(*model_.model, same);
    if (!plain.ok()) {
      ++counts[str_cat("no session: ", plain.status().message().substr(0, 60))];
      return plain.status().code() == Code::unsupported ? "" : wrong("plain", plain.status());
    }
    plain_.emplace(*std::move(plain));
    Result<Session> odd = Session::create(*model_.model, other_options(same));
    if (!odd.ok())
      return odd.status().code() == Code::out_of_memory ? "" : wrong("odd", odd.status());
    odd_.emplace(*std::move(odd));
    if (const Status kept = keep_states(); !kept.ok()) return wrong("states", kept);
    for (int round = 0, rounds = 2 + below(6); round < rounds; ++round) {
      const std::string bad = one_round();
      if (!bad.empty()) return str_cat("round ", int64_t(round), ", ", said_, ": ", bad);
    }
    if (const Result<Memory> memory = odd_->memory(); memory.ok() && memory->mapped_bytes > 0)
      ++counts["packed weights mapped"];
    odd_.reset();
    if (host_.live != 0) return str_cat("memory of the host that is not given back: ", host_.live);
    if (host_.arenas != 0) return str_cat("arenas that were not said to be freed: ", host_.arenas);
    return "";
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return static_cast<double>(random_() >> 11) * 0x1p-53 < p; }
  void say(std::string_view what) { said_ += str_cat(said_.empty() ? "" : " ", what); }

  SessionOptions options_of_both() {
    SessionOptions options{.threads = 1};
    if (chance(0.15)) options.precision = Precision::bf16, say("bf16");
    if (chance(0.1)) options.precision = Precision::i8, say("i8");
    if (chance(0.1)) options.low_memory = true, say("low_memory");
    if (chance(0.15)) options.keep_all_values = true, say("keep_all");
    static constexpr const char* kPasses[] = {"*",         "fold",  "cse",     "views",
                                              "programs",  "norms", "linear",  "epilogue",
                                              "attention", "rope",  "updates", "channels_last"};
    if (chance(0.3)) {
      options.disabled_passes.push_back(kPasses[below(std::size(kPasses))]);
      say(str_cat("without ", options.disabled_passes[0]));
    }
    options.seed = random_();
    return options;
  }

  // Options that must not change any bit.
  SessionOptions other_options(SessionOptions options) {
    options.threads = 1 + below(chance(0.1) ? 64 : 4);
    say(str_cat("threads ", int64_t(options.threads)));
    if (chance(0.4)) {
      options.parallel_for = {HostPool::run, &pool_, 1 + below(4)};
      say("pool");
    }
    if (chance(0.4)) options.allocator = host_.allocator(), say("allocator");
    if (chance(0.3)) options.arena_observer = host_.observer();
    if (chance(0.3)) options.lazy_allocation = true, say("lazy");
    if (chance(0.2)) options.checkpoint = Checkpoint::sqrt, say("sqrt");
    if (chance(0.2)) options.profile = true, say("profile");
    if (chance(0.2)) options.most_rounds = 1000;
    if (chance(0.3)) options.packed = packed_.path();
    if (chance(0.3)) {
      for (const std::string& symbol : model_.model->graph().symbols())
        if (chance(0.7)) options.ranges.push_back({symbol, below(3), 5 + below(30)});
      say("ranges");
      // The model may not accept the highest sizes.
      if (!Session::create(*model_.model, options).ok()) options.ranges.clear();
    }
    if (chance(0.4)) {
      const Result<std::vector<TensorData>> inputs = model_.inputs(random_());
      Result<Session> probe = Session::create(*model_.model, options);
      if (inputs.ok() && probe.ok() && set_plainly(*probe, *inputs).empty() && probe->plan().ok() &&
          probe->memory().ok()) {
        const Memory m = *probe->memory();
        options.memory_limit =
            std::max<int64_t>(m.packed_bytes + 64 +
                                  static_cast<int64_t>(static_cast<double>(m.arena_bytes) *
                                                       (0.2 + 1.2 * below(100) / 100.0)),
                              1);
        say(str_cat("limit ", options.memory_limit, " of ", m.arena_bytes, "+", m.packed_bytes));
      }
    }
    if (!options.packed.empty()) write_packed(options);
    return options;
  }

  // Writes the file of packed weights, and may damage it.
  void write_packed(const SessionOptions& options) {
    const Result<std::vector<TensorData>> inputs = model_.inputs(random_());
    Result<Session> first = Session::create(*model_.model, options);
    if (!inputs.ok() || !first.ok() || !set_plainly(*first, *inputs).empty() || !first->plan().ok())
      return;
    if (const Status saved = first->save_packed(); !saved.ok()) ++counts["NOT SAVED"];
    std::string bytes = packed_.content();
    say(str_cat("packed ", int64_t(bytes.size())));
    if (bytes.empty() || chance(0.5)) return;
    for (int i = below(4); i >= 0; --i)
      bytes[30 + random_() % (bytes.size() - 30)] ^= static_cast<char>(1 << below(8));
    if (chance(0.2)) bytes.resize(30 + random_() % (bytes.size() - 30));
    packed_.set_content(bytes);
    say("damaged");
  }

  std::string set_plainly(Session& session, const std::vector<TensorData>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (const Status status = session.set_input(static_cast<int>(i), inputs[i].tensor);
          !status.ok())
        return wrong("set_input", status);
    return "";
  }

  // Sets new inputs, and perhaps other memory for outputs; then runs in one of several ways.
  std::string one_round() {
    if (inputs_.empty() || chance(0.7)) {
      Result<std::vector<TensorData>> inputs = model_.inputs(random_());
      if (!inputs.ok()) return wrong("inputs", inputs.status());
      inputs_ = *std::move(inputs);
      if (const std::string bad = renew_plain(); !bad.empty()) return bad;
      if (const std::string bad = set_plainly(*plain_, inputs_); !bad.empty()) return bad;
      set_ = false;
    }
    if (!set_ || chance(0.3)) {
      if (const std::string bad = give_inputs(); !bad.empty()) return bad;
    }
    if (chance(0.1)) odd_->release_memory(), say("release");
    if (chance(0.1) && odd_->input_count() > 0) {
      odd_->forget_tensors(), say("forget");
      while (!bound_.empty()) unbind(bound_.begin()->first);
      if (odd_->run().ok()) return "ran without inputs";
      if (const std::string bad = give_inputs(); !bad.empty()) return bad;
    }
    if (chance(0.15)) spoil();
    const Status expected = plain_->run();
    ++same_.first_run;
    if (const std::string bad = bind_outputs(expected.ok()); !bad.empty()) return bad;
    memory_.restore_inputs();
    Status got = run_somehow();
    if (got.code() == Code::out_of_memory) {
      ++counts["limit refused"];
      Status same = keep_states();  // the states of the plain session, which ran
      if (same.ok()) same = set_states();
      return same.ok() ? "" : wrong("after a limit", same);
    }
    if (got.ok() != expected.ok() || (!got.ok() && got.message() != expected.message()))
      return str_cat("ended with '", got.message(), "', plainly with '", expected.message(), "'");
    ++counts[got.ok() ? "runs" : "runs that fail alike"];
    if (!got.ok()) return "";
    return compare();
  }

  // The plain session plans for exactly its own sizes.
  std::string renew_plain() {
    Result<Session> plain = Session::create(*model_.model, same_);
    if (!plain.ok()) return wrong("plain", plain.status());
    plain_.emplace(*std::move(plain));
    for (const auto& [name, data] : states_before_)
      if (const Status set = plain_->set_value(name, data.tensor); !set.ok())
        return wrong("plain", set);
    return "";
  }

  std::string give_inputs() {
    memory_.forget_inputs();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Result<Tensor> spread = memory_.spread(inputs_[i].tensor);
      if (!spread.ok()) return wrong("memory", spread.status());
      if (const Status status = odd_->set_input(static_cast<int>(i), *spread); !status.ok())
        return wrong("set_input", status);
    }
    set_ = true;
    return "";
  }

  // Rejected calls change nothing.
  void spoil() {
    static float number[16] = {};
    say("spoil");
    EXPECT_FALSE(odd_->set_input("no such input", view(number, f32, {1})).ok());
    EXPECT_FALSE(
        odd_->set_output(odd_->output_count(), view(static_cast<void*>(number), f32, {1})).ok());
    if (odd_->input_count() > 0) {
      const TensorType type = odd_->input_type(0);
      EXPECT_FALSE(odd_->set_input(0, view(number, type.dtype == f32 ? i32 : f32, {1})).ok());
      Sizes shape(type.rank() + 1, 1);
      EXPECT_FALSE(odd_->set_input(0, view(number, type.dtype, shape)).ok());
    }
    const std::pair<std::string, int64_t> dims[] = {{"no such symbol", 3}};
    EXPECT_FALSE(odd_->plan(dims).ok());
  }

  std::string bind_outputs(bool know_shapes) {
    for (int i = 0; i < odd_->output_count(); ++i) {
      if (bound_.contains(i) && chance(know_shapes ? 0.5 : 1)) unbind(i);
      if (!know_shapes) continue;
      const Result<Tensor> y = plain_->output(i);
      if (!y.ok()) return wrong("plain output", y.status());
      const bool fits = bound_.contains(i) && bound_.at(i).shape == y->shape;
      if (bound_.contains(i) && !fits) unbind(i);
      if (fits || !chance(0.3)) continue;
      Result<Tensor> home = memory_.home(*y);
      if (!home.ok()) return wrong("memory", home.status());
      if (const Status status = odd_->set_output(i, *home); !status.ok()) {
        memory_.forget_home(*home);
        // If data decides a size, the memory must be contiguous.
        if (home->is_contiguous()) return wrong("set_output", status);
        continue;
      }
      bound_[i] = *home;
      say(str_cat("bound ", int64_t(i)));
    }
    return "";
  }

  void unbind(int output) {
    EXPECT_TRUE(odd_->set_output(output, Tensor()).ok());
    memory_.forget_home(bound_.at(output));
    bound_.erase(output);
  }

  Status run_somehow() {
    if (chance(0.2)) {  // stopped at some step, or too late
      std::stop_source stop;
      RunProgress progress;
      pool_.stop = &stop;
      pool_.calls_left = below(8);
      if (chance(0.2)) stop.request_stop();
      say("stop");
      const Status status = odd_->run(stop.get_token(), &progress);
      pool_.stop = nullptr;
      if (status.code() != Code::cancelled) {
        if (status.ok() && progress.done() != progress.known())
          return internal_error("progress is ", progress.done(), " of ", progress.known());
        return status;
      }
      ++counts["cancelled"];
      memory_.restore_inputs();
      if (odd_->output_count() > 0 && odd_->output(0).ok())
        return internal_error("an output after a run that was cancelled");
    }
    if (chance(0.15)) {  // abandoned after some steps
      say("give up");
      for (int i = 0, steps = 1 + below(5); i < steps; ++i) {
        const Result<std::optional<StepRow>> row = odd_->step();
        if (!row.ok()) return row.status();
        if (!*row) return {};  // the run ended
      }
      if (const Status status = set_states(); !status.ok()) return status;
      memory_.restore_inputs();
    } else if (chance(0.15)) {
      say("steps");
      for (;;) {
        const Result<std::optional<StepRow>> row = odd_->step();
        if (!row.ok()) return row.status();
        if (!*row) return {};
      }
    }
    if (chance(0.1)) {
      if (const Status status = odd_->plan(); !status.ok()) return status;
    }
    return odd_->run();
  }

  // Resets the states to those before the plain session's run.
  Status set_states() {
    for (const auto& [name, data] : states_before_) HG_TRY(odd_->set_value(name, data.tensor));
    return {};
  }
  Status keep_states() {
    states_before_.clear();
    for (const State& state : plain_->compiled_graph().states()) {
      const Result<Tensor> now = plain_->value(state.name);
      if (!now.ok() || !changes(state)) continue;
      HG_TRY_ASSIGN(TensorData copy, TensorData::copy_of(*now));
      states_before_.emplace_back(state.name, std::move(copy));
    }
    return {};
  }
  bool changes(const State& state) const {
    for (const auto& [target, source] : plain_->compiled_graph().assignments())
      if (target == state.value) return true;
    return false;
  }

  std::string compare() {
    for (int i = 0; i < plain_->output_count(); ++i) {
      const Result<Tensor> y = odd_->output(i), right = plain_->output(i);
      if (!y.ok() || !right.ok()) return wrong("output", y.ok() ? right.status() : y.status());
      if (const std::string bad = differ(*y, *right); !bad.empty())
        return str_cat("output ", plain_->output_name(i), " ", bad);
    }
    for (const State& state : plain_->compiled_graph().states()) {
      if (!changes(state)) continue;
      const Result<Tensor> now = odd_->value(state.name), right = plain_->value(state.name);
      if (!now.ok() || !right.ok()) return wrong("state", now.ok() ? right.status() : now.status());
      if (const std::string bad = differ(*now, *right); !bad.empty())
        return str_cat("state ", state.name, " ", bad);
    }
    if (!memory_.guards_are_whole()) return "bytes beside the host's memory were written";
    if (const Status kept = keep_states(); !kept.ok()) return wrong("states", kept);
    return "";
  }

  std::mt19937_64 random_;
  SessionMemory memory_;
  uint64_t seed_;
  const TemporaryFile packed_{"packed"};
  SessionModel model_;
  SessionOptions same_;
  HostPool pool_;
  HostMemory host_;
  std::optional<Session> plain_, odd_;
  std::vector<TensorData> inputs_;
  std::map<int, Tensor> bound_;
  std::vector<std::pair<std::string, TensorData>> states_before_;
  std::string said_;
  bool set_ = false;
};

TEST(RandomSessions, GiveTheBitsOfAPlainOne) {
  for_cases(300, [](uint64_t seed) { EXPECT_EQ(Case(seed).run(), ""); });
  for (const auto& [what, times] : counts) std::printf("%6d %s\n", times, what.c_str());
  if (case_count(300) >= 100) {
    EXPECT_GT(counts["runs"], case_count(300));
    EXPECT_GT(counts["packed weights mapped"], case_count(300) / 60);
  }
}

}  // namespace
}  // namespace hg::test
