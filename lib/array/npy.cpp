// SPDX-License-Identifier: Apache-2.0
// Reads and writes .npy files. The format: https://numpy.org/doc/stable/reference/generated/
// numpy.lib.format.html. The header is a Python dict literal; only its three keys are read.
#include "hg/npy.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "lib/graph/border.h"
#include "lib/graph/readable.h"
#include "lib/platform/file.h"

namespace hg {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;
constexpr uint32_t kLongestHeader = 1 << 20;  // a typical header has about a hundred bytes

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Source of the bytes: a file or memory.
class Source {
 public:
  explicit Source(std::FILE* file) : file_(file) {}
  explicit Source(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t read(void* to, size_t bytes) {
    if (file_ != nullptr) return std::fread(to, 1, bytes, file_);
    const size_t got = std::min(bytes, bytes_.size());
    if (got > 0) std::memcpy(to, bytes_.data(), got);
    bytes_ = bytes_.subspan(got);
    return got;
  }
  // Bytes from here to the end; -1 if unknown, as for a pipe.
  int64_t left() const {
    if (file_ == nullptr) return static_cast<int64_t>(bytes_.size());
    return bytes_left(file_);
  }

 private:
  std::FILE* file_ = nullptr;
  std::span<const std::byte> bytes_;
};

struct Header {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<Sizes> shape;
};

// Parses the dict literal.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  bool parse(Header& header) {
    if (!take('{')) return false;
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':')) return false;
      if (key == "descr") {
        if (!descr(header.descr)) return false;
      } else if (key == "fortran_order") {
        bool value = false;
        if (!boolean_word(value)) return false;
        header.fortran_order = value;
      } else if (key == "shape") {
        Sizes shape;
        if (!sizes(shape)) return false;
        header.shape = shape;
      } else {
        return false;
      }
      if (!take(',') && peek() != '}') return false;
    }
    return !header.descr.empty() && header.fortran_order && header.shape;
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  bool string(std::string& out) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) return false;
    out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }
  // A list here means a record of several fields. It is returned as a name that no dtype has.
  bool descr(std::string& out) {
    if (peek() != '[') return string(out);
    const size_t end = text_.find(']', at_);
    if (end == std::string_view::npos) return false;
    at_ = end + 1;
    out = "record";
    return true;
  }
  bool word(std::string_view wanted) {
    peek();
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }
  bool boolean_word(bool& out) {
    out = word("True");
    return out || word("False");
  }
  bool sizes(Sizes& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      int64_t value = 0;
      if (peek() < '0' || peek() > '9') return false;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        const int digit = text_[at_] - '0';
        if (value > (std::numeric_limits<int64_t>::max() - digit) / 10) return false;
        value = value * 10 + digit;
      }
      take('L');  // suffix of long integers in Python 2
      out.push_back(value);
      if (!take(',') && peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

struct DTypeCode {
  DType dtype;
  std::string_view code;  // without byte order
};
constexpr DTypeCode kCodes[] = {{f32, "f4"}, {f64, "f8"},     {f16, "f2"}, {bf16, "V2"},
                                {i64, "i8"}, {i32, "i4"},     {i16, "i2"}, {i8, "i1"},
                                {u8, "u1"},  {boolean, "b1"}, {c64, "c8"}, {c128, "c16"}};

Result<DType> parse_descr(const std::string& path, const std::string& descr) {
  if (descr == "bfloat16") return bf16;
  const char order = descr.front();
  const bool has_order = order == '<' || order == '>' || order == '|' || order == '=';
  const std::string_view code = std::string_view(descr).substr(has_order ? 1 : 0);
  for (const DTypeCode& row : kCodes) {
    if (row.code != code) continue;
    if (order == '>' && size_of(row.dtype) > 1 && row.dtype != bf16) {
      return unsupported(path, ": elements of type '", descr,
                         "' are big-endian; save it with .astype('<", code, "')");
    }
    return row.dtype;
  }
  if (descr == "record")
    return unsupported(path, ": holds records of several fields, not a tensor");
  return unsupported(path, ": elements of type '", descr,
                     "' have no dtype here; there are f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool c64 "
                     "c128; numpy saves "
                     "bf16 as ml_dtypes.bfloat16, or as float32");
}

// Bytes of the elements; nullopt if they do not fit in 63 bits.
std::optional<int64_t> checked_bytes(const Sizes& shape, DType dtype) {
  for (int64_t size : shape) {
    if (size == 0) return 0;
  }
  int64_t bytes = size_of(dtype);
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

Sizes fortran_strides(const Sizes& shape) {
  Sizes strides;
  int64_t step = 1;
  for (int64_t size : shape) {
    strides.push_back(step);
    step *= size;
  }
  return strides;
}

Result<std::string> read_header_text(const std::string& path, Source& source) {
  char start[12] = {};
  size_t got = source.read(start, 10);
  if (got >= 4 && std::memcmp(start, "PK\x03\x04", 4) == 0) {
    return corrupt_model(path, ": is a .npz archive of several arrays, which read_npz() reads");
  }
  if (got < 10 || std::memcmp(start, kMagic, kMagicBytes) != 0) {
    return corrupt_model(
        path, ": is not a .npy file, which would start with \\x93NUMPY; numpy.save writes one");
  }
  const int version = static_cast<unsigned char>(start[6]);
  const auto byte = [&](int i) { return uint32_t{static_cast<unsigned char>(start[i])}; };
  uint32_t length = byte(8) | byte(9) << 8;
  if (version == 2 || version == 3) {
    if (source.read(start + 10, 2) != 2) return corrupt_model(path, ": ends in its header");
    length |= byte(10) << 16 | byte(11) << 24;
  } else if (version != 1) {
    return unsupported(path, ": .npy version ", version, " is not one of 1, 2 and 3");
  }
  if (length > kLongestHeader) {
    return corrupt_model(path, ": a header of ", length, " bytes is longer than ", kLongestHeader);
  }
  std::string text(length, '\0');
  if (source.read(text.data(), length) != length) {
    return corrupt_model(path, ": ends in its header of ", length, " bytes");
  }
  return text;
}

std::string header_text(DType dtype, const Sizes& shape) {
  std::string_view code;
  for (const DTypeCode& row : kCodes) {
    if (row.dtype == dtype) code = row.code;
  }
  const char* order = size_of(dtype) == 1 ? "|" : "<";
  std::string out = str_cat("{'descr': '", order, code, "', 'fortran_order': False, 'shape': (");
  for (int i = 0; i < shape.rank(); ++i) {
    out += str_cat(i == 0 ? "" : " ", shape[i], i == 0 || i + 1 < shape.rank() ? "," : "");
  }
  out += "), }";
  const size_t prefix = kMagicBytes + 4;
  out.resize((prefix + out.size() + 1 + 63) / 64 * 64 - prefix - 1, ' ');
  return out + '\n';
}

Result<Array> read(const std::string& path, Source source) {
  HG_TRY_ASSIGN(const std::string header_bytes, read_header_text(path, source));
  Header header;
  if (!HeaderParser(header_bytes).parse(header)) {
    return corrupt_model(path,
                         ": its header is not a valid .npy header: ", header_bytes.substr(0, 200));
  }
  const Sizes& shape = *header.shape;
  if (shape.overflowed()) {
    return unsupported(path, ": has more than ", kMaxRank, " dimensions");
  }
  HG_TRY_ASSIGN(const DType dtype, parse_descr(path, header.descr));
  const std::optional<int64_t> bytes = checked_bytes(shape, dtype);
  if (!bytes) return corrupt_model(path, ": the product of shape ", shape, " overflows");
  const int64_t left = source.left();
  if (left >= 0 && left < *bytes) {
    return corrupt_model(path, ": holds ", left, " bytes of elements, but ", dtype, shape,
                         " needs ", *bytes);
  }
  HG_TRY_ASSIGN(TensorData data, TensorData::allocate(dtype, shape));
  const size_t got = *bytes == 0 ? 0 : source.read(data.tensor.data, static_cast<size_t>(*bytes));
  if (static_cast<int64_t>(got) != *bytes) {
    return corrupt_model(path, ": only ", static_cast<int64_t>(got), " of ", *bytes,
                         " bytes could be read");
  }
  if (dtype == boolean) {
    for (int64_t i = 0; i < *bytes; ++i) {
      if (data.tensor.as<uint8_t>()[i] > 1) {
        return corrupt_model(path, ": element ", i, " is the byte ",
                             int{data.tensor.as<uint8_t>()[i]}, ", expected a bool (0 or 1)");
      }
    }
  }
  if (*header.fortran_order) data.tensor.strides = fortran_strides(shape);
  return Array::wrap(data.tensor, std::move(data.owner));
}

}  // namespace

Result<Array> read_npy(const std::string& path) {
  return or_no_memory([&]() -> Result<Array> {
    File file(open_stream(path, "rb"));
    if (!file) return not_found(path, ": cannot be opened: ", std::strerror(errno));
    return read(path, Source(file.get()));
  });
}

Result<Array> read_npy(std::span<const std::byte> bytes, const std::string& name) {
  return or_no_memory([&]() -> Result<Array> { return read(name, Source(bytes)); });
}

std::vector<std::byte> npy_header(DType dtype, const Sizes& shape) {
  const std::string header = header_text(dtype, shape);
  std::vector<std::byte> bytes(kMagicBytes + 4 + header.size());
  const unsigned char start[4] = {1, 0, static_cast<unsigned char>(header.size() & 0xff),
                                  static_cast<unsigned char>(header.size() >> 8)};
  std::memcpy(bytes.data(), kMagic, kMagicBytes);
  std::memcpy(bytes.data() + kMagicBytes, start, sizeof start);
  std::memcpy(bytes.data() + kMagicBytes + sizeof start, header.data(), header.size());
  return bytes;
}

Status write_npy(const std::string& path, const ConstTensor& tensor) {
  return or_no_memory([&]() -> Status {
    HG_CHECK(is_readable(tensor), path, ": a tensor has ", unreadable_part(tensor));
    TensorData owned;
    ConstTensor source = tensor;
    if (!tensor.is_contiguous()) {
      HG_TRY_ASSIGN(owned, TensorData::copy_of(tensor));
      source = owned.tensor;
    }
    File file(open_stream(path, "wb"));
    if (!file) return not_found(path, ": cannot be written: ", std::strerror(errno));
    const std::vector<std::byte> header = npy_header(source.dtype, source.shape);
    const auto bytes = static_cast<size_t>(source.bytes());
    bool whole = std::fwrite(header.data(), 1, header.size(), file.get()) == header.size() &&
                 (bytes == 0 || std::fwrite(source.data, 1, bytes, file.get()) == bytes);
    whole = std::fclose(file.release()) == 0 && whole;
    if (!whole) return not_found(path, ": cannot be written whole: ", std::strerror(errno));
    return {};
  });
}

}  // namespace hg
