// SPDX-License-Identifier: Apache-2.0
// Evaluates sizes for given symbols. Each atom is computed once, after its operands.
#include <algorithm>
#include <unordered_map>

#include "lib/graph/atom.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

using Kind = Atom::Kind;

// Most sizes have one or two atoms. A linear search finds those faster than an index.
template <typename T>
class PerAtom {
 public:
  const T* find(const Atom* atom) const {
    if (!index_.empty()) {
      const auto found = index_.find(atom);
      return found == index_.end() ? nullptr : &entries_[found->second].second;
    }
    for (const auto& [known, value] : entries_)
      if (known == atom) return &value;
    return nullptr;
  }
  // The atom must be new.
  void add(const Atom* atom, T value) {
    entries_.emplace_back(atom, std::move(value));
    if (entries_.size() < kIndexed) return;
    for (size_t i = index_.size(); i < entries_.size(); ++i) index_.emplace(entries_[i].first, i);
  }

 private:
  static constexpr size_t kIndexed = 16;
  std::vector<std::pair<const Atom*, T>> entries_;
  std::unordered_map<const Atom*, size_t> index_;
};
using Values = PerAtom<int64_t>;

constexpr int kShallow = 64;  // nested atoms that may be freed by recursion

// Intermediate sums may exceed 64 bits: floor((n + 2^20 h) / 2^30) need not overflow.
template <class ValueOf>
Result<Wide> sum_of_values(const Dim& dim, const ValueOf& value_of) {
  Wide total = DimAlgebra::constant(dim);
  for (const Summand& summand : DimAlgebra::sum(dim)) {
    Wide product = summand.coefficient;
    for (const AtomPtr& atom : summand.product)
      HG_CHECK(!mul_overflows(product, Wide{value_of(*atom)}, &product), "the size ", dim,
               " overflows");
    HG_CHECK(!add_overflows(total, product, &total), "the size ", dim, " overflows");
  }
  return total;
}

bool has_only_symbols(const Dim& dim) {
  for (const Summand& summand : DimAlgebra::sum(dim))
    for (const AtomPtr& atom : summand.product)
      if (atom->kind != Kind::symbol) return false;
  return true;
}

Result<int64_t> narrow(Wide value, const Dim& dim) {
  const auto result = static_cast<int64_t>(value);
  HG_CHECK(result == value, "the size ", dim, " overflows");
  return result;
}

Result<Wide> sum_of_values(const Dim& dim, const Values& values) {
  return sum_of_values(dim, [&](const Atom& atom) { return *values.find(&atom); });
}

Result<Wide> value_of(const Atom& atom, const Values& values) {
  HG_TRY_ASSIGN(const Wide a, sum_of_values(atom.a, values));
  HG_TRY_ASSIGN(const Wide b, sum_of_values(atom.b, values));
  switch (atom.kind) {
    case Kind::min:
      return std::min(a, b);
    case Kind::max:
      return std::max(a, b);
    case Kind::sum:
      return a;
    default:
      if (b == 0) {
        HG_TRY_ASSIGN(const int64_t top, narrow(a, atom.a));
        return invalid_argument("the size ", to_string(atom.kind), "(", atom.a, ", ", atom.b,
                                ") divides ", top, " by zero");
      }
      return atom.kind == Kind::floordiv ? floor_divide(a, b) : a - floor_divide(a, b) * b;
  }
}

}  // namespace

Atom::Atom(Kind kind, std::string key, Interval bounds, Dim a, Dim b)
    : kind(kind), key(std::move(key)), bounds(bounds), a(std::move(a)), b(std::move(b)), depth(0) {
  for (const Dim* operand : {&this->a, &this->b})
    for (const Summand& summand : DimAlgebra::sum(*operand))
      for (const AtomPtr& atom : summand.product) depth = std::max(depth, atom->depth + 1);
}

// Without the list, freeing a long chain would recurse to its end. The list holds the operands of
// an atom until the atom is freed, so that atoms are freed one at a time. Falls back to recursion
// if the list cannot be allocated.
Atom::~Atom() {
  if (depth < kShallow) return;
  as_memory_allows([&] {
    std::vector<Dim> pending = {std::move(a), std::move(b)};
    while (!pending.empty()) {
      const Dim dim = std::move(pending.back());
      pending.pop_back();
      if (DimAlgebra::use_count(dim) != 1) continue;
      for (const Summand& summand : DimAlgebra::sum(dim))
        for (const AtomPtr& atom : summand.product) {
          if (atom.use_count() != 1) continue;
          pending.push_back(atom->a);
          pending.push_back(atom->b);
        }
    }
  });
}

std::vector<const Atom*> post_order(const Dim& dim) {
  struct Done {};
  std::vector<const Atom*> order, open;
  PerAtom<Done> done;
  const auto push = [&](const Dim& operand) {
    const auto sum = DimAlgebra::sum(operand);
    for (auto summand = sum.rbegin(); summand != sum.rend(); ++summand)
      for (auto atom = summand->product.rbegin(); atom != summand->product.rend(); ++atom)
        if (done.find(atom->get()) == nullptr) open.push_back(atom->get());
  };
  push(dim);
  while (!open.empty()) {
    const Atom* atom = open.back();
    const size_t before = open.size();
    if (done.find(atom) == nullptr) {
      push(atom->b);
      push(atom->a);
      if (open.size() > before) continue;
      done.add(atom, {});
      order.push_back(atom);
    }
    open.pop_back();
  }
  return order;
}

std::optional<int64_t> Bindings::find(std::string_view symbol) const {
  for (const auto& [name, value] : values_)
    if (name == symbol) return value;
  return std::nullopt;
}

Status Bindings::bind(std::string_view symbol, int64_t value) {
  if (const auto known = find(symbol)) {
    HG_CHECK(*known == value, "the size '", symbol, "' is ", *known, " in one place and ", value,
             " in another");
    return {};
  }
  values_.emplace_back(std::string(symbol), value);
  return {};
}

void Dim::collect_symbols(std::vector<std::string>& out) const {
  for (const Atom* atom : post_order(*this))
    if (atom->kind == Kind::symbol && std::find(out.begin(), out.end(), atom->key) == out.end())
      out.push_back(atom->key);
}

Result<int64_t> Dim::evaluate(const Bindings& bindings) const {
  return or_no_memory([&]() -> Result<int64_t> {
    if (is_constant()) return constant_;
    const auto unknown = [](const Atom& atom) {
      return invalid_argument("the size '", atom.key, "' is not known");
    };
    if (has_only_symbols(*this)) {  // allocates nothing
      for (const Summand& summand : DimAlgebra::sum(*this))
        for (const AtomPtr& atom : summand.product)
          if (!bindings.find(atom->key)) return unknown(*atom);
      HG_TRY_ASSIGN(const Wide total, sum_of_values(*this, [&](const Atom& atom) {
                      return *bindings.find(atom.key);
                    }));
      return narrow(total, *this);
    }
    Values values;
    for (const Atom* atom : post_order(*this)) {
      if (atom->kind == Kind::symbol) {
        const auto value = bindings.find(atom->key);
        if (!value) return unknown(*atom);
        values.add(atom, *value);
        continue;
      }
      HG_TRY_ASSIGN(const Wide value, value_of(*atom, values));
      const auto number = static_cast<int64_t>(value);
      HG_CHECK(number == value, "the size ", to_string(atom->kind), "(", atom->a, ", ", atom->b,
               ") overflows");
      values.add(atom, number);
    }
    HG_TRY_ASSIGN(const Wide total, sum_of_values(*this, values));
    return narrow(total, *this);
  });
}

Dim Dim::substitute(const Bindings& bindings) const {
  if (is_constant()) return *this;
  if (const Result<int64_t> value = evaluate(bindings); value.ok()) return *value;
  PerAtom<Dim> values;
  const auto substituted = [&](const Dim& dim) {
    Dim total = DimAlgebra::constant(dim);
    for (const Summand& summand : DimAlgebra::sum(dim)) {
      Dim product = summand.coefficient;
      for (const AtomPtr& atom : summand.product) product = product * *values.find(atom.get());
      total = total + product;
    }
    return total;
  };
  for (const Atom* atom : post_order(*this)) {
    const Dim a = substituted(atom->a), b = substituted(atom->b);
    Dim value;
    switch (atom->kind) {
      case Kind::symbol: {
        const auto number = bindings.find(atom->key);
        value = number ? Dim(*number) : Dim(std::string_view(atom->key));
        break;
      }
      case Kind::floordiv:
        value = floordiv(a, b);
        break;
      case Kind::mod:
        value = mod(a, b);
        break;
      case Kind::min:
        value = min(a, b);
        break;
      case Kind::max:
        value = max(a, b);
        break;
      case Kind::sum:
        value = a;
        break;
    }
    values.add(atom, std::move(value));
  }
  return substituted(*this);
}

Result<Sizes> evaluate(const Shape& shape, const Bindings& bindings) {
  return or_no_memory([&]() -> Result<Sizes> {
    HG_CHECK(shape.size() <= kMaxRank, "a tensor of rank ", int64_t(shape.size()),
             " exceeds the limit of ", kMaxRank, " dimensions");
    Sizes sizes;
    // The limit of addressable memory. Sums and small multiples of such sizes do not overflow. The
    // largest element has 16 bytes.
    constexpr int64_t kMost = (int64_t{1} << 47) / 16;
    // Limits the other sizes of an empty tensor, because kernels iterate over empty lines.
    constexpr int64_t kMostLines = int64_t{1} << 33;
    int64_t elements = 1;
    for (const Dim& dim : shape) {
      HG_TRY_ASSIGN(const int64_t size, dim.evaluate(bindings));
      HG_CHECK(size >= 0, "the size ", dim, " would be ", size);
      const bool fits =
          size == 0 || (!__builtin_mul_overflow(elements, size, &elements) && elements <= kMost);
      HG_CHECK(fits, "a tensor of shape ", shape, " exceeds 2^47 bytes");
      sizes.push_back(size);
    }
    HG_CHECK(sizes.count() > 0 || elements <= kMostLines, "a tensor of shape ", shape,
             " is empty, but its other sizes have a product beyond 2^33");
    return sizes;
  });
}

}  // namespace hg
