// SPDX-License-Identifier: Apache-2.0
// Follows the System V ABI, chapter 4, with the numbers of 64-bit little-endian ELF.
#include "tools/elf_object.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdint>
#include <cstring>

#include "tools/process.h"

namespace hg::tools {
namespace {

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

}  // namespace

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

}  // namespace hg::tools
