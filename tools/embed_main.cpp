// SPDX-License-Identifier: Apache-2.0
// hg-embed: writes an object file that contains a model, for a program to link.
#include <fstream>
#include <optional>

#include "hg/model.h"
#include "tools/command_line/command_line.h"
#include "tools/command_line/overwrites.h"
#include "tools/elf_object.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

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
