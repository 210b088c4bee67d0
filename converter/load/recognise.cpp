// SPDX-License-Identifier: Apache-2.0
// Reads the first bytes, and in a zip archive the names in its central directory (APPNOTE 6.3,
// sections 4.3.12 to 4.3.16).
#include "converter/load/recognise.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "converter/core/failure.h"

namespace hg::convert {
namespace {

constexpr const char* kSave =
    "in Python, save it with torch.jit.trace(model.eval(), example_inputs).save(\"model.pt\")";

class File {
 public:
  explicit File(const std::string& path) : stream_(path, std::ios::binary) {
    stream_.seekg(0, std::ios::end);
    size_ = static_cast<int64_t>(stream_.tellg());
  }
  bool good() const { return stream_.good(); }
  int64_t size() const { return size_; }
  std::string read(int64_t at, int64_t count) {
    at = std::clamp<int64_t>(at, 0, size_);
    std::string bytes(std::clamp<int64_t>(count, 0, size_ - at), '\0');
    stream_.clear();
    stream_.seekg(at);
    stream_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bytes.resize(std::max<std::streamsize>(stream_.gcount(), 0));
    return bytes;
  }

 private:
  std::ifstream stream_;
  int64_t size_ = 0;
};

uint64_t little(std::string_view bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count && at + i < bytes.size(); ++i)
    value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

struct Entry {
  std::string name;
  int64_t offset = 0;  // of the local header
  int64_t size = 0;
  bool stored = false;  // not compressed
};

// Lists the entries of a zip archive. Returns false if it has no central directory, as in a
// truncated file.
bool list_zip(File& file, std::vector<Entry>& entries) {
  constexpr int64_t kEndBytes = 22, kMostComment = 65535;
  int64_t tail_at = std::max<int64_t>(0, file.size() - kEndBytes - kMostComment);
  std::string tail = file.read(tail_at, file.size());
  size_t end = tail.rfind("PK\x05\x06");
  if (end == std::string::npos) return false;
  uint64_t bytes = little(tail, end + 12, 4), start = little(tail, end + 16, 4);
  size_t locator = tail.rfind("PK\x06\x07", end);
  if (locator != std::string::npos) {  // zip64
    std::string end64 = file.read(static_cast<int64_t>(little(tail, locator + 8, 8)), 56);
    if (end64.starts_with("PK\x06\x06")) {
      bytes = little(end64, 40, 8);
      start = little(end64, 48, 8);
    }
  }
  std::string directory = file.read(static_cast<int64_t>(start), static_cast<int64_t>(bytes));
  if (directory.size() != bytes) return false;
  for (size_t at = 0; at + 46 <= directory.size();) {
    if (directory.compare(at, 4, "PK\x01\x02") != 0) return false;
    size_t name = little(directory, at + 28, 2);
    size_t rest = little(directory, at + 30, 2) + little(directory, at + 32, 2);
    entries.push_back(
        {directory.substr(at + 46, name), static_cast<int64_t>(little(directory, at + 42, 4)),
         static_cast<int64_t>(little(directory, at + 24, 4)), little(directory, at + 10, 2) == 0});
    at += 46 + name + rest;
  }
  return true;
}

std::string contents(File& file, const Entry& entry, int64_t most) {
  std::string header = file.read(entry.offset, 30);
  int64_t data = entry.offset + 30 + static_cast<int64_t>(little(header, 26, 2)) +
                 static_cast<int64_t>(little(header, 28, 2));
  return entry.stored ? file.read(data, std::min(entry.size, most)) : "";
}

// Returns whether a pickle builds an object of a custom class rather than dicts and tensors.
bool holds_module(std::string_view pickle) {
  // GLOBAL "cmodule\nname\n" and STACK_GLOBAL name classes as text.
  if (pickle.find("torch._utils") == std::string_view::npos &&
      pickle.find("collections") == std::string_view::npos && pickle.find("torch") == pickle.npos)
    return false;
  return pickle.find("_modules") != std::string_view::npos &&
         pickle.find("_parameters") != std::string_view::npos;
}

std::string describe_pickle(std::string_view pickle) {
  if (holds_module(pickle))
    return std::string(
               "is a pickled nn.Module (torch.save(model)), which needs its Python code to "
               "load; ") +
           "load it in Python with torch.load(..., weights_only=False) and " +
           "save torch.jit.trace(model.eval(), example_inputs)";
  return std::string(
      "holds tensors without a program, such as a state_dict; build the model in "
      "Python, call load_state_dict and save torch.jit.trace(model.eval(), "
      "example_inputs)");
}

std::string describe_zip(File& file, std::optional<Format>& format) {
  std::vector<Entry> entries;
  if (!list_zip(file, entries))
    return "is a zip archive without a directory, so it is cut off; copy or download it again";
  auto find = [&](std::string_view suffix) -> const Entry* {
    for (const Entry& entry : entries)
      if (entry.name.ends_with(suffix)) return &entry;
    return nullptr;
  };
  bool code = std::any_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.name.find("/code/") != std::string::npos;
  });
  if (code && find("/constants.pkl")) {
    format = Format::torchscript;
    return "";
  }
  if (find("serialized_exported_program.json") || find("archive_format") ||
      find("models/model.json")) {
    format = Format::exported;
    return "";
  }
  if (find("/bytecode.pkl") && !code)
    return std::string("is a model for the mobile interpreter without its code; ") + kSave;
  if (const Entry* pickle = find("/data.pkl"))
    return describe_pickle(contents(file, *pickle, int64_t{1} << 26));
  if (find("[Content_Types].xml") || find("META-INF/MANIFEST.MF"))
    return std::string("is a document or a Java archive, not a model; ") + kSave;
  if (find(".npy")) return std::string("is a NumPy .npz file, which has no program; ") + kSave;
  return std::string("is a zip archive, but not one that torch.jit.save wrote; unpack it, or ") +
         kSave;
}

std::string lower_start(std::string text) {
  size_t start = text.find_first_not_of(" \t\r\n");
  text.erase(0, start == std::string::npos ? text.size() : start);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// ONNX is a protobuf without a magic number. It starts with field 1 (ir_version, varint), followed
// by the producer, the functions, the graph or the opsets.
bool looks_like_onnx(std::string_view head) {
  if (head.size() < 4 || head[0] != '\x08' || head[1] < 1 || head[1] > 0x20) return false;
  constexpr std::string_view kNext = "\x12\x1A\x22\x28\x32\x3A\x42\x72";
  return kNext.find(head[2]) != std::string_view::npos;
}

std::string describe(File& file, std::optional<Format>& format) {
  std::string head = file.read(0, 4096);
  if (head.starts_with("PK\x03\x04")) return describe_zip(file, format);
  std::string start = lower_start(head.substr(0, 512));
  if (start.starts_with("<!doctype html") || start.starts_with("<html"))
    return "is an HTML page, so the download gave a web page instead of the model; open the link "
           "in a browser, or use the direct link to the file";
  if (start.starts_with("version https://git-lfs"))
    return "is a Git LFS pointer, not the model itself; run `git lfs pull`";
  if (head.starts_with("HGMODEL\n"))
    return "is already a .hgm file; use it with hg-run, or give the TorchScript file";
  if (head.starts_with("\x1f\x8b")) return "is compressed with gzip; run `gunzip` on it first";
  if (head.starts_with("\xFD"
                       "7zXZ") ||
      head.starts_with("BZh") || head.starts_with("\x28\xB5\x2F\xFD") ||
      head.starts_with("7z\xBC\xAF"))
    return "is compressed; unpack it first";
  if (head.size() > 262 && head.compare(257, 5, "ustar") == 0) {
    return std::string(
               "is a tar archive; unpack it first, and if it came from a PyTorch before 1.6,"
               " save it again: ") +
           kSave;
  }
  if (head.starts_with("\x93NUMPY"))
    return std::string("is a NumPy array, which has no program; ") + kSave;
  if (head.starts_with("\x89HDF")) return std::string("is an HDF5 file (Keras); ") + kSave;
  if (head.starts_with("GGUF")) {
    format = Format::gguf;
    return "";
  }
  if (head.size() >= 8 && head.compare(4, 4, "TFL3") == 0)
    return std::string("is a TensorFlow Lite model; ") + kSave;
  uint64_t json = little(head, 0, 8);
  if (head.size() > 10 && json > 1 && json < uint64_t(file.size()) && head[8] == '{' &&
      (head[9] == '"' || head[9] == '}' || head[9] == ' '))
    return std::string(
        "is a safetensors file, which holds weights without a program; build the "
        "model in Python, load the weights and save torch.jit.trace(model.eval(), "
        "example_inputs)");
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return describe_pickle(file.read(0, int64_t{1} << 24));
  if (looks_like_onnx(head)) {
    format = Format::onnx;
    return "";
  }
  if (head.starts_with("\x7f"
                       "ELF"))
    return std::string("is a program or a library; ") + kSave;
  bool text = std::none_of(head.begin(), head.end(),
                           [](char c) { return static_cast<unsigned char>(c) < 9; });
  if (text) return std::string("is a text file, not a model; ") + kSave;
  return std::string(
             "is neither a TorchScript archive nor an exported program, which are zip files; ") +
         kSave;
}

}  // namespace

Format recognise(const std::string& path, const std::string& label) {
  const std::string& shown = label.empty() ? path : label;
  std::error_code error;
  std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    throw Failure{Exit::unreadable, shown + ": there is no such file; check the path"};
  if (status.type() == std::filesystem::file_type::directory)
    throw Failure{Exit::unreadable,
                  shown + " is a directory; give the model file (.pt or .pt2) in it"};
  errno = 0;
  File file(path);
  if (!file.good())
    throw Failure{Exit::unreadable, shown + ": cannot be opened (" +
                                        (errno ? std::strerror(errno) : "no permission") +
                                        "); check its permissions"};
  if (file.size() == 0)
    throw Failure{Exit::unreadable, shown + " is empty; save or download the model again"};
  std::optional<Format> format;
  std::string trouble = describe(file, format);
  if (!format) throw Failure{Exit::unreadable, shown + " " + trouble};
  return *format;
}

}  // namespace hg::convert
