// SPDX-License-Identifier: Apache-2.0
#include "lib/run/sizes.h"

#include <algorithm>
#include <optional>

#include "lib/graph/access.h"

namespace hg {
namespace {

// The value of the only unknown symbol of a size, which has the value `at[i]` if the symbol is i.
// Nothing if the size is not linear in the symbol.
std::optional<int64_t> solution(const int64_t (&at)[3], int64_t size) {
  const int64_t slope = at[1] - at[0];
  if (slope == 0 || at[2] - at[1] != slope || (size - at[0]) % slope != 0) return std::nullopt;
  return (size - at[0]) / slope;
}

// Finds the one unknown symbol of a size such as 2*n + 1 from its value.
Status bind_expression(const Dim& dim, int64_t size, Bindings& bindings) {
  const Dim rest = dim.substitute(bindings);
  std::vector<std::string> unknown;
  rest.collect_symbols(unknown);
  if (unknown.size() == 1) {
    int64_t at[3] = {0, 0, 0};
    for (int64_t i = 0; i < 3; ++i) {
      Bindings trial;
      HG_TRY(trial.bind(unknown[0], i));
      HG_TRY_ASSIGN(at[i], rest.evaluate(trial));
    }
    if (const auto value = solution(at, size)) {
      HG_CHECK(*value >= 0, "the size ", dim, " is at ", size < at[0] ? "least " : "most ", at[0],
               ", not ", size);
      HG_TRY(bindings.bind(unknown[0], *value));
    }
  }
  HG_TRY_ASSIGN(const int64_t value, dim.evaluate(bindings));
  HG_CHECK(value == size, "the size ", dim, " is ", value, ", not ", size);
  return {};
}

class SizeBinder {
 public:
  SizeBinder(const Graph& graph, const SizeSources& sources, const Bindings& outer,
             std::vector<SizeOrigin>& origins)
      : graph_(graph),
        sources_(sources),
        outer_(outer),
        origins_(origins),
        symbols_(graph.symbols()) {}

  Result<Bindings> bind() {
    for (const auto& [symbol, value] : sources_.dims) HG_TRY(bind(symbol, value));
    // First plain symbols, then those of the enclosing graph, then expressions with one symbol that
    // is still unknown.
    HG_TRY(bind_inputs(true));
    for (const std::string& symbol : symbols_)
      if (const auto size = outer_.find(symbol); size && !bindings_.find(symbol))
        HG_TRY(bind(symbol, *size));
    HG_TRY(bind_inputs(false));
    for (const std::string& symbol : sources_.outer_symbols)
      if (const auto size = outer_.find(symbol)) HG_TRY(bindings_.bind(symbol, *size));
    for (const auto& [symbol, value] : sources_.fallback)
      if (!bindings_.find(symbol)) HG_TRY(bind(symbol, value));
    for (const std::string& symbol : symbols_)
      HG_CHECK(bindings_.find(symbol), "the size '", symbol,
               "' is not known; set the input that has it, or give it in `dims`");
    origins_.resize(bindings_.all().size());
    return std::move(bindings_);
  }

 private:
  Status bind(std::string_view symbol, int64_t value) {
    HG_CHECK(std::find(symbols_.begin(), symbols_.end(), symbol) != symbols_.end(),
             "the model has no size '", symbol, "'");
    HG_CHECK(value >= 0, "the size '", symbol, "' is ", value);
    return bindings_.bind(symbol, value);
  }

  // Input sizes that are plain symbols, or those that are expressions.
  Status bind_inputs(bool plain) {
    for (size_t i = 0; i < sources_.inputs.size(); ++i) {
      const Tensor& input = sources_.inputs[i];
      if (input.data == nullptr) continue;
      const ValueInfo& info = graph_.value_info(graph_.inputs()[i]);
      for (int d = 0; d < info.type.rank(); ++d) {
        const Dim& dim = info.type.shape[d];
        if (dim.is_constant() || dim.symbol().empty() == plain) continue;
        const size_t before = bindings_.all().size();
        const Status status = plain ? bind(dim.symbol(), input.shape[d])
                                    : bind_expression(dim, input.shape[d], bindings_);
        if (!status.ok())
          return invalid_argument("input '", info.name, "' of shape ", input.shape,
                                  " does not fit ", info.type, ": ", status.message());
        if (bindings_.all().size() == before) continue;
        origins_.resize(before);
        origins_.push_back({static_cast<int32_t>(i), d});
      }
    }
    return {};
  }

  const Graph& graph_;
  const SizeSources& sources_;
  const Bindings& outer_;
  std::vector<SizeOrigin>& origins_;
  std::vector<std::string> symbols_;
  Bindings bindings_;
};

// Binds the sizes of other inputs in place, without allocating. Other sources must be unchanged.
// Returns false if it is not certain that a SizeBinder would give the same.
bool bind_again(const Graph& graph, std::span<const Tensor> inputs,
                std::span<const SizeOrigin> origins, Bindings& bindings) {
  if (origins.size() != bindings.all().size()) return false;
  const auto shape_of = [&](size_t input) -> const Shape& {
    return graph.value_info(graph.inputs()[input]).type.shape;
  };
  for (size_t s = 0; s < origins.size(); ++s) {
    if (origins[s].input < 0) continue;
    const auto i = static_cast<size_t>(origins[s].input);
    const int d = origins[s].dim;
    if (inputs[i].data == nullptr) return false;
    const Dim& dim = shape_of(i)[static_cast<size_t>(d)];
    int64_t size = inputs[i].shape[d];
    // The sizes of earlier symbols are known; later ones do not occur.
    if (dim.symbol().empty()) {
      int64_t at[3];
      for (int64_t value = 0; value < 3; ++value) {
        bindings.rebind(s, value);
        const Result<int64_t> found = dim.evaluate(bindings);
        if (!found.ok()) return false;
        at[value] = *found;
      }
      const std::optional<int64_t> solved = solution(at, size);
      if (!solved) return false;
      size = *solved;
    }
    if (size < 0) return false;
    bindings.rebind(s, size);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = shape_of(i);
    for (size_t d = 0; d < shape.size() && inputs[i].data != nullptr; ++d) {
      if (shape[d].is_constant()) continue;
      const Result<int64_t> size = shape[d].evaluate(bindings);
      if (!size.ok() || *size != inputs[i].shape[static_cast<int>(d)]) return false;
    }
  }
  return true;
}

}  // namespace

void BoundSizes::set_outer(const Bindings& sizes) {
  if (sizes == outer_) return;
  outer_ = sizes;
  has_new_outer_ = true;
}

Status BoundSizes::bind(const Graph& graph, const SizeSources& sources) {
  const bool is_inner = !outer_.empty() || !sources.outer_symbols.empty();
  if (has_origins_ && sources.dims.empty() && !is_inner &&
      bind_again(graph, sources.inputs, origins_, sizes_))
    return {};
  has_origins_ = false;
  origins_.clear();
  HG_TRY_ASSIGN(sizes_, SizeBinder(graph, sources, outer_, origins_).bind());
  has_origins_ = sources.dims.empty();
  return {};
}

}  // namespace hg
