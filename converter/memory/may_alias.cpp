// SPDX-License-Identifier: Apache-2.0
// Tensors that may share memory. After a write to one of them, the others are invalid and must not
// be read.
#include <algorithm>

#include "converter/memory/alias.h"

namespace hg::convert {

void Memory::may_share(const TensorRef& a, const TensorRef& b) {
  for (const TensorRef& x : roots_of(a))
    for (const TensorRef& y : roots_of(b)) {
      if (x == y) continue;
      x->twins_.push_back(y);
      y->twins_.push_back(x);
    }
}

std::vector<TensorRef> Memory::twins_of(const TensorRef& tensor) const {
  std::vector<TensorRef> reached = roots_of(tensor);
  for (size_t i = 0; i < reached.size(); ++i)
    for (const std::weak_ptr<TensorCell>& weak : TensorRef(reached[i])->twins_)
      if (const TensorRef twin = weak.lock();
          twin && std::find(reached.begin(), reached.end(), twin) == reached.end())
        reached.push_back(twin);
  return reached;
}

namespace {

constexpr std::string_view kMayBeWritten =
    "a tensor is read after a write to another one, and data, sizes or memory layouts that are not "
    "known, or the length of a list, decide whether the two share memory";

}  // namespace

void Memory::invalidate(const std::vector<TensorRef>& roots) {
  for (const TensorRef& root : roots) {
    save(root);
    root->invalid_because_ = kMayBeWritten;
  }
}

// After a write to `root`: makes tensors unknown that may share its memory.
void Memory::invalidate_aliases(const TensorRef& root) {
  root->invalid_because_.clear();
  if (root->column_) return;  // changing a list does not change its elements
  std::vector<TensorRef> reached = {root};
  const auto reach = [&](const TensorRef& other) {
    if (!other || std::find(reached.begin(), reached.end(), other) != reached.end()) return;
    invalidate({other});
    reached.push_back(other);
  };
  for (size_t i = 0; i < reached.size(); ++i) {
    const TensorRef from = reached[i];
    for (const std::weak_ptr<TensorCell>& weak : from->twins_) reach(weak.lock());
    for (const TensorRef& list : from->lists_) reach(list);
    for (const std::weak_ptr<TensorCell>& weak : from->elements_) reach(weak.lock());
  }
}

const std::string& Memory::why_invalid(const TensorRef& tensor) const {
  static const std::string kNone;
  for (const TensorRef& root : roots_of(tensor))
    if (!root->invalid_because_.empty()) return root->invalid_because_;
  return kNone;
}

void Memory::add_to_list(const TensorRef& element, const TensorRef& list) {
  for (const TensorRef& root : roots_of(element)) {
    root->lists_.push_back(list);
    list->elements_.push_back(root);
  }
}

std::vector<TensorRef> Memory::lists_of(const TensorRef& tensor) const {
  std::vector<TensorRef> lists;
  for (const TensorRef& root : roots_of(tensor))
    lists.insert(lists.end(), root->lists_.begin(), root->lists_.end());
  return lists;
}

std::vector<TensorRef> Memory::elements_of(const TensorRef& list) const {
  std::vector<TensorRef> elements;
  for (const std::weak_ptr<TensorCell>& weak : list->elements_)
    if (const TensorRef element = weak.lock()) elements.push_back(element);
  return elements;
}

bool Memory::share_lists(const TensorRef& from, const TensorRef& to) {
  bool news = false;
  for (const TensorRef& source : roots_of(from))
    for (const TensorRef& list : std::vector<TensorRef>(source->lists_))
      for (const TensorRef& root : roots_of(to)) {
        if (std::find(root->lists_.begin(), root->lists_.end(), list) != root->lists_.end())
          continue;
        root->lists_.push_back(list);
        list->elements_.push_back(root);
        news = true;
      }
  if (from == to || !to->is_column()) return news;
  for (const std::weak_ptr<TensorCell>& weak : std::vector(from->elements_)) {
    const TensorRef element = weak.lock();
    if (!element ||
        std::find(element->lists_.begin(), element->lists_.end(), to) != element->lists_.end())
      continue;
    element->lists_.push_back(to);
    to->elements_.push_back(element);
    news = true;
  }
  return news;
}

}  // namespace hg::convert
