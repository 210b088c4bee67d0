// SPDX-License-Identifier: Apache-2.0
// See Lib/pickletools.py in CPython for the opcodes and their arguments.
#include "converter/load/exported/pickle.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <variant>

#include "converter/core/failure.h"

namespace hg::convert {
namespace {

struct Pickled;
using Ref = std::shared_ptr<Pickled>;

struct Global {
  std::string name;  // "torch._utils._rebuild_tensor_v2"
};
struct Storage {
  std::string record;
  int64_t torch_dtype = 0;
};
struct Sequence {  // a tuple or a list
  std::vector<Ref> items;
};
struct Mapping {
  std::vector<std::pair<Ref, Ref>> items;
};
struct Mark {};
struct Nothing {};

struct Pickled {
  std::variant<Nothing, bool, int64_t, double, std::string, Global, Storage, Sequence, Mapping,
               PickledTensor, Mark>
      value;
};

constexpr size_t kMostValues = size_t{1} << 24;

int64_t dtype_of_storage(const std::string& name) {
  static const std::map<std::string, int64_t> kTypes = {
      {"torch.ByteStorage", 0},         {"torch.CharStorage", 1},
      {"torch.ShortStorage", 2},        {"torch.IntStorage", 3},
      {"torch.LongStorage", 4},         {"torch.HalfStorage", 5},
      {"torch.FloatStorage", 6},        {"torch.DoubleStorage", 7},
      {"torch.ComplexFloatStorage", 9}, {"torch.ComplexDoubleStorage", 10},
      {"torch.BoolStorage", 11},        {"torch.BFloat16Storage", 15}};
  const auto found = kTypes.find(name);
  if (found == kTypes.end()) throw Refusal{str_cat("weights in a ", name), ""};
  return found->second;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  // Clears objects one by one: lists may contain each other, and nesting may be deep.
  ~Reader() {
    for (const Ref& object : all_) object->value = Nothing();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Ref read() {
    for (;;) {
      const char op = take(1)[0];
      if (op == '.') return pop();
      step(op);
      if (++made_ > kMostValues) fail("it is too long");
    }
  }

 private:
  [[noreturn]] static void fail(const std::string& why) {
    throw Refusal{str_cat("the pickle of the weights cannot be read: ", why), ""};
  }

  std::string_view take(size_t count) {
    if (bytes_.size() - at_ < count) fail("it is cut off");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  uint64_t little(size_t count) {
    const std::string_view bytes = take(count);
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i)
      value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }

  std::string line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) fail("it is cut off");
    const std::string result(bytes_.substr(at_, end - at_));
    at_ = end + 1;
    return result;
  }

  template <class T>
  void push(T value) {
    auto object = std::make_shared<Pickled>();
    object->value = std::move(value);
    all_.push_back(object);
    stack_.push_back(std::move(object));
  }

  Ref pop() {
    if (stack_.empty()) fail("a value is missing");
    Ref top = std::move(stack_.back());
    stack_.pop_back();
    return top;
  }

  // Pops the items above the last mark.
  std::vector<Ref> pop_marked() {
    std::vector<Ref> items;
    for (;;) {
      Ref top = pop();
      if (std::holds_alternative<Mark>(top->value)) break;
      items.push_back(std::move(top));
    }
    std::reverse(items.begin(), items.end());
    return items;
  }

  template <class T>
  static T& as(const Ref& object) {
    T* value = std::get_if<T>(&object->value);
    if (!value) fail("a value does not have the kind that its place requires");
    return *value;
  }

  void remember(uint64_t index) {
    if (stack_.empty()) fail("a value is missing");
    memo_[index] = stack_.back();
  }

  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail("a value is used before it is made");
    stack_.push_back(found->second);
  }

  void set(std::vector<Ref> pairs) {
    if (stack_.empty()) fail("a value is missing");
    Mapping& mapping = as<Mapping>(stack_.back());
    for (size_t i = 0; i + 1 < pairs.size(); i += 2)
      mapping.items.emplace_back(pairs[i], pairs[i + 1]);
  }

  void append(std::vector<Ref> items) {
    if (stack_.empty()) fail("a value is missing");
    std::vector<Ref>& all = as<Sequence>(stack_.back()).items;
    all.insert(all.end(), items.begin(), items.end());
  }

  void push_text(size_t length) { push(std::string(take(length))); }

  void tuple(size_t count) {
    Sequence items;
    for (size_t i = 0; i < count; ++i) items.items.insert(items.items.begin(), pop());
    push(std::move(items));
  }

  int64_t long_number(size_t bytes) {
    if (bytes > 8) fail("a number is too long");
    uint64_t value = little(bytes);
    if (bytes > 0 && bytes < 8 && (value >> (8 * bytes - 1)) != 0)
      value |= ~uint64_t{0} << (8 * bytes);
    return static_cast<int64_t>(value);
  }

  // ('storage', class of the storage, record, device, number of elements)
  void storage() {
    const Ref id = pop();
    const std::vector<Ref>& parts = as<Sequence>(id).items;
    if (parts.size() < 3 || as<std::string>(parts[0]) != "storage") fail("a storage has no record");
    push(Storage{as<std::string>(parts[2]), dtype_of_storage(as<Global>(parts[1]).name)});
  }

  // Returns sizes or strides. Limits their number, because each tensor that refers to a long tuple
  // would copy it.
  static std::vector<int64_t> numbers(const Ref& tuple) {
    constexpr size_t kMostDims = 64;  // PyTorch's limit
    if (as<Sequence>(tuple).items.size() > kMostDims) fail("a tensor has too many dims");
    std::vector<int64_t> result;
    for (const Ref& item : as<Sequence>(tuple).items) result.push_back(as<int64_t>(item));
    return result;
  }

  void call() {
    const Ref arguments = pop(), function = pop();
    const std::vector<Ref>& given = as<Sequence>(arguments).items;
    const std::string& name = as<Global>(function).name;
    if (name == "collections.OrderedDict" && given.empty()) return push(Mapping());
    if (name == "torch._utils._rebuild_parameter" && !given.empty()) {
      stack_.push_back(given[0]);
      if (auto* tensor = std::get_if<PickledTensor>(&given[0]->value); tensor && given.size() > 1)
        tensor->requires_grad = as<bool>(given[1]);
      return;
    }
    // (function, class, arguments, attributes) of an object that consists of tensors
    if (name == "torch._tensor._rebuild_from_type_v2" && given.size() == 4) {
      as<Mapping>(given[3]);
      return stack_.push_back(given[3]);
    }
    if (name == "torch.device" || name == "torch.serialization._get_layout") return push(Nothing());
    if (name != "torch._utils._rebuild_tensor_v2" || given.size() < 4)
      fail(str_cat("it calls ", name));
    const Storage& storage = as<Storage>(given[0]);
    push(PickledTensor{storage.record, storage.torch_dtype, as<int64_t>(given[1]),
                       numbers(given[2]), numbers(given[3])});
  }

  void step(char op) {
    switch (op) {
      case '\x80':  // PROTO
        take(1);
        return;
      case '\x95':  // FRAME
        take(8);
        return;
      case '(':
        return push(Mark());
      case '}':
        return push(Mapping());
      case ']':
      case ')':
        return push(Sequence());
      case 't':
        return push(Sequence{pop_marked()});
      case '\x85':
        return tuple(1);
      case '\x86':
        return tuple(2);
      case '\x87':
        return tuple(3);
      case 'N':
        return push(Nothing());
      case '\x88':
        return push(true);
      case '\x89':
        return push(false);
      case 'K':
        return push(static_cast<int64_t>(little(1)));
      case 'M':
        return push(static_cast<int64_t>(little(2)));
      case 'J':
        return push(static_cast<int64_t>(static_cast<int32_t>(little(4))));
      case '\x8a':  // LONG1
        return push(long_number(little(1)));
      case 'G': {
        const std::string_view big = take(8);
        uint64_t bits = 0;
        for (const char c : big) bits = bits << 8 | static_cast<unsigned char>(c);
        double value;
        std::memcpy(&value, &bits, sizeof value);
        return push(value);
      }
      case 'X':
        return push_text(little(4));
      case '\x8c':
        return push_text(little(1));
      case 'c': {
        const std::string module = line();
        return push(Global{module + "." + line()});
      }
      case '\x93': {  // STACK_GLOBAL
        const Ref name = pop(), module = pop();
        return push(Global{as<std::string>(module) + "." + as<std::string>(name)});
      }
      case 'q':
        return remember(little(1));
      case 'r':
        return remember(little(4));
      case '\x94':  // MEMOIZE
        return remember(memo_.size());
      case 'h':
        return recall(little(1));
      case 'j':
        return recall(little(4));
      case 'Q':
        return storage();
      case 'R':
        return call();
      case 's': {
        const Ref value = pop(), key = pop();
        return set({key, value});
      }
      case 'u':
        return set(pop_marked());
      case 'a':
        return append({pop()});
      case 'e':
        return append(pop_marked());
      case 'b':  // BUILD: attributes of an OrderedDict, such as the versions of modules
        pop();
        return;
      default:
        fail(str_cat("it has the opcode ", static_cast<int64_t>(static_cast<unsigned char>(op))));
    }
  }

  std::string_view bytes_;
  size_t at_ = 0, made_ = 0;
  std::vector<Ref> stack_, all_;
  std::map<uint64_t, Ref> memo_;
};

}  // namespace

std::vector<std::pair<std::string, PickledTensor>> read_pickled_tensors(std::string_view pickle) {
  Reader reader(pickle);
  const Ref top = reader.read();
  const auto* mapping = std::get_if<Mapping>(&top->value);
  if (!mapping) throw Refusal{"the weights are not a dict", ""};
  std::vector<std::pair<std::string, PickledTensor>> result;
  const auto text = [](const Ref& key) { return std::get_if<std::string>(&key->value); };
  for (const auto& [key, value] : mapping->items) {  // other entries matter only to Python
    const std::string* const name = text(key);
    if (!name) continue;
    if (const auto* tensor = std::get_if<PickledTensor>(&value->value))
      result.emplace_back(*name, *tensor);
    if (const auto* parts = std::get_if<Mapping>(&value->value); parts && value != top)
      for (const auto& [part, inner] : parts->items)
        if (const auto* tensor = std::get_if<PickledTensor>(&inner->value); tensor && text(part))
          result.emplace_back(str_cat(*name, ".", *text(part)), *tensor);
  }
  return result;
}

}  // namespace hg::convert
