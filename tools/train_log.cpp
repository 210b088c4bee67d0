// SPDX-License-Identifier: Apache-2.0
#include "tools/train_log.h"

#include <nlohmann/json.hpp>

#include "tools/draw/draw_curve.h"
#include "tools/process.h"

namespace hg::tools {
namespace {

nlohmann::ordered_json metrics_of(const TrainLog& log, const Evaluation& evaluation) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (size_t i = 0; i < evaluation.metrics.size(); ++i)
    out[log.metric_names[i]] = evaluation.metrics[i];
  return out;
}

}  // namespace

void TrainLog::add(const Progress& p) {
  if (!p.is_epoch) {
    steps.push_back({p.step, p.epoch, p.loss, p.ms, p.lr});
    return;
  }
  Epoch epoch{p.epoch, p.step, p.loss, p.ms, p.lr};
  if (p.validation != nullptr) {
    epoch.has_validation = true;
    epoch.validation = *p.validation;
  }
  epochs.push_back(std::move(epoch));
}

Outcome write_json(const TrainLog& log, const std::string& path) {
  using json = nlohmann::ordered_json;
  json steps = json::array(), epochs = json::array();
  for (const TrainLog::Step& s : log.steps)
    steps.push_back(
        {{"step", s.step}, {"epoch", s.epoch}, {"loss", s.loss}, {"ms", s.ms}, {"lr", s.lr}});
  for (const TrainLog::Epoch& e : log.epochs) {
    json epoch = {{"epoch", e.epoch}, {"loss", e.loss}, {"ms", e.ms}, {"lr", e.lr}};
    if (e.has_validation) {
      epoch["validation_loss"] = e.validation.loss;
      epoch["metrics"] = metrics_of(log, e.validation);
    }
    epochs.push_back(std::move(epoch));
  }
  const json out = {{"steps", steps},
                    {"epochs", epochs},
                    {"plan",
                     {{"peak_bytes", log.memory.peak_bytes},
                      {"arena_bytes", log.memory.arena_bytes},
                      {"weights_bytes", log.memory.weights_bytes},
                      {"flops", log.flops},
                      {"extra_flops", log.memory.extra_flops}}},
                    {"trained", log.trained},
                    {"notes", log.notes},
                    {"stopped", log.stopped}};
  return write_text(out.dump(1) + "\n", path);
}

Outcome write_svg(const TrainLog& log, const std::string& title, const std::string& path) {
  Curve batches{"each batch", {}}, epochs{"epoch", {}}, validation{"validation", {}};
  for (const TrainLog::Step& s : log.steps)
    batches.points.push_back({static_cast<double>(s.step), s.loss});
  for (const TrainLog::Epoch& e : log.epochs) {
    epochs.points.push_back({static_cast<double>(e.last_step), e.loss});
    if (e.has_validation)
      validation.points.push_back({static_cast<double>(e.last_step), e.validation.loss});
  }
  std::vector<Curve> curves = {std::move(batches)};
  if (epochs.points.size() > 1) curves.push_back(std::move(epochs));
  if (!validation.points.empty()) curves.push_back(std::move(validation));
  return write_text(draw_curves(curves, title, "step", "loss"), path);
}

}  // namespace hg::tools
