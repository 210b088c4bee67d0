// SPDX-License-Identifier: Apache-2.0
// Random networks of named blocks, and for each the same graph built by hand.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "hg/create.h"
#include "hg/hg.h"
#include "hg/named.h"

namespace hg::test {

class RandomNamed {
 public:
  explicit RandomNamed(uint64_t seed, DType dtype = f64) : state_(seed), dtype_(dtype) {
    std::vector<nn::Block> blocks;
    std::vector<Item> items;
    for (int i = 0, count = 1 + below(2); i < count; ++i) {
      const int64_t width = 1 + below(6);
      const std::string name = str_cat("x", i);
      blocks.push_back(nn::Input(name, {"n", width}));
      items.push_back({name, graph.input(name, dtype, {"n", width}), width});
      data_widths.emplace_back(name, width);
    }
    fill(blocks, items, "", 0, 3 + below(8), items.back());
    const Item last = items.back();
    blocks.push_back(nn::Call("mul").input(last.name).input(last.name).output("square"));
    blocks.push_back(nn::Call("mean").output("loss"));
    const Value square = graph.call("mul", {last.value, last.value});
    nn::Block whole = nn::Group(blocks);
    model = whole.output("loss").output("result", last.name);
    graph.output("loss", graph.call("mean", {square}));
    graph.output("result", last.value);
  }

  int below(int64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<uint64_t>(n));
  }

  nn::Block model;
  Graph graph;  // inputs: data and parameters; outputs: loss, result
  std::vector<std::pair<std::string, int64_t>> data_widths;
  std::vector<std::pair<std::string, Sizes>> parameters;  // in the order of creation

 private:
  struct Item {
    std::string name;  // in this scope; empty: only the next block can read it
    Value value;
    int64_t width = 0;
  };

  bool chance(int percent) { return below(100) < percent; }
  const Item& any(const std::vector<Item>& items) {
    return items[below(static_cast<int64_t>(items.size()))];
  }

  Value parameter(const std::string& name, const Sizes& shape) {
    for (const auto& [known, value] : values_)
      if (known == name) return value;
    const Value value = graph.input(name, dtype_, to_shape(shape));
    values_.emplace_back(name, value);
    parameters.emplace_back(name, shape);
    return value;
  }

  // Adds blocks to a group; the last item is the result of its last block. `before` is the input of
  // the first block.
  void fill(std::vector<nn::Block>& blocks, std::vector<Item>& items, const std::string& path,
            int depth, int count, Item before) {
    for (int i = 0; i < count; ++i) {
      const bool is_last = i + 1 == count;
      std::string own = chance(60) || is_last ? str_cat("v", names_++) : "";
      const size_t number = blocks.size();
      const std::string name = own.empty() ? str_cat(static_cast<int64_t>(number)) : own;
      const std::string inner = path.empty() ? name : path + "." + name;
      const bool in_line = chance(40);
      const Item& from = in_line ? before : any(items);
      std::pair<nn::Block, Item> made = depth < 3 && chance(20)
                                            ? group(items, inner, depth, from)
                                            : leaf(items, inner, path, blocks, from);
      auto& [block, item] = made;
      if (block.inputs.empty() && !in_line) block = block.input(from.name);
      if (own.empty() && blocks.size() > number) own = name;  // blocks were added before it
      if (!own.empty()) block = chance(80) ? block.output(own) : block.named(own);
      item.name = name;
      blocks.push_back(block);
      items.push_back(item);
      before = item;
    }
  }

  std::pair<nn::Block, Item> group(const std::vector<Item>& outer, const std::string& path,
                                   int depth, const Item& from) {
    std::vector<nn::Block> blocks;
    // Hides outer values with the same name, and sees all others.
    std::vector<Item> items;
    for (const Item& item : outer)
      if (item.name.find_first_not_of("0123456789") != std::string::npos) items.push_back(item);
    items.push_back({"in", from.value, from.width});
    std::erase_if(items, [n = items.size(), i = size_t{0}](const Item& item) mutable {
      return ++i < n && item.name == "in";
    });
    Item first = items.back();
    fill(blocks, items, path, depth + 1, 1 + below(4), first);
    nn::Block block = nn::Group(blocks);
    return {block.input(from.name, "in"), {"", items.back().value, items.back().width}};
  }

  std::pair<nn::Block, Item> leaf(const std::vector<Item>& items, const std::string& path,
                                  const std::string& scope, std::vector<nn::Block>& blocks,
                                  const Item& x) {
    const auto value = [&](const Value& y, int64_t width) { return Item{"", y, width}; };
    switch (below(11)) {
      case 0: {  // shared with an earlier one of the same shape, now and then
        const int64_t width = 1 + below(6);
        for (const auto& [known, shape] : linears_)
          if (chance(30) && shape == (Sizes{width, x.width}))
            return {nn::Linear(width).share(known),
                    value(linear(x.value, parameter(known + ".weight", shape),
                                 parameter(known + ".bias", {width})),
                          width)};
        linears_.emplace_back(path, Sizes{width, x.width});
        return {chance(50) ? nn::Block(nn::Linear(width)) : nn::Block(nn::Linear(x.width, width)),
                value(linear(x.value, parameter(path + ".weight", {width, x.width}),
                             parameter(path + ".bias", {width})),
                      width)};
      }
      case 1:
        return {nn::Tanh(), value(tanh(x.value), x.width)};
      case 2:
        return {nn::Sigmoid(), value(sigmoid(x.value), x.width)};
      case 3:
        return {nn::GELU(), value(gelu(x.value), x.width)};
      case 4:
        return {nn::Softmax(-1), value(softmax(x.value, -1), x.width)};
      case 5:
        return {nn::LayerNorm({x.width}),
                value(graph.call("layer_norm",
                                 {x.value, parameter(path + ".weight", {x.width}),
                                  parameter(path + ".bias", {x.width})},
                                 {{"normalized_shape", {x.width}}}),
                      x.width)};
      case 6: {  // widths that broadcast
        std::vector<Item> fit;
        for (const Item& item : items)
          if (item.width == x.width || item.width == 1 || x.width == 1) fit.push_back(item);
        if (fit.empty()) break;
        const Item& y = any(fit);
        const char* const op = chance(50) ? "add" : "sub";
        return {nn::Call(op).input(x.name).input(y.name),
                value(graph.call(op, {x.value, y.value}), std::max(x.width, y.width))};
      }
      case 7: {
        const Item& y = any(items);
        if (x.width + y.width > 12) break;
        return {nn::Call("concat", {{"dim", 1}}).input(x.name).input(y.name),
                value(graph.call("concat", {x.value, y.value}, {{"dim", 1}}), x.width + y.width)};
      }
      case 8: {
        const std::string name = str_cat("p", names_++);
        blocks.push_back(nn::Parameter(name, {x.width}, init::uniform(-1, 1, 0)));
        const std::string whole = scope.empty() ? name : scope + "." + name;
        return {nn::Call("mul").input(x.name).input(name),
                value(graph.call("mul", {x.value, parameter(whole, {x.width})}), x.width)};
      }
      case 9: {
        const std::string name = str_cat("c", names_++);
        const Array constant = *randn({x.width}, static_cast<uint64_t>(names_), f32);
        blocks.push_back(nn::Constant(name, constant));
        return {nn::Call("add").input(name).input(x.name),
                value(graph.call("add", {graph.constant(*cast(constant, dtype_)->data()), x.value}),
                      x.width)};
      }
      default:
        break;
    }
    return {nn::Dropout(0.5), value(x.value * 1.0, x.width)};
  }

  uint64_t state_;
  DType dtype_;
  int64_t names_ = 0;
  std::vector<std::pair<std::string, Value>> values_;
  std::vector<std::pair<std::string, Sizes>> linears_;
};

}  // namespace hg::test
