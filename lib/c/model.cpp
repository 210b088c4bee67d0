// SPDX-License-Identifier: Apache-2.0
// Models of hg/c.h: loading, saving and inspection.
#include "hg/model.h"

#include <cstdlib>
#include <span>

#include "hg/op.h"
#include "lib/c/handles.h"
#include "lib/c/structs.h"

using hg::c::border;

namespace hg::c {
namespace {

hg_model::Described describe(std::string_view name, const TensorType& type) {
  hg_model::Described made{
      .name = std::string(name), .type = str_cat(type), .full = type, .dims = {}};
  for (const Dim& dim : type.shape) made.dims.push_back(str_cat(dim));
  return made;
}

Result<LoadOptions> read_load_options(const hg_load_options* given) {
  HG_TRY_ASSIGN(const hg_load_options all,
                read_struct(given, hg_load_options(), "hg_load_options"));
  HG_CHECK(all.max_dims >= 0 && all.max_nodes >= 0 && all.max_bytes >= 0,
           "limits of hg_load_options are not negative; 0 is none");
  return LoadOptions{.verify_weights = all.verify_weights != 0,
                     .map = all.copy == 0,
                     .max_nodes = all.max_nodes,
                     .max_bytes = all.max_bytes,
                     .max_dims = all.max_dims};
}

// `read` is Model::read or Model::borrow.
template <class Read>
Status read_bytes(Read read, const void* bytes, size_t size, const hg_load_options* options,
                  hg_model** model) {
  HG_C_NEEDS(model);
  *model = nullptr;
  HG_C_NEEDS(bytes);
  HG_TRY_ASSIGN(const LoadOptions all, read_load_options(options));
  const std::span span(static_cast<const std::byte*>(bytes), size);
  HG_TRY_ASSIGN(Model made, read(span, Registry::built_in(), all));
  return give_model(model, std::move(made));
}

Status write_value(const std::vector<hg_model::Described>& values, int32_t index,
                   std::string_view kind, hg_value_info* info) {
  if (index < 0 || index >= static_cast<int32_t>(values.size()))
    return not_found("there is no ", kind, " ", index, "; the model has ", uint64_t{values.size()});
  const hg_model::Described& value = values[index];
  hg_value_info all{};
  all.dtype = static_cast<hg_dtype>(value.full.dtype);
  all.rank = value.full.rank();
  all.name = value.name.c_str();
  all.type = value.type.c_str();
  for (size_t i = 0; i < value.dims.size() && i < HG_C_MAX_RANK; ++i) {
    const Dim& dim = value.full.shape[i];
    all.shape[i] = dim.is_constant() ? dim.constant() : -1;
    all.dims[i] = value.dims[i].c_str();
  }
  return write_struct(info, all, "hg_value_info");
}

template <class List>
int32_t size_of_list(const List& list) {
  return static_cast<int32_t>(list.size());
}

}  // namespace

Status give_model(hg_model** handle, Model model) {
  auto made = std::make_unique<hg_model>();
  made->model = std::move(model);
  made->entries = made->model.entries();
  const Graph& graph = made->model.graph();
  for (const ValueId id : graph.inputs())
    made->inputs.push_back(describe(graph.value_info(id).name, graph.value_info(id).type));
  for (const auto& [name, id] : graph.outputs())
    made->outputs.push_back(describe(name, graph.value_info(id).type));
  made->symbols = graph.symbols();
  for (const Node& node : graph.nodes()) made->ops.emplace_back(node.op->name());
  *handle = made.release();
  return {};
}

Status write_text(char** to, std::string_view text) {
  *to = static_cast<char*>(std::malloc(text.size() + 1));
  if (*to == nullptr)
    return out_of_memory("no memory for a text of ", uint64_t{text.size()}, " bytes");
  std::copy(text.begin(), text.end(), *to);
  (*to)[text.size()] = 0;
  return {};
}

}  // namespace hg::c

extern "C" {

void hg_load_options_init(hg_load_options* options, size_t struct_size) {
  hg::c::write_defaults(options, struct_size, hg_load_options());
}

hg_status* hg_model_load(const char* path, const hg_load_options* options, hg_model** model) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(model);
    *model = nullptr;
    HG_C_NEEDS(path);
    HG_TRY_ASSIGN(const hg::LoadOptions all, hg::c::read_load_options(options));
    HG_TRY_ASSIGN(hg::Model loaded, hg::Model::load(path, hg::Registry::built_in(), all));
    return hg::c::give_model(model, std::move(loaded));
  });
}

hg_status* hg_model_read(const void* bytes, size_t size, const hg_load_options* options,
                         hg_model** model) {
  return border([&]() -> hg::Status {
    return hg::c::read_bytes(hg::Model::read, bytes, size, options, model);
  });
}

hg_status* hg_model_borrow(const void* bytes, size_t size, const hg_load_options* options,
                           hg_model** model) {
  return border([&]() -> hg::Status {
    return hg::c::read_bytes(hg::Model::borrow, bytes, size, options, model);
  });
}

hg_status* hg_model_save(const hg_model* model, const char* path) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(model);
    HG_C_NEEDS(path);
    return model->model.save(path);
  });
}

void hg_model_free(hg_model* model) { delete model; }

int32_t hg_model_input_count(const hg_model* model) {
  return model == nullptr ? 0 : hg::c::size_of_list(model->inputs);
}
int32_t hg_model_output_count(const hg_model* model) {
  return model == nullptr ? 0 : hg::c::size_of_list(model->outputs);
}
int32_t hg_model_state_count(const hg_model* model) {
  return model == nullptr ? 0 : hg::c::size_of_list(model->model.graph().states());
}
int32_t hg_model_node_count(const hg_model* model) {
  return model == nullptr ? 0 : hg::c::size_of_list(model->model.graph().nodes());
}
int32_t hg_model_symbol_count(const hg_model* model) {
  return model == nullptr ? 0 : hg::c::size_of_list(model->symbols);
}

hg_status* hg_model_input(const hg_model* model, int32_t index, hg_value_info* info) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(model);
    return hg::c::write_value(model->inputs, index, "input", info);
  });
}

hg_status* hg_model_output(const hg_model* model, int32_t index, hg_value_info* info) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(model);
    return hg::c::write_value(model->outputs, index, "output", info);
  });
}

hg_status* hg_model_state(const hg_model* model, int32_t index, hg_state_info* info) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(model);
    if (index < 0 || index >= hg_model_state_count(model))
      return hg::not_found("there is no state ", index, "; the model has ",
                           hg_model_state_count(model));
    const hg::State& state = model->model.graph().states()[index];
    hg_state_info all{};
    all.kind = static_cast<int32_t>(state.kind);
    all.name = state.name.c_str();
    all.requires_grad = state.requires_grad;
    all.tensor.struct_size = sizeof all.tensor;
    HG_TRY(hg::c::write_tensor(&all.tensor, state.data.tensor));
    return hg::c::write_struct(info, all, "hg_state_info");
  });
}

hg_status* hg_model_node(const hg_model* model, int32_t index, hg_node_info* info) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(model);
    if (index < 0 || index >= hg_model_node_count(model))
      return hg::not_found("there is no node ", index, "; the model has ",
                           hg_model_node_count(model));
    const hg::Graph& graph = model->model.graph();
    const hg::Node& node = graph.nodes()[index];
    hg_node_info all{};
    all.input_count = hg::c::size_of_list(node.inputs);
    all.output_count = hg::c::size_of_list(node.outputs);
    all.op = model->ops[index].c_str();
    all.name = node.outputs.empty() ? "" : graph.value_info(node.outputs[0]).name.c_str();
    all.module = node.origin.module.c_str();
    all.source = node.origin.source.c_str();
    return hg::c::write_struct(info, all, "hg_node_info");
  });
}

const char* hg_model_symbol(const hg_model* model, int32_t index) {
  if (index < 0 || index >= hg_model_symbol_count(model)) return nullptr;
  return model->symbols[index].c_str();
}
const char* hg_model_producer(const hg_model* model) {
  return model == nullptr ? "" : model->model.info().producer.c_str();
}
const char* hg_model_source(const hg_model* model) {
  return model == nullptr ? "" : model->model.info().source.c_str();
}

hg_status* hg_model_attachment(const hg_model* model, const char* name, const void** bytes,
                               size_t* size) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(bytes);
    HG_C_NEEDS(size);
    *bytes = nullptr;
    *size = 0;
    HG_C_NEEDS(model);
    HG_C_NEEDS(name);
    const hg::Model::Attachment* found = model->model.attachment(name);
    if (found == nullptr) return hg::not_found("the model has no attachment '", name, "'");
    *bytes = found->content.data();
    *size = found->content.size();
    return {};
  });
}

hg_status* hg_model_text(const hg_model* model, char** text) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(text);
    *text = nullptr;
    HG_C_NEEDS(model);
    return hg::c::write_text(text, model->model.graph().text());
  });
}

int32_t hg_model_entry_count(const hg_model* model) {
  return model == nullptr ? 0 : hg::c::size_of_list(model->entries);
}
const char* hg_model_entry_name(const hg_model* model, int32_t index) {
  if (index < 0 || index >= hg_model_entry_count(model)) return nullptr;
  return model->entries[index].c_str();
}
hg_status* hg_model_entry(const hg_model* model, const char* name, hg_model** entry) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(entry);
    *entry = nullptr;
    HG_C_NEEDS(model);
    HG_C_NEEDS(name);
    HG_TRY_ASSIGN(hg::Model made, model->model.entry(name));
    return hg::c::give_model(entry, std::move(made));
  });
}

hg_status* hg_states_create(const hg_model* model, hg_states** states) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(states);
    *states = nullptr;
    HG_C_NEEDS(model);
    HG_TRY_ASSIGN(auto made, hg::SharedStates::create(model->model));
    std::vector<std::string> names = made->names();
    return hg::c::give(states, std::move(made), std::move(names));
  });
}
void hg_states_free(hg_states* states) { delete states; }
int32_t hg_states_count(const hg_states* states) {
  return states == nullptr ? 0 : hg::c::size_of_list(states->names);
}
const char* hg_states_name(const hg_states* states, int32_t index) {
  if (index < 0 || index >= hg_states_count(states)) return nullptr;
  return states->names[index].c_str();
}
hg_status* hg_states_value(const hg_states* states, const char* name, hg_tensor* value) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(states);
    HG_C_NEEDS(name);
    HG_TRY_ASSIGN(const hg::Tensor now, states->states->value(name));
    return hg::c::write_tensor(value, now);
  });
}
hg_status* hg_states_set_value(hg_states* states, const char* name, const hg_tensor* value) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(states);
    HG_C_NEEDS(name);
    HG_TRY_ASSIGN(const hg::Tensor from, hg::c::read_tensor(value));
    return states->states->set_value(name, from);
  });
}
void hg_states_reset(hg_states* states) {
  if (states != nullptr) states->states->reset();
}

}  // extern "C"
