// SPDX-License-Identifier: Apache-2.0
#include "lib/platform/checked_memory.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "lib/platform/memory.h"
#include "lib/platform/pages.h"

namespace hg {
namespace {

constexpr size_t kHead = 64;  // in front of the caller's memory: stores the number of mapped bytes

// The blocks that were hidden last, the oldest at `next`. Atomic, because a child that is forked
// while another thread frees could find a lock held. Static, because freeing should not allocate.
struct Hidden {
  std::atomic<void*> pages = nullptr;  // &busy: a thread is changing it
  size_t bytes = 0;
};
constexpr size_t kMostHidden = 4096;
constinit Hidden hidden[kMostHidden] = {};
constinit std::atomic<size_t> next = 0;
constinit char busy = 0;

// Unmaps the entry and stores another in its place. Returns false if another thread is changing it.
bool replace(Hidden& place, void* pages, size_t bytes) {
  void* const old = place.pages.exchange(&busy);
  if (old == &busy) return false;
  const size_t old_bytes = std::exchange(place.bytes, bytes);
  place.pages = pages;
  if (old != nullptr) unmap_pages(old, old_bytes);
  return true;
}

}  // namespace

void* allocate_checked(uint64_t bytes) {
  if (!is_addressable(bytes)) return nullptr;
  const size_t page = page_bytes();
  const size_t size = (static_cast<size_t>(bytes) + kHead + page - 1) / page * page;
  void* pages = map_pages(size);
  if (pages == nullptr) {
    for (Hidden& place : hidden) replace(place, nullptr, 0);
    pages = map_pages(size);
  }
  if (pages == nullptr) return nullptr;
  std::memcpy(pages, &size, sizeof size);
  return static_cast<char*>(pages) + kHead;
}

void free_checked(void* memory) {
  if (memory == nullptr) return;
  void* const pages = static_cast<char*>(memory) - kHead;
  size_t bytes = 0;
  std::memcpy(&bytes, pages, sizeof bytes);
  if (free_hidden(pages, bytes)) return;
  std::memset(pages, 0xff, bytes);
  unmap_pages(pages, bytes);
}

bool free_hidden(void* pages, size_t bytes) {
  if (!hide_pages(pages, bytes)) return false;
  if (!replace(hidden[next++ % kMostHidden], pages, bytes)) unmap_pages(pages, bytes);
  return true;
}

}  // namespace hg
