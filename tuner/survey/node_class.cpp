#include "survey/node_class.hpp"

#include <algorithm>
#include <map>

#include "base/format.hpp"
#include "compare/statistics.hpp"
#include "survey/node_names.hpp"
#include "survey/robust.hpp"

namespace zf {
namespace {

using Group = std::vector<const NodeRecord*>;

bool is_accepted(const std::string& name, const ClassRules& rules) {
  return std::any_of(rules.accepted.begin(), rules.accepted.end(), [&](const std::string& prefix) {
    return prefix.size() >= 8 && name.starts_with(prefix);
  });
}

std::optional<ClassBandwidth> bandwidth_of(const std::vector<double>& figures, double z) {
  if (figures.empty()) return std::nullopt;
  return ClassBandwidth{median(figures), figures.size() < kFewestFigures ? 0 : outlier_distance(figures, z),
                        static_cast<int>(figures.size())};
}

/// Returns the medians of the sizes that at least so many nodes have, and of the most frequent one.
std::vector<std::uint64_t> usual_sizes(std::vector<std::uint64_t> sizes, std::size_t at_least) {
  std::sort(sizes.begin(), sizes.end());
  std::vector<std::pair<std::size_t, std::uint64_t>> clusters;  // how many, and their median
  for (auto first = sizes.begin(); first != sizes.end();) {
    auto last = first + 1;
    while (last != sizes.end() && memory_is_alike(*std::prev(last), *last)) ++last;
    clusters.emplace_back(last - first, *(first + (last - first) / 2));
    first = last;
  }
  std::stable_sort(clusters.begin(), clusters.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::uint64_t> usual;
  for (const auto& [count, size] : clusters) {
    if (usual.empty() || count >= at_least) usual.push_back(size);
  }
  return usual;
}

NodeClass class_from(const Group& group, std::size_t at_least, double z) {
  const NodeRecord& first = *group.front();
  NodeClass made{first.machine, first.gpus, static_cast<int>(group.size()), "", {}, {}};
  std::vector<std::string> names;
  std::vector<double> all;
  std::map<Node, std::pair<std::vector<std::uint64_t>, std::vector<double>>> by_node;
  for (const NodeRecord* record : group) {
    names.push_back(record->name);
    if (record->bytes_per_s) all.push_back(*record->bytes_per_s);
    for (const RecordedMemory& memory : record->numa) {
      auto& [sizes, figures] = by_node[memory.node];
      sizes.push_back(memory.memory_bytes);
      if (memory.bytes_per_s) figures.push_back(*memory.bytes_per_s);
    }
  }
  made.names = folded_names(names);
  made.bandwidth = bandwidth_of(all, z);
  for (const auto& [node, figures] : by_node)
    made.numa.push_back({node, usual_sizes(figures.first, at_least), bandwidth_of(figures.second, z)});
  return made;
}

}  // namespace

std::string name_of(const MachineClass& machine, const std::optional<GpuPlaces>& gpus) {
  return gpus ? format_text("{}+{}", machine.fingerprint, gpus->fingerprint) : machine.fingerprint;
}

std::vector<NodeClass> classes_of(const std::vector<NodeRecord>& records, const ClassRules& rules) {
  const std::size_t too_many_to_one = rules.at_least ? 1 : 3;
  std::map<std::string, Group> groups;
  std::size_t largest = 0;
  std::size_t figures = 0;
  for (const NodeRecord& record : records) {
    Group& group = groups[name_of(record.machine, record.gpus)];
    group.push_back(&record);
    largest = std::max(largest, group.size());
    figures += record.numa.size() + 1;
  }
  const std::size_t at_least = rules.at_least.value_or(std::max<std::size_t>(4, records.size() / 100));
  std::vector<NodeClass> classes;
  for (const auto& [name, group] : groups) {
    const bool is_large =
        group.size() >= at_least || group.size() == largest || largest < too_many_to_one * group.size();
    if (is_accepted(name, rules) || is_large)
      classes.push_back(class_from(group, at_least, z_threshold(figures)));
  }
  std::stable_sort(classes.begin(), classes.end(),
                   [](const NodeClass& a, const NodeClass& b) { return a.nodes > b.nodes; });
  return classes;
}

bool memory_is_alike(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kVaries = std::uint64_t{512} << 20;
  const std::uint64_t larger = std::max(a, b);
  return larger - std::min(a, b) <= std::max(kVaries, larger / 50);
}

}  // namespace zf
