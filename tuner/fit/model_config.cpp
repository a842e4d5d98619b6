// The parameters of models of the transformers library, by the numbers of their config.json. The formulas are
// those of its modeling_*.py (5.24); a test compares them with the models that it makes.
#include <functional>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "fit/model_size.hpp"
#include "plan/json_tree.hpp"

namespace zf {
namespace {

/// A config.json. A number that is null counts as absent, as in transformers.
class Config {
 public:
  Config(std::string_view text, std::string_view name)
      : tree_(text, name, "copy the model again, or give --params"), name_(name) {
    if (tree_.kind(0) != JsonTree::Kind::object) fail("is no config of a model");
  }

  std::string type() const {
    const auto value = member("model_type");
    if (!value || tree_.kind(*value) != JsonTree::Kind::text) fail("has no model_type");
    return std::string(tree_.text(*value));
  }

  std::uint64_t number(std::string_view key) const {
    if (const auto value = maybe(key)) return *value;
    fail(format_text("has no {}", key));
  }

  std::uint64_t number(std::string_view key, std::uint64_t if_absent) const {
    return maybe(key).value_or(if_absent);
  }

  /// Returns a number of layers. Each has tensors of its own, so there is a limit.
  std::uint64_t layers(std::string_view key, std::optional<std::uint64_t> if_absent = {}) const {
    constexpr std::uint64_t kMost = 10'000;
    const std::uint64_t layers = if_absent ? number(key, *if_absent) : number(key);
    if (layers > kMost) fail(format_text("{} is more than {}", key, kMost));
    return layers;
  }

  bool has(std::string_view key) const { return member(key).has_value(); }

  bool flag(std::string_view key, bool if_absent) const {
    const auto value = member(key);
    if (!value) return if_absent;
    if (tree_.kind(*value) != JsonTree::Kind::boolean) fail(format_text("{} is neither true nor false", key));
    return tree_.boolean(*value);
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(Exit::usage, format_text("{}: {}", name_, what), "give --params");
  }

 private:
  std::optional<std::uint32_t> member(std::string_view key) const {
    const std::uint32_t value = tree_.find(0, key);
    if (value == JsonTree::kNone || tree_.kind(value) == JsonTree::Kind::null) return std::nullopt;
    return value;
  }

  std::optional<std::uint64_t> maybe(std::string_view key) const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 24;  // products of three are far from overflow
    const auto value = member(key);
    if (!value) return std::nullopt;
    if (tree_.kind(*value) != JsonTree::Kind::natural || tree_.natural(*value) > kMost)
      fail(format_text("{} is no whole number up to {}", key, kMost));
    return tree_.natural(*value);
  }

  JsonTree tree_;
  std::string_view name_;
};

/// The parameters of a model, one after the other.
class Tensors {
 public:
  explicit Tensors(const Config& config) : config_(config) {}

  void add(std::string name, std::uint64_t rows, std::uint64_t columns = 1) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 45;  // 10,000 layers of them are far from overflow
    if (columns != 0 && rows > kMost / columns)
      config_.fail(format_text("{} is larger than any machine holds", name));
    if (rows * columns > 0) list_.push_back({std::move(name), rows * columns, 0});
  }
  /// Adds a layer of torch: a weight, and a bias if it has one.
  void add_linear(const std::string& name, std::uint64_t inputs, std::uint64_t outputs, bool bias) {
    add(name + ".weight", inputs, outputs);
    if (bias) add(name + ".bias", outputs);
  }
  std::vector<ModelTensor> take() { return std::move(list_); }

 private:
  const Config& config_;
  std::vector<ModelTensor> list_;
};

/// How the models of the family of Llama differ.
struct Family {
  bool qkv_bias = false;    ///< always, whatever attention_bias says
  bool reads_bias = false;  ///< attention_bias counts, for the output too
  bool head_norms = false;  ///< a norm of the queries and one of the keys
  bool experts = false;
  std::uint64_t head_dim = 0;  ///< if the config does not say it; 0: hidden_size / heads
  bool mlp_bias = false;       ///< mlp_bias counts
};

std::vector<ModelTensor> like_llama(const Config& config, const Family& family) {
  const std::uint64_t hidden = config.number("hidden_size"), inner = config.number("intermediate_size");
  const std::uint64_t heads = config.number("num_attention_heads");
  const std::uint64_t kv_heads = config.number("num_key_value_heads", heads);
  if (heads == 0) config.fail("num_attention_heads is 0");
  const std::uint64_t head_dim =
      config.number("head_dim", family.head_dim != 0 ? family.head_dim : hidden / heads);
  const std::uint64_t words = config.number("vocab_size");
  const std::uint64_t layers = config.layers("num_hidden_layers");
  const bool bias = family.reads_bias && config.flag("attention_bias", false);
  const bool mlp_bias = family.mlp_bias && config.flag("mlp_bias", false);
  const std::uint64_t experts = family.experts ? config.number("num_local_experts", 8) : 0;

  Tensors tensors(config);
  tensors.add("model.embed_tokens.weight", words, hidden);
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    const std::string at = format_text("model.layers.{}.", layer);
    const std::string attention = at + "self_attn.";
    const bool qkv_bias = bias || family.qkv_bias;
    tensors.add_linear(attention + "q_proj", hidden, heads * head_dim, qkv_bias);
    tensors.add_linear(attention + "k_proj", hidden, kv_heads * head_dim, qkv_bias);
    tensors.add_linear(attention + "v_proj", hidden, kv_heads * head_dim, qkv_bias);
    tensors.add_linear(attention + "o_proj", heads * head_dim, hidden, bias);
    if (family.head_norms) {
      tensors.add(attention + "q_norm.weight", head_dim);
      tensors.add(attention + "k_norm.weight", head_dim);
    }
    if (family.experts) {
      tensors.add(at + "mlp.gate.weight", hidden, experts);
      tensors.add(at + "mlp.experts.gate_up_proj", experts, 2 * hidden * inner);
      tensors.add(at + "mlp.experts.down_proj", experts, hidden * inner);
    } else {
      tensors.add_linear(at + "mlp.gate_proj", hidden, inner, mlp_bias);
      tensors.add_linear(at + "mlp.up_proj", hidden, inner, mlp_bias);
      tensors.add_linear(at + "mlp.down_proj", inner, hidden, mlp_bias);
    }
    tensors.add(at + "input_layernorm.weight", hidden);
    tensors.add(at + "post_attention_layernorm.weight", hidden);
  }
  tensors.add("model.norm.weight", hidden);
  if (!config.flag("tie_word_embeddings", false)) tensors.add("lm_head.weight", hidden, words);
  return tensors.take();
}

/// The names in a layer of a GPT.
struct GptNames {
  const char* norms[2];
  const char *qkv, *output, *up, *down;
};

/// Adds a layer of a GPT: two norms with biases, attention, an MLP.
void add_gpt_layer(Tensors& tensors, const std::string& at, const GptNames& names, std::uint64_t hidden,
                   std::uint64_t inner, bool attention_bias) {
  for (const char* const norm : names.norms) {
    tensors.add(at + norm + ".weight", hidden);
    tensors.add(at + norm + ".bias", hidden);
  }
  tensors.add_linear(at + names.qkv, hidden, 3 * hidden, attention_bias);
  tensors.add_linear(at + names.output, hidden, hidden, attention_bias);
  tensors.add_linear(at + names.up, hidden, inner, true);
  tensors.add_linear(at + names.down, inner, hidden, true);
}

std::vector<ModelTensor> gpt2(const Config& config) {
  const std::uint64_t hidden = config.number("n_embd", 768);
  const std::uint64_t inner = config.number("n_inner", 4 * hidden);
  const std::uint64_t words = config.number("vocab_size", 50257);
  Tensors tensors(config);
  tensors.add("transformer.wte.weight", words, hidden);
  tensors.add("transformer.wpe.weight", config.number("n_positions", 1024), hidden);
  for (std::uint64_t layer = 0; layer < config.layers("n_layer", 12); ++layer) {
    add_gpt_layer(tensors, format_text("transformer.h.{}.", layer),
                  {{"ln_1", "ln_2"}, "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}, hidden, inner,
                  true);
  }
  tensors.add("transformer.ln_f.weight", hidden);
  tensors.add("transformer.ln_f.bias", hidden);
  if (!config.flag("tie_word_embeddings", true)) tensors.add("lm_head.weight", hidden, words);
  return tensors.take();
}

std::vector<ModelTensor> gpt_neox(const Config& config) {
  const std::uint64_t hidden = config.number("hidden_size"), inner = config.number("intermediate_size");
  const std::uint64_t words = config.number("vocab_size");
  const bool bias = config.flag("attention_bias", true);
  Tensors tensors(config);
  tensors.add("gpt_neox.embed_in.weight", words, hidden);
  for (std::uint64_t layer = 0; layer < config.layers("num_hidden_layers"); ++layer) {
    add_gpt_layer(tensors, format_text("gpt_neox.layers.{}.", layer),
                  {{"input_layernorm", "post_attention_layernorm"},
                   "attention.query_key_value",
                   "attention.dense",
                   "mlp.dense_h_to_4h",
                   "mlp.dense_4h_to_h"},
                  hidden, inner, bias);
  }
  tensors.add("gpt_neox.final_layer_norm.weight", hidden);
  tensors.add("gpt_neox.final_layer_norm.bias", hidden);
  if (!config.flag("tie_word_embeddings", false)) tensors.add("embed_out.weight", hidden, words);
  return tensors.take();
}

using Reader = std::function<std::vector<ModelTensor>(const Config&)>;

const std::vector<std::pair<std::string_view, Reader>>& readers() {
  static const auto of = [](const Family& family) -> Reader {
    return [family](const Config& config) { return like_llama(config, family); };
  };
  static const std::vector<std::pair<std::string_view, Reader>> all{
      {"llama", of({.reads_bias = true, .mlp_bias = true})},
      {"mistral", of({})},
      {"qwen2", of({.qkv_bias = true})},
      {"qwen3", of({.reads_bias = true, .head_norms = true, .head_dim = 128})},
      {"mixtral", of({.experts = true})},
      {"gpt2", gpt2},
      {"gpt_neox", gpt_neox},
  };
  return all;
}

}  // namespace

std::string known_model_types() {
  std::string text;
  for (const auto& [name, reader] : readers()) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

bool config_is_quantized(std::string_view text) {
  try {
    return Config(text, "").has("quantization_config");
  } catch (const Error&) {  // a config that is not needed
    return false;
  }
}

std::vector<ModelTensor> tensors_of_config(std::string_view text, std::string_view name) {
  const Config config(text, name);
  if (config.has("quantization_config")) refuse_quantized(name, "it has a quantization_config");
  const std::string type = config.type();
  for (const auto& [known, reader] : readers()) {
    if (type == known) return reader(config);
  }
  config.fail(format_text("the model type \"{}\" is not one of {}", shortened(type), known_model_types()));
}

}  // namespace zf
