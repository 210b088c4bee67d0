// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/optimizer.cpp.
#include <tuple>

#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> optimizer() {
  std::vector<Sample> all;
  const SampleInput none = {.dtype = f32, .shape = {}, .given = false};
  const SampleInput lr = {.dtype = f32, .shape = {2}, .values = {0.25, 0.0625}};
  const SampleInput scale = {.dtype = f32, .shape = {}, .values = {0.5}};
  for (const auto& [shape, first, rows] : {std::tuple(Sizes{}, 0, 0),
                                           {Sizes{3, 7}, 0, 3},
                                           {Sizes{2039}, 0, 2039},
                                           {Sizes{5, 7}, 0, 2},
                                           {Sizes{5, 7}, 1, 2},
                                           {Sizes{2039}, 11, 2028}}) {
    Sizes part = shape;
    if (part.rank() > 0) part[0] = rows;
    const SampleInput x = {.shape = shape}, g = {.shape = part};
    const SampleInput square = {.shape = shape, .low = 1, .high = 2};  // above mean^2
    for (const double count : {1.0, 3.0}) {
      const SampleInput step = {.dtype = i64, .shape = {}, .values = {count}};
      for (const double going : {0.0, 1.0}) {
        const SampleInput go = {.dtype = boolean, .shape = {}, .values = {going}};
        auto add = [&, first = first](std::string_view op, std::vector<SampleInput> states,
                                      NamedAttrs attrs, bool all_inputs) {
          states.push_back(all_inputs ? x : none);
          states.insert(states.end(), {g, lr, step});
          if (all_inputs) states.insert(states.end(), {scale, go});
          if (first > 0) attrs.push_back({"first", first});
          const bool has_variance = op == "rmsprop_step";  // square - mean^2 must be positive
          all.push_back({.op = op,
                         .inputs = std::move(states),
                         .attrs = std::move(attrs),
                         .twice = !has_variance});
        };
        if (going != 0) {
          add("sgd_step", {x, none}, {}, false);
          add("sgd_step", {x, x}, {{"momentum", 0.5}, {"weight_decay", 0.25}}, false);
          add("adam_step", {x, x, square, none}, {}, false);
          add("rmsprop_step", {x, square, none, none}, {}, false);
          add("rmsprop_step", {x, square, x, none}, {{"maximize", true}}, false);
        }
        add("sgd_step", {x, none}, {{"group", 1}, {"clip_value", 0.25}}, true);
        add("sgd_step", {x, x}, {{"momentum", 0.5}, {"dampening", 0.25}, {"maximize", true}}, true);
        add("sgd_step", {x, x}, {{"momentum", 0.5}, {"nesterov", true}}, true);
        add("adam_step", {x, x, square, square},
            {{"beta1", 0.75}, {"beta2", 0.5}, {"weight_decay", 0.25}, {"clip_value", 0.25}}, true);
        add("adam_step", {x, x, square, none},
            {{"weight_decay", 0.25}, {"decoupled", true}, {"group", 1}}, true);
        add("rmsprop_step", {x, square, x, x},
            {{"alpha", 0.5}, {"momentum", 0.5}, {"weight_decay", 0.25}}, true);
        add("rmsprop_step", {x, square, none, x}, {{"momentum", 0.5}, {"clip_value", 0.25}}, true);
      }
    }
  }
  return all;
}

}  // namespace hg::test::samples
