// SPDX-License-Identifier: Apache-2.0
// A model of named blocks, trained by the application's own optimizer.
#include <algorithm>
#include <cstdio>
#include <string>

#include "hg/create.h"
#include "hg/hg.h"
#include "hg/named.h"

namespace nn = hg::nn;

namespace {

// x + f(x), used more than once.
nn::Block residual(int64_t width) {
  return nn::Group{nn::Linear(2 * width).named("up"), nn::GELU(),
                   nn::Linear(width).named("down").output("change"),
                   nn::Call("add").input("h").input("change").output("sum")};
}

nn::Group model() {
  return {nn::Input("x", {"n", 2}),
          nn::Input("target", {"n", 1}),
          nn::Linear(16).input("x").output("hidden"),
          residual(16).input("hidden", "h").output("first"),
          residual(16).input("first", "h").output("second"),
          nn::Linear(1).output("y"),
          nn::MSELoss().input("y").input("target").output("loss")};
}

hg::Status learn_to_multiply() {
  HG_TRY_ASSIGN(nn::Program program, nn::compile(model(), {.session = {.threads = 1}}));
  std::printf("%s", program.summary().c_str());
  HG_TRY_ASSIGN(hg::NamedArrays parameters, program.initial_parameters(1));
  HG_TRY_ASSIGN(hg::NamedArrays speed, program.initial_parameters());
  for (auto& [name, array] : speed) std::fill_n(array.write<float>(), array.count(), 0.0f);

  HG_TRY_ASSIGN(const hg::Array x, hg::randn({128, 2}, 2));
  HG_TRY_ASSIGN(hg::Array target, hg::zeros({128, 1}));
  for (int64_t i = 0; i < 128; ++i)
    target.write<float>()[i] = x.as<float>()[2 * i] * x.as<float>()[2 * i + 1];

  nn::Gradients gradients;
  for (int step = 0; step < 500; ++step) {
    HG_TRY(
        program.evaluate_gradients_into(parameters, {{"x", x}, {"target", target}}, {}, gradients));
    for (size_t p = 0; p < parameters.size(); ++p) {
      float *const w = parameters[p].second.write<float>(), *const v =
                                                                speed[p].second.write<float>();
      const float* const gradient = gradients.parameters[p].second.as<float>();
      for (int64_t i = 0; i < parameters[p].second.count(); ++i) {
        v[i] = 0.9f * v[i] + gradient[i];
        w[i] -= 0.02f * v[i];
      }
    }
  }
  std::printf("the loss ends at %.4f\n", *gradients.outputs["loss"].as<float>());

  // The same parameters in an inference program, with a look at its inner values.
  HG_TRY_ASSIGN(nn::Program answers, nn::compile(nn::Block(model()).output("y")));
  const auto look = [](const nn::Intermediate& v) {
    std::printf("%s lies in [%.2f, %.2f]\n", std::string(v.name).c_str(), v.min, v.max);
  };
  HG_TRY(answers.add_hook("second.change", look).status());
  HG_TRY_ASSIGN(const hg::Array pair, hg::full({1, 2}, 1.5));
  HG_TRY_ASSIGN(const hg::NamedArrays y, answers.evaluate(parameters, {{"x", pair}}));
  std::printf("1.5 * 1.5 is about %.1f\n", *y["y"].as<float>());
  return {};
}

}  // namespace

int main() {
  const hg::Status status = learn_to_multiply();
  if (!status.ok()) std::fprintf(stderr, "named: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
