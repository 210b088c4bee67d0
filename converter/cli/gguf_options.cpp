// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/gguf_options.h"

#include <algorithm>

#include "converter/check/check_inputs.h"
#include "converter/core/failure.h"

namespace hg::convert {

void refuse_options_of_programs(const Job& job, const std::string& label) {
  const char* option = !job.inputs.empty()      ? "--input"
                       : !job.constants.empty() ? "--constant"
                       : !job.custom.empty()    ? "--custom"
                       : !job.dims.empty()      ? "--dim"
                       : !job.loops.empty()     ? "--loop"
                       : job.onnxruntime        ? "--onnxruntime"
                       : !job.methods.empty()   ? "--method"
                                                : nullptr;
  if (option != nullptr)
    throw Failure{Exit::usage, str_cat(label, ": ", option, " does not apply to GGUF files")};
}

std::vector<InputOption> inputs_of_decoder(const Graph& graph, const gguf::Decoder& decoder) {
  std::vector<InputOption> options;
  for (const InputSpec& spec : input_specs(graph)) {
    InputOption option{.spec = spec, .range = std::nullopt};
    if (spec.name == "input_ids") option.range = {0, static_cast<double>(decoder.vocabulary - 1)};
    if (spec.name == "attention_mask") option.range = {1, 1};
    if (spec.name == "position_ids")
      option.range = {0, static_cast<double>(std::max<int64_t>(decoder.context, 1) - 1)};
    options.push_back(std::move(option));
  }
  return options;
}

}  // namespace hg::convert
