// SPDX-License-Identifier: Apache-2.0
// Small networks quantized with samples answer as the plain loops of rounded_net.h.
#include "lib/platform/instruction_set.h"
#include "tests/quantize/rounded_net.h"

namespace hg {
namespace {

using test::kRounding;
using test::Layers;
using test::Numbers;

class Calibrated : test::RoundedNet {
 public:
  explicit Calibrated(uint64_t seed) : test::RoundedNet(seed) {}

  void run() {
    if (testing::Test::HasFailure()) return;
    const Model model = must(Model::from_graph(std::move(graph_)));
    std::vector<std::vector<std::vector<float>>> data;
    std::vector<std::vector<ConstTensor>> samples;
    for (int64_t i = 0, count = 1 + below(3); i < count; ++i) data.push_back(draw(1 + below(3), 1));
    for (const auto& one : data) samples.push_back(tensors(one));
    QuantizeOptions options;
    options.least = int64_t{1} << 40;  // these weights stay floats
    const Quantized made = must(quantize(model, samples, options, {.threads = 1}));
    const Model quantized =
        chance(50) ? must(Model::read(must(made.model.serialize()))) : made.model;
    for (const CalibratedLayer& layer : made.layers) layers_[layer.name] = layer;
    const std::set<size_t> read = read_layers();
    ASSERT_EQ(layers_.size(), read.size());
    expect_ranges(data, read);
    expect_integer_ops(quantized.graph());
    for (int i = 0; i < 2; ++i) {
      // New inputs, some of them outside the samples' ranges.
      const auto other = i == 0 ? data[0] : draw(1 + below(3), chance(50) ? 1 : 2.5f);
      expect_answers(quantized, other);
      if (i == 0) expect_near(model, quantized, other);
    }
  }

  static inline int64_t elements_ = 0, sure_ = 0;  // whose bound is what f32 rounds
  static inline double signal_ = 0, noise_ = 0;    // all, and those with a bound of f32's rounding

 private:
  // The ranges contain the inputs of layers in the samples.
  void expect_ranges(const std::vector<std::vector<std::vector<float>>>& data,
                     const std::set<size_t>& read) const {
    for (const auto& sample : data) {
      const std::vector<Numbers> all = computed(sample, nullptr);
      for (const size_t step : read) {
        const size_t x = steps_[step].inputs[0];
        const std::string& name = steps_[step].layer;
        const CalibratedLayer& layer = layers_.at(name);
        if (!layer.stays.empty()) {
          for (const double v : all[x].at) ASSERT_EQ(v, 0) << layer.stays;
          continue;
        }
        const double half = 0.501 * (double{layer.high} - layer.low) / 255;
        for (size_t i = 0; i < all[x].at.size(); ++i) {
          const double slack = half + all[x].off[i];
          ASSERT_GE(all[x].at[i], layer.low - slack) << name;
          ASSERT_LE(all[x].at[i], layer.high + slack) << name;
        }
      }
    }
  }

  void expect_integer_ops(const Graph& graph) const {
    int64_t floats = 0, integers = 0;
    for (const Node& node : graph.nodes()) {
      floats += node.op->name() == "conv" || node.op->name() == "linear";
      integers += node.op->name() == "conv_integer" || node.op->name() == "matmul_integer";
    }
    int64_t staying = 0;
    for (const auto& [name, layer] : layers_) staying += !layer.stays.empty();
    ASSERT_EQ(floats, staying);
    ASSERT_EQ(integers + floats, static_cast<int64_t>(layers_.size()));
  }

  std::vector<TensorData> outputs(const Model& model, const std::vector<ConstTensor>& inputs) {
    SessionOptions options = {.threads = static_cast<int>(1 + below(2))};
    if (chance(20)) options.disabled_passes = {"*"};
    options.low_memory = chance(10);
    Session session = must(Session::create(model, options));
    for (size_t i = 0; i < inputs.size(); ++i)
      EXPECT_TRUE(session.set_input(static_cast<int>(i), inputs[i]).ok());
    must(session.run());
    std::vector<TensorData> made;
    for (int i = 0; i < session.output_count(); ++i)
      made.push_back(must(TensorData::copy_of(must(session.output(i)))));
    return made;
  }

  void expect_answers(const Model& quantized, const std::vector<std::vector<float>>& data) {
    const std::vector<Numbers> want = computed(data, &layers_);
    const Isa best = chosen_isa();
    if (chance(40)) limit_isa(static_cast<Isa>(below(static_cast<int64_t>(best) + 1)));
    const std::vector<TensorData> got = outputs(quantized, tensors(data));
    limit_isa(best);
    for (size_t k = 0; k < got.size(); ++k) {
      const Numbers& y = want[results_[k]];
      ASSERT_EQ(got[k].tensor.shape, y.shape);
      double size = 0;
      for (const double v : y.at) size = std::max(size, std::abs(v));
      for (size_t i = 0; i < y.at.size(); ++i) {
        const double off = std::abs(got[k].tensor.as<float>()[i] - y.at[i]);
        ASSERT_LE(off, y.off[i] + size * kRounding)
            << "output " << k << ", element " << i << " is " << got[k].tensor.as<float>()[i]
            << ", not " << y.at[i] << "\n"
            << quantized.graph().text();
        ++elements_;
        sure_ += y.off[i] <= size * 1e-4;
      }
    }
  }

  void expect_near(const Model& model, const Model& quantized,
                   const std::vector<std::vector<float>>& data) {
    const std::vector<TensorData> want = outputs(model, tensors(data)),
                                  got = outputs(quantized, tensors(data));
    for (size_t k = 0; k < want.size(); ++k) {
      double signal = 0, noise = 0;
      for (int64_t i = 0; i < want[k].tensor.count(); ++i) {
        const double a = want[k].tensor.as<float>()[i], b = got[k].tensor.as<float>()[i];
        signal += a * a;
        noise += (a - b) * (a - b);
      }
      if (signal == 0) continue;
      signal_ += 1;
      noise_ += std::min(1.0, noise / signal);
    }
  }

  Layers layers_;
};

TEST(CalibrateRandom, NetworksAnswerAsPlainLoopsOfLevels) {
  test::for_cases(150, [](uint64_t i) { Calibrated(i + 500).run(); });
  // The bounds are tight enough to be useful, and levels are close to the numbers that they
  // replace.
  EXPECT_GT(static_cast<double>(Calibrated::sure_),
            0.6 * static_cast<double>(Calibrated::elements_));
  EXPECT_LT(Calibrated::noise_, 0.01 * Calibrated::signal_);
  RecordProperty("sure", static_cast<int>(100 * Calibrated::sure_ /
                                          std::max<int64_t>(1, Calibrated::elements_)));
}

}  // namespace
}  // namespace hg
