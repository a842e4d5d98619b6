#include "commands/model_folder.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "os/file.hpp"

namespace zf {
namespace {

/// Returns true also for a link to nothing and for what may not be looked at: reading it then says why it
/// cannot be read.
bool is_there(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::symlink_status(path, unknown).type() != std::filesystem::file_type::not_found;
}

/// Returns the header of a .safetensors file: a length in 8 bytes, the lowest first, then so many bytes of
/// JSON.
std::string read_header(const std::filesystem::path& path) {
  constexpr const char* kNext = "copy the model again, or give --params";
  const FileDescriptor file = open_regular_file(path);
  std::array<std::byte, 8> length_bytes{};
  if (read_at(path, file.get(), 0, length_bytes) < length_bytes.size())
    throw Error(Exit::usage, format_text("{}: it has no header", path.string()), kNext);
  std::uint64_t length = 0;
  for (std::size_t i = length_bytes.size(); i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(length_bytes[i]);
  if (length == 0 || length > kMaxTextFileBytes || length > size_of_file(file.get()))
    throw Error(Exit::usage, format_text("{}: it is no .safetensors file, or was cut off", path.string()),
                kNext);
  std::string header(length, '\0');
  if (read_at(path, file.get(), 8, std::as_writable_bytes(std::span(header))) < length)
    throw Error(Exit::usage, format_text("{}: it was cut off", path.string()), kNext);
  return header;
}

/// Returns the .safetensors files of a model: those of its index, else model.safetensors, else all. A folder
/// may have the same model a second time, as consolidated.safetensors.
std::vector<std::filesystem::path> safetensors_in(const std::filesystem::path& folder) {
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  if (is_there(index)) {
    std::vector<std::filesystem::path> listed;
    for (const std::string& file : files_of_index(read_text_file(index), index.string()))
      listed.push_back(folder / file);
    return listed;
  }
  if (const std::filesystem::path whole = folder / "model.safetensors"; is_there(whole)) return {whole};
  std::vector<std::filesystem::path> found;
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  if (error)
    throw Error(Exit::usage, format_text("{}: {}", folder.string(), error.message()), "name a folder");
  for (; it != std::filesystem::directory_iterator(); it.increment(error)) {
    if (error) throw Error(Exit::usage, format_text("{}: {}", folder.string(), error.message()));
    if (it->path().extension() == ".safetensors") found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Throws Error(usage) if the folder is one of an adapter: its file has the adapter's parameters alone, or
/// of a quantized model.
void refuse_what_is_no_model(const std::filesystem::path& folder) {
  if (folder.empty())
    throw Error(Exit::usage, "zf-tune fit: --model: no folder is named", "name the folder of a model");
  const std::filesystem::path config = folder / "config.json", adapter = folder / "adapter_config.json";
  const bool has_model = is_there(config) || is_there(folder / "model.safetensors") ||
                         is_there(folder / "model.safetensors.index.json");
  if (!has_model && is_there(adapter))
    throw Error(Exit::usage, format_text("{}: this is an adapter, not the whole model", adapter.string()),
                "name the folder of its base model, and give --trainable");
  if (const auto text = read_text_file_if_any(config); text && config_is_quantized(*text))
    refuse_quantized(config.string(), "it has a quantization_config");
}

}  // namespace

ModelSize read_model(const std::filesystem::path& folder) {
  refuse_what_is_no_model(folder);
  std::vector<ModelTensor> tensors;
  for (const std::filesystem::path& path : safetensors_in(folder)) {
    for (ModelTensor& tensor : tensors_of_safetensors(read_header(path), path.string()))
      tensors.push_back(std::move(tensor));
  }
  const std::filesystem::path config = folder / "config.json";
  if (tensors.empty() && !is_there(config)) {
    throw Error(Exit::usage,
                format_text("{}: there is no .safetensors file and no config.json", folder.string()),
                "name the folder of a model, or give --params");
  }
  const ModelSize size =
      tensors.empty() ? model_of_config(read_text_file(config), config.string()) : model_of_tensors(tensors);
  constexpr std::uint64_t kMost = 1'000'000'000'000'000;  // as --params
  if (size.params == 0 || size.params > kMost)
    throw Error(Exit::usage,
                format_text("{}: its model {}", folder.string(),
                            size.params == 0 ? "has no parameters" : "is larger than any machine holds"),
                "give --params");
  return size;
}

}  // namespace zf
