// SPDX-License-Identifier: Apache-2.0
// Trains a network on handwritten digits from scratch: the graph is built here, nothing is
// converted, and the result is an ordinary .hgm file.
#include <cstdio>
#include <string>

#include "hg/hg.h"
#include "hg/npy.h"
#include "hg/train.h"

namespace {

constexpr int64_t kTrain = 300;  // of 360 images; the rest are test images

// 64 pixels -> 64 -> 32 -> 10 digits, with dropout during training
hg::Result<hg::Model> build_network() {
  hg::Graph g;
  const auto layer = [&](const std::string& name, const hg::Value& x, int64_t from, int64_t to,
                         uint64_t seed) {
    const hg::Value w =
        g.parameter(name + ".weight", hg::f32, {to, from}, hg::init::kaiming_uniform(seed));
    const hg::Value b = g.parameter(name + ".bias", hg::f32, {to});
    return g.call("linear", {x, w, b});
  };
  const hg::Value image = g.input("image", hg::f32, {"n", 1, 8, 8});
  const hg::Value pixels = hg::reshape(image, {image.dim(0), 64});
  hg::Value x = hg::relu(layer("fc1", pixels, 64, 64, 1));
  x = g.call("dropout", {x}, {{"p", 0.2}});
  x = hg::relu(layer("fc2", x, 64, 32, 2));
  g.output("scores", layer("fc3", x, 32, 10, 3));
  return hg::Model::from_graph(std::move(g));
}

// Rows [begin, end) of a tensor whose first dim counts samples.
hg::ConstTensor rows(const hg::ConstTensor& all, int64_t begin, int64_t end) {
  hg::ConstTensor part = all;
  part.shape[0] = end - begin;
  part.data = all.as<std::byte>() + begin * all.strides[0] * hg::size_of(all.dtype);
  return part;
}

hg::Status train(const std::string& folder, const std::string& file) {
  HG_TRY_ASSIGN(const auto images, hg::read_npy(folder + "/test_images.npy"));
  HG_TRY_ASSIGN(const auto labels, hg::read_npy(folder + "/test_labels.npy"));
  const int64_t count = images.shape()[0];
  const hg::Dataset seen = {{rows(images, 0, kTrain)}, {rows(labels, 0, kTrain)}};
  const hg::Dataset unseen = {{rows(images, kTrain, count)}, {rows(labels, kTrain, count)}};

  HG_TRY_ASSIGN(const hg::Model network, build_network());
  hg::TrainOptions options;
  options.losses = {{.kind = hg::Loss::Kind::cross_entropy, .label_smoothing = 0.05}};
  options.metrics = {{.kind = hg::Metric::Kind::accuracy}};
  options.optimizer = hg::adamw(5e-3);
  options.session.threads = 1;  // a small network is faster on one thread
  options.schedule.kind = hg::Schedule::Kind::one_cycle;
  HG_TRY_ASSIGN(hg::Trainer trainer, hg::Trainer::create(network, options));

  const auto show = [](const hg::Progress& p) {
    if (p.is_epoch && p.epoch % 10 == 0)
      std::printf("epoch %2lld  loss %.4f  of unseen images %.4f, correct %.0f %%\n",
                  static_cast<long long>(p.epoch), p.loss, p.validation->loss,
                  100 * p.validation->metrics[0]);
    return true;
  };
  HG_TRY(
      trainer.fit(seen, {.epochs = 60, .batch = 20, .validation = &unseen, .on_progress = show}));
  HG_TRY_ASSIGN(const hg::Evaluation result, trainer.evaluate(unseen));
  std::printf("%.0f of %lld unseen images classified correctly\n",
              result.metrics[0] * static_cast<double>(count - kTrain),
              static_cast<long long>(count - kTrain));
  return file.empty() ? hg::Status() : trainer.save(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: train_mlp FOLDER [TRAINED.hgm]\n");
    return 1;
  }
  const hg::Status status = train(argv[1], argc > 2 ? argv[2] : "");
  if (!status.ok()) std::fprintf(stderr, "train_mlp: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
