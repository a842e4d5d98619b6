// The parameters of models of the transformers library, by the numbers of their config.json. The formulas are
// those of its modeling_*.py (5.24); a test compares them with the models that it makes.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "fit/model_size.hpp"
#include "plan/json_fields.hpp"

namespace zf {
namespace {

/// A config.json. A number that is null counts as absent, as in transformers.
class Config {
 public:
  explicit Config(Field root) : root_(std::move(root)) {}

  bool has(std::string_view key) const { return root_.has(key) && !root_[key].is_null(); }
  std::string type() const { return root_.need("model_type").text(); }

  std::uint64_t number(std::string_view key) const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 24;  // products of three are far from overflow
    if (!has(key)) root_.fail_at(key, "is missing");
    return root_[key].integer<std::uint64_t>(0, kMost);
  }

  std::uint64_t number(std::string_view key, std::uint64_t if_absent) const {
    return has(key) ? number(key) : if_absent;
  }

  /// Returns a number of layers. Each has tensors of its own, so there is a limit.
  std::uint64_t layers(std::string_view key, std::optional<std::uint64_t> if_absent = {}) const {
    constexpr std::uint64_t kMost = 10'000;
    if (if_absent && !has(key)) return *if_absent;
    return root_.need(key).integer<std::uint64_t>(0, kMost);
  }

  bool flag(std::string_view key, bool if_absent) const {
    return has(key) ? root_[key].boolean() : if_absent;
  }

  [[noreturn]] void fail(std::string_view what) const { root_.fail(what); }

 private:
  Field root_;
};

/// Parameters of a model that are counted together: a layer, or what is in none.
class Part {
 public:
  explicit Part(const Config& config) : config_(config) {}

  Part& add(std::uint64_t rows, std::uint64_t columns = 1) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 45;  // 10,000 layers of them are far from overflow
    if (columns != 0 && rows > kMost / columns)
      config_.fail("has a parameter that is larger than any machine holds");
    sum += rows * columns;
    largest = std::max(largest, rows * columns);
    return *this;
  }
  /// Adds a layer of torch: a weight, and a bias if it has one.
  Part& linear(std::uint64_t inputs, std::uint64_t outputs, bool bias) {
    add(inputs, outputs);
    return bias ? add(outputs) : *this;
  }

  std::uint64_t sum = 0, largest = 0;

 private:
  const Config& config_;
};

ModelSize model_of(const Part& outside, const Part& layer, std::uint64_t layers) {
  ModelSize size{.params = outside.sum, .largest = outside.largest, .layer = outside.sum};
  if (layers > 0) {
    size.params += layers * layer.sum;
    size.largest = std::max(size.largest, layer.largest);
    size.layer = std::max(size.layer, layer.sum);
  }
  size.trainable = size.params;
  return size;
}

/// How the models of the family of Llama differ.
struct Family {
  bool qkv_bias = false;    ///< always, whatever attention_bias says
  bool reads_bias = false;  ///< attention_bias counts, for the output too
  bool head_norms = false;  ///< a norm of the queries and one of the keys
  bool experts = false;
  std::uint64_t head_dim = 0;  ///< if the config does not say it; 0: hidden_size / heads
  bool mlp_bias = false;       ///< mlp_bias counts
};

ModelSize like_llama(const Config& config, const Family& family) {
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

  Part layer(config);
  layer.linear(hidden, heads * head_dim, bias || family.qkv_bias);
  for (int keys_and_values = 0; keys_and_values < 2; ++keys_and_values)
    layer.linear(hidden, kv_heads * head_dim, bias || family.qkv_bias);
  layer.linear(heads * head_dim, hidden, bias);
  if (family.head_norms) layer.add(head_dim).add(head_dim);
  if (family.experts) {
    const std::uint64_t experts = config.number("num_local_experts", 8);
    layer.add(hidden, experts).add(experts, 2 * hidden * inner).add(experts, hidden * inner);
  } else {
    layer.linear(hidden, inner, mlp_bias).linear(hidden, inner, mlp_bias).linear(inner, hidden, mlp_bias);
  }
  layer.add(hidden).add(hidden);  // norms
  Part outside(config);
  outside.add(words, hidden).add(hidden);
  if (!config.flag("tie_word_embeddings", false)) outside.add(hidden, words);
  return model_of(outside, layer, layers);
}

/// Returns a layer of a GPT: two norms with biases, attention, an MLP.
Part gpt_layer(const Config& config, std::uint64_t hidden, std::uint64_t inner, bool attention_bias) {
  Part layer(config);
  for (int norms = 0; norms < 2; ++norms) layer.add(hidden).add(hidden);
  layer.linear(hidden, 3 * hidden, attention_bias).linear(hidden, hidden, attention_bias);
  layer.linear(hidden, inner, true).linear(inner, hidden, true);
  return layer;
}

ModelSize gpt2(const Config& config) {
  const std::uint64_t hidden = config.number("n_embd", 768), words = config.number("vocab_size", 50257);
  const Part layer = gpt_layer(config, hidden, config.number("n_inner", 4 * hidden), true);
  Part outside(config);
  outside.add(words, hidden).add(config.number("n_positions", 1024), hidden).add(hidden).add(hidden);
  if (!config.flag("tie_word_embeddings", true)) outside.add(hidden, words);
  return model_of(outside, layer, config.layers("n_layer", 12));
}

ModelSize gpt_neox(const Config& config) {
  const std::uint64_t hidden = config.number("hidden_size"), words = config.number("vocab_size");
  const Part layer =
      gpt_layer(config, hidden, config.number("intermediate_size"), config.flag("attention_bias", true));
  Part outside(config);
  outside.add(words, hidden).add(hidden).add(hidden);
  if (!config.flag("tie_word_embeddings", false)) outside.add(hidden, words);
  return model_of(outside, layer, config.layers("num_hidden_layers"));
}

using Reader = ModelSize (*)(const Config&);

constexpr auto kReaders = std::to_array<std::pair<std::string_view, Reader>>({
    {"llama",
     [](const Config& config) { return like_llama(config, {.reads_bias = true, .mlp_bias = true}); }},
    {"mistral", [](const Config& config) { return like_llama(config, {}); }},
    {"qwen2", [](const Config& config) { return like_llama(config, {.qkv_bias = true}); }},
    {"qwen3",
     [](const Config& config) {
       return like_llama(config, {.reads_bias = true, .head_norms = true, .head_dim = 128});
     }},
    {"mixtral", [](const Config& config) { return like_llama(config, {.experts = true}); }},
    {"gpt2", gpt2},
    {"gpt_neox", gpt_neox},
});

}  // namespace

std::string known_model_types() {
  std::string text;
  for (const auto& [name, reader] : kReaders) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

bool config_is_quantized(std::string_view text) {
  try {
    const JsonDocument document(text, "");
    return Config(document.root()).has("quantization_config");
  } catch (const Error&) {  // a config that is not needed
    return false;
  }
}

ModelSize model_of_config(std::string_view text, std::string_view name) {
  const JsonDocument document(text, name, "copy the model again, or give --params", "give --params");
  const Config config(document.root());
  if (config.has("quantization_config")) refuse_quantized(name, "it has a quantization_config");
  const std::string type = config.type();
  for (const auto& [known, reader] : kReaders) {
    if (type == known) return reader(config);
  }
  config.fail(format_text("the model type \"{}\" is not one of {}", shortened(type), known_model_types()));
}

}  // namespace zf
