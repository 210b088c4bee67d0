// SPDX-License-Identifier: Apache-2.0
#include "tools/samples.h"

#include <algorithm>

namespace hg::tools {

Outcome open_samples(const Graph& graph, std::span<const std::string> arguments, int64_t batch,
                     Samples& samples) {
  if (Outcome o = open_inputs(graph, arguments, nullptr, samples.files); !o.ok()) return o;
  if (Outcome o = match_types(graph, samples.files, nullptr); !o.ok()) return o;
  samples.runs.clear();
  if (batch == 0) {
    samples.runs.emplace_back(samples.files.begin(), samples.files.end());
    return {};
  }
  for (size_t i = 0; i < samples.files.size(); ++i) {
    const Array& file = samples.files[i];
    const ValueInfo& input = graph.value_info(graph.inputs()[i]);
    if (file.rank() == 0 || input.type.rank() == 0)
      return mismatch("input '", input.name, "' is ", input.type, ", its file has the shape ",
                      file.shape(), ": it has no first dim that counts samples; --batch all takes ",
                      "files as they are");
    const Dim& first = input.type.shape[0];
    const int64_t rows = file.shape()[0], each = first.is_constant() ? first.constant() : batch;
    if (each < 1 || (first.is_constant() && rows % each != 0))
      return mismatch("the file of input '", input.name, "' has ", rows, " samples, a run takes ",
                      each);
    const auto count = static_cast<size_t>((rows + each - 1) / each);
    if (i > 0 && count != samples.runs.size())
      return mismatch("the file of input '", input.name, "' is enough for ", uint64_t{count},
                      " runs, those before it for ", uint64_t{samples.runs.size()});
    samples.runs.resize(count);
    for (size_t run = 0; run < count; ++run) {
      const int64_t begin = static_cast<int64_t>(run) * each;
      const Result<Array> part = file.narrow(0, begin, std::min(each, rows - begin));
      if (!part.ok()) return outcome(part.status());
      samples.runs[run].push_back(*part);
    }
  }
  return {};
}

}  // namespace hg::tools
