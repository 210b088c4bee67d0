// SPDX-License-Identifier: Apache-2.0
// Byte pair encoding (Sennrich et al. 2016): merges the neighbors with the best merge until no
// merge applies.
#include <queue>

#include "lib/text/token_model.h"
#include "lib/text/unicode.h"

namespace hg {
namespace {

class Bpe : public TokenModel {
 public:
  Status init(BpeSettings settings, std::string_view name) {
    set_ids(std::move(settings.ids));
    if (settings.unknown) {
      unknown_ = id_of(*settings.unknown);
      if (!unknown_)
        return corrupt_model(name, ": the unknown token '", *settings.unknown, "' has no id");
    }
    int32_t rank = 0;
    for (const auto& [left, right] : settings.merges) {
      const auto a = id_of(left), b = id_of(right);
      if (!a || !b)
        return corrupt_model(name, ": merge ", rank, " joins '", left, "' and '", right, "', but '",
                             a ? right : left, "' is not in the vocabulary");
      if (right.size() < settings.prefix.size())
        return corrupt_model(name, ": merge ", rank, " has '", right,
                             "', which is shorter than the prefix '", settings.prefix, "'");
      const std::string joined = left + right.substr(settings.prefix.size());
      const auto id = id_of(joined);
      if (!id)
        return corrupt_model(name, ": merge ", rank, " makes '", joined,
                             "', which is not in the vocabulary");
      merges_[key(*a, *b)] = {rank++, *id};
    }
    prefix_ = std::move(settings.prefix);
    suffix_ = std::move(settings.suffix);
    fuse_unknown_ = settings.fuse_unknown;
    byte_fallback_ = settings.byte_fallback;
    ignore_merges_ = settings.ignore_merges;
    return {};
  }

  Status encode(std::string_view text, std::vector<int32_t>& ids) const override {
    if (ignore_merges_) {
      if (const auto id = id_of(text)) {
        ids.push_back(*id);
        return {};
      }
    }
    std::vector<Symbol> symbols = characters(text);
    join(symbols);
    for (const Symbol& symbol : symbols)
      if (symbol.id >= 0) ids.push_back(symbol.id);
    return {};
  }

 private:
  struct Merge {
    int32_t rank, id;
  };
  struct Symbol {
    int32_t id;  // -1: merged into its left neighbor
    int32_t previous, next;
  };
  struct Candidate {
    int32_t rank, left, id;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  static uint64_t key(int32_t a, int32_t b) {
    return uint64_t{static_cast<uint32_t>(a)} << 32 | static_cast<uint32_t>(b);
  }

  // A pending unknown character is written before the next known one. It therefore follows the
  // bytes of a character between them, as in the package `tokenizers`.
  std::vector<Symbol> characters(std::string_view text) const {
    std::vector<Symbol> symbols;
    const auto push = [&](int32_t id) {
      const auto i = static_cast<int32_t>(symbols.size());
      symbols.push_back({id, i - 1, i + 1});
    };
    bool pending = false;
    std::string decorated;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      next_char(text, at);
      std::string_view part = text.substr(begin, at - begin);
      if ((begin > 0 && !prefix_.empty()) || (at == text.size() && !suffix_.empty())) {
        decorated = begin > 0 ? prefix_ : "";
        decorated += part;
        if (at == text.size()) decorated += suffix_;
        part = decorated;
      }
      if (const auto id = id_of(part)) {
        if (pending) push(*unknown_);
        pending = false;
        push(*id);
        continue;
      }
      if (byte_fallback_) {
        if (const auto bytes = ids_of_bytes(*this, part)) {
          for (const int32_t id : *bytes) push(id);
          continue;
        }
      }
      if (!unknown_) continue;
      if (pending && !fuse_unknown_) push(*unknown_);
      pending = true;
    }
    if (pending) push(*unknown_);
    if (!symbols.empty()) symbols.back().next = -1;
    return symbols;
  }

  void join(std::vector<Symbol>& symbols) const {
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    const auto offer = [&](int32_t left) {
      if (left < 0) return;
      const Symbol& a = symbols[static_cast<size_t>(left)];
      if (a.next < 0) return;
      const auto found = merges_.find(key(a.id, symbols[static_cast<size_t>(a.next)].id));
      if (found != merges_.end()) queue.push({found->second.rank, left, found->second.id});
    };
    for (size_t i = 0; i < symbols.size(); ++i) offer(static_cast<int32_t>(i));
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& left = symbols[static_cast<size_t>(best.left)];
      if (left.id < 0 || left.next < 0) continue;
      Symbol& right = symbols[static_cast<size_t>(left.next)];
      const auto found = merges_.find(key(left.id, right.id));
      if (found == merges_.end() || found->second.id != best.id) continue;  // outdated
      left.id = best.id;
      right.id = -1;
      left.next = right.next;
      if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.left;
      offer(left.previous);
      offer(best.left);
    }
  }

  std::unordered_map<uint64_t, Merge> merges_;
  std::optional<int32_t> unknown_;
  std::string prefix_, suffix_;
  bool fuse_unknown_ = false, byte_fallback_ = false, ignore_merges_ = false;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> make_bpe(BpeSettings settings, std::string_view name) {
  auto model = std::make_unique<Bpe>();
  HG_TRY(model->init(std::move(settings), name));
  return std::unique_ptr<TokenModel>(std::move(model));
}

}  // namespace hg
