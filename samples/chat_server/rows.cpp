// SPDX-License-Identifier: Apache-2.0
#include "rows.h"

namespace {

class ManyRows final : public Rows {
 public:
  explicit ManyRows(hg::BatchGenerator batch) : batch_(std::move(batch)) {}

  hg::Result<int64_t> add(const std::vector<int32_t>& prompt, hg::GenerateOptions options,
                          std::stop_token stop) override {
    return batch_.add(prompt, std::move(options), std::move(stop));
  }
  hg::Status step(std::stop_token stop) override { return batch_.step(std::move(stop)).status(); }
  std::span<const hg::EndedSequence> ended() const override { return batch_.ended(); }
  hg::Status end(int64_t id) override { return batch_.end(id); }
  int64_t count() const override { return batch_.rows(); }
  int64_t vocabulary() const override { return batch_.vocabulary(); }
  int64_t position_limit() const override { return batch_.position_limit(); }

 private:
  hg::BatchGenerator batch_;
};

// Its step() also reads the prompt.
class OneRow final : public Rows {
 public:
  explicit OneRow(hg::Generator generator) : generator_(std::move(generator)) {}

  hg::Result<int64_t> add(const std::vector<int32_t>& prompt, hg::GenerateOptions options,
                          std::stop_token) override {
    HG_TRY(generator_.begin({&prompt, 1}, std::move(options)));
    is_running_ = true;
    return ++id_;
  }
  hg::Status step(std::stop_token stop) override {
    ended_.clear();
    if (!is_running_) return {};
    HG_TRY_ASSIGN(const auto tokens, generator_.step(std::move(stop)));
    if (tokens.empty()) leave();
    return {};
  }
  std::span<const hg::EndedSequence> ended() const override { return ended_; }
  hg::Status end(int64_t id) override {
    if (!is_running_ || id != id_) return hg::not_found("there is no running sequence ", id);
    HG_TRY(generator_.end(0));
    leave();
    return {};
  }
  int64_t count() const override { return 1; }
  int64_t vocabulary() const override { return generator_.vocabulary(); }
  int64_t position_limit() const override { return generator_.position_limit(); }

 private:
  void leave() {
    const hg::Generation& all = generator_.generation();
    ended_.push_back({id_, {}, all.sequences[0], all.reused});
    is_running_ = false;
  }

  hg::Generator generator_;
  std::vector<hg::EndedSequence> ended_;
  int64_t id_ = 0;
  bool is_running_ = false;
};

}  // namespace

hg::Result<std::unique_ptr<Rows>> Rows::create(const hg::Model& model, int64_t count,
                                               const hg::SessionOptions& options) {
  if (count > 1) {
    hg::Result<hg::BatchGenerator> batch = hg::BatchGenerator::create(model, count, options);
    if (batch.ok()) return std::unique_ptr<Rows>(new ManyRows(*std::move(batch)));
    if (batch.status().code() != hg::Code::unsupported) return batch.status();
  }
  HG_TRY_ASSIGN(hg::Generator generator, hg::Generator::create(model, options));
  return std::unique_ptr<Rows>(new OneRow(std::move(generator)));
}
