// SPDX-License-Identifier: Apache-2.0
#include "converter/load/onnx/file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

#include "converter/core/allocated.h"
#include "converter/core/failure.h"
#include "lib/graph/utf8.h"

namespace hg::convert::onnx {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Returns the shape of a tensor whose elements have `element` bytes in memory.
Sizes shape_of(const file::TensorProto& tensor, int64_t element) {
  Sizes shape;
  bool fits = true;
  for (const int64_t size : tensor.dims()) {
    shape.push_back(size);
    fits = fits && size >= 0 && !__builtin_mul_overflow(element, size, &element);
  }
  if (shape.overflowed())
    throw Failure{Exit::unsupported, str_cat("the tensor '", tensor.name(), "' has more than ",
                                             int64_t{kMaxRank}, " dims")};
  if (!fits)
    throw Failure{Exit::unreadable, str_cat("the tensor '", tensor.name(), "' has the shape ",
                                            shape, ", which no memory holds")};
  return shape;
}

void require_count(int64_t count, int64_t expected, const file::TensorProto& tensor,
                   const Sizes& shape) {
  if (count != expected)
    throw Failure{Exit::unreadable, str_cat("the tensor '", tensor.name(), "' holds ", count,
                                            " elements, but its shape is ", shape)};
}

// Converts the elements of a numeric field to T.
template <class T, class Field>
TensorData from_field(const Field& field, DType dtype, const Sizes& shape,
                      const file::TensorProto& tensor) {
  require_count(field.size(), shape.count(), tensor, shape);
  TensorData data = allocated(dtype, shape);
  for (int64_t i = 0; i < shape.count(); ++i)
    data.tensor.as<T>()[i] = static_cast<T>(field.Get(static_cast<int>(i)));
  return data;
}

// Returns number i of packed integers with type.bits bits: the lowest bits and bytes come first.
int64_t unpacked(const char* packed, int64_t i, const SmallInteger& type) {
  const int64_t first = i * type.bits;
  uint64_t number = 0;
  for (int64_t bit = 0; bit < type.bits; bit += 8)
    number |= uint64_t{static_cast<uint8_t>(packed[(first + bit) / 8])} << bit;
  number = number >> first % 8 & ((uint64_t{1} << type.bits) - 1);
  const bool is_negative = type.is_signed && (number >> (type.bits - 1) & 1) != 0;
  return static_cast<int64_t>(number) - (is_negative ? int64_t{1} << type.bits : 0);
}

// Names and parts of sizes are stored in the .hgm file, whose text must be UTF-8.
class NameCheck {
 public:
  explicit NameCheck(const std::string& label) : label_(label) {}

  void graph(const file::GraphProto& graph) const {
    for (const auto* values : {&graph.input(), &graph.output(), &graph.value_info()})
      for (const file::ValueInfoProto& value : *values) {
        name(value.name());
        for (const auto& dim : value.type().tensor_type().shape().dim()) name(dim.dim_param());
      }
    for (const file::TensorProto& tensor : graph.initializer()) name(tensor.name());
    for (const file::NodeProto& each : graph.node()) node(each);
  }
  void node(const file::NodeProto& node) const {
    name(node.name());
    name(node.domain());
    name(node.op_type());
    for (const std::string& input : node.input()) name(input);
    for (const std::string& output : node.output()) name(output);
    for (const file::AttributeProto& attribute : node.attribute()) {
      name(attribute.name());
      if (attribute.has_g()) graph(attribute.g());
      for (const file::GraphProto& inner : attribute.graphs()) graph(inner);
    }
  }

 private:
  void name(const std::string& text) const {
    if (!is_utf8(text))
      throw Failure{Exit::unreadable,
                    str_cat(label_, ": the name '", escaped_utf8(text),
                            "' is not UTF-8; rename it and save the model again")};
  }

  const std::string& label_;
};

}  // namespace

std::shared_ptr<file::ModelProto> read_model(const std::string& path, const std::string& label) {
  const Descriptor from(path);
  if (from.number() < 0)
    throw Failure{Exit::unreadable, label + " cannot be opened (" + std::strerror(errno) + ")"};
  auto model = std::make_shared<file::ModelProto>();
  google::protobuf::io::FileInputStream stream(from.number());
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(INT_MAX);
  coded.SetRecursionLimit(1000);
  if (!model->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    throw Failure{Exit::unreadable,
                  label +
                      " is damaged: it starts like an ONNX model, but is not one to its end; "
                      "copy or export it again"};
  if (!model->has_graph())
    throw Failure{Exit::unreadable, label + " is an ONNX file without a graph; export it again"};
  const NameCheck check(label);
  check.graph(model->graph());
  for (const auto& function : model->functions())
    for (const file::NodeProto& node : function.node()) check.node(node);
  return model;
}

std::optional<DType> dtype_of_onnx(int data_type) {
  switch (data_type) {
    case file::TensorProto::FLOAT:
      return f32;
    case file::TensorProto::DOUBLE:
      return f64;
    case file::TensorProto::FLOAT16:
      return f16;
    case file::TensorProto::BFLOAT16:
      return bf16;
    case file::TensorProto::INT64:
      return i64;
    case file::TensorProto::INT32:
      return i32;
    case file::TensorProto::INT16:
      return i16;
    case file::TensorProto::INT8:
      return i8;
    case file::TensorProto::UINT8:
      return u8;
    case file::TensorProto::BOOL:
      return boolean;
    default:
      return std::nullopt;
  }
}

Weights::Weights(std::shared_ptr<file::ModelProto> model, std::string path, ReadsFile reads)
    : model_(std::move(model)), path_(std::move(path)), reads_(std::move(reads)) {}

std::optional<TensorData> Weights::read(const file::TensorProto& tensor) {
  const std::optional<DType> dtype = dtype_of_onnx(tensor.data_type());
  if (!dtype) return std::nullopt;
  const Sizes shape = shape_of(tensor, size_of(*dtype));
  const int64_t count = shape.count() * size_of(*dtype);
  if (const auto bytes = bytes_of(tensor, count, str_cat(*dtype, shape))) {
    // Elements that happen to be aligned are read in place.
    if (reinterpret_cast<uintptr_t>(bytes->data) % static_cast<size_t>(size_of(*dtype)) == 0)
      return TensorData{
          view(const_cast<void*>(static_cast<const void*>(bytes->data)), *dtype, shape),
          bytes->owner};
    TensorData copy = allocated(*dtype, shape);
    std::memcpy(copy.tensor.data, bytes->data, static_cast<size_t>(count));
    return copy;
  }
  switch (*dtype) {
    case f32:
      return from_field<float>(tensor.float_data(), f32, shape, tensor);
    case f64:
      return from_field<double>(tensor.double_data(), f64, shape, tensor);
    case i64:
      return from_field<int64_t>(tensor.int64_data(), i64, shape, tensor);
    case i32:
      return from_field<int32_t>(tensor.int32_data(), i32, shape, tensor);
    case i16:
    case f16:  // as bits
    case bf16:
      return from_field<int16_t>(tensor.int32_data(), *dtype, shape, tensor);
    default:
      return from_field<int8_t>(tensor.int32_data(), *dtype, shape, tensor);
  }
}

std::optional<TensorData> Weights::read_small_integers(const file::TensorProto& tensor) {
  const std::optional<SmallInteger> type = small_integer_of_onnx(tensor.data_type());
  if (!type) return std::nullopt;
  const Sizes shape = shape_of(tensor, size_of(type->dtype));
  const int64_t count = shape.count();
  // Elements of 4 and 2 bits are packed into bytes, also in a numeric field.
  const int64_t packed = (count * type->bits + 7) / 8;
  std::string copy;
  auto bytes = bytes_of(tensor, packed, str_cat(describe_onnx_dtype(tensor.data_type()), shape));
  if (!bytes) {
    const auto take = [&](const auto& field, int64_t each) {
      require_count(field.size(), packed / each, tensor, shape);
      for (const auto number : field)
        for (int64_t k = 0; k < each; ++k) copy += static_cast<char>(number >> (8 * k) & 255);
    };
    if (type->bits == 32)
      take(tensor.uint64_data(), 4);
    else
      take(tensor.int32_data(), std::max(1, type->bits / 8));
    bytes = Bytes{copy.data(), nullptr};
  }
  TensorData data = allocated(type->dtype, shape);
  const auto fill = [&](auto* to) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<std::decay_t<decltype(*to)>>(unpacked(bytes->data, i, *type));
  };
  if (type->dtype == i64)
    fill(data.tensor.as<int64_t>());
  else if (type->dtype == i32)
    fill(data.tensor.as<int32_t>());
  else
    fill(data.tensor.as<int8_t>());  // also for u8, which has the same bits
  return data;
}

std::optional<Weights::Bytes> Weights::bytes_of(const file::TensorProto& tensor, int64_t count,
                                                const std::string& type) {
  if (tensor.data_location() == file::TensorProto::EXTERNAL) return external(tensor, count, type);
  if (!tensor.has_raw_data()) return std::nullopt;
  const std::string& raw = tensor.raw_data();
  if (static_cast<int64_t>(raw.size()) != count)
    throw Failure{Exit::unreadable, str_cat("the tensor '", tensor.name(), "' holds ",
                                            static_cast<int64_t>(raw.size()), " bytes, but ", type,
                                            " takes ", count)};
  return Bytes{raw.data(), model_};
}

Weights::Bytes Weights::external(const file::TensorProto& tensor, int64_t count,
                                 const std::string& type) {
  const auto fail = [&](const auto&... why) {
    throw Failure{Exit::unreadable, str_cat("the external data of '", tensor.name(), "' ", why...)};
  };
  std::string location;
  int64_t offset = 0, length = count;
  const auto number = [&](const std::string& value) {
    char* end = nullptr;
    errno = 0;
    const int64_t parsed = std::strtoll(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0' || errno != 0 || parsed < 0)
      fail("has an offset or length '", value, "'");
    return parsed;
  };
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = number(entry.value());
    if (entry.key() == "length") length = number(entry.value());
  }
  namespace fs = std::filesystem;
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != location.npos) fail("names no file");
  if (relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end())
    fail("lies in '", location, "', which is not beside the model");
  if (path_.empty())
    fail("lies in the file '", location,
         "' beside the model, which standard input does not have; give the path of the model ",
         "instead of -");
  if (length != count) fail("has ", length, " bytes, but ", type, " takes ", count);
  const std::string path = (fs::path(path_).parent_path() / relative).string();
  auto found = mapped_.find(path);
  if (found == mapped_.end()) {
    if (reads_) reads_(path);
    std::error_code ignored;
    const fs::file_status kind = fs::status(path, ignored);
    if (fs::exists(kind) && !fs::is_regular_file(kind))  // opening a pipe would wait for a writer
      fail("lies in ", path, ", which is not a regular file");
    const Descriptor from(path);
    struct stat status = {};
    if (from.number() < 0 || ::fstat(from.number(), &status) != 0)
      fail("lies in ", path, ", which cannot be opened (", std::strerror(errno),
           "); keep it beside the model");
    Mapped mapped;
    mapped.bytes = status.st_size;
    if (mapped.bytes > 0) {
      const auto size = static_cast<size_t>(mapped.bytes);
      void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, from.number(), 0);
      if (data == MAP_FAILED) fail("in ", path, " cannot be mapped (", std::strerror(errno), ")");
      mapped.owner = std::shared_ptr<void>(data, [size](void* p) { ::munmap(p, size); });
    }
    found = mapped_.emplace(path, std::move(mapped)).first;
  }
  if (offset > found->second.bytes || length > found->second.bytes - offset)
    fail("ends beyond the ", found->second.bytes, " bytes of ", path);
  return {static_cast<const char*>(found->second.owner.get()) + offset, found->second.owner};
}

}  // namespace hg::convert::onnx
