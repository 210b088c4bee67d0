// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/draft_rows.h"

#include <algorithm>
#include <utility>

namespace hg {
namespace {

// A token that no later token of the row sees.
void push_unused(DecoderSession& decoder, size_t row, const DraftText& text) {
  decoder.push(row, text.ids[0], 0, false);
}

int64_t same_tokens(std::span<const int32_t> text, std::span<const int32_t> read) {
  const auto [end, other] =
      std::mismatch(text.begin(), text.end() - 1, read.begin(), read.end());  // reads at least one
  return end - text.begin();
}

}  // namespace

Status DraftRows::check(const DecoderSession& decoder) {
  HG_TRY(decoder.check_speculation());
  return decoder.check_rows("draft for several sequences");
}

// Drops from the rows what the texts do not begin with. Returns whether the rows can be continued.
Result<bool> DraftRows::resume(DecoderSession& decoder, std::span<const DraftText> texts,
                               Rows& read, int64_t columns) {
  if (read.size() != texts.size()) return false;
  std::vector<int64_t> dropped(texts.size(), 0);
  int64_t longest = 0, time = 0, most = 0;
  for (size_t row = 0; row < texts.size(); ++row) {
    const DraftText& text = texts[row];
    if (text.most == 0) continue;
    const int64_t same = same_tokens(text.ids, read[row]);
    if (same == 0) return false;
    dropped[row] = std::ssize(read[row]) - same;
    read[row].resize(static_cast<size_t>(same));
    longest = std::max(longest, same);
    time = std::max(time, std::ssize(text.ids) - same);
    most = std::max(most, text.most);
  }
  const int64_t last = *std::max_element(dropped.begin(), dropped.end());
  const int64_t more = time + most - 1;  // positions of this call
  if (longest + more > columns || !decoder.can_roll_back(decoder.past() - last)) return false;
  if (last > 0) {
    std::vector<int64_t> kept(texts.size(), 0);
    for (size_t row = 0; row < texts.size(); ++row)
      if (texts[row].most > 0) kept[row] = last - dropped[row];
    const int64_t all = *std::max_element(kept.begin(), kept.end());
    for (size_t row = 0; row < texts.size(); ++row)
      if (texts[row].most == 0) kept[row] = all;
    HG_TRY(decoder.keep_new(kept, last));
  }
  // Moving columns costs as much as reading them.
  const int64_t unused = decoder.past() - longest;
  if (unused > 0 && (unused >= longest || decoder.past() + more > columns))
    HG_TRY(decoder.drop_columns(unused));
  return true;
}

Result<std::vector<std::vector<int32_t>>> DraftRows::propose(DecoderSession& decoder,
                                                             std::span<const DraftText> texts,
                                                             int64_t columns,
                                                             std::stop_token stop) {
  Rows proposed(texts.size()), text(texts.size());
  int64_t most = 0, longest = 0;
  for (const DraftText& each : texts) {
    if (each.most == 0) continue;
    most = std::max(most, each.most);
    longest = std::max(longest, std::ssize(each.ids));
  }
  if (most == 0) return proposed;
  Rows read = std::exchange(read_, {});  // set again when all runs have succeeded
  HG_TRY_ASSIGN(const bool continues, resume(decoder, texts, read, columns));
  if (!continues) {
    read.assign(texts.size(), {});
    HG_TRY(decoder.start(std::ssize(texts), longest + most));
  }
  int64_t time = 0, least = longest;  // new tokens of the rows
  for (size_t row = 0; row < texts.size(); ++row) {
    if (texts[row].most == 0) continue;
    text[row].assign(texts[row].ids.begin(), texts[row].ids.end());
    const int64_t more = std::ssize(text[row]) - std::ssize(read[row]);
    time = std::max(time, more);
    least = std::min(least, more);
  }
  std::vector<int64_t> fresh(texts.size(), time);
  for (size_t row = 0; row < texts.size(); ++row) {
    const auto same = std::ssize(read[row]);
    if (texts[row].most > 0) fresh[row] = std::ssize(text[row]) - same;
    // Padding precedes whole texts. In a row with a past it would widen the distances that sliding
    // windows measure, so unused tokens follow and are dropped.
    if (!continues && texts[row].most > 0)
      for (int64_t i = fresh[row]; i < time; ++i) decoder.push(row, text[row][0], 0, true);
    for (int64_t i = same; i < std::ssize(text[row]); ++i)
      decoder.push(row, text[row][static_cast<size_t>(i)], i, false);
    const int64_t unused = texts[row].most == 0 ? time : continues ? time - fresh[row] : 0;
    for (int64_t i = 0; i < unused; ++i) push_unused(decoder, row, texts[row]);
  }
  if (continues) decoder.keep_logits(time - least + 1);
  std::vector<float> logits;
  for (int64_t i = 0; i < most; ++i) {
    HG_TRY(decoder.run(stop));
    for (size_t row = 0; row < texts.size(); ++row) {
      if (i >= texts[row].most) continue;
      HG_TRY(decoder.logits(row, logits, i == 0 && continues ? time - fresh[row] : 0));
      HG_TRY_ASSIGN(
          const int32_t id,
          texts[row].sampler->choose(logits, text[row], texts[row].step + static_cast<uint64_t>(i),
                                     texts[row].draws));
      proposed[row].push_back(id);
    }
    if (i == 0 && continues && least < time) HG_TRY(decoder.keep_new(fresh, time));
    if (i == 0) read = text;
    for (size_t row = 0; row < texts.size() && i + 1 < most; ++row) {
      const bool goes_on = i + 1 < texts[row].most;
      if (goes_on)
        decoder.push(row, proposed[row].back(), std::ssize(text[row]), false);
      else
        push_unused(decoder, row, texts[row]);
      read[row].push_back(goes_on ? proposed[row].back() : -1);
      if (goes_on) text[row].push_back(proposed[row].back());
    }
  }
  read_ = std::move(read);
  return proposed;
}

}  // namespace hg
