// SPDX-License-Identifier: Apache-2.0
// Steps are on the x axis, offsets on the y axis; a curve shows the live bytes at each step.
#include "tools/draw/draw_memory.h"

#include <algorithm>
#include <vector>

#include "tools/command_line/cli.h"
#include "tools/draw/svg.h"

namespace hg::tools {
namespace {

constexpr double kMemoryHeight = 560, kLeast = 640, kMost = 2400, kStepWidth = 36;
constexpr std::string_view kFills[] = {"#bae3ff", "#c1eac5", "#ffe3a3", "#ffc9d6",
                                       "#d9c9f5", "#b5ece5", "#f7d9c0", "#d3dbe5"};
constexpr std::string_view kStrokes[] = {"#2680c2", "#3f9142", "#b8860b", "#c2255c",
                                         "#653cad", "#17867b", "#b35c1e", "#616e7c"};

// A round number of bytes that divides the axis into about five parts.
int64_t tick_bytes(int64_t whole) {
  int64_t tick = 1;
  while (tick * 6 < whole) tick *= 2;
  return tick;
}

}  // namespace

std::string draw_memory(std::span<const ArenaBlock> blocks, const Memory& memory,
                        const std::string& title) {
  int steps = 1;
  int64_t whole = 1;
  for (const ArenaBlock& block : blocks) {
    steps = std::max(steps, block.last_step + 1);
    whole = std::max(whole, block.offset + block.bytes);
  }
  whole = std::max(whole, memory.arena_lower_bound);
  const double width = std::clamp(steps * kStepWidth, kLeast, kMost);
  const double per_step = width / steps, per_byte = kMemoryHeight / static_cast<double>(whole);
  const auto y_of = [&](int64_t offset) {
    return kMemoryHeight - static_cast<double>(offset) * per_byte;
  };

  Svg svg;
  svg.text({0, -34, 16, "#1f2933", "start", true}, title);
  svg.text({0, -16, 11, "#52606d", "start", false},
           str_cat("arena ", bytes_text(memory.arena_bytes), ", lower bound ",
                   bytes_text(memory.arena_lower_bound), ", ", uint64_t{blocks.size()}, " blocks, ",
                   steps, " steps; the black line is what is alive"));
  svg.rect({0, 0, width, kMemoryHeight, 0, "#fbfcfd", "#9aa5b1", 1, ""});
  const int64_t tick = tick_bytes(whole);
  for (int64_t at = 0; at <= whole; at += tick) {
    svg.line({-5, y_of(at)}, {width, y_of(at)}, "#e4e7eb", 1);
    svg.text({-9, y_of(at) + 4, 10, "#52606d", "end", false}, bytes_text(at));
  }
  const int step_tick = std::max(1, steps / 10);
  for (int step = 0; step < steps; step += step_tick) {
    const double x = (step + 0.5) * per_step;
    svg.text({x, kMemoryHeight + 16, 10, "#52606d", "middle", false}, str_cat(step));
  }
  svg.text({width / 2, kMemoryHeight + 34, 11, "#52606d", "middle", false}, "step");

  for (size_t i = 0; i < blocks.size(); ++i) {
    const ArenaBlock& block = blocks[i];
    const double x = block.first_step * per_step;
    const double w = (block.last_step - block.first_step + 1) * per_step;
    const double h = static_cast<double>(block.bytes) * per_byte;
    const double y = y_of(block.offset + block.bytes);
    const size_t colour = i % std::size(kFills);
    svg.rect({x, y, w, h, 0, kFills[colour], kStrokes[colour], 0.6,
              str_cat(block.value, ": ", block.bytes, " bytes at ", block.offset, ", steps ",
                      block.first_step, " to ", block.last_step)});
    std::string label = str_cat(block.value, " ", bytes_text(block.bytes));
    if (Svg::text_width(label, 9) + 4 > w) label = block.value;
    if (h >= 11 && Svg::text_width(label, 9) + 4 < w) {
      svg.text({x + w / 2, y + h / 2 + 3, 9, "#243b53", "middle", false}, label);
    }
  }

  std::vector<int64_t> change(steps + 1, 0);
  for (const ArenaBlock& block : blocks) {
    change[block.first_step] += block.bytes;
    change[block.last_step + 1] -= block.bytes;
  }
  int64_t alive = 0;
  Point last{0, kMemoryHeight};
  for (int step = 0; step < steps; ++step) {
    alive += change[step];
    const Point corner{step * per_step, y_of(alive)};
    svg.line({corner.x, last.y}, corner, "#102a43", 1.6);
    last = {(step + 1) * per_step, corner.y};
    svg.line(corner, last, "#102a43", 1.6);
  }
  const double bound = y_of(memory.arena_lower_bound);
  svg.line({0, bound}, {width, bound}, "#ba2525", 1.2, true);
  svg.text({width + 6, bound + 4, 10, "#ba2525", "start", false}, "lower bound");
  return svg.finish(width, kMemoryHeight + 20, 80);
}

}  // namespace hg::tools
