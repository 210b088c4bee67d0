// SPDX-License-Identifier: Apache-2.0
// The module of shaders/pointwise.comp is a library: its functions are found by name and by the
// types of their parameters. main() is written anew, and code that it does not reach is omitted, so
// that a program requires no more device features than it uses.
#include "lib/vulkan/shader_linker.h"

#include <map>
#include <set>
#include <string_view>

#include "lib/vulkan/commands.h"
#include "lib/vulkan/spirv.h"

namespace hg::vulkan {
namespace {

using namespace spirv;

struct Function {
  size_t begin = 0, end = 0;  // of the instructions, end past OpFunctionEnd
  uint32_t result_type = 0;
};

// The compiled module, with its functions by name.
struct Library {
  explicit Library(std::span<const uint32_t> words)
      : code(words),
        all(instructions(words, kHeaderWords)),
        bound(words.size() > 3 ? words[3] : 0) {
    for (size_t i = 0; i < all.size(); ++i) {
      const Instruction& in = all[i];
      if (in.op() == Op::OpName) names[std::string(in.text(2))] = in.words[1];
      if (in.op() == Op::OpTypeInt && in.words[2] == 32 && in.words[3] == 0)
        uint_type = in.words[1];
      if (in.op() == Op::OpEntryPoint) main = in.words[2];
      if (in.op() != Op::OpFunction) continue;
      if (functions_begin == 0) functions_begin = i;
      Function function{i, i, in.words[1]};
      while (function.end < all.size() && all[function.end].op() != Op::OpFunctionEnd)
        ++function.end;
      ++function.end;
      functions[in.words[2]] = function;
    }
    globals_begin = functions_begin;
    while (globals_begin > 0 && all[globals_begin - 1].op() != Op::OpDecorate &&
           all[globals_begin - 1].op() != Op::OpMemberDecorate)
      --globals_begin;
  }

  uint32_t find(const std::string& mangled) const {  // 0 if there is none
    const auto found = names.find(mangled);
    return found == names.end() ? 0 : found->second;
  }

  std::span<const uint32_t> code;
  std::vector<Instruction> all;
  uint32_t bound = 0;  // larger than all ids
  uint32_t uint_type = 0, main = 0;
  // Types, constants and variables are between globals_begin and the functions.
  size_t globals_begin = 0, functions_begin = 0;
  std::map<std::string, uint32_t> names;
  std::map<uint32_t, Function> functions;
};

// glslang's spelling of the type in which this dtype is computed.
std::string_view mangled(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "d1;";
    case DType::i64:
      return "i641;";
    case DType::bool_:
      return "b1;";
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
      return "i1;";
    default:
      return "f1;";
  }
}

// main() of a program: its instructions, the constants that they use, and the functions they call.
class MainWriter {
 public:
  MainWriter(const Library& library, const ShaderProgram& program)
      : library_(library), program_(program), bound_(library.bound) {
    spell_types();
    const auto inputs = static_cast<int64_t>(program.inputs.size());
    at_count_ = inputs + 1;
    at_shape_ = at_count_ + 1;
    at_strides_ = at_shape_ + 1 + program.rank;
    at_params_ = at_strides_ + program.rank * inputs;
  }

  // Returns false if no function has these types.
  bool write() {
    const Instruction& header = library_.all[library_.functions.at(library_.main).begin];
    body_.insert(body_.end(), header.words, header.words + header.count);
    emit(body_, Op::OpLabel, {bound_++});
    index_ = call("invocation(", {});
    const uint32_t inside = call("inside(u1;u1;", {index_, number(at_count_)});
    const uint32_t then = bound_++, end = bound_++;
    emit(body_, Op::OpSelectionMerge, {end, 0});
    emit(body_, Op::OpBranchConditional, {inside, then, end});
    emit(body_, Op::OpLabel, {then});
    for (size_t i = 0; i < program_.inputs.size(); ++i) load(i);
    for (const ShaderProgram::Call& step : program_.calls) compute(step);
    store();
    emit(body_, Op::OpBranch, {end});
    emit(body_, Op::OpLabel, {end});
    emit(body_, Op::OpReturn, {});
    emit(body_, Op::OpFunctionEnd, {});
    return ok_;
  }

  uint32_t bound() const { return bound_; }
  const std::vector<uint32_t>& constants() const { return constants_; }
  const std::vector<uint32_t>& body() const { return body_; }
  const std::set<uint32_t>& called() const { return called_; }

 private:
  struct Register {
    uint32_t id;
    std::string type;  // spelling of the type in mangled names of functions
  };

  // By type: its spelling in the names of functions with such a parameter.
  void spell_types() {
    constexpr std::pair<std::string_view, std::string_view> kConversions[] = {{"to_f32(f", "f1;"},
                                                                              {"to_f64(f", "d1;"},
                                                                              {"to_i32(f", "i1;"},
                                                                              {"to_i64(f", "i641;"},
                                                                              {"to_bool(f", "b1;"}};
    for (const auto& [name, id] : library_.names) {
      const auto function = library_.functions.find(id);
      if (function == library_.functions.end()) continue;
      for (const auto& [conversion, type] : kConversions)
        if (name.starts_with(conversion)) spelled_[function->second.result_type] = type;
    }
  }

  uint32_t number(int64_t value) {
    const auto [entry, is_new] = numbers_.try_emplace(static_cast<uint32_t>(value), bound_);
    if (is_new)
      emit(constants_, Op::OpConstant,
           {library_.uint_type, bound_++, static_cast<uint32_t>(value)});
    return entry->second;
  }

  uint32_t call(const std::string& name, const std::vector<uint32_t>& arguments) {
    const uint32_t function = library_.find(name);
    if (function == 0) {
      ok_ = false;
      return 0;
    }
    called_.insert(function);
    result_type_ = library_.functions.at(function).result_type;
    body_.push_back(head(Op::OpFunctionCall, arguments.size() + 4));
    const uint32_t result = bound_++;
    body_.insert(body_.end(), {result_type_, result, function});
    body_.insert(body_.end(), arguments.begin(), arguments.end());
    return result;
  }

  void load(size_t i) {
    using Access = ShaderProgram::Access;
    const ShaderProgram::Input& input = program_.inputs[i];
    const auto slot = static_cast<int64_t>(i) + 2;
    uint32_t at = 0;
    if (input.access == Access::strided)
      at = call("at_strided(u1;u1;u1;u1;",
                {index_, number(slot), number(at_shape_),
                 number(at_strides_ + program_.rank * static_cast<int64_t>(i))});
    else
      at = call(input.access == Access::flat ? "at_flat(u1;u1;" : "at_one(u1;u1;",
                {index_, number(slot)});
    registers_.push_back({call(str_cat("load_", to_string(input.dtype), "_", slot, "(u1;"), {at}),
                          std::string(mangled(input.dtype))});
  }

  void compute(const ShaderProgram::Call& step) {
    std::string function = step.function + "(";
    std::vector<uint32_t> arguments;
    for (const int at : step.registers) {
      const Register& argument = registers_[at];
      function += argument.type;
      arguments.push_back(argument.id);
    }
    for (const int param : step.params) {
      function += "f1;";
      arguments.push_back(call("param(u1;", {number(at_params_ + param)}));
    }
    const uint32_t result = call(function, arguments);
    registers_.push_back({result, spelled_[result_type_]});
  }

  void store() {
    const uint32_t to = call("at_flat(u1;u1;", {index_, number(1)});
    call(str_cat("store_", to_string(program_.result), "(u1;", mangled(program_.result)),
         {to, registers_.back().id});
    if (registers_.back().type != mangled(program_.result)) ok_ = false;
  }

  const Library& library_;
  const ShaderProgram& program_;
  uint32_t bound_;
  int64_t at_count_ = 0, at_shape_ = 0, at_strides_ = 0, at_params_ = 0;  // in the table
  std::map<uint32_t, std::string> spelled_;
  std::map<uint32_t, uint32_t> numbers_;
  std::vector<uint32_t> constants_, body_;
  std::set<uint32_t> called_;
  std::vector<Register> registers_;
  uint32_t index_ = 0, result_type_ = 0;
  bool ok_ = true;
};

// The module with the new main(): the part of the library that it reaches, and the required
// capabilities.
class Linker {
 public:
  Linker(const Library& library, const MainWriter& main)
      : library_(library), main_(main), keeps_(library.functions_begin, false) {}

  std::vector<uint32_t> link() {
    reach_functions();
    use_interface();
    keep_globals();
    std::vector<uint32_t> out(library_.code.begin(), library_.code.begin() + kHeaderWords);
    out[3] = main_.bound();
    const auto append = [&](const Instruction& in) {
      out.insert(out.end(), in.words, in.words + in.count);
    };
    for (size_t i = 0; i < library_.functions_begin; ++i)
      if (is_needed(i)) append(library_.all[i]);
    out.insert(out.end(), main_.constants().begin(), main_.constants().end());
    out.insert(out.end(), main_.body().begin(), main_.body().end());
    for (const uint32_t id : reached_) {
      const Function& function = library_.functions.at(id);
      for (size_t i = function.begin; i < function.end; ++i) append(library_.all[i]);
    }
    return out;
  }

 private:
  void use_all(const Instruction& in) {
    each_id(in, [&](uint32_t id) { used_.insert(id); });
  }

  // Functions that main() calls, directly or indirectly, and all ids that they use.
  void reach_functions() {
    for (const Instruction& in : instructions(main_.body(), 0)) use_all(in);
    std::vector<uint32_t> open(main_.called().begin(), main_.called().end());
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      if (!reached_.insert(id).second) continue;
      const Function& function = library_.functions.at(id);
      for (size_t i = function.begin; i < function.end; ++i) {
        use_all(library_.all[i]);
        if (library_.all[i].op() == Op::OpFunctionCall) open.push_back(library_.all[i].words[3]);
      }
    }
    used_.insert(library_.uint_type);
  }

  // The interface of the entry point, after its name.
  void use_interface() {
    for (const Instruction& in : library_.all) {
      if (in.op() != Op::OpEntryPoint) continue;
      const auto name_words = static_cast<uint32_t>(in.text(3).size() / 4 + 1);
      for (uint32_t i = 3 + name_words; i < in.count; ++i) used_.insert(in.words[i]);
    }
  }

  // Types, constants and variables, from last to first: each refers only to earlier ones.
  void keep_globals() {
    for (size_t i = library_.functions_begin; i-- > library_.globals_begin;) {
      const Instruction& in = library_.all[i];
      const bool is_type = in.op() >= Op::OpTypeVoid && in.op() <= Op::OpTypeForwardPointer;
      if (!used_.contains(in.words[is_type ? 1 : 2])) continue;
      keeps_[i] = true;
      use_all(in);
      if (in.op() != Op::OpTypeFloat && in.op() != Op::OpTypeInt) continue;
      has_f64_ |= in.op() == Op::OpTypeFloat && in.words[2] == 64;
      has_i64_ |= in.op() == Op::OpTypeInt && in.words[2] == 64;
      has_16_ |= in.words[2] == 16;
      has_8_ |= in.words[2] == 8;
    }
  }

  // The instructions before the functions.
  bool is_needed(size_t i) const {
    const Instruction& in = library_.all[i];
    switch (in.op()) {
      case Op::OpSource:
      case Op::OpSourceExtension:
      case Op::OpName:
      case Op::OpMemberName:
        return false;
      case Op::OpCapability:
        return has_capability(static_cast<Capability>(in.words[1]));
      case Op::OpExtension:
        return has_8_ || in.text(1) != "SPV_KHR_8bit_storage";
      case Op::OpDecorate:
      case Op::OpMemberDecorate:
        return used_.contains(in.words[1]);
      default:
        return i < library_.globals_begin || keeps_[i];
    }
  }

  bool has_capability(Capability what) const {
    switch (what) {
      case Capability::Float64:
        return has_f64_;
      case Capability::Int64:
        return has_i64_;
      case Capability::StorageBuffer16BitAccess:
        return has_16_;
      case Capability::StorageBuffer8BitAccess:
        return has_8_;
      default:
        return true;
    }
  }

  const Library& library_;
  const MainWriter& main_;
  std::set<uint32_t> reached_, used_;
  std::vector<bool> keeps_;  // per instruction before the functions
  bool has_f64_ = false, has_i64_ = false, has_16_ = false, has_8_ = false;
};

}  // namespace

std::shared_ptr<const std::vector<uint32_t>> assemble(const ShaderProgram& program) {
  static const Library library(shader("pointwise"));
  MainWriter main(library, program);
  if (!main.write()) return nullptr;
  return std::make_shared<const std::vector<uint32_t>>(Linker(library, main).link());
}

}  // namespace hg::vulkan
