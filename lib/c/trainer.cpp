// SPDX-License-Identifier: Apache-2.0
// Trainers of hg/c.h.
#include "hg/train.h"
#include "lib/c/handles.h"
#include "lib/c/structs.h"

using hg::c::border;

namespace hg::c {
namespace {

Status read_tensors(const hg_tensor* from, size_t count, std::vector<ConstTensor>& to) {
  HG_CHECK(from != nullptr || count == 0, "a list of tensors is null and has ", uint64_t{count},
           " entries");
  for (size_t i = 0; i < count; ++i) {
    HG_TRY_ASSIGN(const Tensor tensor, read_tensor(element(from, i)));
    to.push_back(tensor);
  }
  return {};
}

Result<Dataset> read_dataset(const hg_dataset* given) {
  HG_CHECK(given != nullptr, "the hg_dataset is null");
  HG_TRY_ASSIGN(const hg_dataset all, read_struct(given, hg_dataset(), "hg_dataset"));
  Dataset data;
  HG_TRY(read_tensors(all.inputs, all.input_count, data.inputs));
  HG_TRY(read_tensors(all.targets, all.target_count, data.targets));
  return data;
}

hg_fit_options default_fit_options() {
  const FitOptions from;
  hg_fit_options options{};
  options.shuffle = from.shuffle;
  options.epochs = from.epochs;
  options.batch = from.batch;
  return options;
}

hg_progress progress_of(const Progress& from) {
  hg_progress to{};
  to.struct_size = sizeof to;
  to.is_epoch = from.is_epoch;
  to.is_best = from.is_best;
  to.has_validation = from.validation != nullptr;
  to.step = from.step;
  to.steps = from.steps;
  to.epoch = from.epoch;
  to.epochs = from.epochs;
  to.loss = from.loss;
  to.lr = from.lr;
  to.ms = from.ms;
  to.validation_loss = from.validation != nullptr ? from.validation->loss : 0;
  return to;
}

}  // namespace
}  // namespace hg::c

extern "C" {

void hg_dataset_init(hg_dataset* data, size_t struct_size) {
  hg::c::write_defaults(data, struct_size, hg_dataset());
}
void hg_fit_options_init(hg_fit_options* options, size_t struct_size) {
  hg::c::write_defaults(options, struct_size, hg::c::default_fit_options());
}

hg_status* hg_trainer_create(const hg_model* model, const hg_train_options* options,
                             hg_trainer** trainer) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(trainer);
    *trainer = nullptr;
    HG_C_NEEDS(model);
    std::unique_ptr<hg::c::CLog> log;
    HG_TRY_ASSIGN(hg::TrainOptions all, hg::c::read_train_options(options, log));
    const size_t metrics = all.metrics.size();
    HG_TRY_ASSIGN(hg::Trainer made, hg::Trainer::create(model->model, std::move(all)));
    return hg::c::give(trainer, std::move(log), std::move(made), metrics);
  });
}

void hg_trainer_free(hg_trainer* trainer) { delete trainer; }

hg_status* hg_trainer_step(hg_trainer* trainer, const hg_dataset* batch, const hg_cancel* cancel,
                           double* loss) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(trainer);
    HG_TRY_ASSIGN(const hg::Dataset data, hg::c::read_dataset(batch));
    HG_TRY_ASSIGN(const double before,
                  trainer->trainer.step(data.inputs, data.targets, hg::c::token_of(cancel)));
    if (loss != nullptr) *loss = before;
    return {};
  });
}

hg_status* hg_trainer_fit(hg_trainer* trainer, const hg_dataset* data,
                          const hg_fit_options* options) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(trainer);
    HG_TRY_ASSIGN(const hg_fit_options all,
                  hg::c::read_struct(options, hg::c::default_fit_options(), "hg_fit_options"));
    HG_TRY_ASSIGN(const hg::Dataset samples, hg::c::read_dataset(data));
    hg::Dataset validation;
    hg::FitOptions fit;
    if (all.validation != nullptr) {
      HG_TRY_ASSIGN(validation, hg::c::read_dataset(all.validation));
      fit.validation = &validation;
    }
    fit.epochs = all.epochs;
    fit.batch = all.batch;
    fit.shuffle = all.shuffle != 0;
    fit.finish = all.finish != 0;
    fit.patience = all.patience;
    if (all.best_path != nullptr) fit.best_path = all.best_path;
    if (all.on_progress != nullptr)
      fit.on_progress = [&all](const hg::Progress& progress) {
        const hg_progress told = hg::c::progress_of(progress);
        return all.on_progress(all.progress_host, &told) != 0;
      };
    fit.stop = hg::c::token_of(all.cancel);
    return trainer->trainer.fit(samples, fit);
  });
}

hg_status* hg_trainer_evaluate(hg_trainer* trainer, const hg_dataset* data, int64_t batch,
                               double* loss, double* metrics) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(trainer);
    HG_TRY_ASSIGN(const hg::Dataset samples, hg::c::read_dataset(data));
    HG_TRY_ASSIGN(const hg::Evaluation evaluation, trainer->trainer.evaluate(samples, batch));
    if (loss != nullptr) *loss = evaluation.loss;
    if (metrics != nullptr)
      for (size_t i = 0; i < trainer->metrics; ++i) metrics[i] = evaluation.metrics[i];
    return {};
  });
}

void hg_trainer_end_epoch(hg_trainer* trainer, double loss) {
  if (trainer != nullptr) trainer->trainer.end_epoch(loss);
}
void hg_trainer_set_lr(hg_trainer* trainer, double lr) {
  if (trainer != nullptr) trainer->trainer.set_lr(lr);
}
double hg_trainer_lr(const hg_trainer* trainer) {
  return trainer == nullptr ? 0 : trainer->trainer.lr();
}
int64_t hg_trainer_updates(const hg_trainer* trainer) {
  return trainer == nullptr ? 0 : trainer->trainer.updates();
}

int32_t hg_trainer_trained_count(const hg_trainer* trainer) {
  return trainer == nullptr ? 0 : static_cast<int32_t>(trainer->trainer.trained().size());
}
const char* hg_trainer_trained(const hg_trainer* trainer, int32_t index) {
  if (index < 0 || index >= hg_trainer_trained_count(trainer)) return nullptr;
  return trainer->trainer.trained()[index].c_str();
}
int32_t hg_trainer_note_count(const hg_trainer* trainer) {
  return trainer == nullptr ? 0 : static_cast<int32_t>(trainer->trainer.notes().size());
}
const char* hg_trainer_note(const hg_trainer* trainer, int32_t index) {
  if (index < 0 || index >= hg_trainer_note_count(trainer)) return nullptr;
  return trainer->trainer.notes()[index].c_str();
}

hg_status* hg_trainer_memory(const hg_trainer* trainer, hg_memory* memory) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(trainer);
    HG_TRY_ASSIGN(const hg::Memory from, trainer->trainer.session().memory());
    return hg::c::write_memory(memory, from);
  });
}

hg_status* hg_trainer_model(const hg_trainer* trainer, hg_model** model) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(model);
    *model = nullptr;
    HG_C_NEEDS(trainer);
    HG_TRY_ASSIGN(hg::Model made, trainer->trainer.model());
    return hg::c::give_model(model, std::move(made));
  });
}

hg_status* hg_trainer_save(const hg_trainer* trainer, const char* path) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(trainer);
    HG_C_NEEDS(path);
    return trainer->trainer.save(path);
  });
}

}  // extern "C"
