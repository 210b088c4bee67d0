// SPDX-License-Identifier: Apache-2.0
// The inputs of a program, and the sizes of symbols that follow from them.
#include "lib/run/ready.h"

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

}  // namespace

Status Program::check_input(const ValueInfo& info, DType dtype, const Sizes& shape) const {
  HG_CHECK(dtype == info.type.dtype, "input '", info.name, "' takes ", info.type,
           ", not a tensor of ", dtype);
  HG_CHECK(shape.rank() == info.type.rank(), "input '", info.name, "' takes ", info.type,
           " of rank ", info.type.rank(), ", not a tensor of shape ", shape);
  for (int d = 0; d < shape.rank(); ++d) {
    const Dim& dim = info.type.shape[static_cast<size_t>(d)];
    HG_CHECK(shape[d] >= 0 && (!dim.is_constant() || dim.constant() == shape[d]), "input '",
             info.name, "' takes ", info.type, ", not ", shape, ": dimension ", d, " is ", shape[d],
             ", not ", dim);
  }
  return {};
}

Status Program::set_input(int index, const DeviceTensor& tensor) {
  const auto i = static_cast<size_t>(index);
  const ValueInfo& info = graph_.value_info(graph_.inputs()[i]);
  HG_CHECK(device_ != nullptr, "input '", info.name,
           "' is given on a device, but the session runs on the CPU");
  HG_CHECK(tensor.memory != nullptr, "input '", info.name, "' is given an empty device tensor");
  HG_TRY(check_input(info, tensor.dtype, tensor.shape));
  if (!(inputs_[i].shape == tensor.shape) || input_data_[i] == nullptr) sizes_changed_ = true;
  if (input_copies_[i].bytes() < std::max<int64_t>(tensor.bytes(), 1) &&
      !input_copies_[i].allocate(options_.allocator, std::max<int64_t>(tensor.bytes(), 1)))
    return out_of_memory("no memory for a copy of input '", info.name, "'");
  input_data_[i] = input_copies_[i].data();
  inputs_[i] = view(input_data_[i], tensor.dtype, tensor.shape);
  device_->set_input(i, tensor);
  return {};
}

Status Program::set_input(int index, const ConstTensor& tensor) {
  const auto i = static_cast<size_t>(index);
  const ValueInfo& info = graph_.value_info(graph_.inputs()[i]);
  HG_TRY(check_input(info, tensor.dtype, tensor.shape));
  if (device_ != nullptr) device_->set_input(i, {});
  HG_CHECK(tensor.data != nullptr || tensor.count() == 0, "input '", info.name,
           "' is given null data for ", tensor.bytes(), " bytes");
  if (!(inputs_[i].shape == tensor.shape) || input_data_[i] == nullptr) sizes_changed_ = true;
  // Kernels write to no input.
  inputs_[i] = {const_cast<void*>(tensor.data), tensor.dtype, tensor.shape, tensor.strides};
  static std::byte empty[64];  // what inputs of no elements point to
  if (tensor.data == nullptr) inputs_[i].data = empty;
  if (tensor.is_contiguous()) {
    input_data_[i] = inputs_[i].data;
    return {};
  }
  if (input_copies_[i].bytes() < tensor.bytes() &&
      !input_copies_[i].allocate(options_.allocator, tensor.bytes()))
    return out_of_memory("no memory for a contiguous copy of input '", info.name, "'");
  input_data_[i] = input_copies_[i].data();
  return {};
}

Result<std::vector<TensorData>> Program::give_zeros(const Bindings& sizes) {
  std::vector<TensorData> zeros;
  for (size_t i = 0; i < graph_.inputs().size(); ++i) {
    const TensorType& type = graph_.value_info(graph_.inputs()[i]).type;
    HG_TRY_ASSIGN(const Sizes shape, evaluate(type.shape, sizes));
    HG_TRY_ASSIGN(TensorData data, TensorData::allocate(type.dtype, shape));
    zeros.push_back(std::move(data));
    HG_TRY(set_input(static_cast<int>(i), zeros.back().tensor));
  }
  return zeros;
}

void Program::set_outer_sizes(const Bindings& sizes) {
  if (sizes == outer_sizes_) return;
  outer_sizes_ = sizes;
  sizes_changed_ = true;
}

Result<Bindings> Program::bindings_of_inputs(
    std::span<const std::pair<std::string, int64_t>> dims) const {
  Bindings bindings;
  const std::vector<std::string> symbols = graph_.symbols();
  const auto bind = [&](std::string_view symbol, int64_t value) -> Status {
    HG_CHECK(std::find(symbols.begin(), symbols.end(), symbol) != symbols.end(),
             "the model has no size '", symbol, "'");
    HG_CHECK(value >= 0, "the size '", symbol, "' is ", value);
    return bindings.bind(symbol, value);
  };
  for (const auto& [symbol, value] : dims) HG_TRY(bind(symbol, value));
  // Plain symbols first, then those of the outer graph, then expressions of one symbol that is
  // still unknown.
  for (const bool plain : {true, false}) {
    for (const std::string& symbol : symbols)
      if (const auto size = outer_sizes_.find(symbol); !plain && size && !bindings.find(symbol))
        HG_TRY(bind(symbol, *size));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (input_data_[i] == nullptr) continue;
      const ValueInfo& info = graph_.value_info(graph_.inputs()[i]);
      for (int d = 0; d < info.type.rank(); ++d) {
        const Dim& dim = info.type.shape[static_cast<size_t>(d)];
        const int64_t size = inputs_[i].shape[d];
        if (dim.is_constant() || dim.symbol().empty() == plain) continue;
        Status status = plain ? bind(dim.symbol(), size) : Status();
        if (status.ok() && !plain) status = bind_expression(dim, size, bindings);
        if (!status.ok())
          return invalid_argument("input '", info.name, "' of shape ", inputs_[i].shape,
                                  " does not fit ", info.type, ": ", status.message());
      }
    }
  }
  for (const std::string& symbol : compiled_->outer_symbols)
    if (const auto size = outer_sizes_.find(symbol)) HG_TRY(bindings.bind(symbol, *size));
  for (const auto& [symbol, value] : options_.dims)
    if (!bindings.find(symbol)) HG_TRY(bind(symbol, value));
  for (const std::string& symbol : symbols)
    HG_CHECK(bindings.find(symbol), "the size '", symbol,
             "' is not known; set the input that has it, or give it in `dims`");
  return bindings;
}

Status Program::plan(std::span<const std::pair<std::string, int64_t>> dims) {
  HG_TRY_ASSIGN(const Bindings bindings, bindings_of_inputs(dims));
  parts_.clear();
  HG_TRY_ASSIGN(Ready* const first, part(0, bindings, nullptr));
  parts_.push_back(first);
  sizes_changed_ = false;
  has_run_ = false;
  return {};
}

}  // namespace hg
