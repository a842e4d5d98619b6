// Reads the size of a model from the folder of its files.
#pragma once

#include <filesystem>

#include "fit/model_size.hpp"

namespace zf {

/// Returns the size of the model in a folder, as transformers saves one: by the headers of its .safetensors
/// files, else by its config.json. Throws Error(usage) with the path if there is neither, or if it cannot be
/// understood.
ModelSize read_model(const std::filesystem::path& folder);

}  // namespace zf
