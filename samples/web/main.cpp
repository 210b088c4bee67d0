// SPDX-License-Identifier: Apache-2.0
// Functions that the page calls: load a model from bytes, then run one 8 x 8 image after another.
// Each call returns null, or a sentence that says what is wrong.
#include <emscripten/emscripten.h>

#include <array>
#include <optional>
#include <string>

#include "hg/hg.h"

namespace {

constexpr int kSide = 8, kDigits = 10;

struct Reader {
  std::array<float, kSide * kSide> pixels{};  // from 0, paper, to 1, ink
  std::array<float, kDigits> scores{};
  std::optional<hg::Session> session;
  std::string trouble;
} reader;

hg::Status load(std::span<const std::byte> bytes, int threads) {
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::read(bytes));
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model, {.threads = threads}));
  const hg::ConstTensor image =
      hg::view(std::span<const float>(reader.pixels), {1, 1, kSide, kSide});
  HG_TRY(session.set_input(0, image));  // borrowed: each run reads what the page wrote there
  HG_TRY(session.set_output(0, hg::view(std::span<float>(reader.scores), {1, kDigits})));
  reader.session = std::move(session);
  return {};
}

const char* trouble_of(const hg::Status& status) {
  if (status.ok()) return nullptr;
  reader.trouble = status.message();
  return reader.trouble.c_str();
}

}  // namespace

extern "C" {
EMSCRIPTEN_KEEPALIVE float* pixels() { return reader.pixels.data(); }
EMSCRIPTEN_KEEPALIVE float* scores() { return reader.scores.data(); }
EMSCRIPTEN_KEEPALIVE const char* load_model(const std::byte* bytes, size_t count, int threads) {
  return trouble_of(load({bytes, count}, threads));
}
EMSCRIPTEN_KEEPALIVE const char* read_digit() {
  return reader.session ? trouble_of(reader.session->run()) : "there is no model yet";
}
}
