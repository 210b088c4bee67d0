// SPDX-License-Identifier: Apache-2.0
// Knows the messages of libtorch 1.13 to 2.13. Passes on one line of an unknown message.
#include "converter/load/torchscript/load_failure.h"

#include <string_view>

namespace hg::convert {
namespace {

std::string first_line(std::string_view text) {
  size_t start = text.find_first_not_of(" \n\t");
  if (start == std::string_view::npos) return "no reason given";
  text.remove_prefix(start);
  text = text.substr(0, text.find('\n'));
  // libtorch adds the place in its own source before or after the message.
  size_t place = text.find(" (at ");
  if (place != std::string_view::npos) text = text.substr(0, place);
  while (!text.empty() && (text.back() == ' ' || text.back() == '.' || text.back() == ':'))
    text.remove_suffix(1);
  return std::string(text);
}

// Returns the word after `before`, up to white space or one of ".,'()".
std::string word_after(std::string_view text, std::string_view before) {
  size_t at = text.find(before);
  if (at == std::string_view::npos) return "";
  at += before.size();
  size_t end = at;
  while (end < text.size() && std::string_view(" \n\t.,'()").find(text[end]) == text.npos) ++end;
  return std::string(text.substr(at, end - at));
}

}  // namespace

Failure load_failure(const std::string& path, const std::string& what, const std::string& version) {
  const std::string newer =
      "; the file was probably saved by a newer PyTorch: build hg-convert with "
      "that version, or save the model again with PyTorch " +
      version;
  auto has = [&](std::string_view words) { return what.find(words) != std::string::npos; };
  if (has("DefaultCPUAllocator"))
    return {Exit::unsupported, path + ": there is not enough memory for this model"};
  if (std::string op = word_after(what, "Unknown builtin op: "); !op.empty())
    return {Exit::unsupported, path + ": the model uses " + op + ", which libtorch " + version +
                                   " does not have" + newer};
  if (has("Unknown keyword argument") || has("Arguments for call are not valid") ||
      has("argument expected") || has("arguments for call")) {
    std::string op = word_after(what, "operator '");
    for (size_t at = what.find("aten::"); op.empty() && at != std::string::npos;)
      op = "aten::" + word_after(std::string_view(what).substr(at), "aten::");
    return {Exit::unsupported, path + ": the model calls " + (op.empty() ? "an op" : op) +
                                   " with arguments that libtorch " + version + " does not have" +
                                   newer};
  }
  if (has("only supports INT8 bit width") || has("linear_prepack_fp16"))
    return {Exit::unsupported,
            path + ": the model has dynamically quantized layers in f16, which libtorch " +
                version +
                " cannot load without FBGEMM; convert the model from before its quantization, and "
                "store its weights in f16 with hg-quantize --max-error"};
  if (has("file_format_version") || has("Attempted to read a PyTorch file with version"))
    return {Exit::unsupported,
            path + ": the file's format is newer than libtorch " + version + " reads" + newer};
  if (has("Unknown type name") || has("Unknown type constructor"))
    return {Exit::unsupported, path + ": " + first_line(what) + ", a type that libtorch " +
                                   version + " does not know" + newer};
  if (has("bytes, but") || has("failed finding central directory") || has("invalid header") ||
      has("PytorchStreamReader failed"))
    return {Exit::unreadable, path + ": the file is damaged or cut off (" + first_line(what) +
                                  "); copy or download it again"};
  return {Exit::unreadable,
          path + ": libtorch " + version + " cannot load the file: " + first_line(what)};
}

}  // namespace hg::convert
