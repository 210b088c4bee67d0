// SPDX-License-Identifier: Apache-2.0
#include "converter/load/exported/weights.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "converter/core/failure.h"
#include "converter/load/exported/pickle.h"
#include "converter/rows/rows.h"

namespace hg::convert {
namespace {

using Json = nlohmann::json;

int64_t number(const Json& size) {
  if (!size.contains("as_int"))
    throw Refusal{
        "a constant of the program has a size that is not a number: it is a tensor of the "
        "trace, which torch.export took for one of the model's",
        ""};
  return size.at("as_int").get<int64_t>();
}

// Returns the number of elements from the first to the last, both included; -1 if it overflows.
int64_t extent(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    int64_t step = 0;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) ||
        __builtin_add_overflow(last, step, &last))
      return -1;
  }
  return __builtin_add_overflow(last, 1, &last) ? -1 : last;
}

// Copies strided elements of `width` bytes to contiguous memory.
void gather(const char* from, char* to, const std::vector<int64_t>& sizes,
            const std::vector<int64_t>& strides, int64_t width) {
  std::vector<int64_t> at(sizes.size(), 0);
  int64_t offset = 0;
  for (;;) {
    std::memcpy(to, from + offset * width, width);
    to += width;
    size_t d = sizes.size();
    while (d > 0) {
      --d;
      offset += strides[d];
      if (++at[d] < sizes[d]) break;
      offset -= at[d] * strides[d];
      at[d] = 0;
      if (d == 0) return;
    }
    if (sizes.empty()) return;
  }
}

}  // namespace

int64_t torch_dtype_of_schema(int64_t type) {
  // Up to bool, the schema's numbers are c10's plus 1. The others were added later.
  constexpr std::pair<int64_t, int64_t> kLater[] = {
      {13, 15}, {28, 27}, {29, 24}, {30, 23}, {31, 26}, {32, 25}, {33, 44}, {34, 28}, {35, 29}};
  if (type >= 1 && type <= 12) return type - 1;
  for (const auto& [schema, torch] : kLater)
    if (schema == type) return torch;
  throw Refusal{str_cat("the dtype with the schema's number ", type, " is not known"), ""};
}

ExportedWeights::ExportedWeights(const Archive& archive, const std::string& model,
                                 ScriptProgram& program)
    : archive_(archive), program_(program) {
  for (const char* record : {"serialized_state_dict.pt", "serialized_constants.pt"})
    if (archive.has(record)) list_saved(record);
  if (!archive.has(kProgramBefore28)) {
    list("data/weights/", model);
    list("data/constants/", model);
  }
}

void ExportedWeights::list(const std::string& folder, const std::string& model) {
  if (archive_.has(folder + model + ".pt")) return list_saved(folder + model + ".pt");
  const Json all = Json::parse(archive_.text_of(
      str_cat(folder, model,
              folder == "data/weights/" ? "_weights_config.json" : "_constants_config.json")));
  constexpr int64_t kStrided = 7;
  for (const auto& [name, entry] : all.at("config").items()) {
    if (entry.at("use_pickle").get<bool>()) {
      try {
        list_saved(folder + entry.at("path_name").get<std::string>(), name + ".");
      } catch (const Refusal&) {  // an object that only Python reads
      } catch (const Failure&) {
      }
      continue;
    }
    const Json& meta = entry.at("tensor_meta");
    Payload payload{&archive_,
                    folder + entry.at("path_name").get<std::string>(),
                    torch_dtype_of_schema(meta.at("dtype").get<int64_t>()),
                    number(meta.at("storage_offset")),
                    {},
                    {},
                    meta.at("layout").get<int64_t>() == kStrided,
                    meta.at("requires_grad").get<bool>()};
    for (const Json& size : meta.at("sizes")) payload.sizes.push_back(number(size));
    for (const Json& stride : meta.at("strides")) payload.strides.push_back(number(stride));
    payloads_[name] = std::move(payload);
  }
}

void ExportedWeights::list_saved(const std::string& record, const std::string& prefix) {
  std::string bytes = archive_.text_of(record);
  if (bytes.empty()) return;  // PyTorch 2.5 writes an empty record for a dict without tensors
  saved_.push_back(std::make_unique<Archive>(Archive::Bytes{std::move(bytes)},
                                             str_cat(archive_.label(), ": ", record)));
  const Archive& saved = *saved_.back();
  if (saved.has("byteorder") && saved.text_of("byteorder") != "little")
    throw Failure{Exit::unsupported,
                  str_cat(saved.label(), " was saved on a machine of another byte order")};
  for (auto& [name, tensor] : read_pickled_tensors(saved.text_of("data.pkl")))
    payloads_[prefix + name] = {&saved,        "data/" + tensor.storage, tensor.torch_dtype,
                                tensor.offset, std::move(tensor.sizes),  std::move(tensor.strides),
                                true,          tensor.requires_grad};
}

std::vector<std::string> ExportedWeights::parts_of(const std::string& name) const {
  std::vector<std::string> parts;
  const std::string prefix = name + ".";
  if (payloads_.contains(name)) return parts;
  for (auto at = payloads_.lower_bound(prefix);
       at != payloads_.end() && at->first.starts_with(prefix); ++at)
    parts.push_back(at->first.substr(prefix.size()));
  return parts;
}

int32_t ExportedWeights::index_of(const std::string& name, State::Kind kind) {
  const auto found = payloads_.find(name);
  if (found == payloads_.end())
    throw Failure{Exit::unreadable,
                  str_cat(archive_.label(), ": the archive holds no tensor '", name,
                          "', or one of a kind that only Python reads; save the program again")};
  const Payload& payload = found->second;
  const bool is_empty =
      std::find(payload.sizes.begin(), payload.sizes.end(), 0) != payload.sizes.end();
  std::string identity = str_cat(payload.archive->label(), " ", payload.record, " ",
                                 payload.torch_dtype, " ", payload.offset, is_empty ? name : "");
  for (const int64_t size : payload.sizes) identity += str_cat(" ", size);
  for (const int64_t stride : payload.strides) identity += str_cat("/", stride);
  const auto [at, fresh] = known_.emplace(identity, static_cast<int32_t>(program_.tensors.size()));
  if (fresh) {
    program_.tensors.push_back(tensor(name, payload));
    program_.tensors.back().kind = kind;
  }
  ScriptTensor& entry = program_.tensors[at->second];
  if (kind != State::Kind::constant) entry.names.push_back(name);
  if (kind < entry.kind) entry.kind = kind;  // a parameter that is a buffer elsewhere is trainable
  return at->second;
}

ScriptTensor ExportedWeights::tensor(const std::string& name, const Payload& payload) {
  const auto refuse = [&](const std::string& why) {
    return Failure{Exit::unsupported, str_cat(archive_.label(), ": the tensor '", name, "' ", why)};
  };
  const auto damaged = [&](const std::string& why) {
    return Failure{Exit::unreadable, str_cat(archive_.label(), ": the tensor '", name, "' ", why,
                                             "; save or download the model again")};
  };
  constexpr int64_t kComplexFloat = 9, kComplexDouble = 10;
  if (!payload.strided) throw refuse("is sparse; convert it to a dense tensor in the model");
  const std::vector<int64_t>&sizes = payload.sizes, &strides = payload.strides;
  const int64_t offset = payload.offset, type = payload.torch_dtype;
  ScriptTensor result;
  result.requires_grad = payload.requires_grad;
  result.complex = type == kComplexFloat || type == kComplexDouble;
  DType dtype = f32;
  try {
    dtype = type == kComplexFloat ? f32 : type == kComplexDouble ? f64 : dtype_of_torch(type);
  } catch (const Refusal& refusal) {
    throw refuse(str_cat("cannot be held: ", refusal.reason));
  }
  if (sizes.size() + (result.complex ? 1 : 0) > kMaxRank)
    throw refuse(str_cat("has rank ", static_cast<int64_t>(sizes.size()), ", at most ",
                         static_cast<int64_t>(kMaxRank)));
  if (strides.size() != sizes.size())
    throw damaged(str_cat("has ", static_cast<int64_t>(sizes.size()), " sizes and ",
                          static_cast<int64_t>(strides.size()), " strides"));
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] < 0 || strides[d] < 0) throw damaged("has a negative size or stride");

  const int64_t width = size_of(dtype) * (result.complex ? 2 : 1);
  int64_t count = 1;
  for (const int64_t size : sizes)
    if (__builtin_mul_overflow(count, size, &count)) throw damaged("has an absurd size");
  const Archive& archive = *payload.archive;
  const uint64_t held = archive.has(payload.record) ? archive.sizes().at(payload.record) : 0;
  int64_t last = extent(sizes, strides);
  if (last < 0 || offset < 0 || __builtin_add_overflow(last, offset, &last) ||
      static_cast<uint64_t>(last) > held / static_cast<uint64_t>(width)) {
    if (count > 0)
      throw damaged(str_cat("does not fit into its record '", payload.record, "' of ",
                            static_cast<int64_t>(held), " bytes"));
  }
  // Expanded tensors have more elements than their storage. This limits their total bytes.
  constexpr int64_t kMostExpanded = int64_t{1} << 30;
  if (static_cast<uint64_t>(count) > held / static_cast<uint64_t>(width)) {
    if (count > (kMostExpanded - expanded_) / width) throw damaged("has an absurd size");
    expanded_ += count * width;
  }

  bool row_major = true;
  int64_t stride = 1;
  for (size_t d = sizes.size(); count > 0 && d-- > 0; stride *= sizes[d])
    row_major = row_major && (sizes[d] == 1 || strides[d] == stride);
  result.row_major = row_major;

  Sizes shape(std::span<const int64_t>(sizes.data(), sizes.size()));
  if (result.complex) shape.push_back(2);
  Result<TensorData> data = TensorData::allocate(dtype, shape);
  if (!data.ok()) throw std::bad_alloc();
  result.data = *std::move(data);
  if (count == 0) return result;
  char* to = result.data.tensor.as<char>();
  if (row_major && offset == 0 && held == static_cast<uint64_t>(count * width)) {
    archive.read(payload.record, to, held);
  } else {
    std::vector<char> storage(held);
    archive.read(payload.record, storage.data(), held);
    gather(storage.data() + offset * width, to, sizes, strides, width);
  }
  return result;
}

}  // namespace hg::convert
