#include "survey/node_features.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "survey/node_names.hpp"

namespace zf {
namespace {

constexpr std::string_view kOurs = "zf-";
constexpr std::size_t kFingerprint = 16;

bool is_feature(std::string_view word) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:=+";
  return !word.empty() && word.find_first_not_of(kLetters) == std::string_view::npos;
}

/// Returns whether the feature is that of a class.
bool is_ours(std::string_view feature) {
  return feature.starts_with(kOurs) && feature.size() == kOurs.size() + kFingerprint &&
         feature.find_first_not_of("0123456789abcdef", kOurs.size()) == std::string_view::npos;
}

std::vector<std::string> features_in(const std::string& text, std::string_view what) {
  std::vector<std::string> features;
  if (text == "(null)") return features;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (!is_feature(word)) {
      throw Error(Exit::usage,
                  format_text("{}: \"{}\" is no feature of a node", what, one_line(word.substr(0, 80))),
                  "give what sinfo -h -N -o '%N %f' prints");
    }
    features.push_back(word);
  }
  return features;
}

}  // namespace

NodeFeatures parse_node_features(std::string_view text, std::string_view what) {
  NodeFeatures present;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string list;
    std::string features;
    words >> list >> features;
    const std::vector<std::string> read = features_in(features, what);
    for (std::string& name : unfolded_names(list, what)) present.insert_or_assign(std::move(name), read);
  }
  return present;
}

std::string feature_lines(const Survey& survey, const NodeFeatures& present) {
  NodeFeatures wanted = present;
  for (auto& [name, features] : wanted) std::erase_if(features, is_ours);
  for (const NodeClass& one : survey.classes) {
    for (const std::string& name : unfolded_names(one.names, "names")) {
      const bool is_odd = std::any_of(survey.odd.begin(), survey.odd.end(),
                                      [&](const OddNode& odd) { return odd.name == name; });
      if (const auto at = wanted.find(name); at != wanted.end() && !is_odd)
        at->second.push_back(format_text("{}{}", kOurs, one.machine.fingerprint));
    }
  }
  std::map<std::string, std::vector<std::string>> changed;  // names by features
  std::map<std::string, std::vector<std::string>> all;
  for (const auto& [name, features] : wanted) {
    const std::string text = join_text(features, ",");
    if (!text.empty()) all[text].push_back(name);
    if (features != present.at(name)) changed[text].push_back(name);
  }
  std::string lines;
  for (const auto& [features, names] : changed)
    lines += format_text("scontrol update NodeName={} AvailableFeatures={}\n", folded_names(names), features);
  lines += "# Add to the nodes' own lines in slurm.conf, so that a restart of slurmctld keeps them:\n";
  for (const auto& [features, names] : all)
    lines += format_text("# NodeName={} Feature={}\n", folded_names(names), features);
  return lines;
}

}  // namespace zf
