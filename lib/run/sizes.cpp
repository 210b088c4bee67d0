// SPDX-License-Identifier: Apache-2.0
#include "lib/run/sizes.h"

#include <algorithm>

#include "lib/graph/access.h"

namespace hg {
namespace {

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
    const int64_t slope = at[1] - at[0];
    if (slope != 0 && at[2] - at[1] == slope && (size - at[0]) % slope == 0)
      HG_TRY(bindings.bind(unknown[0], (size - at[0]) / slope));
  }
  HG_TRY_ASSIGN(const int64_t value, dim.evaluate(bindings));
  HG_CHECK(value == size, "the size ", dim, " is ", value, ", not ", size);
  return {};
}

class SizeBinder {
 public:
  SizeBinder(const Graph& graph, const SizeSources& sources)
      : graph_(graph), sources_(sources), symbols_(graph.symbols()) {}

  Result<Bindings> bind() {
    for (const auto& [symbol, value] : sources_.dims) HG_TRY(bind(symbol, value));
    // First plain symbols, then those of the enclosing graph, then expressions with one symbol that
    // is still unknown.
    HG_TRY(bind_inputs(true));
    for (const std::string& symbol : symbols_)
      if (const auto size = outer(symbol); size && !bindings_.find(symbol))
        HG_TRY(bind(symbol, *size));
    HG_TRY(bind_inputs(false));
    for (const std::string& symbol : sources_.outer_symbols)
      if (const auto size = outer(symbol)) HG_TRY(bindings_.bind(symbol, *size));
    for (const auto& [symbol, value] : sources_.fallback)
      if (!bindings_.find(symbol)) HG_TRY(bind(symbol, value));
    for (const std::string& symbol : symbols_)
      HG_CHECK(bindings_.find(symbol), "the size '", symbol,
               "' is not known; set the input that has it, or give it in `dims`");
    return std::move(bindings_);
  }

 private:
  auto outer(const std::string& symbol) const -> decltype(Bindings().find(symbol)) {
    if (sources_.outer == nullptr) return {};
    return sources_.outer->find(symbol);
  }

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
        const Status status = plain ? bind(dim.symbol(), input.shape[d])
                                    : bind_expression(dim, input.shape[d], bindings_);
        if (!status.ok())
          return invalid_argument("input '", info.name, "' of shape ", input.shape,
                                  " does not fit ", info.type, ": ", status.message());
      }
    }
    return {};
  }

  const Graph& graph_;
  const SizeSources& sources_;
  std::vector<std::string> symbols_;
  Bindings bindings_;
};

}  // namespace

Result<Bindings> bind_sizes(const Graph& graph, const SizeSources& sources) {
  return SizeBinder(graph, sources).bind();
}

}  // namespace hg
