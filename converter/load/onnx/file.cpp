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

#include "converter/script/failure.h"

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

// The elements that a field of numbers holds, each as T.
template <class T, class Field>
TensorData from_field(const Field& field, DType dtype, const Sizes& shape,
                      const std::string& name) {
  if (field.size() != shape.count())
    throw Failure{Exit::unreadable, str_cat("the tensor '", name, "' holds ", int64_t{field.size()},
                                            " elements, but its shape is ", shape)};
  Result<TensorData> data = TensorData::allocate(dtype, shape);
  if (!data.ok()) throw Failure{Exit::unsupported, std::string(data.status().message())};
  for (int64_t i = 0; i < shape.count(); ++i)
    data->tensor.as<T>()[i] = static_cast<T>(field.Get(static_cast<int>(i)));
  return *data;
}

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

std::string describe_onnx_dtype(int data_type) {
  if (!file::TensorProto::DataType_IsValid(data_type)) return str_cat("type ", int64_t{data_type});
  std::string name =
      file::TensorProto::DataType_Name(static_cast<file::TensorProto::DataType>(data_type));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

Weights::Weights(std::shared_ptr<file::ModelProto> model, std::string path)
    : model_(std::move(model)), path_(std::move(path)) {}

std::optional<TensorData> Weights::read(const file::TensorProto& tensor) {
  const std::string& name = tensor.name();
  const std::optional<DType> dtype = dtype_of_onnx(tensor.data_type());
  if (!dtype) return std::nullopt;
  Sizes shape;
  int64_t bytes = size_of(*dtype);
  bool fits = true;
  for (const int64_t size : tensor.dims()) {
    shape.push_back(size);
    fits = fits && size >= 0 && !__builtin_mul_overflow(bytes, size, &bytes);
  }
  if (shape.overflowed())
    throw Failure{Exit::unsupported,
                  str_cat("the tensor '", name, "' has more than ", int64_t{kMaxRank}, " dims")};
  if (!fits)
    throw Failure{Exit::unreadable, str_cat("the tensor '", name, "' has the shape ", shape,
                                            ", which no memory holds")};
  if (tensor.data_location() == file::TensorProto::EXTERNAL) return external(tensor, *dtype, shape);
  if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    if (static_cast<int64_t>(raw.size()) != bytes)
      throw Failure{Exit::unreadable,
                    str_cat("the tensor '", name, "' holds ", static_cast<int64_t>(raw.size()),
                            " bytes, but ", *dtype, shape, " takes ", bytes)};
    // Elements are read in place where the message happens to hold them aligned.
    if (reinterpret_cast<uintptr_t>(raw.data()) % static_cast<size_t>(size_of(*dtype)) == 0)
      return TensorData{
          view(const_cast<void*>(static_cast<const void*>(raw.data())), *dtype, shape), model_};
    Result<TensorData> data = TensorData::allocate(*dtype, shape);
    if (!data.ok()) throw Failure{Exit::unsupported, std::string(data.status().message())};
    std::memcpy(data->tensor.data, raw.data(), raw.size());
    return *data;
  }
  switch (*dtype) {
    case f32:
      return from_field<float>(tensor.float_data(), f32, shape, name);
    case f64:
      return from_field<double>(tensor.double_data(), f64, shape, name);
    case i64:
      return from_field<int64_t>(tensor.int64_data(), i64, shape, name);
    case i32:
      return from_field<int32_t>(tensor.int32_data(), i32, shape, name);
    case i16:
    case f16:  // the bits
    case bf16:
      return from_field<int16_t>(tensor.int32_data(), *dtype, shape, name);
    default:
      return from_field<int8_t>(tensor.int32_data(), *dtype, shape, name);
  }
}

TensorData Weights::external(const file::TensorProto& tensor, DType dtype, const Sizes& shape) {
  const auto fail = [&](const auto&... why) {
    throw Failure{Exit::unreadable, str_cat("the external data of '", tensor.name(), "' ", why...)};
  };
  const int64_t bytes = shape.count() * size_of(dtype);
  std::string location;
  int64_t offset = 0, length = bytes;
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
  if (location.empty()) fail("names no file");
  if (relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end())
    fail("lies in '", location, "', which is not beside the model");
  if (length != bytes) fail("has ", length, " bytes, but ", dtype, shape, " takes ", bytes);
  const std::string path = (fs::path(path_).parent_path() / relative).string();
  auto found = mapped_.find(path);
  if (found == mapped_.end()) {
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
  char* const data = static_cast<char*>(found->second.owner.get()) + offset;
  if (offset % size_of(dtype) == 0)
    return {view(static_cast<void*>(data), dtype, shape), found->second.owner};
  Result<TensorData> copy = TensorData::allocate(dtype, shape);
  if (!copy.ok()) throw Failure{Exit::unsupported, std::string(copy.status().message())};
  std::memcpy(copy->tensor.data, data, bytes);
  return *copy;
}

}  // namespace hg::convert::onnx
