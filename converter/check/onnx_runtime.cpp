// SPDX-License-Identifier: Apache-2.0
#include "converter/check/onnx_runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "converter/load/load.h"
#include "converter/load/onnx/file.h"
#include "hg/dim.h"

namespace hg::convert {

// Opaque objects of the library.
struct OrtObject;

// Indices of functions in ONNX Runtime's OrtApi. They are the same in every version: its own
// static_asserts fix the ends of versions 1 (101), 3 (124) and 4 (126).
enum OrtFunction {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kDisableTelemetryEvents = 6,
  kCreateSession = 7,
  kCreateSessionFromArray = 8,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetSessionGraphOptimizationLevel = 23,
  kSetIntraOpNumThreads = 24,
  kSetInterOpNumThreads = 25,
  kCreateTensorWithDataAsOrtValue = 49,
  kGetTensorMutableData = 51,
  kGetTensorElementType = 60,
  kGetDimensionsCount = 61,
  kGetDimensions = 62,
  kGetTensorTypeAndShape = 65,
  kGetValueType = 67,
  kCreateCpuMemoryInfo = 69,
  kGetAllocatorWithDefaultOptions = 78,
  kGetValue = 80,
  kGetValueCount = 81,
  kReleaseEnv = 92,
  kReleaseStatus = 93,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseTensorTypeAndShapeInfo = 99,
  kReleaseSessionOptions = 100,
  kAddSessionConfigEntry = 130,
};

namespace {

namespace fs = std::filesystem;

constexpr uint32_t kApiVersion = 5;  // of 1.5, the first version with all of them

// Values of its enums.
constexpr int kLogFatal = 4, kNoOptimization = 0, kDeviceAllocator = 0, kDefaultMemory = 0;
constexpr int kTensorValue = 1, kSequenceValue = 2;

using Function = void (*)();

struct ApiBase {
  const Function* (*get_api)(uint32_t version);
  const char* (*version)();
};

std::optional<std::string> library_in(const fs::path& folder) {
  std::error_code ignored;
  std::optional<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == "libonnxruntime.so" || name.starts_with("libonnxruntime.so."))
      found = std::max(found.value_or(""), entry.path().string());
  }
  return found;
}

// Looks in the packages of one Python installation.
std::optional<std::string> library_among(const fs::path& packages) {
  return library_in(packages / "onnxruntime" / "capi");
}

std::optional<std::string> library_of_python() {
  // torch/lib/libtorch.so is next to the package.
  if (const std::string torch = libtorch_file(); !torch.empty())
    if (auto found = library_among(fs::path(torch).parent_path().parent_path().parent_path()))
      return found;
  const char* const path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "" : path;
  while (!left.empty()) {
    const std::string_view each = left.substr(0, left.find(':'));
    left.remove_prefix(std::min(left.size(), each.size() + 1));
    if (!each.starts_with('/')) continue;
    const fs::path lib = fs::path(each).parent_path() / "lib";
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(lib, ignored)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        if (auto found = library_among(entry.path() / packages)) return found;
    }
  }
  return std::nullopt;
}

[[noreturn]] void refuse_library(const auto&... why) {
  throw Failure{Exit::usage, str_cat("--onnxruntime: ", why...)};
}

// Never unloaded: its threads and static objects live as long as the process.
void* open_library(const std::string& where) {
  const auto open = [](const std::string& file) {
    return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  };
  if (where.empty()) {
    for (const char* name : {"libonnxruntime.so", "libonnxruntime.so.1"})
      if (void* const found = open(name)) return found;
  }
  std::optional<std::string> file = where.empty() ? library_of_python() : where;
  if (std::error_code ignored; !where.empty() && fs::is_directory(where, ignored))
    file = library_in(where);
  if (!file)
    refuse_library("no libonnxruntime.so is found ",
                   where.empty() ? "by the loader or in a Python on PATH" : "in " + where,
                   "; install it (pip install onnxruntime), or say where it is with "
                   "--onnxruntime=PATH");
  void* const found = open(*file);
  if (found == nullptr) {
    const char* const why = ::dlerror();
    refuse_library(*file, " cannot be loaded: ", why == nullptr ? "" : why);
  }
  return found;
}

// Its numbers of dtypes are those in ONNX files.
std::optional<int> type_of(DType dtype) {
  for (int type = 1; type <= 16; ++type)
    if (onnx::dtype_of_onnx(type) == dtype) return type;
  return std::nullopt;
}

}  // namespace

struct OnnxRuntime::Api {
  const Function* table = nullptr;
  std::string version;
  OrtObject* environment = nullptr;

  template <class... Arguments>
  void call(OrtFunction place, Arguments... arguments) const {
    using Call = OrtObject* (*)(Arguments...);
    OrtObject* const status = reinterpret_cast<Call>(table[place])(arguments...);
    if (status == nullptr) return;
    std::string why =
        reinterpret_cast<const char* (*)(const OrtObject*)>(table[kGetErrorMessage])(status);
    release(kReleaseStatus, status);
    std::replace(why.begin(), why.end(), '\n', ' ');
    throw OnnxRefusal{std::move(why)};
  }
  void release(OrtFunction place, OrtObject* object) const {
    if (object != nullptr) reinterpret_cast<void (*)(OrtObject*)>(table[place])(object);
  }
  ~Api() {
    if (table != nullptr) release(kReleaseEnv, environment);
  }
};

// Owns an object of the library.
template <class Api>
class Owned {
 public:
  Owned(const Api& api, OrtFunction release) : api_(api), release_(release) {}
  ~Owned() { api_.release(release_, object_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  OrtObject** out() { return &object_; }
  OrtObject* get() const { return object_; }

 private:
  const Api& api_;
  const OrtFunction release_;
  OrtObject* object_ = nullptr;
};

namespace {

template <class Api>
class OwnedValues {
 public:
  OwnedValues(const Api& api, size_t count) : api_(api), values_(count) {}
  ~OwnedValues() {
    for (OrtObject* value : values_) api_.release(kReleaseValue, value);
  }
  OwnedValues(const OwnedValues&) = delete;
  OwnedValues& operator=(const OwnedValues&) = delete;
  std::vector<OrtObject*>& values() { return values_; }

 private:
  const Api& api_;
  std::vector<OrtObject*> values_;
};

template <class Api>
TensorData copy_of(const Api& api, OrtObject* value) {
  Owned info(api, kReleaseTensorTypeAndShapeInfo);
  api.call(kGetTensorTypeAndShape, static_cast<const OrtObject*>(value), info.out());
  const OrtObject* const asked = info.get();
  int type = 0;
  api.call(kGetTensorElementType, asked, &type);
  const std::optional<DType> dtype = onnx::dtype_of_onnx(type);
  if (!dtype) return {};
  size_t rank = 0;
  api.call(kGetDimensionsCount, asked, &rank);
  std::vector<int64_t> dims(rank);
  api.call(kGetDimensions, asked, dims.data(), rank);
  Sizes shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  if (shape.overflowed()) return {};
  Result<TensorData> copy = TensorData::allocate(*dtype, shape);
  if (!copy.ok()) throw OnnxRefusal{std::string(copy.status().message())};
  void* data = nullptr;
  api.call(kGetTensorMutableData, value, &data);
  if (copy->tensor.bytes() > 0) std::memcpy(copy->tensor.data, data, copy->tensor.bytes());
  return *std::move(copy);
}

template <class Api>
std::vector<TensorData> tensors_of(const Api& api, OrtObject* value) {
  if (value == nullptr) return {};
  const OrtObject* const asked = value;
  int kind = 0;
  api.call(kGetValueType, asked, &kind);
  std::vector<TensorData> tensors;
  if (kind == kTensorValue) {
    TensorData data = copy_of(api, value);
    if (!data.empty()) tensors.push_back(std::move(data));
  } else if (kind == kSequenceValue) {
    OrtObject* allocator = nullptr;  // owned by the library
    api.call(kGetAllocatorWithDefaultOptions, &allocator);
    size_t count = 0;
    api.call(kGetValueCount, asked, &count);
    for (size_t i = 0; i < count; ++i) {
      Owned element(api, kReleaseValue);
      api.call(kGetValue, asked, static_cast<int>(i), allocator, element.out());
      for (TensorData& data : tensors_of(api, element.get())) tensors.push_back(std::move(data));
    }
  }
  return tensors;
}

}  // namespace

OnnxRuntime::OnnxRuntime(const std::string& where) {
  void* const library = open_library(where);
  const auto base = reinterpret_cast<const ApiBase* (*)()>(::dlsym(library, "OrtGetApiBase"));
  if (base == nullptr || base() == nullptr)
    refuse_library(where, " is not ONNX Runtime: it has no OrtGetApiBase");
  auto api = std::make_unique<Api>();
  api->version = base()->version();
  api->table = base()->get_api(kApiVersion);
  if (api->table == nullptr)
    refuse_library("ONNX Runtime ", api->version, " is too old; 1.", int64_t{kApiVersion},
                   " or newer is needed");
  try {
    api->call(kCreateEnv, kLogFatal, "hg-convert", &api->environment);
    api->call(kDisableTelemetryEvents, static_cast<const OrtObject*>(api->environment));
  } catch (const OnnxRefusal& refusal) {
    refuse_library("ONNX Runtime ", api->version, " does not start: ", refusal.reason);
  }
  api_ = std::move(api);
}

OnnxRuntime::~OnnxRuntime() = default;

std::string OnnxRuntime::version() const { return api_->version; }

struct OnnxSession::State {
  explicit State(const OnnxRuntime::Api& library)
      : api(library), options(api, kReleaseSessionOptions), session(api, kReleaseSession) {
    api.call(kCreateSessionOptions, options.out());
    api.call(kSetSessionGraphOptimizationLevel, options.get(), kNoOptimization);
    api.call(kSetIntraOpNumThreads, options.get(), 1);
    api.call(kSetInterOpNumThreads, options.get(), 1);
  }
  const OrtObject* environment() const { return api.environment; }

  const OnnxRuntime::Api& api;
  Owned<OnnxRuntime::Api> options, session;
};

OnnxSession::OnnxSession(const OnnxRuntime& runtime, const std::string& path)
    : state_(std::make_unique<State>(*runtime.api_)) {
  const OrtObject* const options = state_->options.get();
  state_->api.call(kCreateSession, state_->environment(), path.c_str(), options,
                   state_->session.out());
}

OnnxSession::OnnxSession(const OnnxRuntime& runtime, const std::string& bytes,
                         const std::string& folder)
    : state_(std::make_unique<State>(*runtime.api_)) {
  state_->api.call(kAddSessionConfigEntry, state_->options.get(),
                   "session.model_external_initializers_file_folder_path",
                   folder.empty() ? "." : folder.c_str());
  const OrtObject* const options = state_->options.get();
  state_->api.call(kCreateSessionFromArray, state_->environment(),
                   static_cast<const void*>(bytes.data()), bytes.size(), options,
                   state_->session.out());
}

OnnxSession::~OnnxSession() = default;

std::vector<std::vector<TensorData>> OnnxSession::run(
    const Feeds& feeds, const std::vector<std::string>& outputs) const {
  const OnnxRuntime::Api& api = state_->api;
  Owned memory(api, kReleaseMemoryInfo);
  api.call(kCreateCpuMemoryInfo, kDeviceAllocator, kDefaultMemory, memory.out());
  OwnedValues given(api, feeds.size()), made(api, outputs.size());
  std::vector<const char*> names, wanted;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const auto& [name, tensor] = feeds[i];
    const std::optional<int> type = type_of(tensor.dtype);
    if (!type) throw OnnxRefusal{str_cat("it has no dtype ", tensor.dtype)};
    const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    const OrtObject* const info = memory.get();
    api.call(kCreateTensorWithDataAsOrtValue, info, tensor.data,
             static_cast<size_t>(tensor.bytes()), shape.data(), shape.size(), *type,
             &given.values()[i]);
    names.push_back(name.c_str());
  }
  for (const std::string& name : outputs) wanted.push_back(name.c_str());
  const OrtObject* const usual = nullptr;  // default run options
  api.call(kRun, state_->session.get(), usual, static_cast<const char* const*>(names.data()),
           static_cast<const OrtObject* const*>(given.values().data()), names.size(),
           static_cast<const char* const*>(wanted.data()), wanted.size(), made.values().data());
  std::vector<std::vector<TensorData>> results;
  for (OrtObject* value : made.values()) results.push_back(tensors_of(api, value));
  return results;
}

}  // namespace hg::convert
