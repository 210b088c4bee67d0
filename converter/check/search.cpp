// SPDX-License-Identifier: Apache-2.0
#include "converter/check/search.h"

#include <algorithm>

#include "lib/graph/split_mix.h"

namespace hg::convert {
namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 0, 12, 16, 17, 31, 33, 64, 65, 100, 129, 257};

const std::vector<int64_t>* sizes_of_job(const Job& job, const std::string& symbol) {
  for (const SizeOption& option : job.check_sizes)
    if (option.symbol == symbol) return &option.sizes;
  return nullptr;
}

}  // namespace

Search::Search(std::span<const InputSpec> specs, const Binding& base, const Job& job)
    : specs_(specs), base_(base), job_(job) {
  const auto add = [&](Binding sizes) {
    if (sizes != base_ && std::find(sizes_.begin(), sizes_.end(), sizes) == sizes_.end())
      sizes_.push_back(std::move(sizes));
  };
  const auto may_be = [&](const std::string& symbol, int64_t size) {
    const std::vector<int64_t>* given = sizes_of_job(job_, symbol);
    return !given || std::find(given->begin(), given->end(), size) != given->end();
  };
  for (const int64_t size : kSizes) {
    Binding all = base_;
    for (size_t s = 0; s < base_.size(); ++s) {
      if (!may_be(base_[s].first, size)) continue;
      all[s].second = size;
      Binding one = base_;
      one[s].second = size;
      add(std::move(one));
    }
    add(std::move(all));
  }
}

Binding Search::sizes_of(int number) const {
  if (sizes_.empty() || number < static_cast<int>(recipes().size())) return base_;
  // Half of them at sizes that are known to fit.
  const uint64_t random = split_mix_finish(job_.seed * 31 + static_cast<uint64_t>(number));
  return random % 2 == 0 ? base_ : sizes_[random / 2 % std::min<size_t>(sizes_.size(), 16)];
}

Search::Attempt Search::attempt(const Binding& sizes, int number, const Draw* integers) const {
  const size_t all = recipes().size();
  Attempt attempt;
  std::vector<const Recipe*> chosen(specs_.size(), nullptr);
  if (number < 0) {
    attempt.values = "the usual values";
  } else if (static_cast<size_t>(number) < all) {
    const Recipe& recipe = recipes()[number];
    std::fill(chosen.begin(), chosen.end(), &recipe);
    attempt.values = describe(recipe);
  } else {
    uint64_t state = job_.seed * 37 + static_cast<uint64_t>(number);
    for (const Recipe*& recipe : chosen) {
      state = split_mix(state);
      recipe = state % (all + 1) < all ? &recipes()[state % (all + 1)] : nullptr;
      attempt.values += str_cat(attempt.values.empty() ? "" : "; ",
                                recipe ? describe(*recipe) : "the usual values");
    }
  }
  if (integers != nullptr) attempt.values += str_cat("; ", describe(*integers));
  attempt.inputs =
      make_inputs(specs_, sizes, job_, chosen, static_cast<uint64_t>(number + 1) * 7919, integers);
  return attempt;
}

}  // namespace hg::convert
