// SPDX-License-Identifier: Apache-2.0
#include "converter/check/fitting_sizes.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace hg::convert {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 22;  // total of all inputs
constexpr int64_t kMostMultiple = int64_t{1} << 17;  // audio samples
constexpr int64_t kMostScanned = 24;                 // sizes up to here are tried one by one
constexpr size_t kMostTries = 300;
constexpr size_t kMostAdmitted = 24;     // per wish
constexpr int64_t kMostSteps = 1 << 14;  // of the search per wish

std::vector<int64_t> numbers_in(std::string_view text) {
  std::vector<int64_t> numbers;
  for (size_t at = 0; at < text.size();) {
    int64_t number = 0;
    const auto [end, problem] =
        std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (problem == std::errc() && number > 0 && number <= kMostMultiple &&
        std::find(numbers.begin(), numbers.end(), number) == numbers.end())
      numbers.push_back(number);
    at = std::max(at + 1, static_cast<size_t>(end - text.data()));
  }
  return numbers;
}

// Returns the total number of elements of all inputs; nothing if the sizes are invalid.
std::optional<int64_t> elements(std::span<const InputSpec> specs, const Binding& sizes) {
  const Bindings bindings = bindings_of(sizes);
  int64_t sum = 0;
  for (const InputSpec& spec : specs) {
    const Result<Sizes> shape = evaluate(spec.type.shape, bindings);
    if (!shape.ok()) return std::nullopt;
    int64_t count = 1;
    for (const int64_t size : *shape) count *= std::min(size, kMostElements + 1);
    if (count > kMostElements) return std::nullopt;
    sum += count;
  }
  return sum;
}

// Whether a value of the graph has too many elements for a check, such as a mask of long inputs.
bool makes_large_values(const Graph& graph, const Binding& sizes) {
  constexpr int64_t kMostOfValue = int64_t{1} << 26;
  const auto is_usual = [](const auto& symbol) { return symbol.second <= 512; };
  if (std::all_of(sizes.begin(), sizes.end(), is_usual)) return false;
  const Bindings bindings = bindings_of(sizes);
  for (const Node& node : graph.nodes())
    for (const ValueId id : node.outputs) {
      const Result<Sizes> shape = evaluate(graph.value_info(id).type.shape, bindings);
      double count = 1;
      for (int d = 0; shape.ok() && d < shape->rank(); ++d)
        count *= static_cast<double>((*shape)[d]);
      if (shape.ok() && count > static_cast<double>(kMostOfValue)) return true;
    }
  return false;
}

void collect_guards(const Graph& graph, std::vector<const Guard*>& guards) {
  for (const Guard& guard : graph.guards()) guards.push_back(&guard);
  for (const Node& node : graph.nodes())
    for (const auto& subgraph : node.subgraphs) collect_guards(*subgraph, guards);
}

// Tries one symbol after another; backtracks if a guard fails.
class AdmittedSearch {
 public:
  // What the sizes together should satisfy, from best to merely sufficient.
  enum class Wish { all_different, all_new, new_batches, something_new };

  AdmittedSearch(std::span<const InputSpec> specs, const Job& job, const Graph& graph,
                 const Binding& asked, const std::optional<Binding>& earlier)
      : specs_(specs), earlier_(earlier), asked_(asked) {
    collect_guards(graph, guards_);
    std::set<int64_t> further;
    for (const Guard* guard : guards_)
      for (const Dim& side : {guard->left, guard->right})
        for (const int64_t number : numbers_in(str_cat(side)))
          for (const int64_t size :
               {number - 1, number, number + 1, 2 * number, 2 * number + 1, 3 * number})
            if (size > kMostScanned && size <= kMostMultiple) further.insert(size);
    for (int64_t size = 2; size <= kMostScanned; ++size) values_.push_back(size);
    values_.insert(values_.end(), further.begin(), further.end());
    values_.push_back(1);  // like 0, hides a confusion of two dims
    for (const auto& [symbol, size] : asked) {
      const bool given = std::any_of(
          job.check_sizes.begin(), job.check_sizes.end(),
          [&, &symbol = symbol](const SizeOption& option) { return option.symbol == symbol; });
      free_.push_back(!given);
      batch_.push_back(is_batch(specs, symbol));
    }
  }

  void search(Wish wish) {
    wish_ = wish;
    steps_ = kMostSteps;
    most_ = found_.size() + kMostAdmitted;
    Binding sizes;
    extend(sizes);
  }

  std::vector<Binding> take() { return std::move(found_); }

 private:
  bool is_wished(const Binding& sizes) const {
    const size_t s = sizes.size() - 1;
    const int64_t size = sizes[s].second;
    const bool repeats = earlier_ && (*earlier_)[s].second == size;
    if (wish_ == Wish::all_different)
      for (size_t i = 0; i < s; ++i)
        if (sizes[i].second == size) return false;
    if (wish_ == Wish::something_new || !repeats) return true;
    return wish_ == Wish::new_batches && !batch_[s];
  }

  bool is_admitted(const Binding& sizes) const {
    const Bindings bindings = bindings_of(sizes);
    return std::all_of(guards_.begin(), guards_.end(),
                       [&](const Guard* guard) { return check(*guard, bindings).ok(); });
  }

  void extend(Binding& sizes) {
    const size_t s = sizes.size();
    if (s == asked_.size()) {
      const bool known = std::find(found_.begin(), found_.end(), sizes) != found_.end();
      if (!known && (!earlier_ || sizes != *earlier_) && elements(specs_, sizes))
        found_.push_back(sizes);
      return;
    }
    const std::vector<int64_t> given = {asked_[s].second};
    for (const int64_t size : free_[s] ? values_ : given) {
      if (found_.size() >= most_ || --steps_ < 0) return;
      sizes.emplace_back(asked_[s].first, size);
      if ((!free_[s] || is_wished(sizes)) && is_admitted(sizes)) extend(sizes);
      sizes.pop_back();
    }
  }

  std::span<const InputSpec> specs_;
  const std::optional<Binding>& earlier_;
  const Binding& asked_;
  std::vector<const Guard*> guards_;
  std::vector<int64_t> values_;
  std::vector<bool> free_, batch_;  // by symbol of asked_
  Wish wish_ = Wish::all_different;
  int64_t steps_ = 0;
  size_t most_ = 0;
  std::vector<Binding> found_;
};

class Candidates {
 public:
  Candidates(std::span<const InputSpec> specs, const Job& job, const Binding& asked)
      : specs_(specs), asked_(asked) {
    for (size_t s = 0; s < asked.size(); ++s) {
      const std::string& symbol = asked[s].first;
      const bool is_given = std::any_of(
          job.check_sizes.begin(), job.check_sizes.end(),
          [&, &symbol = symbol](const SizeOption& option) { return option.symbol == symbol; });
      if (!is_given) (is_batch(specs, symbol) ? batches_ : others_).push_back(s);
    }
  }

  const std::vector<size_t>& batches() const { return batches_; }
  const std::vector<size_t>& others() const { return others_; }

  void add_alone(const std::vector<size_t>& symbols, int64_t size) {
    for (const size_t s : symbols)
      add([&](size_t i, int64_t other) { return i == s ? size : other; });
  }

  // Sorted as late as different sizes, because only those reveal a confusion of two dims.
  void add_together(int64_t size) {
    int64_t orders = 1;
    for (size_t place = 2; place <= others_.size(); ++place) orders *= static_cast<int64_t>(place);
    add_for_others([&](int64_t) { return size; }, orders);
  }

  // Sets all symbols with an example size in the file to that size times `times`.
  void add_example(const std::vector<SizeOption>& example, int64_t times) {
    if (example.empty()) return;
    add([&](size_t i, int64_t other) {
      for (const SizeOption& option : example)
        if (option.symbol == asked_[i].first && is_free(i)) return option.sizes.at(0) * times;
      return other;
    });
  }

  // Sets all sizes except batch sizes; `size_at` gets the position of each.
  template <class SizeAt>
  void add_for_others(const SizeAt& size_at, int64_t weight = 1) {
    add(
        [&](size_t i, int64_t other) {
          const auto at = std::find(others_.begin(), others_.end(), i);
          return at == others_.end() ? other : size_at(at - others_.begin());
        },
        weight);
  }

  std::vector<Binding> take_sorted() {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Binding> sorted;
    for (auto& [count, sizes] : found_) sorted.push_back(std::move(sizes));
    found_.clear();
    return sorted;
  }

 private:
  bool is_free(size_t s) const {
    return std::count(batches_.begin(), batches_.end(), s) +
               std::count(others_.begin(), others_.end(), s) >
           0;
  }

  template <class SizeOf>
  void add(const SizeOf& size_of, int64_t weight = 1) {
    Binding sizes = asked_;
    for (size_t s = 0; s < sizes.size(); ++s) sizes[s].second = size_of(s, sizes[s].second);
    const auto count = elements(specs_, sizes);
    if (count && sizes != asked_ && seen_.insert(sizes).second)
      found_.emplace_back(*count * weight, sizes);
  }

  std::span<const InputSpec> specs_;
  const Binding& asked_;
  std::vector<size_t> batches_, others_;  // positions in asked_
  std::vector<std::pair<int64_t, Binding>> found_;
  std::set<Binding> seen_;
};

}  // namespace

std::vector<Binding> fitting_sizes(std::span<const InputSpec> specs, const Job& job,
                                   const Graph& graph, const Binding& asked,
                                   std::string_view reason, const std::optional<Binding>& earlier) {
  Candidates candidates(specs, job, asked);
  std::vector<Binding> tries;
  for (const int64_t times : {1, 2, 3}) {
    candidates.add_example(job.examples, times);
    for (Binding& sizes : candidates.take_sorted()) tries.push_back(std::move(sizes));
  }
  for (const int64_t number : numbers_in(reason)) {
    candidates.add_together(number);
    candidates.add_alone(candidates.others(), number);
    candidates.add_alone(candidates.batches(), number);
  }
  for (Binding& sizes : candidates.take_sorted()) tries.push_back(std::move(sizes));
  // Nets that halve their input need multiples of 2^k, some of them the same for all dims.
  for (int64_t multiple = 1; multiple <= kMostMultiple; multiple *= 2) {
    for (const int64_t first : {1, 2, 3})
      candidates.add_for_others([&](int64_t place) { return multiple * (first + place); });
    candidates.add_together(multiple);
    if (multiple <= 64) candidates.add_alone(candidates.batches(), multiple);
  }
  for (int64_t size = 1; size <= kMostScanned; ++size) {
    candidates.add_together(size);
    candidates.add_alone(candidates.batches(), size);
  }
  for (Binding& sizes : candidates.take_sorted()) tries.push_back(std::move(sizes));
  if (earlier) {
    const auto repeats = [&](const Binding& sizes) {
      return [&](size_t s) { return sizes[s] == (*earlier)[s]; };
    };
    std::erase_if(tries, [&](const Binding& sizes) {
      const auto& all = candidates.batches().empty() ? candidates.others() : candidates.batches();
      return std::any_of(candidates.batches().begin(), candidates.batches().end(),
                         repeats(sizes)) ||
             std::all_of(all.begin(), all.end(), repeats(sizes));
    });
    std::stable_partition(tries.begin(), tries.end(), [&](const Binding& sizes) {
      return std::none_of(candidates.others().begin(), candidates.others().end(), repeats(sizes));
    });
  }
  if (tries.size() > kMostTries) tries.resize(kMostTries);
  std::erase_if(tries, [&](const Binding& sizes) { return makes_large_values(graph, sizes); });
  return tries;
}

std::vector<Binding> admitted_sizes(std::span<const InputSpec> specs, const Job& job,
                                    const Graph& graph, const Binding& asked,
                                    const std::optional<Binding>& earlier,
                                    bool may_repeat_batches) {
  using Wish = AdmittedSearch::Wish;
  AdmittedSearch search(specs, job, graph, asked, earlier);
  if (may_repeat_batches) {
    search.search(Wish::something_new);
  } else {
    for (const Wish wish : {Wish::all_different, Wish::all_new, Wish::new_batches})
      search.search(wish);
  }
  return search.take();
}

bool is_guarded(const Graph& graph, const Bindings& sizes) {
  const auto fails = [&](const Guard& guard) { return !check(guard, sizes).ok(); };
  const auto holds_guard = [&](const auto& subgraph) { return is_guarded(*subgraph, sizes); };
  return std::any_of(graph.guards().begin(), graph.guards().end(), fails) ||
         std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
           return std::any_of(node.subgraphs.begin(), node.subgraphs.end(), holds_guard);
         });
}

bool is_guarded(const Graph& graph, const Binding& sizes) {
  return is_guarded(graph, bindings_of(sizes));
}

}  // namespace hg::convert
