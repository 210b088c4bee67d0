// SPDX-License-Identifier: Apache-2.0
#include "converter/load/exported/archive.h"

#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "converter/core/failure.h"
#include "hg/status.h"

namespace hg::convert {
namespace {

// torch stores records uncompressed. An archive that was repacked may be smaller than its contents,
// but programs and weights do not compress to a hundredth.
constexpr uint64_t kMostGrowth = 100, kAlwaysFine = uint64_t{1} << 20;

// Returns "model/" if all names start with it. Archives of PyTorch 2.5 to 2.7 have no such folder.
std::string common_folder(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const std::string folder = names[0].substr(0, names[0].find('/') + 1);
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.starts_with(folder); })
             ? folder
             : "";
}

}  // namespace

Archive::Archive(const std::string& path, std::string label) : label_(std::move(label)) {
  int error = 0;
  zip_ = zip_open(path.c_str(), ZIP_RDONLY, &error);
  if (!zip_) {
    zip_error_t why;
    zip_error_init_with_code(&why, error);
    const std::string reason = zip_error_strerror(&why);
    zip_error_fini(&why);
    throw Failure{Exit::unreadable, str_cat(label_, ": the zip archive cannot be read (", reason,
                                            "); copy or download it again")};
  }
  std::error_code ignored;
  list(std::filesystem::file_size(path, ignored));
}

Archive::Archive(Bytes bytes, std::string label)
    : label_(std::move(label)), bytes_(std::move(bytes.all)) {
  zip_error_t why;
  zip_error_init(&why);
  zip_source_t* source = zip_source_buffer_create(bytes_.data(), bytes_.size(), 0, &why);
  if (source) zip_ = zip_open_from_source(source, ZIP_RDONLY, &why);
  const std::string reason = zip_error_strerror(&why);
  zip_error_fini(&why);
  if (!zip_ && source) zip_source_free(source);
  if (!zip_)
    throw Failure{Exit::unreadable, str_cat(label_, ": the zip archive cannot be read (", reason,
                                            "); copy or download it again")};
  list(bytes_.size());
}

Archive::~Archive() { zip_discard(zip_); }

void Archive::list(uint64_t held) {
  const uint64_t most = held > UINT64_MAX / kMostGrowth ? UINT64_MAX : held * kMostGrowth;
  uint64_t total = 0;
  std::vector<std::string> names;
  std::vector<uint64_t> sizes;
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip_, 0); ++i) {
    zip_stat_t stat;
    if (zip_stat_index(zip_, static_cast<zip_uint64_t>(i), 0, &stat) != 0 ||
        (stat.valid & ZIP_STAT_NAME) == 0 || (stat.valid & ZIP_STAT_SIZE) == 0)
      continue;
    names.emplace_back(stat.name);
    sizes.push_back(stat.size);
    total = stat.size > UINT64_MAX - total ? UINT64_MAX : total + stat.size;
    if (total > std::max(most, kAlwaysFine)) {
      zip_discard(zip_);
      throw Failure{Exit::unreadable,
                    str_cat(label_, ": the archive of ", static_cast<int64_t>(held),
                            " bytes unpacks to more than ", static_cast<int64_t>(kMostGrowth),
                            " times that; it is damaged or made to harm")};
    }
  }
  folder_ = common_folder(names);
  for (size_t i = 0; i < names.size(); ++i) sizes_[names[i].substr(folder_.size())] = sizes[i];
}

void Archive::fail(const std::string& name, const std::string& why) const {
  throw Failure{Exit::unreadable, str_cat(label_, ": the record '", name, "' of the archive ", why,
                                          "; save or download the model again")};
}

std::string Archive::text_of(const std::string& name) const {
  const auto found = sizes_.find(name);
  if (found == sizes_.end()) fail(name, "is missing");
  std::string content(found->second, '\0');
  read(name, content.data(), found->second);
  return content;
}

void Archive::read(const std::string& name, void* to, uint64_t bytes) const {
  const auto found = sizes_.find(name);
  if (found == sizes_.end()) fail(name, "is missing");
  if (found->second != bytes)
    fail(name, str_cat("has ", static_cast<int64_t>(found->second),
                       " bytes where the program says ", static_cast<int64_t>(bytes)));
  zip_file_t* file = zip_fopen(zip_, (folder_ + name).c_str(), 0);
  if (!file) fail(name, str_cat("cannot be opened (", zip_strerror(zip_), ")"));
  uint64_t got = 0;
  // libzip compares the checksum only at the end of the record, so read until a read returns 0.
  for (;;) {
    char beyond;
    const bool full = got == bytes;
    const zip_int64_t count =
        zip_fread(file, full ? &beyond : static_cast<char*>(to) + got, full ? 1 : bytes - got);
    if (count == 0) break;
    if (count < 0 || full) {
      zip_fclose(file);
      fail(name, "is damaged: its contents do not have the size or the checksum that it states");
    }
    got += static_cast<uint64_t>(count);
  }
  zip_fclose(file);
  if (got != bytes) fail(name, "is cut off");
}

}  // namespace hg::convert
