// SPDX-License-Identifier: Apache-2.0
// hg-embed: writes an object file that contains a model, for a program to link.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/model.h"
#include "hg/status.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/overwrites.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

// An object file that holds bytes. Follows the System V ABI, chapter 4, with the numbers of 64-bit
// little-endian ELF.
struct FileHeader {
  uint8_t ident[16] = {0x7f, 'E', 'L', 'F', 2, 1, 1};  // 64 bits, little-endian, version 1
  uint16_t type = 1;                                   // relocatable
  uint16_t machine = 0;
  uint32_t version = 1;
  uint64_t entry = 0, program_headers = 0, section_headers = 0;
  uint32_t flags = 0;
  uint16_t header_bytes = 64, program_header_bytes = 0, program_header_count = 0;
  uint16_t section_header_bytes = 64, section_count = 0, name_section = 0;
};
static_assert(sizeof(FileHeader) == 64);

struct Section {
  uint32_t name = 0, type = 0;
  uint64_t flags = 0, address = 0, offset = 0, bytes = 0;
  uint32_t link = 0, info = 0;
  uint64_t alignment = 1, entry_bytes = 0;
};
static_assert(sizeof(Section) == 64);

struct Symbol {
  uint32_t name = 0;
  uint8_t info = 0, other = 0;
  uint16_t section = 0;
  uint64_t value = 0, bytes = 0;
};
static_assert(sizeof(Symbol) == 24);

constexpr uint32_t kData = 1, kSymbols = 2, kStrings = 3;  // types of sections
constexpr uint64_t kAllocated = 2;
constexpr uint8_t kGlobalObject = 1 << 4 | 1;

struct Machine {
  std::string_view name;
  uint16_t number;
  uint32_t flags;
};
constexpr Machine kMachines[] = {{"x86-64", 62, 0},
                                 {"aarch64", 183, 0},
                                 {"riscv64", 243, 5}};  // 5: rv64gc, doubles in registers

#if defined(__x86_64__)
constexpr std::string_view kThisMachine = "x86-64";
#elif defined(__aarch64__)
constexpr std::string_view kThisMachine = "aarch64";
#elif defined(__riscv)
constexpr std::string_view kThisMachine = "riscv64";
#else
constexpr std::string_view kThisMachine = "";
#endif

// Keywords of C and C++, each between spaces.
constexpr std::string_view kKeywords =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t "
    "char32_t char8_t class co_await co_return co_yield compl concept const const_cast "
    "consteval constexpr constinit continue decltype default delete do double dynamic_cast "
    "else enum explicit export extern false float for friend goto if inline int long mutable "
    "namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires restrict return short signed sizeof static "
    "static_assert static_cast struct switch template this thread_local throw true try "
    "typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while "
    "xor xor_eq ";

class File {
 public:
  template <class T>
  void put(const T& value) {
    put({reinterpret_cast<const std::byte*>(&value), sizeof value});
  }
  void put(std::span<const std::byte> bytes) { all.insert(all.end(), bytes.begin(), bytes.end()); }
  uint64_t align(size_t to) {
    all.resize((all.size() + to - 1) / to * to);
    return all.size();
  }
  std::vector<std::byte> all;
};

// Zero-terminated strings, identified by their offset.
uint32_t add(std::string& strings, std::string_view text) {
  const auto at = static_cast<uint32_t>(strings.size());
  strings.append(text).push_back('\0');
  return at;
}

// "resnet18" from "models/resnet18.hgm": a valid name in C and C++, so "model_int" from "int.hgm".
std::string symbol_of(std::string_view path) {
  std::string symbol = text_of(path_of(std::string(path)).filename());
  if (symbol.ends_with(".hgm")) symbol.resize(symbol.size() - 4);
  for (char& c : symbol)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (symbol.empty() || std::isdigit(static_cast<unsigned char>(symbol[0])) ||
      kKeywords.find(" " + symbol + " ") != kKeywords.npos)
    symbol.insert(0, "model_");
  return symbol;
}

// Returns a relocatable 64-bit ELF file with the bytes as constant data, 64-byte aligned, under the
// name `symbol`, and their number as the 64-bit integer `symbol`_size. `machine` is x86-64, aarch64
// or riscv64; empty: the machine that this program runs on.
Result<std::vector<std::byte>> elf_object(std::span<const std::byte> bytes,
                                          const std::string& symbol, std::string_view machine) {
  static_assert(std::endian::native == std::endian::little);
  const std::string_view wanted = machine.empty() ? kThisMachine : machine;
  const Machine* const found = std::find_if(std::begin(kMachines), std::end(kMachines),
                                            [&](const Machine& m) { return m.name == wanted; });
  if (found == std::end(kMachines))
    return unsupported("objects are made for x86-64, aarch64 and riscv64, not for '", wanted, "'");
  HG_CHECK(symbol_of(symbol) == symbol, "'", symbol, "' is not a valid name in C; use '",
           symbol_of(symbol), "'");

  std::string strings(1, '\0'), names(1, '\0');
  const uint64_t size_at = (bytes.size() + 7) / 8 * 8;
  const Symbol symbols[] = {
      {},
      {add(strings, symbol), kGlobalObject, 0, 1, 0, bytes.size()},
      {add(strings, symbol + "_size"), kGlobalObject, 0, 1, size_at, sizeof(uint64_t)}};
  File file;
  file.put(FileHeader());
  Section sections[6];
  sections[1] = {add(names, ".rodata"), kData, kAllocated, 0,  file.align(64),
                 size_at + 8,           0,     0,          64, 0};
  file.put(bytes);
  file.align(8);
  file.put(uint64_t{bytes.size()});
  sections[2] = {add(names, ".symtab"), kSymbols, 0, 0, file.align(8),
                 sizeof symbols,        3,        1, 8, sizeof(Symbol)};
  for (const Symbol& each : symbols) file.put(each);
  sections[3] = {add(names, ".strtab"), kStrings, 0, 0, file.align(1), strings.size(), 0, 0, 1, 0};
  file.put(std::as_bytes(std::span(strings)));
  // Marks the stack as not executable.
  sections[4] = {add(names, ".note.GNU-stack"), kData, 0, 0, file.align(1), 0, 0, 0, 1, 0};
  sections[5] = {add(names, ".shstrtab"), kStrings, 0, 0, file.align(1), 0, 0, 0, 1, 0};
  sections[5].bytes = names.size();
  file.put(std::as_bytes(std::span(names)));
  FileHeader header;
  header.machine = found->number;
  header.flags = found->flags;
  header.section_headers = file.align(8);
  header.section_count = std::size(sections);
  header.name_section = 5;
  for (const Section& each : sections) file.put(each);
  std::memcpy(file.all.data(), &header, sizeof header);
  return std::move(file.all);
}

constexpr char kExamples[] = R"(Examples:
  hg-embed digits.hgm -o digits.o
  hg-embed digits.hgm -o digits.o --symbol my_model --machine aarch64

The object holds the file's bytes under the model's name. Declare and borrow them in a program:
  extern "C" const std::byte digits[];
  extern "C" const uint64_t digits_size;
  hg::Result<hg::Model> model = hg::Model::borrow({digits, digits_size});

Exit codes: 0 ok, 1 usage, 2 unreadable or unwritable file, 3 unsupported.)";

struct EmbedJob {
  std::string model, out, symbol, machine;
};

Outcome embed(const EmbedJob& job) {
  const FileOption read{"MODEL", job.model}, written{"-o", job.out};
  if (Outcome o = check_overwrites({&written, 1}, {&read, 1}); !o.ok()) return o;
  // Checks that the model can be loaded before it is embedded.
  if (const Result<Model> model = Model::load(job.model); !model.ok())
    return outcome(model.status());
  std::ifstream file(path_of(job.model), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return {Exit::unreadable, str_cat(job.model, ": cannot be read")};
  const Result<std::vector<std::byte>> object =
      elf_object(std::as_bytes(std::span(bytes)),
                 job.symbol.empty() ? symbol_of(job.model) : job.symbol, job.machine);
  if (object.status().code() == Code::invalid_argument) return usage(object.status().message());
  if (!object.ok()) return outcome(object.status());
  std::ofstream out(path_of(job.out), std::ios::binary);
  out.write(reinterpret_cast<const char*>(object->data()),
            static_cast<std::streamsize>(object->size()));
  out.close();
  if (!out) return {Exit::unreadable, str_cat(job.out, ": cannot be written")};
  return {};
}

}  // namespace
}  // namespace hg::tools

int main(int argc, char** argv) {
  using namespace hg::tools;
  use_utf8(argc, argv);
  CommandLine line("hg-embed", "Makes an object file from a Hologram model.", kExamples);
  EmbedJob job;
  line.add("MODEL", job.model, "the model, an .hgm file").is_required();
  line.add("-o,--output", job.out, "the object file to write").is_required();
  line.add("--symbol", job.symbol, "the symbol of the bytes; default: the file's name");
  line.add("--machine", job.machine, "x86-64, aarch64 or riscv64; default: this machine");
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  return finish("hg-embed", embed(job));
}
