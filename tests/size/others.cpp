// SPDX-License-Identifier: Apache-2.0
// others OP.hgm DTYPE.hgm ACTIVATION.hgm: writes a model with an op that image networks lack, one
// in f64, and one that uses an activation without its op.
#include <cstdio>

#include "hg/hg.h"

namespace {

hg::Status save(hg::Graph graph, const char* path) {
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  return model.save(path);
}

hg::Status write(const char* op, const char* dtype, const char* activation) {
  hg::Graph sums;
  sums.output("y", sums.call("cumsum", {sums.input("x", hg::f32, {"n", 8})}, {{"dim", 1}}));
  HG_TRY(save(std::move(sums), op));
  hg::Graph doubles;
  const hg::Value x = doubles.input("x", hg::f64, {"n", 8});
  doubles.output("y", doubles.call("add", {x, x}));
  HG_TRY(save(std::move(doubles), dtype));
  hg::Graph product;
  const hg::Value weight = product.buffer("w", *hg::TensorData::allocate(hg::f32, {8, 8}));
  product.output("y", product.call("linear", {product.input("x", hg::f32, {"n", 8}), weight},
                                   {{"activation", "gelu"}}));
  return save(std::move(product), activation);
}

}  // namespace

int main(int argc, char** argv) {
  const hg::Status status =
      argc == 4 ? write(argv[1], argv[2], argv[3])
                : hg::invalid_argument("usage: others OP.hgm DTYPE.hgm ACTIVATION.hgm");
  if (!status.ok()) std::fprintf(stderr, "others: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
