// SPDX-License-Identifier: Apache-2.0
// Times training steps of a model on noise. Prints the time of each node, and how much memory the
// process needs in addition to the weights (Linux):
//   train_bench MODEL.hgm [LOSS [OPTIMIZER [THREADS [STEPS [MEMORY_LIMIT]]]]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "hg/hg.h"
#include "hg/train.h"

namespace {

int fail(const hg::Status& status) {
  std::fprintf(stderr, "train_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}

constexpr int64_t kSymbol = 8;  // the size of every symbol

// Small numbers, or class indices.
hg::TensorData noise(const hg::TensorType& type) {
  hg::Sizes shape;
  for (const hg::Dim& dim : type.shape)
    shape.push_back(dim.is_constant() ? dim.constant() : kSymbol);
  hg::TensorData data = *hg::TensorData::allocate(type.dtype, shape);
  std::mt19937 random(1);
  for (int64_t i = 0; i < shape.count(); ++i) {
    if (type.dtype == hg::i64)
      data.tensor.as<int64_t>()[i] = static_cast<int64_t>(random() % 10);
    else
      data.tensor.as<float>()[i] = static_cast<float>(random() % 2001) / 1000 - 1;
  }
  return data;
}

// A line such as "VmRSS: 1024 kB" of the process, in MiB.
double memory_mib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kib = 0; word == field + ":" && status >> kib) return kib / 1024;
  return 0;
}

// Memory of the process with all weights read. The peak is counted from here.
double start_of_growth(const hg::Model& model) {
  [[maybe_unused]] volatile std::byte seen{};
  for (const hg::State& state : model.graph().states())
    for (int64_t i = 0; i < state.data.tensor.bytes(); i += 4096)
      seen = state.data.tensor.as<std::byte>()[i];
  std::ofstream("/proc/self/clear_refs") << 5;
  return memory_mib("VmRSS");
}

struct Row {
  double ms = 1e9, flops = 0, bytes = 0;
  std::string kernel, module;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "train_bench MODEL.hgm [LOSS [OPTIMIZER [THREADS [STEPS [LIMIT]]]]]\n");
    return 1;
  }
  const auto given = [&](int i, const char* fallback) { return argc > i ? argv[i] : fallback; };
  hg::Result<hg::Model> model = hg::Model::load(argv[1]);
  if (!model.ok()) return fail(model.status());
  const double before = start_of_growth(*model);
  const size_t of_model = model->graph().inputs().size();
  hg::TrainOptions options;
  const hg::Result<hg::Loss::Kind> kind = hg::parse_loss(given(2, "mse"));
  if (!kind.ok()) return fail(kind.status());
  options.losses[0].kind = *kind;
  options.optimizer = std::string(given(3, "sgd")) == "sgd" ? hg::sgd(0.01, 0.9) : hg::adamw();
  options.session.threads = std::atoi(given(4, "1"));
  options.session.memory_limit = std::atoll(given(6, "0"));
  options.session.profile = true;
  const auto start = std::chrono::steady_clock::now();
  hg::Result<hg::Trainer> trainer = hg::Trainer::create(*model, options);
  if (!trainer.ok()) return fail(trainer.status());
  *model = hg::Model();  // the trainer has copied what it needs of the model and its file
  std::vector<hg::TensorData> inputs, targets;
  for (size_t i = 0; i < of_model + options.losses.size(); ++i)
    (i < of_model ? inputs : targets)
        .push_back(noise(trainer->session().input_type(static_cast<int>(i))));
  std::vector<hg::ConstTensor> x, y;
  for (const hg::TensorData& data : inputs) x.push_back(data.tensor);
  for (const hg::TensorData& data : targets) y.push_back(data.tensor);
  std::vector<std::pair<std::string, int64_t>> sizes;
  for (size_t i = 0; i < of_model; ++i)
    for (const hg::Dim& dim : trainer->session().input_type(static_cast<int>(i)).shape)
      if (!dim.symbol().empty()) sizes.emplace_back(dim.symbol(), kSymbol);
  if (const hg::Status planned = trainer->plan(sizes); !planned.ok()) return fail(planned);
#ifdef __GLIBC__
  malloc_trim(0);  // memory used while the step was built
#endif
  std::map<std::string, Row> rows;
  double least = 1e9, create = 0;
  for (int step = 0; step < std::atoi(given(5, "10")); ++step) {
    const auto before = std::chrono::steady_clock::now();
    if (const hg::Result<double> loss = trainer->step(x, y); !loss.ok()) return fail(loss.status());
    const auto after = std::chrono::steady_clock::now();
    const auto ms = [](auto span) {
      return std::chrono::duration<double, std::milli>(span).count();
    };
    if (step == 0) create = ms(after - start);
    least = std::min(least, ms(after - before));
    std::map<std::string, int> seen;  // recomputed nodes occur several times
    for (const hg::ProfileRow& p : trainer->session().profile()) {
      std::string name = p.op + " " + p.node;
      if (const int again = seen[name]++; again > 0) name += " again " + std::to_string(again);
      Row& row = rows[name];
      row.ms = std::min(row.ms, p.ms);
      row.flops = p.flops;
      row.bytes = static_cast<double>(p.bytes);
      row.kernel = p.kernel;
      row.module = p.module;
    }
  }
  const double growth = memory_mib("VmHWM") - before;
  const hg::Memory memory = *trainer->session().memory();
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  std::map<std::string, std::pair<double, int>> ops;
  for (const auto& [name, row] : sorted) {
    auto& [ms, count] = ops[name.substr(0, name.find(' ')) + " by " + row.kernel];
    ms += row.ms;
    ++count;
  }
  std::printf("%.3f ms a step, first step with planning %.0f ms\n", least, create);
  std::printf("arena %.2f MB, lower bound %.2f MB, peak %.2f MB, extra FLOPs %.1f %%\n",
              static_cast<double>(memory.arena_bytes) / 1e6,
              static_cast<double>(memory.arena_lower_bound) / 1e6,
              static_cast<double>(memory.peak_bytes) / 1e6,
              100 * memory.extra_flops / (trainer->session().flops() - memory.extra_flops));
  std::printf("the process grew by %.1f MiB once the weights were in memory\n", growth);
  std::vector<std::pair<double, std::string>> by_time;
  for (const auto& [op, sum] : ops)
    by_time.push_back({sum.first, op + " x " + std::to_string(sum.second)});
  std::sort(by_time.rbegin(), by_time.rend());
  for (const auto& [ms, op] : by_time)
    if (ms > least / 200) std::printf("%9.3f ms  %s\n", ms, op.c_str());
  for (size_t i = 0; i < sorted.size() && i < 25; ++i) {
    const auto& [name, row] = sorted[i];
    std::printf("%9.3f ms %7.1f GFLOP/s %6.1f GB/s  %s by %s  %s\n", row.ms,
                row.flops / row.ms / 1e6, row.bytes / row.ms / 1e6, name.c_str(),
                row.kernel.c_str(), row.module.c_str());
  }
  return 0;
}
