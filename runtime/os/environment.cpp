#include "os/environment.hpp"

#include <unistd.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/trim.hpp"

namespace zf {

Environment Environment::of_this_process() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals),
                      text.substr(equals + 1));  // the first of two equal names counts, as in getenv
  }
  return Environment(std::move(variables));
}

std::optional<std::string> Environment::get(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Environment::words() const {
  std::vector<std::string> words;
  words.reserve(variables_.size());
  for (const auto& [name, value] : variables_) words.push_back(format_text("{}={}", name, value));
  return words;
}

bool switched_off(const Environment& environment) {
  const std::string value = environment.get("ZF_TUNE").value_or("");
  return value == "off" || value == "0" || value == "no" || value == "false";
}

std::optional<EnvNumber> number_in(const Environment& environment, const std::string& variable, int least) {
  const auto text = environment.get(variable);
  if (!text || trim(*text).empty()) return std::nullopt;
  const auto digits = trim(*text);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < least) {
    throw Error(Exit::usage,
                format_text("{}=\"{}\" is not a whole number of {} or more", variable, *text, least),
                format_text("unset {} or correct it", variable));
  }
  return EnvNumber{value, variable};
}

std::optional<VisibleDevices> devices_in(const Environment& environment, const std::string& variable) {
  const auto text = environment.get(variable);
  if (!text) return std::nullopt;
  VisibleDevices devices{{}, variable};
  std::string_view rest = *text;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    const auto part = trim(rest.substr(0, comma));
    // This is the driver's own rule: the list ends at the first entry that names no device.
    if (part.empty() || part == "-1" || part == "NoDevFiles") break;
    devices.ids.emplace_back(part);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return devices;
}

std::optional<VisibleDevices> visible_devices(const Environment& environment, GpuRuntime runtime) {
  const bool has_hip = !environment.get("HIP_VISIBLE_DEVICES").value_or("").empty();
  auto cuda = devices_in(environment, "CUDA_VISIBLE_DEVICES");
  if (cuda && runtime == GpuRuntime::cuda) return cuda;
  const auto rocr = devices_in(environment, "ROCR_VISIBLE_DEVICES");
  auto hip = has_hip || !cuda ? devices_in(environment, "HIP_VISIBLE_DEVICES") : std::move(cuda);
  // https://github.com/ROCm/clr, rocclr/device/rocm/rocdevice.cpp: an empty list of HIP hides nothing.
  if (hip && runtime == GpuRuntime::hip && environment.get(hip->variable) == "") hip.reset();
  if (!rocr || !hip) return rocr ? rocr : hip;
  VisibleDevices within{{}, hip->variable + " within " + rocr->variable};
  for (const std::string& id : hip->ids) {
    if (id.starts_with("GPU-")) {
      within.ids.push_back(id);
      continue;
    }
    std::size_t position = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), position);
    if (error != std::errc() || end != id.data() + id.size() || position >= rocr->ids.size()) break;
    within.ids.push_back(rocr->ids[position]);
  }
  return within;
}

}  // namespace zf
