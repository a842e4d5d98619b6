// The sizes of a model, in elements: what the memory of a training job follows from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zf {

/// A parameter of a model: its name, and its number of elements.
struct ModelTensor {
  std::string name;  ///< "model.layers.0.mlp.up_proj.weight"
  std::uint64_t elements = 0;
};

struct ModelSize {
  std::uint64_t params = 0;     ///< elements of all parameters
  std::uint64_t trainable = 0;  ///< those that the optimizer steps
  std::uint64_t largest = 0;    ///< elements of the largest parameter
  std::uint64_t layer = 0;      ///< elements of the largest layer, or of what is in no layer if that is more
  bool estimated = false;       ///< `largest` and `layer` are those that usual models of this size have

  /// Returns the most elements that a trained parameter can have.
  std::uint64_t largest_trained() const { return std::min(largest, trainable); }
};

/// Returns the size of a model from its number of parameters alone. Its largest parameter is taken to be an
/// embedding of 131,072 words, or a quarter of the model if that is less; a layer is as large as in decoders
/// with a width of 128 times their depth. Pure.
ModelSize usual_model(std::uint64_t params);

/// Returns the size of a model with these parameters. All are trained. The parameters that have the same
/// name up to the first number in it are one layer. Pure.
ModelSize model_of_tensors(const std::vector<ModelTensor>& tensors);

/// Returns the parameters that the header of a .safetensors file lists: what has whole numbers, or is a mask,
/// is a buffer. Throws Error(usage) with `name` if it is no header, or if the parameters are quantized. Pure.
std::vector<ModelTensor> tensors_of_safetensors(std::string_view header, std::string_view name);

/// Returns the names of the files that a model.safetensors.index.json lists, in order, each once. Throws
/// Error(usage) with `name` if it lists none, or one outside of its folder. Pure.
std::vector<std::string> files_of_index(std::string_view text, std::string_view name);

/// Returns the size of a model that a config.json of the transformers library describes. Throws Error(usage)
/// with `name` if the model type is not one of those that are known, a number is missing, or the model is
/// quantized. Pure.
ModelSize model_of_config(std::string_view text, std::string_view name);

/// Returns true if a config.json says that the tensors beside it are quantized; false also if it is none.
/// Pure.
bool config_is_quantized(std::string_view text);

/// Throws Error(usage) with `name`, a file, and why its model is called quantized.
[[noreturn]] void refuse_quantized(std::string_view name, std::string_view why);

/// The model types that model_of_config() knows: "llama, mistral, …".
std::string known_model_types();

}  // namespace zf
