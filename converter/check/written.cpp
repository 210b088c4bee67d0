// SPDX-License-Identifier: Apache-2.0
#include "converter/check/written.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "converter/core/failure.h"
#include "lib/graph/same_bits.h"

namespace hg::convert {
namespace {

void require(const Status& status) {
  if (status.ok()) return;
  throw Failure{status.code() == Code::unsupported ? Exit::unsupported : Exit::unreadable,
                std::string(status.message())};
}

bool is_same_graph(const Graph& a, const Graph& b) {
  if (a.text() != b.text()) return false;
  return std::equal(
      a.states().begin(), a.states().end(), b.states().begin(), b.states().end(),
      [](const State& x, const State& y) { return have_same_bits(x.data.tensor, y.data.tensor); });
}

bool is_stream(const std::string& output) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(output, ignored);
  return output == "-" ||
         (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status));
}

}  // namespace

void require_writable(const std::string& output) {
  if (output == "-") return;
  std::error_code ignored;
  if (std::filesystem::is_directory(output, ignored))
    throw Failure{Exit::usage, output + " is a directory; give a file with -o"};
  // A new file next to the output replaces it.
  std::filesystem::path place = output;
  if (!is_stream(output)) place = place.has_parent_path() ? place.parent_path() : ".";
  if (access(place.c_str(), W_OK) != 0)
    throw Failure{Exit::unreadable, str_cat("cannot write '", output, "': ", std::strerror(errno))};
}

WrittenModel::WrittenModel(Model& model, Destination destination, const Registry& registry,
                           std::function<Model::Info()> info)
    : model_(model),
      output_(std::move(destination.output)),
      descriptor_(destination.descriptor),
      registry_(registry),
      stream_(is_stream(output_) || descriptor_ >= 0) {
  done_ = std::async(std::launch::async, [this, info = std::move(info)]() -> Status {
    model_.set_info(info());
    if (stream_) {
      HG_TRY_ASSIGN(bytes_, model_.serialize());
      return {};
    }
    bool is_told = false;
    Status status = model_.save(output_, [&](const std::string& temporary) {
      is_told = true;
      temporary_.set_value(temporary);
      return keep_.get_future().get();
    });
    if (!is_told) temporary_.set_value("");
    return status;
  });
}

WrittenModel::~WrittenModel() {
  if (!answered_) keep_.set_value(false);
}

const Model& WrittenModel::read_back() {
  if (is_read_) return back_;
  if (stream_) require(done_.get());
  const std::string temporary = stream_ ? "" : temporary_.get_future().get();
  if (!stream_ && temporary.empty()) require(done_.get());
  Result<Model> back = stream_ ? Model::read(bytes_, registry_) : Model::load(temporary, registry_);
  if (!back.ok())
    throw Failure{Exit::unsupported, str_cat("the file that was written cannot be read back: ",
                                             back.status().message(), "; please report it")};
  back_ = *std::move(back);
  is_read_ = true;
  return back_;
}

void WrittenModel::keep(const std::vector<std::string>& not_exercised) {
  read_back();
  if (!not_exercised.empty()) return rewrite(not_exercised);
  if (stream_) return send(bytes_);
  answered_ = true;
  keep_.set_value(true);
  require(done_.get());
}

void WrittenModel::rewrite(const std::vector<std::string>& not_exercised) {
  if (!stream_) {
    answered_ = true;
    keep_.set_value(false);
    require(done_.get());
  }
  Model::Info info = model_.info();
  info.not_exercised = not_exercised;
  model_.set_info(std::move(info));
  if (stream_) {
    Result<std::vector<std::byte>> bytes = model_.serialize();
    require(bytes.status());
    if (is_same(Model::read(*bytes, registry_))) return send(*bytes);
  } else {
    bool kept = false;
    require(model_.save(output_, [&](const std::string& temporary) {
      return kept = is_same(Model::load(temporary, registry_));
    }));
    if (kept) return;
  }
  throw Failure{Exit::unreadable,
                "the bytes that were written again are not those that were checked; is another "
                "process writing there?"};
}

// Whether the graphs and the weights are those that were checked.
bool WrittenModel::is_same(const Result<Model>& again) const {
  if (!again.ok() || again->entries() != back_.entries()) return false;
  std::vector<std::string> entries = back_.entries();
  if (entries.empty()) entries.emplace_back();
  return std::all_of(entries.begin(), entries.end(), [&](const std::string& name) {
    const Result<Model> a = again->entry(name), b = back_.entry(name);
    return a.ok() && b.ok() && is_same_graph(a->graph(), b->graph());
  });
}

void WrittenModel::send(const std::vector<std::byte>& bytes) const {
  const bool standard = output_ == "-" && descriptor_ < 0;
  std::FILE* file = standard           ? stdout
                    : descriptor_ >= 0 ? fdopen(dup(descriptor_), "wb")
                                       : std::fopen(output_.c_str(), "wb");
  errno = 0;
  const bool written = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() &&
                       std::fflush(file) == 0;
  const std::string reason = std::strerror(errno);
  if (file && !standard) std::fclose(file);
  if (!written)
    throw Failure{Exit::unreadable, str_cat(output_ == "-" ? "standard output" : output_,
                                            ": cannot be written: ", reason)};
}

}  // namespace hg::convert
