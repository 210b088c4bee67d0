// SPDX-License-Identifier: Apache-2.0
// Gives a converted network a new head and trains only that head: the digits network learns to
// distinguish even digits from odd ones.
#include <cstdio>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/npy.h"
#include "hg/train.h"

namespace {

constexpr int64_t kTrain = 300;

// The value that the last layer of the network reads.
hg::Result<hg::Value> features_of(hg::Graph& g) {
  const hg::ValueId scores = g.outputs()[0].second;
  const int32_t last = g.value_info(scores).node;
  HG_CHECK(last >= 0 && g.nodes()[last].op->name() == "linear",
           "finetune: the model does not end with a linear layer");
  return g.value(g.nodes()[last].inputs[0]);
}

hg::ConstTensor rows(const hg::ConstTensor& all, int64_t begin, int64_t end) {
  hg::ConstTensor part = all;
  part.shape[0] = end - begin;
  part.data = all.as<std::byte>() + begin * all.strides[0] * hg::size_of(all.dtype);
  return part;
}

hg::Status finetune(const std::string& file, const std::string& folder, const std::string& out) {
  HG_TRY_ASSIGN(const auto images, hg::read_npy(folder + "/test_images.npy"));
  HG_TRY_ASSIGN(const auto labels, hg::read_npy(folder + "/test_labels.npy"));
  const int64_t count = images.shape()[0];
  std::vector<int64_t> is_odd;
  for (int64_t i = 0; i < count; ++i) is_odd.push_back(labels.as<int64_t>()[i] % 2);
  const hg::ConstTensor odd = hg::view(is_odd, {count});

  HG_TRY_ASSIGN(hg::Model model, hg::Model::load(file));
  hg::Graph& g = model.graph();
  HG_TRY_ASSIGN(const hg::Value features, features_of(g));
  HG_CHECK(features.dim(-1).is_constant(), "finetune: the number of features is open");
  const hg::Value w = g.parameter("parity.weight", hg::f32, {2, features.dim(-1).constant()},
                                  hg::init::kaiming_uniform(1));
  const hg::Value b = g.parameter("parity.bias", hg::f32, {2});
  g.output("parity", g.call("linear", {features, w, b}));

  hg::TrainOptions options;
  options.losses = {{.kind = hg::Loss::Kind::cross_entropy, .output = "parity"}};
  options.metrics = {{.kind = hg::Metric::Kind::accuracy, .output = "parity"}};
  options.optimizer = hg::adamw(0.02);
  options.session.threads = 1;  // a small network is faster on one thread
  options.rules = {{.pattern = "*", .frozen = true}, {.pattern = "parity.*", .frozen = false}};
  HG_TRY_ASSIGN(hg::Trainer trainer, hg::Trainer::create(model, options));
  for (const std::string& name : trainer.trained()) std::printf("training %s\n", name.c_str());

  const hg::Dataset unseen = {{rows(images, kTrain, count)}, {rows(odd, kTrain, count)}};
  HG_TRY(trainer.fit({{rows(images, 0, kTrain)}, {rows(odd, 0, kTrain)}},
                     {.epochs = 40, .batch = 30}));
  HG_TRY_ASSIGN(const hg::Evaluation result, trainer.evaluate(unseen));
  std::printf("%.0f of %lld unseen images told even or odd rightly\n",
              result.metrics[0] * static_cast<double>(count - kTrain),
              static_cast<long long>(count - kTrain));
  return out.empty() ? hg::Status() : trainer.save(out);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: finetune DIGITS.hgm FOLDER [TRAINED.hgm]\n");
    return 1;
  }
  const hg::Status status = finetune(argv[1], argv[2], argc > 3 ? argv[3] : "");
  if (!status.ok()) std::fprintf(stderr, "finetune: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
