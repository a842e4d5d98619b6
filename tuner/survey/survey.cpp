#include "survey/survey.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace zf {
namespace {

/// Keeps the answers of the nodes that should answer, and notes who else did and who did not.
void keep_expected(std::vector<NodeRecord>& records, const std::vector<std::string>& expected,
                   Survey& survey) {
  std::set<std::string> silent(expected.begin(), expected.end());
  std::erase_if(records, [&](const NodeRecord& record) {
    if (silent.erase(record.name) > 0) return false;
    survey.unlisted.push_back(record.name);
    return true;
  });
  survey.silent.assign(silent.begin(), silent.end());
}

/// Notes of each class the node nearest to its median and the slowest one, among those that are not odd.
void add_typical_nodes(const std::vector<NodeRecord>& records, const std::set<std::string>& odd,
                       std::vector<NodeClass>& classes) {
  std::map<const NodeClass*, double> nearest;
  for (const NodeRecord& record : records) {
    NodeClass* const its = class_of(record, classes);
    if (its == nullptr || odd.contains(record.name)) continue;
    const bool known = its->bandwidth && record.bytes_per_s;
    const double share = known ? *record.bytes_per_s / its->bandwidth->median_bytes_per_s : 0;
    const double distance = std::abs(share - 1);
    if (const auto [at, is_first] = nearest.try_emplace(its, distance); is_first || distance < at->second) {
      at->second = distance;
      its->typical = record.name;
    }
    if (known && (its->slowest.empty() || share < its->slowest_share)) {
      its->slowest = record.name;
      its->slowest_share = share;
    }
  }
}

}  // namespace

Survey survey_of(NodeFolder answers, const SurveyRequest& request) {
  Survey survey;
  survey.left_out = std::move(answers.left_out);
  std::vector<NodeRecord>& records = answers.records;
  if (request.expected) keep_expected(records, *request.expected, survey);
  if (!request.with_gpus) {
    for (NodeRecord& record : records) record.gpus.reset();
  }
  survey.nodes = records.size();
  survey.classes = classes_of(records, request.rules);
  std::set<std::string> odd;
  for (const NodeRecord& record : records) {
    if (auto found = odd_node(record, survey.classes)) {
      odd.insert(record.name);
      survey.odd.push_back(*std::move(found));
    }
    if (record.at < request.oldest) survey.old.push_back(record.name);
    if (record.bytes_per_s) continue;
    if (survey.unmeasured.empty()) survey.why_unmeasured = record.not_measured;
    survey.unmeasured.push_back(record.name);
  }
  add_typical_nodes(records, odd, survey.classes);
  return survey;
}

}  // namespace zf
