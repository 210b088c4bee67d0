// SPDX-License-Identifier: Apache-2.0
// A language model that reads tokens and predicts the next ones. Finds the model's inputs and
// outputs by name.
//
// The values that the model carries from run to run stay in buffers of its session (hg/stateful.h).
// Values that only sliding windows read have buffers for their last positions (windows.h).
// Another number of sequences or more positions need a new session. If a session cannot keep the
// values of a model, PastBuffers passes them on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "hg/session.h"
#include "lib/generate/encoder_session.h"
#include "lib/generate/past_buffers.h"

namespace hg {

// Continues a hash of the states of a graph: names, types and contents.
uint64_t hash_of_states(const Graph& graph, uint64_t hash);

// What logits() returns: those, or the vectors that they are computed from.
enum class DecoderOutput : uint8_t { logits, hidden };

class DecoderSession {
 public:
  // `batch`: number of sequences to open the first session for.
  // `stored`: see StatefulOptions.
  static Result<DecoderSession> create(const Model& model, SessionOptions options,
                                       int64_t batch = 1,
                                       DecoderOutput output = DecoderOutput::logits,
                                       std::optional<DType> stored = {});

  // Forgets all tokens. Makes room for this many positions; later runs make more room if needed.
  Status start(int64_t batch, int64_t positions);
  // Adds a token to sequence `row`. Before run(), all rows must have the same number of tokens.
  // Hidden tokens are padding.
  void push(size_t row, int64_t id, int64_t position, bool is_hidden);
  // Reads the new tokens of all rows.
  Status run(std::stop_token stop);
  // Copies the logits after the last token of a row, or `back` tokens before it.
  Status logits(size_t row, std::vector<float>& out, int64_t back = 0) const;
  // Fails if the model cannot check several proposed tokens in one run.
  Status check_speculation() const;
  // Sets how many logits per row the next run keeps: those of the last tokens. Other runs keep one.
  void keep_logits(int64_t count) { kept_logits_ = count; }

  // The past of one sequence; see Generator. length() also counts the tokens that the next run
  // reads. It is 0 with several rows or an encoder.
  int64_t length() const;
  std::vector<int32_t> ids() const;
  // Fail if there are several rows, or if there is an encoder.
  Status check_sequence(std::string_view what) const;
  Status check_no_encoder(std::string_view what) const;
  void reset();
  // Whether truncate() drops positions from the end of what the model carries, so that no token is
  // read again.
  bool can_roll_back() const;
  // The same of dropping all but the first `length` positions.
  bool can_roll_back(int64_t length) const;
  Status truncate(int64_t length);
  // Applies a change to the session and to those that are opened later. The tokens are read again.
  // `hash` distinguishes changes: a file of a past belongs to one.
  Status change_sessions(std::function<Status(Session&)> change, uint64_t hash);
  Result<DecoderSession> fork() const;
  Status save(const std::string& path) const;
  Status load(const std::string& path);
  // Forgets all but the first tokens, which `prompt` also begins with. Keeps at most all but the
  // last of the prompt. Returns the number of these tokens; 0 if there are none, or if the model
  // cannot return to an earlier position: then call start().
  Result<int64_t> resume(std::span<const int32_t> prompt, int64_t positions);

  // For sequences that join and leave a running batch. A row holds the tokens of its sequence at
  // its right end; the columns before them are hidden. Fails with unsupported if the model's rows
  // cannot be exchanged; `what` names what needs this.
  Status check_rows(std::string_view what) const;
  // Number of columns.
  int64_t past() const { return past_; }
  // Fills a row with the last `length` tokens of a row of `other`, a session of the same model. If
  // they need more columns, all rows get them.
  Status replace_row(size_t row, const DecoderSession& other, size_t other_row, int64_t length);
  // Row i continues what row from[i] had read.
  Status reorder(std::span<const size_t> from);
  // Of the last `count` tokens of each row, keeps the first kept[row] and drops the others.
  Status keep_new(std::span<const int64_t> kept, int64_t count);
  // Drops the first columns of all rows.
  Status drop_columns(int64_t count);
  // Forgets the tokens that no run has read.
  void discard_new();

  // Null unless the model is an encoder-decoder. Its begin() precedes the first run().
  EncoderSession* encoder() { return encoder_ ? &*encoder_ : nullptr; }
  bool can_pad() const { return mask_.value != kNoValue && positions_.value != kNoValue; }
  int64_t vocabulary() const { return vocabulary_; }                        // of ids; 0: unknown
  int64_t output_size() const { return logits_type_.shape[2].constant(); }  // of hidden vectors
  bool reads_single_tokens() const;
  // Whether a run gives what logits() returns for its last token alone.
  bool gives_last_only() const { return logits_type_.shape[1] == Dim(1); }
  int64_t position_limit() const { return position_limit_; }

 private:
  // An input of integers, which the model may lack. `rows` holds one value per token since start().
  struct Integers {
    ValueId value = kNoValue;  // of the model
    std::vector<std::vector<int64_t>> rows = {};
    TensorData data = {};  // of the last run
  };

  // A buffer of the session with what the model carries, and its dims: one that grows, and that of
  // the batch; -1: none.
  struct KeptState {
    std::string name;
    int grows = -1, batch = -1;
    bool slides = false;  // it holds window_past_ positions
  };

  // Forks share a session until they run.
  struct SharedSession : Session {
    explicit SharedSession(Session session) : Session(std::move(session)) {}
    std::mutex reading;  // held while a fork copies the states
  };

  // Forks share models.
  using SharedModel = std::shared_ptr<const Model>;

  DecoderSession(SharedModel model, SessionOptions options)
      : whole_(model), model_(std::move(model)), options_(std::move(options)) {}
  static Result<DecoderSession> create_decoder(SharedModel model, SessionOptions options,
                                               int64_t batch, DecoderOutput output,
                                               std::optional<DType> stored);
  // A model of a changed graph of whole_.
  Result<SharedModel> changed(Graph graph, const std::string& how) const;
  Status find_input(ValueId id);
  Status find_output(const std::string& name, ValueId id);
  Status check_parts() const;
  Status read_hidden();
  Status keep_last_logits();
  Status use_windows();
  Status find_carried();
  void find_limits();
  bool keeps_past() const { return !carried_.empty() && !buffers_; }
  const Dim& batch_size() const;  // the batch dim of the model's ids
  StatefulOptions stateful_options(int64_t batch, int64_t capacity) const;
  Status open_first(int64_t batch);
  Status open(int64_t batch, int64_t capacity);
  Status use(Result<Session> session);
  Status own_session();
  Status open(SharedModel stateful, int64_t batch, int64_t capacity);
  static int64_t capacity_for(int64_t positions);
  Status clear_states();
  Status grow(int64_t positions);
  Status forget_read();
  Tensor used_part(const KeptState& kept, Tensor state) const;
  bool grows() const;
  int64_t held(const KeptState& kept) const { return kept.slides ? window_past_ : past_; }
  int64_t least_held(int64_t past) const;
  Status make_room(int64_t time);
  Result<std::vector<TensorData>> copy_carried() const;
  Status restore_carried(std::span<const TensorData> copies);
  std::string fingerprint() const;
  int growing_dim(const CarriedValue& carried) const;
  int batch_dim(const CarriedValue& carried) const;
  Status move_columns(bool slides, int64_t from, int64_t to, int64_t count);
  Status keep_changes(const std::string& name, const Tensor& state);
  Status set_integers(Integers& input, int64_t from, int64_t to);
  Status run_part(int64_t from, int64_t to, std::stop_token stop);

  SharedModel whole_;  // with the logits of all tokens
  SharedModel model_;  // with those of the last tokens
  SessionOptions options_;
  Integers ids_, mask_, positions_;
  Integers types_;    // of text encoders; all are 0
  Integers columns_;  // cache_position: of the new tokens, for all rows
  DecoderOutput output_ = DecoderOutput::logits;
  std::string logits_;
  TensorType logits_type_;
  bool counts_logits_ = false;  // as many as the input kKept has elements
  int64_t kept_logits_ = 1;
  TensorData kept_data_ = {};
  std::vector<CarriedValue> carried_;
  std::vector<KeptState> kept_;
  std::optional<DType> stored_;
  int64_t vocabulary_ = 0, position_limit_ = 0;

  std::optional<EncoderSession> encoder_;
  std::optional<PastBuffers> buffers_;  // nullopt: the session keeps the carried values
  SharedModel stateful_;                // kept alive: models made alike share compiled graphs
  std::shared_ptr<SharedSession> session_;
  int64_t capacity_ = 0, session_batch_ = 0;  // of stateful_
  std::function<Status(Session&)> change_;    // empty: none
  uint64_t change_hash_ = 0;

  // Of states that slide: positions that a token sees, in the model; positions in the buffers, and
  // room for them.
  int64_t window_ = 0, window_past_ = 0, window_capacity_ = 0;
  std::vector<std::string> sliding_;
  TensorData window_data_ = {};

  int64_t batch_ = 0, past_ = 0;
};

}  // namespace hg
