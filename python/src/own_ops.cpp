// SPDX-License-Identifier: Apache-2.0
// A Python op is a row like any other. Rows cannot store Python objects, so the functions of a row
// look up their callables in a table by the op's name. hologram/_own_ops.py adapts the user's
// functions; the functions here pass plain lists and dicts.
#include "python/src/own_ops.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "hg/expression.h"
#include "hg/kernel.h"
#include "python/src/attributes.h"
#include "python/src/bind.h"
#include "python/src/callbacks.h"
#include "python/src/errors.h"
#include "python/src/tensors.h"

namespace hg::python {
namespace {

struct OwnOp {
  std::string name, signature_text;
  OpDef def;
  KernelDef kernel;
  Signature signature;
  // infer(inputs, attributes) -> [(dtype, shape)]; an input is (dtype, shape) or None.
  // run(inputs, outputs, attributes); arrays are lent for the call.
  nb::object infer, run;
  std::optional<TextKernel> text, gradient_text;
  OwnOp* gradient = nullptr;  // an op, and the names of its operands
  std::vector<std::string> gradient_reads;
  std::mutex parsing;  // use a kernel from one thread at a time
};

struct Table {
  std::mutex mutex;
  std::map<std::string, OwnOp*, std::less<>> ops;
};
Table& table() {
  static Table& made = *new Table();
  return made;
}

OwnOp& own(std::string_view name) {
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  return *t.ops.find(name)->second;
}

// -- Attributes -----------------------------------------------------------------------------------

nb::dict to_dict(const AttrReader& attrs) {
  nb::dict out;
  for (const Signature::Attribute& each : attrs.op().signature.attributes)
    out[each.name.c_str()] = to_python(attrs.raw(each.name));
  return out;
}

nb::dict to_dict(const Signature& signature, const KernelAttrs& attrs) {
  nb::dict out;
  for (const Signature::Attribute& each : signature.attributes) {
    const std::string& name = each.name;
    Attr value;
    if (attrs.has(name)) switch (each.type) {
        case AttrType::boolean:
          value = attrs.flag(name);
          break;
        case AttrType::integer:
          value = attrs.integer(name);
          break;
        case AttrType::real:
          value = attrs.real(name);
          break;
        case AttrType::string:
          value = attrs.string(name);
          break;
        case AttrType::dtype:
          value = attrs.dtype(name);
          break;
        case AttrType::integers:
          value = std::vector<Dim>(attrs.dims(name).begin(), attrs.dims(name).end());
          break;
        case AttrType::reals:
          value = std::vector<double>(attrs.reals(name).begin(), attrs.reals(name).end());
          break;
        case AttrType::strings:  // rejected when the op is registered
          break;
      }
    out[name.c_str()] = to_python(value);
  }
  return out;
}

// The numbers among the attributes, as arguments of a text.
void add_attributes(const Signature& signature, const AttrReader& attrs,
                    std::vector<KernelArgument>& to) {
  for (const Signature::Attribute& each : signature.attributes) {
    if (!attrs.has(each.name)) continue;
    if (each.type == AttrType::real)
      to.emplace_back(std::string_view(each.name), attrs.real(each.name));
    else if (each.type == AttrType::boolean)
      to.emplace_back(std::string_view(each.name), attrs.flag(each.name));
    else if (each.type == AttrType::integer && attrs.integer(each.name).is_constant())
      to.emplace_back(std::string_view(each.name), attrs.integer(each.name).constant());
  }
}

// The arguments that the text reads.
std::vector<KernelArgument> read_by(const TextKernel& text,
                                    const std::vector<KernelArgument>& given) {
  std::vector<KernelArgument> out;
  for (const std::string& name : text.parameters())
    for (const KernelArgument& each : given)
      if (each.name == name) out.push_back(each);
  return out;
}

// -- Functions of the rows ------------------------------------------------------------------------

nb::object to_python(const TensorType& type) {
  return nb::make_tuple(python_name(type.dtype), python::to_python(type.shape));
}

Status infer_function(InferContext& c) {
  const OwnOp& op = own(c.attrs().op().name());
  return with_python([&]() -> Status {
    nb::list inputs;
    for (int i = 0; i < c.input_count(); ++i)
      inputs.append(c.has(i) ? to_python(c.in(i)) : nb::none());
    const nb::list types = nb::cast<nb::list>(op.infer(inputs, to_dict(c.attrs())));
    c.set_output_count(static_cast<int>(nb::len(types)));
    int at = 0;
    for (const nb::handle type : types) {
      const nb::tuple pair = nb::cast<nb::tuple>(type);
      c.out(at).dtype = dtype_from(pair[0]);
      c.out(at++).shape = shape_of(pair[1]);
    }
    return {};
  });
}

// All inputs broadcast; dtypes are promoted.
Status infer_broadcast(InferContext& c) {
  std::optional<TensorType> type;
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) continue;
    if (!type) {
      type = c.in(i);
      continue;
    }
    HG_TRY_ASSIGN(type->shape, broadcast(type->shape, c.in(i).shape));
    type->dtype = promote(type->dtype, c.in(i).dtype);
  }
  if (!type) return c.fail("there is no input whose shape the result could have; give shape=");
  for (int i = 0; i < c.output_count(); ++i) c.out(i) = *type;
  return {};
}

struct Prepared {
  const OwnOp* op;
  std::shared_ptr<nb::object> attributes;
};

Status prepare_function(PrepareContext& c) {
  // The label is the op's name followed by the node's.
  const OwnOp& op = own(std::string_view(c.label()).substr(0, c.label().find(' ')));
  return with_python([&]() -> Status {
    c.make_state(Prepared{&op, shared_object(to_dict(op.signature, c.attrs()))});
    return {};
  });
}

void run_function(const RunContext& c) noexcept {
  const Prepared& prepared = c.state<Prepared>();
  if (Py_IsInitialized() == 0) return c.fail("Python has ended");
  const nb::gil_scoped_acquire acquired;
  try {
    // Keeps an array alive while views of it exist.
    const nb::object owner = nb::steal(PyList_New(0));
    std::optional<nb::python_error> raised;
    {
      nb::list inputs, outputs;
      for (int i = 0; i < c.input_count(); ++i)
        inputs.append(c.has(i) ? view_of(c.in(i), owner, true) : nb::none());
      for (int i = 0; i < c.output_count(); ++i) outputs.append(view_of(c.out(i), owner, false));
      try {
        prepared.op->run(inputs, outputs, *prepared.attributes);
      } catch (nb::python_error& error) {
        raised.emplace(std::move(error));
      }
    }
    // Clears the frames of a traceback, which keep the arguments of their functions alive.
    if (raised && Py_REFCNT(owner.ptr()) > 1 && raised->traceback().is_valid())
      nb::module_::import_("traceback").attr("clear_frames")(raised->traceback());
    if (!raised && Py_REFCNT(owner.ptr()) > 1)
      raise(PyExc_RuntimeError,
            str_cat("the kernel of '", prepared.op->name,
                    "' keeps an array that it was lent for one call; let it keep a copy"));
    if (raised) throw std::move(*raised);
  } catch (nb::python_error& error) {
    c.fail(keep_exception(std::move(error)));
  } catch (...) {
    c.fail("the function of Python's failed");
  }
}

Status expand_text(ExpandContext& c) {
  OwnOp& op = own(c.attrs().op().name());
  std::vector<KernelArgument> given;
  for (int i = 0; i < c.input_count(); ++i)
    if (c.has(i)) given.emplace_back(std::string_view(op.signature.inputs[i].name), c.in(i));
  add_attributes(op.signature, c.attrs(), given);
  const std::scoped_lock lock(op.parsing);
  const std::vector<Value> made = op.text->build(c.graph(), read_by(*op.text, given));
  HG_TRY(c.graph().status());
  for (size_t i = 0; i < made.size(); ++i) c.set_out(static_cast<int>(i), made[i]);
  return {};
}

Status grad_text(GradContext& c) {
  OwnOp& op = own(c.attrs().op().name());
  const std::vector<std::string> reads = op.gradient_text->parameters();
  const auto is_read = [&](const std::string& name) {
    return std::find(reads.begin(), reads.end(), name) != reads.end();
  };
  std::deque<std::string> names;
  std::vector<KernelArgument> given;
  for (int i = 0; i < c.input_count(); ++i)
    if (c.has(i)) given.emplace_back(std::string_view(op.signature.inputs[i].name), c.in(i));
  for (int i = 0; i < c.output_count(); ++i) {
    const std::string& name = op.signature.outputs[i];
    const std::string& dname = names.emplace_back("d" + name);
    given.emplace_back(std::string_view(name), c.out(i));
    if (is_read(dname)) given.emplace_back(std::string_view(dname), c.dout(i));
  }
  add_attributes(op.signature, c.attrs(), given);
  const std::scoped_lock lock(op.parsing);
  const std::vector<Value> made =
      op.gradient_text->build(c.graph(), read_by(*op.gradient_text, given));
  HG_TRY(c.graph().status());
  const std::vector<std::string> outputs = op.gradient_text->outputs();
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.needs(i)) continue;
    const std::string wanted = "d" + op.signature.inputs[i].name;
    const auto found = std::find(outputs.begin(), outputs.end(), wanted);
    if (found == outputs.end())
      return invalid_argument("the gradient of '", op.name, "' does not give '", wanted, "'");
    Value dx = made[found - outputs.begin()];
    if (dx.dtype() != c.in(i).dtype())
      dx = c.graph().call("cast", {dx}, {{"dtype", c.in(i).dtype()}});
    c.set_grad(i, dx);
  }
  return {};
}

// The gradient's op reads all inputs, then the outputs and the output gradients that the function
// uses. It returns the gradients of the inputs that are needed.
Status grad_function(GradContext& c) {
  const OwnOp& op = own(c.attrs().op().name());
  std::vector<Value> values;
  std::vector<Dim> wanted;
  const int inputs = c.input_count();
  for (int i = 0; i < inputs; ++i) {
    values.push_back(c.in(i));
    if (c.needs(i)) wanted.emplace_back(int64_t{i});
  }
  const auto is_read = [&](const std::string& name) {
    return std::find(op.gradient_reads.begin(), op.gradient_reads.end(), name) !=
           op.gradient_reads.end();
  };
  for (int i = 0; i < c.output_count(); ++i)
    if (is_read(op.signature.outputs[i])) values.push_back(c.out(i));
  for (int i = 0; i < c.output_count(); ++i)
    if (is_read("d" + op.signature.outputs[i])) values.push_back(c.dout(i));
  NamedAttrs attrs = {{"wanted", wanted}};
  for (const Signature::Attribute& each : op.signature.attributes)
    attrs.push_back({each.name, c.attrs().raw(each.name)});
  const std::vector<Value> made = c.graph().calls(op.gradient->name, values, attrs);
  HG_TRY(c.graph().status());
  for (size_t k = 0; k < wanted.size(); ++k)
    c.set_grad(static_cast<int>(wanted[k].constant()), made[k]);
  return {};
}

// The gradient of an input has the input's type.
Status infer_gradient(InferContext& c) {
  const std::span<const Dim> wanted = c.attrs().integers("wanted");
  c.set_output_count(static_cast<int>(wanted.size()));
  for (size_t k = 0; k < wanted.size(); ++k)
    c.out(static_cast<int>(k)) = c.in(static_cast<int>(wanted[k].constant()));
  return {};
}

// -- Registration ---------------------------------------------------------------------------------

std::unique_ptr<OwnOp> new_op(std::string signature) {
  auto op = std::make_unique<OwnOp>();
  op->signature_text = std::move(signature);
  op->signature = take(Signature::parse(op->signature_text));
  op->name = op->signature.name;
  for (const Signature::Attribute& each : op->signature.attributes)
    if (each.type == AttrType::strings)
      raise(PyExc_ValueError, str_cat("the attribute '", each.name,
                                      "' is a list of text, which ops of Python's do not take"));
  op->def.name = op->name;
  op->def.signature = op->signature_text;
  return op;
}

void give_kernel(OwnOp& op, nb::object run) {
  op.run = std::move(run);
  op.kernel = {.op = op.name,
               .name = "python",
               .prepare = prepare_function,
               .run = run_function,
               .strided = kAllStrided};
}

// From here on the op is registered and never freed.
OwnOp* publish(std::unique_ptr<OwnOp> op) {
  const std::string name = op->name;
  {
    Table& t = table();
    const std::lock_guard lock(t.mutex);
    if (registry().find(name) != nullptr || t.ops.contains(name))
      raise(PyExc_ValueError, str_cat("the op '", name, "' is registered already"));
    t.ops.emplace(name, op.get());
  }
  OwnOp* kept = op.release();
  check(registry().add(kept->def));
  if (kept->run.is_valid()) check(registry().add(kept->kernel));
  return kept;
}

void refuse_known(const std::string& name) {
  if (registry().find(name) != nullptr)
    raise(PyExc_ValueError, str_cat("the op '", name, "' is registered already"));
}

void register_op(const std::string& signature, nb::object run, const std::string& text,
                 nb::object infer, nb::object gradient_run,
                 const std::vector<std::string>& gradient_reads, const std::string& gradient_text,
                 bool pure) {
  std::unique_ptr<OwnOp> op = new_op(signature);
  refuse_known(op->name);
  const bool has_text = run.is_none();
  if (has_text) {
    op->text = take(kernel(op->name, text, {.registry = &registry()}));
    const size_t outputs = op->text->outputs().size();
    if (outputs != op->signature.outputs.size())
      raise(PyExc_ValueError,
            str_cat("the text of '", op->name, "' has ", int64_t(outputs),
                    " outputs, its signature has ", int64_t(op->signature.outputs.size())));
    for (const std::string& name : op->text->parameters())
      if (op->signature.find_input(name) < 0 && op->signature.find_attribute(name) < 0)
        raise(PyExc_ValueError, str_cat("the text of '", op->name, "' reads '", name,
                                        "', which its signature lacks: ", signature));
    op->def.expand = expand_text;
    if (outputs == 1) op->def.traits |= kElementwise;
  } else {
    give_kernel(*op, std::move(run));
    op->def.infer = infer.is_none() ? infer_broadcast : infer_function;
    op->infer = std::move(infer);
    if (!pure) op->def.traits |= kRandom;
  }
  if (!gradient_text.empty()) {
    op->gradient_text =
        take(kernel(op->name + ".gradient", gradient_text, {.registry = &registry()}));
    op->def.grad = grad_text;
  } else if (!gradient_run.is_none()) {
    std::string text_of_gradient = op->name + ".gradient(values..., wanted: int[]";
    for (const Signature::Attribute& each : op->signature.attributes)
      text_of_gradient += str_cat(", ", each.name, ": ", attribute_kind(each.type), "?");
    std::unique_ptr<OwnOp> gradient = new_op(text_of_gradient + ") -> gradients...");
    refuse_known(gradient->name);
    give_kernel(*gradient, std::move(gradient_run));
    gradient->def.infer = infer_gradient;
    op->gradient_reads = gradient_reads;
    op->gradient = publish(std::move(gradient));
    op->def.grad = grad_function;
  }
  publish(std::move(op));
}

}  // namespace

Registry& registry() {
  static Registry& made = *new Registry();
  return made;
}

void bind_own_ops(nb::module_& m) {
  m.def("register_op", register_op, nb::arg("signature"), nb::arg("run").none(), nb::arg("text"),
        nb::arg("infer").none(), nb::arg("gradient_run").none(), nb::arg("gradient_reads"),
        nb::arg("gradient_text"), nb::arg("pure"));
  // (inputs, attributes, outputs): names.
  m.def("parse_signature", [](const std::string& text) {
    const Signature signature = take(Signature::parse(text));
    nb::list inputs, attributes;
    for (const Signature::Input& each : signature.inputs)
      inputs.append(nb::make_tuple(each.name, each.variadic));
    for (const Signature::Attribute& each : signature.attributes) attributes.append(each.name);
    return nb::make_tuple(signature.name, inputs, attributes, signature.outputs,
                          signature.variadic_outputs);
  });
}

}  // namespace hg::python
