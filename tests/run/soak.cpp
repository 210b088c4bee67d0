// SPDX-License-Identifier: Apache-2.0
// soak [--seconds=600] [--threads=4] [--device=vulkan] [--most-growth=8]: sessions of eight models
// on several threads, with changing sizes, sessions that are created and destroyed, and trainers
// alongside. Each result must have the bits of the first one for that model and size. Descriptors
// must not grow, nor memory by more than the given MiB. tests/nightly/soak runs it for long.
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "hg/hg.h"
#include "hg/train.h"
#include "lib/graph/split_mix.h"

namespace {

using hg::Value;

constexpr int kModels = 8;
constexpr int64_t kSizes[] = {1, 2, 3, 7, 16, 33};

// Eight networks: products, convolutions, norms, attention, recurrent, control flow, random,
// reductions.
hg::Graph network(int kind) {
  hg::Graph g;
  const auto weight = [&](const char* name, const hg::Sizes& shape) {
    return g.parameter(name, hg::f32, shape,
                       hg::init::kaiming_uniform(static_cast<uint64_t>(kind) + 7));
  };
  const Value x = g.input("x", hg::f32, {"n", 4, 12});
  Value y = x;
  const auto mix = [&](const Value& v) {
    return linear(v, weight("w", {12, 12}), weight("b", {12}));
  };
  switch (kind) {
    case 0:
      y = relu(mix(x));
      break;
    case 1:
      y = g.call("conv", {x, weight("k", {4, 4, 3}), Value()}, {{"padding", {1}}});
      break;
    case 2:
      y = layer_norm(mix(x), {12});
      break;
    case 3:
      y = softmax(mix(x) * 3.0, -1);
      break;
    case 4:
      y = tanh(mix(x)) * sigmoid(x);
      break;
    case 5:
      y = mix(x) + mean(x, {-1}, true);
      break;
    case 6:
      y = g.call("cumsum", {mix(x)}, {{"dim", 1}});
      break;
    default:
      y = matmul(softmax(matmul(mix(x), transpose(x, 1, 2)), -1), x);
      break;
  }
  g.output("y", y);
  return g;
}

std::vector<float> input(int64_t n, uint64_t seed) {
  std::vector<float> x(static_cast<size_t>(n) * 48);
  for (float& value : x) value = static_cast<float>(hg::split_mix(seed) >> 40) / 8388608.0f - 1;
  return x;
}

struct Soak {
  std::vector<hg::Model> models;
  hg::SessionOptions options{.threads = 1};
  std::mutex mutex;
  std::map<std::pair<int, int64_t>, std::vector<float>> first;
  std::vector<double> losses;
  std::atomic<int64_t> runs{0}, sessions{0}, steps{0};
  std::atomic<bool> failed{false}, stop{false};

  void fail(const std::string& why) {
    if (!failed.exchange(true)) std::fprintf(stderr, "%s\n", why.c_str());
    stop = true;
  }
  void expect_first(int model, int64_t n, const hg::Tensor& y) {
    std::vector<float> got(y.count());
    copy_elements(y, hg::view(got, y.shape));
    const std::lock_guard<std::mutex> lock(mutex);
    const auto [known, is_new] = first.try_emplace({model, n}, got);
    if (!is_new && known->second != got)
      fail(hg::str_cat("model ", model, " of n=", n, " answers otherwise"));
  }

  hg::Status serve(uint64_t seed) {
    std::vector<std::optional<hg::Session>> own(kModels);
    while (!stop) {
      const auto kind = static_cast<int>(hg::split_mix(seed) % kModels);
      std::optional<hg::Session>& session = own[kind];
      if (!session || hg::split_mix(seed) % 16 == 0) {
        session.reset();
        HG_TRY_ASSIGN(session, hg::Session::create(models[kind], options));
        ++sessions;
      }
      const int64_t n = kSizes[hg::split_mix(seed) % std::size(kSizes)];
      const std::vector<float> x = input(n, static_cast<uint64_t>(n));
      HG_TRY(session->set_input("x", hg::view(x, {n, 4, 12})));
      HG_TRY(session->run());
      HG_TRY_ASSIGN(const hg::Tensor y, session->output("y"));
      expect_first(kind, n, y);
      session->forget_tensors();
      ++runs;
    }
    return {};
  }

  // The same ten steps give the same losses each time.
  hg::Status train() {
    const std::vector<float> x = input(8, 3), t = input(8, 4);
    while (!stop) {
      hg::TrainOptions train;
      train.optimizer = hg::adamw(1e-2);
      train.session = options;
      HG_TRY_ASSIGN(hg::Trainer trainer, hg::Trainer::create(models[0], train));
      std::vector<double> now;
      for (int i = 0; i < 10; ++i, ++steps) {
        const hg::ConstTensor in = hg::view(x, {8, 4, 12}), target = hg::view(t, {8, 4, 12});
        HG_TRY_ASSIGN(const double loss, trainer.step({&in, 1}, {&target, 1}));
        now.push_back(loss);
      }
      const std::lock_guard<std::mutex> lock(mutex);
      if (losses.empty()) losses = now;
      if (losses != now) fail("a trainer's losses differ from those of the first");
    }
    return {};
  }
};

int64_t resident_bytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}
int64_t descriptors() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

template <class Number>
bool read_option(std::string_view word, std::string_view name, Number& value) {
  if (!word.starts_with(name)) return false;
  return std::from_chars(word.data() + name.size(), word.data() + word.size(), value).ec ==
         std::errc();
}

}  // namespace

int main(int argc, char** argv) {
  int64_t seconds = 600, most_growth_mib = 8;
  int threads = 4;
  Soak soak;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--device=vulkan") {
      auto gpu = hg::Gpu::open({.name = "0"});
      if (!gpu.ok())
        return std::fprintf(stderr, "%s\n", std::string(gpu.status().message()).c_str()), 77;
      soak.options.device = hg::Device::vulkan;
      soak.options.gpu = *gpu;
    } else if (!read_option(word, "--seconds=", seconds) &&
               !read_option(word, "--threads=", threads) &&
               !read_option(word, "--most-growth=", most_growth_mib)) {
      return std::fprintf(stderr, "unknown option %s\n", argv[i]), 1;
    }
  }
  for (int kind = 0; kind < kModels; ++kind) {
    auto model = hg::Model::from_graph(network(kind));
    if (!model.ok())
      return std::fprintf(stderr, "%s\n", std::string(model.status().message()).c_str()), 1;
    soak.models.push_back(*std::move(model));
  }
  std::vector<std::thread> all;
  for (int k = 0; k < threads; ++k)
    all.emplace_back([&soak, k] {
      const hg::Status status = k == 0 ? soak.train() : soak.serve(static_cast<uint64_t>(k));
      if (!status.ok()) soak.fail(std::string(status.message()));
    });
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  // After a quarter of the time, memory and descriptors must not grow any more.
  int64_t bytes = 0, files = 0;
  while (!soak.stop && passed() < static_cast<double>(seconds)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (bytes == 0 && passed() > static_cast<double>(seconds) / 4) {
      bytes = resident_bytes();
      files = descriptors();
    }
  }
  soak.stop = true;
  for (std::thread& thread : all) thread.join();
  const int64_t grown = resident_bytes() - bytes, opened = descriptors() - files;
  std::printf(
      "%lld runs, %lld sessions, %lld steps in %lld s; memory %+.1f MB of %.1f, descriptors "
      "%+lld\n",
      static_cast<long long>(soak.runs), static_cast<long long>(soak.sessions),
      static_cast<long long>(soak.steps), static_cast<long long>(seconds),
      static_cast<double>(grown) / 1e6, static_cast<double>(bytes) / 1e6,
      static_cast<long long>(opened));
  if (soak.failed) return 1;
  if (grown > most_growth_mib << 20 || opened > 0)
    return std::fprintf(stderr, "something grows\n"), 1;
  return soak.runs > 0 && soak.steps > 0 ? 0 : 1;
}
