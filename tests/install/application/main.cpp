// SPDX-License-Identifier: Apache-2.0
// Runs the model of tests/c/model.cpp on one row.
#include <array>
#include <cstdio>
#include <string>

#include "hg/hg.h"

hg::Status run(const char* file) {
  const std::array<float, 3> x = {1, 1, 0.5};
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::load(file));
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model));
  HG_TRY(session.set_input("x", hg::view(x, {1, 3})));
  HG_TRY(session.run());
  HG_TRY_ASSIGN(const hg::Tensor y, session.output("y"));
  std::printf("y %g %g\n", y.as<float>()[0], y.as<float>()[1]);
  return {};
}

int main(int argc, char** argv) {
  const hg::Status status = run(argc > 1 ? argv[1] : "model.hgm");
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
