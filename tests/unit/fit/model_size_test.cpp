#include "fit/model_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

std::uint64_t params_of(const char* config) { return model_of_config(config, "config.json").params; }

std::string refusal_of(const char* config) {
  try {
    model_of_config(config, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

// The numbers are those that the models' cards give, or their .safetensors files.
TEST(ModelConfig, CountsTheParametersOfPublishedModels) {
  EXPECT_EQ(
      params_of(
          R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "vocab_size": 32000,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "rms_norm_eps": 1e-05})"),
      6'738'415'616U);  // Llama-2-7b
  EXPECT_EQ(
      params_of(
          R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "attention_bias": false})"),
      8'030'261'248U);  // Llama-3.1-8B
  EXPECT_EQ(params_of(R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "vocab_size": 32000, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "head_dim": null})"),
            7'241'732'096U);  // Mistral-7B-v0.1
  EXPECT_EQ(
      params_of(
          R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "vocab_size": 151936,
    "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "tie_word_embeddings": true})"),
      494'032'768U);  // Qwen2.5-0.5B
  EXPECT_EQ(
      params_of(
          R"({"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "vocab_size": 151936,
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "head_dim": 128,
    "tie_word_embeddings": true, "attention_bias": false})"),
      596'049'920U);  // Qwen3-0.6B
  EXPECT_EQ(params_of(R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "vocab_size": 32000, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "num_local_experts": 8})"),
            46'702'792'704U);  // Mixtral-8x7B-v0.1
  EXPECT_EQ(params_of(R"({"model_type": "gpt2"})"), 124'439'808U);
  EXPECT_EQ(params_of(R"({"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
    "vocab_size": 50432, "num_attention_heads": 64, "num_hidden_layers": 44})"),
            20'554'567'680U);  // gpt-neox-20b
}

TEST(ModelConfig, TheLargestParameterAndLayerAreKnown) {
  const ModelSize size = model_of_config(
      R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "vocab_size": 32000,
    "num_attention_heads": 32, "num_hidden_layers": 32})",
      "config.json");
  EXPECT_EQ(size.largest, 32000U * 4096U);
  EXPECT_EQ(size.layer, 2U * 32000U * 4096U + 4096U) << "what is in no layer is more than a layer";
  EXPECT_FALSE(size.estimated);
}

TEST(ModelConfig, OtherTypesAndMissingNumbersAreRefusedInWords) {
  EXPECT_THAT(refusal_of(R"({"model_type": "mamba"})"),
              HasSubstr("\"mamba\" is not one of llama, mistral, qwen2"));
  EXPECT_THAT(refusal_of(R"({"model_type": "llama", "hidden_size": 8})"),
              HasSubstr("intermediate_size: is missing"));
  EXPECT_THAT(refusal_of(R"({"model_type": "llama", "hidden_size": "8"})"),
              HasSubstr("hidden_size: is \"8\", not a whole number"));
  EXPECT_THAT(refusal_of(R"({"model_type": "llama", "hidden_size": 1e30})"),
              HasSubstr("hidden_size: is 1e+30, not a whole number"));
  EXPECT_THAT(refusal_of(R"({"model_type": "gpt2", "n_layer": 100000})"),
              HasSubstr("n_layer: is 100000, not between 0 and 10000"));
  EXPECT_THAT(refusal_of(R"({"model_type": "gpt2", "n_embd": 16777216, "n_inner": 16777216})"),
              HasSubstr("larger than any machine holds"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("model_type: is missing"));
  EXPECT_THAT(refusal_of("[1]"), HasSubstr("config.json: is a list, not an object"));
  EXPECT_THAT(refusal_of("null"), HasSubstr("config.json: is null, not an object"));
  EXPECT_THAT(refusal_of("nonsense"), HasSubstr("config.json"));
}

TEST(Safetensors, HeadersGiveExactNumbers) {
  const auto tensors = tensors_of_safetensors(
      R"({"__metadata__": {"format": "pt"}, "layers.0.a": {"dtype": "BF16", "shape": [3, 5], "data_offsets": [0, 30]},
          "layers.1.a": {"dtype": "F32", "shape": [7], "data_offsets": [30, 58]},
          "scale": {"dtype": "F32", "shape": [], "data_offsets": [58, 62]}})",
      "a file");
  const ModelSize size = model_of_tensors(tensors);
  EXPECT_EQ(size.params, 23U);
  EXPECT_EQ(size.largest, 15U);
  EXPECT_EQ(size.layer, 15U);
}

TEST(Safetensors, BuffersAreNotParameters) {
  const auto tensors = tensors_of_safetensors(
      R"({"h.0.attn.bias": {"dtype": "F32", "shape": [1, 1, 1024, 1024]},
          "h.0.attn.c_attn.bias": {"dtype": "F32", "shape": [5]},
          "layers.0.attention.bias": {"dtype": "BOOL", "shape": [1, 1, 64, 64]},
          "o_proj.attention.bias": {"dtype": "BF16", "shape": [7]},
          "embeddings.position_ids": {"dtype": "I64", "shape": [1, 512]}})",
      "a file");
  EXPECT_EQ(model_of_tensors(tensors).params, 12U);
}

TEST(Safetensors, QuantizedParametersAreRefused) {
  for (const char* const header : {R"({"l.qweight": {"dtype": "I32", "shape": [512, 4096]}})",
                                   R"({"l.weight": {"dtype": "U8", "shape": [8388608, 1]}})",
                                   R"({"l.weight_packed": {"dtype": "I32", "shape": [512, 4096]}})"}) {
    try {
      tensors_of_safetensors(header, "model.safetensors");
      ADD_FAILURE() << header;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("model.safetensors: the model is quantized (the tensor l."))
          << header;
    }
  }
  EXPECT_THAT(refusal_of(R"({"model_type": "gpt2", "quantization_config": {"bits": 4}})"),
              HasSubstr("it has a quantization_config"));
  EXPECT_EQ(params_of(R"({"model_type": "gpt2", "quantization_config": null})"), 124'439'808U);
}

TEST(Safetensors, BrokenHeadersAreRefusedWithTheFile) {
  for (const char* const header :
       {"", "[]", "{\"a\": 1}", R"({"a": {"shape": [1]}})", R"({"a": {"dtype": "F32", "shape": [-1]}})",
        R"({"a": {"dtype": "F32", "shape": 3}})", R"({"a": {"dtype": "Q4", "shape": [3]}})",
        R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296]}})"}) {
    try {
      tensors_of_safetensors(header, "model.safetensors");
      ADD_FAILURE() << header;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("model.safetensors")) << header;
    }
  }
}

TEST(ModelFiles, MutationsOfThemAreReadOrRefused) {
  const std::string header =
      R"({"a.0.b": {"dtype": "BF16", "shape": [3, 5], "data_offsets": [0, 30]}, "c": {"dtype": "F8_E4M3", "shape": []}})";
  const std::string config =
      R"({"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4,
          "num_hidden_layers": 2, "vocab_size": 99, "num_local_experts": 2, "tie_word_embeddings": true})";
  std::mt19937 random(1);
  int refused = 0;
  for (int turn = 0; turn < 4000; ++turn) {
    std::string text = turn % 2 == 0 ? header : config;
    for (int change = 0; change <= turn % 3; ++change) {
      const std::size_t at = random() % text.size();
      if (random() % 4 == 0) {
        text.erase(at, random() % 6);
      } else {
        constexpr char kBytes[] = "0123456789{}[]\",:.-eEnulltrue\x00\xff";
        text[at] = kBytes[random() % sizeof kBytes];
      }
    }
    try {
      turn % 2 == 0 ? model_of_tensors(tensors_of_safetensors(text, "a file"))
                    : model_of_config(text, "a file");
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_THAT(error.what(), HasSubstr("a file"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
}

TEST(UsualModel, HasPartsThatAreNotLargerThanTheWhole) {
  for (std::uint64_t params = 1; params < std::uint64_t{1} << 45; params = params * 3 + 1) {
    const ModelSize size = usual_model(params);
    EXPECT_LE(size.largest, params);
    EXPECT_LE(size.layer, params);
    EXPECT_LE(size.largest, size.layer);
    EXPECT_TRUE(size.estimated);
  }
}

}  // namespace
}  // namespace zf
