// SPDX-License-Identifier: Apache-2.0
// Unigram (Kudo 2018): splits a text with the largest sum of scores, by Viterbi's algorithm.
#include <algorithm>
#include <limits>
#include <utility>

#include "lib/text/prefix_table.h"
#include "lib/text/token_model.h"
#include "lib/text/unicode.h"

namespace hg {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score, as in SentencePiece

class Unigram : public TokenModel {
 public:
  Status init(UnigramSettings settings, std::string_view name) {
    if (settings.unknown && size_t(*settings.unknown) >= settings.tokens.size())
      return corrupt_model(name, ": the unknown token ", *settings.unknown, " is not among ",
                           uint64_t{settings.tokens.size()}, " tokens");
    Ids ids;
    std::map<int32_t, std::string> hidden;  // equal tokens: all except the last
    std::vector<std::pair<std::string, int32_t>> texts;
    double lowest = std::numeric_limits<double>::infinity();
    for (const auto& [token, score] : settings.tokens) {
      const auto id = static_cast<int32_t>(scores_.size());
      const auto [known, is_new] = ids.emplace(token, id);
      if (!is_new) hidden[std::exchange(known->second, id)] = token;
      texts.emplace_back(token, id);
      scores_.push_back(score);
      lowest = std::min(lowest, score);
    }
    set_ids(std::move(ids), std::move(hidden));
    table_ = PrefixTable(std::move(texts));
    unknown_ = settings.unknown;
    unknown_score_ = lowest - kUnknownPenalty;
    byte_fallback_ = settings.byte_fallback;
    return {};
  }

  Status encode(std::string_view text, std::vector<int32_t>& ids) const override {
    struct Best {
      double score = 0;
      size_t begin = 0;
      int32_t id = -1;  // -1: not reached
    };
    std::vector<Best> best(text.size() + 1);  // best splits that end here
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      next_char(text, at);
      const double before = best[begin].score;
      const auto offer = [&](size_t end, double score, int32_t id) {
        Best& to = best[end];
        if (to.id < 0 || score > to.score) to = {score, begin, id};
      };
      bool has_char = false;
      table_.each_prefix(text.substr(begin), [&](size_t length, int32_t id) {
        offer(begin + length, scores_[static_cast<size_t>(id)] + before, id);
        has_char |= begin + length == at;
      });
      if (has_char) continue;
      if (!unknown_)
        return invalid_argument("the vocabulary has neither the character '",
                                text.substr(begin, at - begin), "' nor an unknown token");
      offer(at, unknown_score_ + before, *unknown_);
    }
    // Adjacent unknown characters form one token.
    std::vector<std::pair<size_t, size_t>> parts;
    bool in_unknown = false;
    for (size_t end = text.size(); end > 0; end = best[end].begin) {
      const bool is_unknown = unknown_ && best[end].id == *unknown_;
      if (is_unknown && in_unknown)
        parts.back().first = best[end].begin;
      else
        parts.emplace_back(best[end].begin, end);
      in_unknown = is_unknown;
    }
    std::reverse(parts.begin(), parts.end());
    for (const auto& [begin, end] : parts) {
      const std::string_view part = text.substr(begin, end - begin);
      if (const auto id = id_of(part)) {
        ids.push_back(*id);
        continue;
      }
      if (byte_fallback_) {
        if (const auto bytes = ids_of_bytes(*this, part)) {
          ids.insert(ids.end(), bytes->begin(), bytes->end());
          continue;
        }
      }
      ids.push_back(*unknown_);
    }
    return {};
  }

 private:
  PrefixTable table_;
  std::vector<double> scores_;
  std::optional<int32_t> unknown_;
  double unknown_score_ = 0;
  bool byte_fallback_ = false;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> make_unigram(UnigramSettings settings, std::string_view name) {
  auto model = std::make_unique<Unigram>();
  HG_TRY(model->init(std::move(settings), name));
  return std::unique_ptr<TokenModel>(std::move(model));
}

}  // namespace hg
