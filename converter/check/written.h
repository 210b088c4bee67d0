// SPDX-License-Identifier: Apache-2.0
// The converted model as bytes: written while libtorch runs, read back for the check, and moved
// into place at the end. Without keep(), no output remains.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "hg/model.h"

namespace hg::convert {

struct Destination {
  std::string output;   // a file, or "-" for standard output
  int descriptor = -1;  // an open, empty file that replaces `output`; -1: none
};

// Throws Failure if `output` is a directory, or if a file cannot be written there.
void require_writable(const std::string& output);

class WrittenModel {
 public:
  // `info` may block. Pipes, devices and standard output ("-") get nothing before keep(). The model
  // and the registry must outlive this object.
  WrittenModel(Model& model, Destination destination, const Registry& registry,
               std::function<Model::Info()> info);
  ~WrittenModel();
  WrittenModel(const WrittenModel&) = delete;
  WrittenModel& operator=(const WrittenModel&) = delete;

  // Returns the model as read back. Waits until it is written; throws Failure if it cannot be
  // written or read.
  const Model& read_back();
  // Throws Failure. If `not_exercised` must be added, the bytes are written again and compared with
  // those that were checked.
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
  std::promise<std::string> temporary_;  // path of the temporary file; empty: none
  std::promise<bool> keep_;
  bool answered_ = false;
  std::future<Status> done_;  // last member: its destructor waits for the thread
};

}  // namespace hg::convert
