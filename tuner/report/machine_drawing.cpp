// Draws the machine as nested boxes.
#include "report/page_parts.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/format.hpp"
#include "report/html.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// As many hues as people can tell apart. page.css defines them as .rank0 and so on.
constexpr int kHues = 8;

/// The rank and the side that run on a PU.
struct Role {
  std::string code;      ///< "T0"
  std::string in_words;  ///< "rank 0, training"
  std::string classes;   ///< of page.css
};

using Roles = std::map<Pu, Role>;

Role role_of(int rank, char letter, const char* side, std::string_view words) {
  return {format_text("{}{}", letter, rank), format_text("rank {}, {}", rank, words),
          format_text("{} rank{}", side, rank % kHues)};
}

Role training_of(int rank) { return role_of(rank, 'T', "training", "training"); }
Role optimizer_of(int rank) { return role_of(rank, 'O', "optimizer", "optimizer"); }
Role both_of(int rank) { return role_of(rank, 'S', "shared", "training and optimizer"); }
Role of_neighbours() { return {"S", "all ranks with this home, and neighbours", "shared rank0"}; }
Role idle() { return {"–", "idle", "idle"}; }
Role barred() { return {"×", "not allowed", "barred"}; }

Roles roles_of(const Plan& plan) {
  Roles roles;
  for (const Pu pu : plan.machine.cpus) roles[pu] = barred();
  for (const Pu pu : plan.allocation.cpus) roles[pu] = idle();
  for (const RankBinding& rank : plan.ranks) {
    if (rank.optimizer.threads) {
      for (const Pu pu : rank.home.cpus) roles[pu] = of_neighbours();
      continue;
    }
    for (const Pu pu : rank.training.cpus) roles[pu] = training_of(rank.rank);
    for (const Pu pu : rank.optimizer.cpus)
      roles[pu] = rank.shared ? both_of(rank.rank) : optimizer_of(rank.rank);
  }
  return roles;
}

std::string pu_box(Pu pu, const Roles& roles) {
  const Role& role = roles.at(pu);
  return format_text("<span class=\"pu {}\" title=\"CPU {}: {}\"><b>{}</b>{}</span>", role.classes,
                     pu.os_index, role.in_words, role.code, pu.os_index);
}

std::string core_box(const Core& core, const Roles& roles) {
  std::string text = "<span class=\"core\">";
  for (const Pu pu : core.cpus) text += pu_box(pu, roles);
  return text + "</span>";
}

/// Opens a box. Without a title, which means that the machine is not known, it has no border.
std::string open_box(std::string_view kind, std::string_view title) {
  if (title.empty()) return format_text("<div class=\"{}\">\n", kind);
  return format_text("<div class=\"box {}\"><h4>{}</h4>\n", kind, html_text(title));
}

std::string memory_of(const NumaNode& node) {
  return node.memory_bytes == 0 ? "" : format_text(", {}", print_bytes(node.memory_bytes));
}

std::string node_title(const Topology& topology, const Core& core) {
  if (!core.node) return "";
  const auto node = std::ranges::find(topology.nodes, *core.node, &NumaNode::id);
  std::string title = format_text("NUMA node {}{}", core.node->os_index,
                                  node == topology.nodes.end() ? "" : memory_of(*node));
  for (const Gpu& gpu : topology.gpus) {
    if (gpu.node == core.node) title += format_text(" · GPU {} {}", gpu.pci_address, gpu.name);
  }
  return title;
}

std::string l3_title(const Topology& topology, const Core& core) {
  if (core.l3 < 0) return "";
  const std::uint64_t bytes = topology.l3_groups[static_cast<std::size_t>(core.l3)].cache_bytes;
  return bytes == 0 ? "L3" : format_text("L3, {}", print_bytes(bytes));
}

/// Returns boxes for nodes without CPUs and for GPUs that are near no single node.
std::string the_rest(const Topology& topology) {
  std::string text;
  for (const NumaNode& node : topology.nodes) {
    if (!node.is_cpuless()) continue;
    text += open_box("node", format_text("NUMA node {}{}, no CPUs{}", node.id.os_index, memory_of(node),
                                         node.subtype.empty() ? "" : format_text(" ({})", node.subtype))) +
            "</div>\n";
  }
  for (const Gpu& gpu : topology.gpus) {
    if (gpu.node) continue;
    text += open_box("node", format_text("GPU {} {}, near no single node", gpu.pci_address, gpu.name)) +
            "</div>\n";
  }
  return text;
}

std::string legend(const Plan& plan) {
  std::vector<Role> shown;
  if (plan.allocation.shared_cpus) shown.push_back(of_neighbours());
  for (const RankBinding& rank : plan.ranks) {
    if (rank.optimizer.threads) continue;
    // In a shared home, training has all CPUs: those of the pool are both sides', and there may be no others.
    if (!rank.optimizer.cpus.contains(rank.training.cpus)) shown.push_back(training_of(rank.rank));
    shown.push_back(rank.shared ? both_of(rank.rank) : optimizer_of(rank.rank));
  }
  shown.push_back(idle());
  shown.push_back(barred());
  std::string text = "<p class=\"legend\">";
  for (const Role& role : shown) {
    text += format_text("<span><span class=\"pu {}\"><b>{}</b></span> {}</span> ", role.classes, role.code,
                        role.in_words);
  }
  return text + "</p>\n";
}

}  // namespace

Topology bare_topology(const Plan& plan) {
  Topology topology;
  topology.cpus = plan.machine.cpus;
  for (const Pu pu : plan.machine.cpus) topology.cores.emplace_back().cpus = {pu};
  return topology;
}

std::string machine_drawing(const Plan& plan, const Topology& topology) {
  const Roles roles = roles_of(plan);
  const bool has_nodes = !topology.nodes.empty();
  const bool has_kinds = topology.cpu_kinds.size() > 1;
  std::string text = legend(plan) + "<div class=\"machine\">\n";
  const Core* last = nullptr;
  for (const Core& core : topology.cores) {
    const bool new_package = last == nullptr || core.package != last->package;
    const bool new_node = new_package || core.node != last->node;
    const bool new_l3 = new_node || core.l3 != last->l3;
    if (last != nullptr && new_l3) text += "</div>\n";
    if (last != nullptr && new_node) text += "</div>\n";
    if (last != nullptr && new_package) text += "</div>\n";
    if (new_package) text += open_box("package", has_nodes ? format_text("Package {}", core.package) : "PUs");
    if (new_node) text += open_box("node", node_title(topology, core));
    if (new_l3) text += open_box("l3", l3_title(topology, core));
    if (has_kinds && (new_l3 || core.kind != last->kind)) {
      const CpuKind& kind = topology.cpu_kinds[static_cast<std::size_t>(core.kind)];
      if (const std::string words = in_words(kind); !words.empty())
        text += format_text("<span class=\"kind\">{}</span>", html_text(words));
    }
    text += core_box(core, roles);
    last = &core;
  }
  if (last != nullptr) text += "</div>\n</div>\n</div>\n";
  return text + the_rest(topology) + "</div>\n";
}

}  // namespace zf
