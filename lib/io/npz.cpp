// SPDX-License-Identifier: Apache-2.0
#include "hg/npz.h"

#include <zip.h>

#include <memory>
#include <set>

#include "hg/npy.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

constexpr std::string_view kEnding = ".npy";

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

Result<Archive> open(const std::string& path, int flags) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), flags, &code));
  if (archive != nullptr) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string why = zip_error_strerror(&error);
  zip_error_fini(&error);
  if (code == ZIP_ER_NOENT || code == ZIP_ER_OPEN)
    return not_found(path, ": cannot be opened: ", why);
  return corrupt_model(path, ": is not a .npz archive: ", why);
}

Result<Array> read_entry(const std::string& path, zip_t* archive, zip_uint64_t index,
                         std::string& name) {
  zip_stat_t stat;
  if (zip_stat_index(archive, index, 0, &stat) != 0 || !(stat.valid & ZIP_STAT_SIZE) ||
      !(stat.valid & ZIP_STAT_NAME))
    return corrupt_model(path, ": entry ", index, " has no name or no size");
  name = stat.name;
  const std::string label = str_cat(path, ": ", name);
  const std::unique_ptr<zip_file_t, CloseEntry> entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) return corrupt_model(label, ": ", zip_strerror(archive));
  // Reads in pieces, so that a false size in the archive allocates no memory.
  std::vector<std::byte> bytes;
  constexpr zip_uint64_t kPiece = 1 << 20;
  while (bytes.size() < stat.size) {
    const size_t had = bytes.size();
    bytes.resize(had + std::min<zip_uint64_t>(kPiece, stat.size - had));
    const zip_int64_t got = zip_fread(entry.get(), bytes.data() + had, bytes.size() - had);
    if (got <= 0)
      return corrupt_model(label, ": ends after ", static_cast<int64_t>(had), " of ",
                           uint64_t{stat.size}, " bytes");
    bytes.resize(had + static_cast<size_t>(got));
  }
  // libzip verifies the checksum when a read reaches the end.
  std::byte end;
  if (zip_fread(entry.get(), &end, 1) != 0) return corrupt_model(label, ": its checksum is wrong");
  if (std::string_view(name).ends_with(kEnding)) name.resize(name.size() - kEnding.size());
  return read_npy(bytes, label);
}

}  // namespace

Result<NamedArrays> read_npz(const std::string& path) {
  return or_no_memory([&]() -> Result<NamedArrays> {
    HG_TRY_ASSIGN(const Archive archive, open(path, ZIP_RDONLY));
    NamedArrays arrays;
    const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) {
      std::string name;
      HG_TRY_ASSIGN(Array array,
                    read_entry(path, archive.get(), static_cast<zip_uint64_t>(i), name));
      arrays.emplace_back(std::move(name), std::move(array));
    }
    return arrays;
  });
}

Status write_npz(const std::string& path, const NamedArrays& arrays, bool compressed) {
  return or_no_memory([&]() -> Status {
    std::set<std::string_view> names;
    for (const auto& [name, array] : arrays) {
      HG_CHECK(!name.empty(), path, ": an array has no name");
      HG_CHECK(names.insert(name).second, path, ": two arrays have the name '", name, "'");
      HG_CHECK(array, path, ": the array '", name, "' is empty or freed");
      HG_TRY(array.to_host());
    }
    HG_TRY_ASSIGN(Archive archive, open(path, ZIP_CREATE | ZIP_TRUNCATE));
    std::vector<std::vector<std::byte>> files;  // libzip reads them when it closes the archive
    for (const auto& [name, array] : arrays) {
      std::vector<std::byte>& file = files.emplace_back(npy_header(array.dtype(), array.shape()));
      const size_t header = file.size();
      file.resize(header + static_cast<size_t>(array.bytes()));
      copy_elements(array,
                    view(static_cast<void*>(file.data() + header), array.dtype(), array.shape()));
      zip_source_t* const source = zip_source_buffer(archive.get(), file.data(), file.size(), 0);
      const zip_int64_t index =
          source == nullptr ? -1
                            : zip_file_add(archive.get(), (name + std::string(kEnding)).c_str(),
                                           source, ZIP_FL_ENC_UTF_8);
      if (index < 0) {
        if (source != nullptr) zip_source_free(source);
        return out_of_memory(path, ": '", name, "' cannot be added: ", zip_strerror(archive.get()));
      }
      zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index),
                               compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    if (zip_close(archive.get()) != 0)
      return not_found(path, ": cannot be written: ", zip_strerror(archive.get()));
    archive.release();
    return {};
  });
}

}  // namespace hg
