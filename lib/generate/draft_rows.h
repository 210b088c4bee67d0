// SPDX-License-Identifier: Apache-2.0
// Proposes tokens for several texts at once with a small model.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "hg/sampler.h"
#include "lib/generate/decoder_session.h"

namespace hg {

struct DraftText {
  std::span<const int32_t> ids;
  int64_t most = 0;   // tokens to propose; 0: the text has no row that can be continued later
  uint64_t step = 0;  // draws of the sampler for the first of them
  const Sampler* sampler = nullptr;
  uint32_t draws = 0;  // of the sampler's seed
};

// Remembers what the rows of a session have read. Each call drops the tokens that the texts no
// longer have, and reads the new ones.
class DraftRows {
 public:
  // Fails with unsupported if the rows of the model cannot drop tokens.
  static Status check(const DecoderSession& decoder);
  // Returns texts[row].most tokens for each row. `columns`: most positions that a run may have.
  Result<std::vector<std::vector<int32_t>>> propose(DecoderSession& decoder,
                                                    std::span<const DraftText> texts,
                                                    int64_t columns, std::stop_token stop);
  // Call it when the session reads something else.
  void forget() { read_.clear(); }

 private:
  using Rows = std::vector<std::vector<int32_t>>;
  static Result<bool> resume(DecoderSession& decoder, std::span<const DraftText> texts, Rows& read,
                             int64_t columns);

  Rows read_;  // -1: a token that the text does not have
};

}  // namespace hg
