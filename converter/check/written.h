// SPDX-License-Identifier: Apache-2.0
// The converted model as bytes: written while libtorch still runs, read back for the check, and
// moved into place at the end. Without keep(), nothing of it remains.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "hg/model.h"

namespace hg::convert {

struct Destination {
  std::string output;   // a file, or "-" for standard output
  int descriptor = -1;  // of an open, empty file that takes the bytes in its place
};

class WrittenModel {
 public:
  // `info` may wait. A pipe or a device, and "-" for standard output, get nothing before keep().
  // The model and the registry must outlive this. Throws Failure where `output` is a directory.
  WrittenModel(Model& model, Destination destination, const Registry& registry,
               std::function<Model::Info()> info);
  ~WrittenModel();
  WrittenModel(const WrittenModel&) = delete;
  WrittenModel& operator=(const WrittenModel&) = delete;

  // What the bytes hold. Waits for them; throws Failure when they cannot be written or read.
  const Model& read_back();
  // Throws Failure. Bytes that have to say what was not exercised are written again, and held
  // against those that were checked.
  void keep(const std::vector<std::string>& not_exercised);

 private:
  void rewrite(const std::vector<std::string>& not_exercised);
  bool is_same(const Result<Model>& again) const;
  void send(const std::vector<std::byte>& bytes) const;

  Model& model_;
  const std::string output_;
  const int descriptor_;
  const Registry& registry_;
  bool stream_ = false;
  std::vector<std::byte> bytes_;  // of a stream
  Model back_;
  bool is_read_ = false;
  std::promise<std::string> temporary_;  // where the bytes of a file lie; empty: nowhere
  std::promise<bool> keep_;
  bool answered_ = false;
  std::future<Status> done_;  // last: its end waits for the thread
};

}  // namespace hg::convert
