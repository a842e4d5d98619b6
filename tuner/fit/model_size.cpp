#include "fit/model_size.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/format.hpp"
#include "plan/json_fields.hpp"

namespace zf {
namespace {

/// Returns the name up to the first part that is a number, that part included; "" if there is none.
std::string layer_of(std::string_view name) {
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number) return std::string(name.substr(0, end));
    begin = end + 1;
  }
  return "";
}

constexpr const char* kNext = "copy the model again, or give --params";

/// Returns the last part of a name: "weight".
std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

/// Returns true if a tensor of whole numbers stands for several parameters, or for one in few bits: GPTQ,
/// AWQ, compressed-tensors, HQQ, bitsandbytes.
bool is_packed(std::string_view name) {
  const std::string_view last = last_part(name);
  return last == "weight" || last == "qweight" || last == "weight_packed" || last == "W_q";
}

/// Returns true for a mask of attention that is kept as floating-point numbers, as GPT-2's is: [1, 1, n, n].
bool is_mask(std::string_view name, const std::vector<std::uint64_t>& lengths) {
  return (name.ends_with("attn.bias") || name.ends_with("attention.bias")) && lengths.size() == 4 &&
         lengths[0] == 1 && lengths[1] == 1;
}

constexpr std::array<std::string_view, 15> kTypes{"F64",     "F32", "F16", "BF16", "F8_E4M3",
                                                  "F8_E5M2", "I64", "I32", "I16",  "I8",
                                                  "U64",     "U32", "U16", "U8",   "BOOL"};

/// Returns the lengths that a "shape" lists.
std::vector<std::uint64_t> lengths_of(const Field& shape) {
  std::vector<std::uint64_t> lengths;
  for (const Field& length : shape.items()) lengths.push_back(length.integer<std::uint64_t>(0));
  return lengths;
}

std::uint64_t elements_of(const Field& tensor, const std::vector<std::uint64_t>& lengths) {
  std::uint64_t elements = 1;
  for (const std::uint64_t length : lengths) {
    if (length != 0 && elements > (std::uint64_t{1} << 50) / length)
      tensor.fail("is larger than any machine holds");
    elements *= length;
  }
  return elements;
}

}  // namespace

void refuse_quantized(std::string_view name, std::string_view why) {
  throw Error(
      Exit::usage,
      format_text("{}: the model is quantized ({}), and what is stored is not its parameters", name, why),
      "name the folder of the model as it was before, or give --params");
}

ModelSize usual_model(std::uint64_t params) {
  constexpr double kWords = 131072;
  const double width = std::cbrt(static_cast<double>(params) * 128 / 12);
  const auto embedding = static_cast<std::uint64_t>(kWords * width);
  const auto layer = static_cast<std::uint64_t>(12 * width * width);
  ModelSize size{.params = params, .trainable = params, .estimated = true};
  size.largest = std::max<std::uint64_t>(1, std::min(params / 4, embedding));
  size.layer = std::max(size.largest, std::min(params, layer));
  return size;
}

ModelSize model_of_tensors(const std::vector<ModelTensor>& tensors) {
  constexpr std::uint64_t kEnough = std::uint64_t{1} << 60;  // for read_model() to refuse it
  ModelSize size;
  std::map<std::string, std::uint64_t> layers;
  for (const ModelTensor& tensor : tensors) {
    size.params = std::min(size.params + tensor.elements, kEnough);
    size.largest = std::max(size.largest, tensor.elements);
    layers[layer_of(tensor.name)] += tensor.elements;
  }
  for (const auto& [name, elements] : layers) size.layer = std::max(size.layer, elements);
  size.trainable = size.params;
  return size;
}

std::vector<ModelTensor> tensors_of_safetensors(std::string_view header, std::string_view name) {
  const JsonDocument document(header, name, kNext, kNext);
  std::vector<ModelTensor> tensors;
  for (const Field& tensor : document.root().members()) {
    const std::string_view key = tensor.key();
    if (key == "__metadata__") continue;
    const std::vector<std::uint64_t> lengths = lengths_of(tensor.need("shape"));
    const std::uint64_t elements = elements_of(tensor, lengths);
    const std::string type = tensor.need("dtype").text();
    if (std::ranges::find(kTypes, type) == kTypes.end())
      tensor.fail_at("dtype", format_text("is {}, which zf-tune does not know", shortened(type)));
    const bool is_whole_number = type.find('F') == std::string::npos;  // BOOL, too
    if (is_whole_number && is_packed(key))
      refuse_quantized(name, format_text("the tensor {} has the type {}", shortened(key), type));
    if (is_whole_number || is_mask(key, lengths)) continue;  // a buffer, which is not trained
    tensors.push_back({std::string(key), elements});
  }
  return tensors;
}

std::vector<std::string> files_of_index(std::string_view text, std::string_view name) {
  const JsonDocument document(text, name, kNext, kNext);
  std::set<std::string> files;
  for (const Field& file : document.root().need("weight_map").members()) {
    if (file.text().find('/') != std::string::npos) file.fail("names no file");
    files.insert(file.text());
  }
  if (files.empty()) document.root().fail_at("weight_map", "is empty");
  return {files.begin(), files.end()};
}

}  // namespace zf
