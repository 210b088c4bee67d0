// SPDX-License-Identifier: Apache-2.0
// Reads the container from front to back: header, metadata, tensor infos, padding, tensor data. All
// numbers are little-endian.
#include "converter/load/gguf/file.h"

#include <algorithm>
#include <cstring>

#include "converter/core/failure.h"
#include "converter/load/gguf/blocks.h"
#include "lib/platform/file.h"

namespace hg::convert::gguf {
namespace {

// Numbers of the metadata types in the file.
enum Type : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64
};

constexpr int64_t kDefaultAlignment = 32;
constexpr int kMostDims = 4;

std::string shown(std::string_view name) {
  constexpr size_t kMost = 80;
  std::string out;
  for (const char c : name.substr(0, kMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return name.size() > kMost ? out + "..." : out;
}

}  // namespace

// Parses the bytes of a file. The results refer to these bytes.
class Parser {
 public:
  Parser(File& file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

  void run() {
    const auto magic = take(4, "the magic");
    if (std::memcmp(magic.data(), "GGUF", 4) != 0) fail("does not start with GGUF");
    const auto version = number<uint32_t>("the version");
    if (version != 2 && version != 3)
      throw Failure{Exit::unsupported,
                    str_cat(file_.label_, ": the file has GGUF version ", version,
                            (version & 0xFFFF) == 0 ? " (big-endian)" : "",
                            "; versions 2 and 3, little-endian, are supported")};
    const auto tensors = number<uint64_t>("the number of tensors");
    const auto values = number<uint64_t>("the number of metadata values");
    // A tensor has at least 24 bytes, a metadata value at least 13.
    check_count(tensors, 24, "tensors");
    check_count(values, 13, "metadata values");
    for (uint64_t i = 0; i < values; ++i) read_value();
    read_tensors(tensors);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Failure{Exit::unreadable, str_cat(file_.label_, ": the GGUF file is damaged: ", what,
                                            "; download it again")};
  }

  uint64_t left() const { return bytes_.size() - at_; }

  std::span<const std::byte> take(uint64_t count, std::string_view what) {
    if (count > left())
      fail(str_cat(what, " needs ", count, " bytes at offset ", uint64_t{at_},
                   ", but the file has ", left(), " left"));
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::string_view text(std::string_view what) {
    const auto length = number<uint64_t>(what);
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void check_count(uint64_t count, uint64_t least_bytes, std::string_view what) const {
    if (count > left() / least_bytes)
      fail(str_cat("it claims ", count, " ", what, ", but has ", left(), " bytes left"));
  }

  static bool is_integer(uint32_t type) { return type <= kI32 || type == kU64 || type == kI64; }
  int64_t integer(uint32_t type, std::string_view key) {
    switch (type) {
      case kU8:
        return number<uint8_t>(key);
      case kI8:
        return number<int8_t>(key);
      case kU16:
        return number<uint16_t>(key);
      case kI16:
        return number<int16_t>(key);
      case kU32:
        return number<uint32_t>(key);
      case kI32:
        return number<int32_t>(key);
      default: {
        const auto value = number<int64_t>(key);
        if (type == kU64 && value < 0)
          fail(str_cat("the number of '", shown(key), "' exceeds 2^63 - 1"));
        return value;
      }
    }
  }
  double real(uint32_t type, std::string_view key) {
    return type == kF32 ? static_cast<double>(number<float>(key)) : number<double>(key);
  }
  bool flag(std::string_view key) {
    const auto value = number<uint8_t>(key);
    if (value > 1) fail(str_cat("the bool '", shown(key), "' is ", int{value}));
    return value == 1;
  }

  template <class T, class Read>
  std::vector<T> list(uint64_t count, uint64_t least_bytes, std::string_view key, Read read) {
    check_count(count, least_bytes, str_cat("elements of '", shown(key), "'"));
    std::vector<T> values;
    values.reserve(count);
    for (uint64_t i = 0; i < count; ++i) values.push_back(read());
    return values;
  }

  Metadata array(std::string_view key) {
    const auto type = number<uint32_t>(key);
    const auto count = number<uint64_t>(key);
    if (is_integer(type)) return list<int64_t>(count, 1, key, [&] { return integer(type, key); });
    if (type == kF32 || type == kF64)
      return list<double>(count, 4, key, [&] { return real(type, key); });
    if (type == kBool) return list<bool>(count, 1, key, [&] { return flag(key); });
    if (type == kText) return list<std::string_view>(count, 8, key, [&] { return text(key); });
    fail(str_cat("'", shown(key), "' is an array of type ", type));
  }

  void read_value() {
    const std::string_view key = text("a metadata key");
    const auto type = number<uint32_t>(key);
    Metadata value;
    if (is_integer(type))
      value = integer(type, key);
    else if (type == kF32 || type == kF64)
      value = real(type, key);
    else if (type == kBool)
      value = flag(key);
    else if (type == kText)
      value = text(key);
    else if (type == kArray)
      value = array(key);
    else
      fail(str_cat("'", shown(key), "' has the unknown type ", type));
    if (!file_.metadata_.emplace(key, std::move(value)).second)
      fail(str_cat("the key '", shown(key), "' appears twice"));
  }

  void read_tensors(uint64_t count) {
    struct Place {
      TensorInfo* info;
      std::string_view name;
      uint64_t offset;
    };
    std::vector<Place> places;
    for (uint64_t i = 0; i < count; ++i) {
      const std::string_view name = text("a tensor's name");
      const auto [entry, is_new] = file_.tensors_.emplace(name, TensorInfo{});
      if (!is_new) fail(str_cat("the tensor '", shown(name), "' appears twice"));
      TensorInfo& info = entry->second;
      const auto dims = number<uint32_t>(name);
      if (dims > kMostDims)
        fail(str_cat("the tensor '", shown(name), "' has ", dims, " dims, more than ", kMostDims));
      std::vector<uint64_t> sizes;
      for (uint32_t d = 0; d < dims; ++d) sizes.push_back(number<uint64_t>(name));
      for (size_t d = sizes.size(); d-- > 0;) {
        if (sizes[d] > uint64_t{1} << 40)
          fail(str_cat("the tensor '", shown(name), "' has a size of ", sizes[d]));
        info.shape.push_back(static_cast<int64_t>(sizes[d]));
      }
      info.type = number<int32_t>(name);
      places.push_back({&info, name, number<uint64_t>(name)});
    }
    const int64_t alignment = file_.integer("general.alignment").value_or(kDefaultAlignment);
    if (alignment < 1 || alignment > (1 << 20) || (alignment & (alignment - 1)) != 0)
      fail(str_cat("general.alignment is ", alignment, ", not a power of 2 up to 2^20"));
    const auto step = static_cast<uint64_t>(alignment);
    const uint64_t start = (at_ + step - 1) / step * step;
    // Tensors follow each other in the order of their infos, each at the next multiple of the
    // alignment. The end of a tensor of an unknown type is unknown.
    std::optional<uint64_t> next = 0;
    for (const Place& place : places) {
      const uint64_t bytes = bytes_of(*place.info, place.name);
      if (place.offset % step != 0)
        fail(str_cat("the tensor '", shown(place.name), "' is at offset ", place.offset,
                     ", which is not a multiple of ", alignment));
      if (next && place.offset != *next)
        fail(str_cat("the tensor '", shown(place.name), "' is at offset ", place.offset,
                     ", but the tensor before it ends at ", *next));
      const uint64_t all = bytes_.size();
      if (bytes > 0 &&
          (start > all || place.offset > all - start || bytes > all - start - place.offset))
        fail(str_cat("the tensor '", shown(place.name), "' has ", bytes, " bytes at offset ",
                     start + place.offset, ", but the file has ", all));
      if (bytes > 0) place.info->data = bytes_.subspan(start + place.offset, bytes);
      next.reset();
      if (block_format(place.info->type) != nullptr)
        next = place.offset + (bytes + step - 1) / step * step;
    }
  }

  // Returns 0 for an unknown type; taking such a tensor fails later, by name.
  uint64_t bytes_of(const TensorInfo& info, std::string_view name) const {
    const BlockFormat* format = block_format(info.type);
    if (format == nullptr) return 0;
    const int64_t row = info.shape.empty() ? 1 : info.shape.back();
    if (row % format->elements != 0)
      fail(str_cat("the tensor '", shown(name), "' has rows of ", row, " elements, but ",
                   format->name, " has blocks of ", format->elements));
    uint64_t count = 1;
    for (const int64_t size : info.shape)
      if (__builtin_mul_overflow(count, static_cast<uint64_t>(size), &count) || count > uint64_t{1}
                                                                                            << 56)
        fail(str_cat("the tensor '", shown(name), "' has too many elements"));
    return count / static_cast<uint64_t>(format->elements) * static_cast<uint64_t>(format->bytes);
  }

  File& file_;
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

namespace {

// The end of the name of a part: "-00001-of-00003.gguf".
std::string part_end(int64_t number, int64_t count) {
  const auto digits = [](int64_t value) {
    std::string text = std::to_string(value);
    return text.insert(0, text.size() < 5 ? 5 - text.size() : 0, '0');
  };
  return str_cat("-", digits(number), "-of-", digits(count), ".gguf");
}

}  // namespace

std::vector<std::string> part_paths(const std::string& path) {
  constexpr std::string_view kPattern = "-00001-of-00000.gguf";
  std::vector<std::string> paths = {path};
  if (path.size() <= kPattern.size()) return paths;
  const std::string start = path.substr(0, path.size() - kPattern.size());
  int64_t count = 0;
  for (const char c : path.substr(path.size() - 10, 5)) {
    if (c < '0' || c > '9') return paths;
    count = count * 10 + (c - '0');
  }
  if (path != start + part_end(1, count)) return paths;
  for (int64_t i = 2; i <= count; ++i) paths.push_back(start + part_end(i, count));
  return paths;
}

File File::open_one(const std::string& path, const std::string& label) {
  File file;
  file.label_ = label;
  file.paths_ = {path};
  ReadFile source;
  ReadFile::Kind kind{};
  uint64_t bytes = 0;
  int error = source.open(path);
  if (error == 0) error = source.look(kind, bytes);
  std::shared_ptr<void> data;
  if (error == 0) data = source.map(static_cast<size_t>(bytes));
  if (!data)
    throw Failure{Exit::unreadable, str_cat(label, ": cannot be read (",
                                            std::strerror(error != 0 ? error : errno), ")")};
  Parser(file, {static_cast<const std::byte*>(data.get()), static_cast<size_t>(bytes)}).run();
  file.owners_.push_back(std::move(data));
  return file;
}

File File::open(const std::string& path, const std::string& label) {
  File file = open_one(path, label);
  const int64_t count = file.integer("split.count").value_or(1);
  const int64_t number = file.integer("split.no").value_or(0);
  if (count < 0 || count > 99999 || number < 0 || number >= std::max<int64_t>(count, 1))
    throw Failure{Exit::unreadable, str_cat(label, ": the GGUF file is damaged: it is the part ",
                                            number, " of ", count, ", counted from 0")};
  if (count <= 1) return file;
  if (number > 0)
    throw Failure{Exit::unreadable, str_cat(label, ": the file is part ", number + 1, " of ", count,
                                            " of a split model; convert part 1")};
  file.add_parts(count);
  return file;
}

void File::add_parts(int64_t count) {
  const std::vector<std::string> paths = part_paths(paths_[0]);
  if (static_cast<int64_t>(paths.size()) != count)
    throw Failure{Exit::unreadable,
                  str_cat(label_, ": the file is the first of ", count,
                          " parts of a split model, so its name must end with '",
                          part_end(1, count), "', and the other parts must be next to it")};
  for (int64_t i = 1; i < count; ++i) {
    File part = open_one(paths[static_cast<size_t>(i)], paths[static_cast<size_t>(i)]);
    if (part.integer("split.no") != i || part.integer("split.count") != count)
      throw Failure{Exit::unreadable,
                    str_cat(part.label_, ": the file is not part ", i + 1, " of ", count)};
    for (const auto& [name, info] : part.tensors_)
      if (!tensors_.emplace(name, info).second)
        throw Failure{Exit::unreadable, str_cat(part.label_, ": the tensor '", shown(name),
                                                "' is also in an earlier part")};
    paths_.push_back(part.paths_[0]);
    owners_.push_back(std::move(part.owners_[0]));
  }
  const auto stated = integer("split.tensors.count");
  const auto found = static_cast<int64_t>(tensors_.size());
  if (stated.value_or(found) != found)
    throw Failure{Exit::unreadable, str_cat(label_, ": the file states ", *stated,
                                            " tensors, but its ", count, " parts have ", found)};
}

const Metadata* File::find(std::string_view key) const {
  const auto entry = metadata_.find(key);
  return entry == metadata_.end() ? nullptr : &entry->second;
}

namespace {

[[noreturn]] void wrong_kind(const std::string& label, std::string_view key,
                             std::string_view kind) {
  throw Failure{Exit::unreadable, str_cat(label, ": the metadata '", key, "' is not ", kind)};
}

}  // namespace

std::optional<int64_t> File::integer(std::string_view key) const {
  const Metadata* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(value)) return *number;
  wrong_kind(label_, key, "an integer");
}

std::optional<double> File::real(std::string_view key) const {
  const Metadata* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  wrong_kind(label_, key, "a number");
}

std::optional<bool> File::flag(std::string_view key) const {
  const Metadata* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  wrong_kind(label_, key, "a bool");
}

std::optional<std::string> File::text(std::string_view key) const {
  const Metadata* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string_view>(value)) return std::string(*text);
  wrong_kind(label_, key, "a text");
}

}  // namespace hg::convert::gguf
