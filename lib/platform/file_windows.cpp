// SPDX-License-Identifier: Apache-2.0
// The system gets paths as UTF-16. Paths of more than 259 characters need its prefix for long
// paths, which requires absolute paths with backslashes.
#include "lib/platform/file.h"

#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
//
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace hg {
namespace {

int errno_of(DWORD error) {
  switch (error) {
    case ERROR_SUCCESS:
      return 0;
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
      return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
    case ERROR_USER_MAPPED_FILE:
      return EACCES;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
      return EEXIST;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
      return ENOSPC;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT:
      return ENOMEM;
    default:
      return EIO;
  }
}

// Converts UTF-8 to UTF-16; empty if the input is not valid UTF-8.
std::wstring wide(const std::string& text) {
  const auto bytes = static_cast<int>(text.size());
  std::wstring out;
  const int length =
      MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), bytes, nullptr, 0);
  if (length <= 0) return out;
  out.resize(static_cast<size_t>(length));
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), bytes, out.data(), length);
  return out;
}

std::wstring wide_path(const std::string& path) {
  std::wstring out = wide(path);
  if (out.starts_with(L"\\\\?\\")) return out;
  const DWORD length = GetFullPathNameW(out.c_str(), 0, nullptr, nullptr);  // with the final 0
  if (length <= MAX_PATH) return out;
  std::wstring full(length, L'\0');
  full.resize(GetFullPathNameW(out.c_str(), length, full.data(), nullptr));
  if (full.starts_with(L"\\\\")) return L"\\\\?\\UNC" + full.substr(1);
  return L"\\\\?\\" + full;
}

bool is_special(const std::wstring& path) {
  const HANDLE file = CreateFileW(path.c_str(), GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                                  nullptr, OPEN_EXISTING, 0, nullptr);
  if (file == INVALID_HANDLE_VALUE) return false;
  const DWORD type = GetFileType(file);
  CloseHandle(file);
  return type == FILE_TYPE_CHAR || type == FILE_TYPE_PIPE;
}

}  // namespace

std::FILE* open_stream(const std::string& path, const char* mode) {
  return _wfopen(wide_path(path).c_str(), wide(mode).c_str());
}

int64_t bytes_left(std::FILE* stream) {
  const int64_t here = _ftelli64(stream);
  if (here < 0 || _fseeki64(stream, 0, SEEK_END) != 0) return -1;
  const int64_t end = _ftelli64(stream);
  if (_fseeki64(stream, here, SEEK_SET) != 0) return -1;
  return end - here;
}

ReadFile::~ReadFile() {
  if (number_ >= 0) _close(number_);
}

int ReadFile::open(const std::string& path) {
  const std::wstring name = wide_path(path);
  // Other processes may write, rename and delete the file meanwhile, as on other systems.
  const HANDLE file = CreateFileW(
      name.c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);  // also folders
  if (file == INVALID_HANDLE_VALUE) return errno_of(GetLastError());
  number_ = _open_osfhandle(reinterpret_cast<intptr_t>(file), _O_RDONLY | _O_BINARY);
  if (number_ >= 0) return 0;
  const int error = errno;
  CloseHandle(file);
  return error;
}

int ReadFile::look(Kind& kind, uint64_t& bytes) const {
  const auto file = reinterpret_cast<HANDLE>(_get_osfhandle(number_));
  kind = Kind::other;
  bytes = 0;
  if (GetFileType(file) != FILE_TYPE_DISK) return 0;
  BY_HANDLE_FILE_INFORMATION info;
  if (!GetFileInformationByHandle(file, &info)) return errno_of(GetLastError());
  const bool is_folder = (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  kind = is_folder ? Kind::directory : Kind::regular;
  bytes = uint64_t{info.nFileSizeHigh} << 32 | info.nFileSizeLow;
  return 0;
}

int64_t ReadFile::read(void* to, size_t bytes) {
  return _read(number_, to, static_cast<unsigned>(std::min<size_t>(bytes, INT_MAX)));
}

bool ReadFile::is_in_memory(size_t) const { return false; }

std::shared_ptr<void> ReadFile::map(size_t bytes, bool writable) const {
  const auto file = reinterpret_cast<HANDLE>(_get_osfhandle(number_));
  const uint64_t end = bytes;
  const HANDLE mapping = CreateFileMappingW(
      file, nullptr, writable ? PAGE_WRITECOPY : PAGE_READONLY, static_cast<DWORD>(end >> 32),
      static_cast<DWORD>(end & 0xffffffffu), nullptr);
  if (mapping == nullptr) {
    errno = errno_of(GetLastError());
    return nullptr;
  }
  void* const memory =
      MapViewOfFile(mapping, writable ? FILE_MAP_COPY : FILE_MAP_READ, 0, 0, bytes);
  const DWORD error = GetLastError();
  CloseHandle(mapping);  // the view keeps it alive
  if (memory == nullptr) {
    errno = errno_of(error);
    return nullptr;
  }
  return std::shared_ptr<void>(memory, [](void* m) { UnmapViewOfFile(m); });
}

std::string resolve_links(const std::string& path) {
  const std::wstring name = wide_path(path);
  const DWORD attributes = GetFileAttributesW(name.c_str());
  if (attributes == INVALID_FILE_ATTRIBUTES || !(attributes & FILE_ATTRIBUTE_REPARSE_POINT))
    return path;
  const HANDLE file = CreateFileW(name.c_str(), 0, FILE_SHARE_READ | FILE_SHARE_WRITE, nullptr,
                                  OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (file == INVALID_HANDLE_VALUE) return path;
  std::wstring real(32768, L'\0');
  real.resize(GetFinalPathNameByHandleW(file, real.data(), static_cast<DWORD>(real.size()), 0));
  CloseHandle(file);
  const auto length = static_cast<int>(real.size());
  const int bytes =
      WideCharToMultiByte(CP_UTF8, 0, real.data(), length, nullptr, 0, nullptr, nullptr);
  if (bytes <= 0) return path;
  std::string out(static_cast<size_t>(bytes), '\0');
  WideCharToMultiByte(CP_UTF8, 0, real.data(), length, out.data(), bytes, nullptr, nullptr);
  return out;
}

std::FILE* open_special(const std::string& path) {
  const std::wstring name = wide_path(path);
  errno = 0;
  return is_special(name) ? _wfopen(name.c_str(), L"wb") : nullptr;
}

std::FILE* create_file(const std::string& path, const std::string&) {
  const int file =
      _wopen(wide_path(path).c_str(), _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT,
             _S_IREAD | _S_IWRITE);
  if (file < 0) return nullptr;
  std::FILE* const stream = _fdopen(file, "wb");
  if (stream == nullptr) {
    const int error = errno;
    _close(file);
    errno = error;
  }
  return stream;
}

Abandoned remove_abandoned(const std::string& path) {
  // An open file of create_file() cannot be removed.
  if (DeleteFileW(wide_path(path).c_str()) != 0) return Abandoned::removed;
  return GetLastError() == ERROR_FILE_NOT_FOUND ? Abandoned::absent : Abandoned::kept;
}

void begin_flush(std::FILE*) {}

int flush_to_disk(std::FILE* stream) {
  if (std::fflush(stream) != 0) return errno;
  // Reports EBADF or EINVAL for files without a disk.
  if (_commit(_fileno(stream)) != 0 && errno != EINVAL && errno != EBADF) return errno;
  return 0;
}

int replace_file(std::FILE* stream, const std::string& from, const std::string& to) {
  if (std::fclose(stream) != 0) return errno;
  const BOOL moved = MoveFileExW(wide_path(from).c_str(), wide_path(to).c_str(),
                                 MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
  return moved ? 0 : errno_of(GetLastError());
}

int remove_file(const std::string& path) {
  return _wremove(wide_path(path).c_str()) != 0 ? errno : 0;
}

}  // namespace hg
