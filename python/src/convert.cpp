// SPDX-License-Identifier: Apache-2.0
// The converter in this process, without libtorch: reads torch.export files and ONNX.
#include "converter/cli/convert.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <string>
#include <vector>

#include "converter/cli/command.h"
#include "converter/cli/report.h"
#include "python/src/bind.h"
#include "python/src/errors.h"
#include "python/src/interrupt.h"

namespace hg::python {
namespace {

std::vector<const char*> arguments_of(const std::vector<std::string>& words) {
  std::vector<const char*> out = {"hg-convert"};
  for (const std::string& word : words) out.push_back(word.c_str());
  return out;
}

// Runs hg-convert with these words and returns (exit code, message, report as JSON). Prints
// nothing. Ctrl-C ends it after the current stage.
nb::tuple convert_file(const std::vector<std::string>& words) {
  convert::Report report;
  std::string json = "{}";
  {
    const Interrupt interrupt;
    const nb::gil_scoped_release released;
    const std::vector<const char*> arguments = arguments_of(words);
    try {
      const convert::Command command =
          convert::parse_command(static_cast<int>(arguments.size()), arguments.data());
      report = convert::convert(command.job, [&](const std::string&) {
        if (interrupt.token().stop_requested())
          throw convert::Failure{convert::Exit::unreadable, "interrupted"};
      });
      json = convert::report_json(report);
    } catch (const convert::Failure& failure) {
      report.exit = failure.exit;
      report.message = failure.message;
    }
  }
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  return nb::make_tuple(static_cast<int>(report.exit), text_of(report.message), json);
}

}  // namespace

void bind_convert(nb::module_& m) {
  m.def("convert_file", convert_file);
  m.def(
      "convert_command",
      [](const std::vector<std::string>& words) {
        const std::vector<const char*> arguments = arguments_of(words);
        const nb::gil_scoped_release released;
        const int code = convert::run_command(static_cast<int>(arguments.size()), arguments.data());
        std::fflush(stdout);  // Python's own output follows
        return code;
      },
      "Runs hg-convert with these arguments: prints like it and returns its exit code.");
}

}  // namespace hg::python
