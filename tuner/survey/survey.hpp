// What the nodes of a cluster say, taken together: classes, odd nodes, and who has not answered. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "survey/faults.hpp"
#include "survey/node_class.hpp"
#include "survey/node_folder.hpp"
#include "text/table.hpp"

namespace zf {

struct SurveyRequest {
  ClassRules rules = {};
  std::optional<std::vector<std::string>> expected = {};  ///< who should answer, in order; absent: not known
  std::string oldest = {};  ///< UTC time; what is older is named; empty: no age is too old
  bool with_gpus = true;    ///< false: where GPUs are makes no class and no odd node
};

struct Survey {
  std::size_t nodes = 0;  ///< that answered, and should
  std::vector<NodeClass> classes;
  std::vector<OddNode> odd;             ///< by name
  std::vector<std::string> unmeasured;  ///< nodes without bandwidth
  std::string why_unmeasured;           ///< what the first of them says
  std::vector<std::string> silent;      ///< should answer and have not
  std::vector<std::string> unlisted;    ///< answered, and should not
  std::vector<std::string> old;
  std::vector<LeftOutFile> left_out;

  /// Returns whether nothing is odd, silent, old or left out. Nodes that should not answer change nothing.
  bool is_well() const { return odd.empty() && silent.empty() && old.empty() && left_out.empty(); }
};

/// Takes the answers together. Pure.
Survey survey_of(NodeFolder answers, const SurveyRequest& request);

/// Returns the classes, a row each.
Table classes_table(const Survey& survey);

/// Returns what is to be looked at, a line each without its end; equal faults are one line.
std::vector<std::string> findings(const Survey& survey);

/// Returns "1197 nodes of 5 classes answered: 12 are odd, 3 are silent".
std::string headline(const Survey& survey);

/// Returns all of it for a person.
std::string survey_text(const Survey& survey, std::size_t width = kUnlimitedWidth);

/// Returns all of it for programs: schema "zf-survey/1". docs/cluster.md has the keys.
std::string survey_json(const Survey& survey);

/// Reads the classes of that JSON. `name` is the file's. Throws Error(usage).
std::vector<NodeClass> classes_in_json(std::string_view text, std::string_view name);

/// Returns all of it as a page.
std::string survey_page(const Survey& survey);

}  // namespace zf
