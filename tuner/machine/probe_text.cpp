// Prints one screen, even for a machine of 384 PUs: objects that are alike are counted, not listed.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "machine/probe.hpp"
#include "text/table.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

/// CPU lists up to this many characters are shown as they are.
constexpr std::size_t kShortList = 40;

/// Returns "0-76:4" instead of twenty numbers if a machine numbers its CPUs round-robin over its nodes.
/// --allowed accepts this form.
std::string brief(const CpuSet& cpus) {
  std::string plain = print(cpus);
  if (plain.size() <= kShortList) return plain;
  const std::vector<Pu> pus(cpus.begin(), cpus.end());
  std::string text;
  for (std::size_t i = 0; i < pus.size();) {
    std::size_t last = i;
    const int step = i + 1 < pus.size() ? pus[i + 1].os_index - pus[i].os_index : 0;
    while (last + 1 < pus.size() && pus[last + 1].os_index - pus[last].os_index == step) ++last;
    if (last < i + 2 && step != 1) last = i;
    if (!text.empty()) text += ',';
    text += format_text("{}", pus[i].os_index);
    if (last > i) text += format_text("-{}", pus[last].os_index);
    if (last > i && step != 1) text += format_text(":{}", step);
    i = last + 1;
  }
  return text.size() < plain.size() ? text : plain;
}

/// The lines below each other, none wider than the page.
class Page {
 public:
  explicit Page(std::size_t width) : width_(width) {}

  void line(const char* label, const std::string& text) {
    text_ += hanging(format_text("{:<11} ", label), one_line(text), width_);
  }
  void table(const Table& table) { text_ += format_text("\n{}\n", table.print(width_)); }
  const std::string& text() const { return text_; }

 private:
  std::size_t width_;
  std::string text_;
};

void machine_line(Page& page, const Topology& topology) {
  std::size_t with_cpus = 0;
  for (const auto& node : topology.nodes) with_cpus += node.is_cpuless() ? 0 : 1;
  const std::size_t others = topology.nodes.size() - with_cpus;
  page.line("Machine",
            format_text("{}: {}{}, {}{}, {}, {}", topology.source,
                        topology.cpu_model.empty() ? "" : topology.cpu_model + ", ",
                        print_count(topology.packages, "package"), print_count(with_cpus, "NUMA node"),
                        others == 0 ? "" : format_text(" and {} without CPUs", others),
                        print_count(topology.cores.size(), "core"), print_count(topology.cpus.size(), "PU")));
}

void nodes_table(Page& page, const Topology& topology) {
  if (topology.nodes.empty()) return page.line("NUMA nodes", "none known");
  std::uint64_t memory = 0;
  for (const auto& node : topology.nodes) memory += node.memory_bytes;
  Table table({{"node"}, {"package"}, {"cores"}, {"memory"}, {"CPUs", Table::Align::left}});
  for (const auto& node : topology.nodes) {
    std::string packages;
    int last_package = -1;
    int cores = 0;
    for (const auto& core : topology.cores) {
      if (core.node != node.id) continue;
      ++cores;
      if (core.package == last_package) continue;
      last_package = core.package;
      packages += format_text("{}{}", packages.empty() ? "" : ",", core.package);
    }
    std::string cpus = brief(node.cpus);
    if (node.is_cpuless()) cpus = node.subtype.empty() ? "none" : format_text("none ({})", node.subtype);
    table.add({format_text("{}", node.id.os_index), packages.empty() ? "-" : packages,
               format_text("{}", cores),
               memory == 0              ? "unknown"
               : node.memory_bytes == 0 ? "none"
                                        : print_bytes(node.memory_bytes),
               cpus});
  }
  page.table(table);
}

/// Adds "24 of 32 MiB for 8 cores each".
void l3_line(Page& page, const Topology& topology) {
  if (topology.l3_groups.empty()) return page.line("L3 caches", "none known");
  std::vector<std::size_t> cores_of(topology.l3_groups.size());
  for (const auto& core : topology.cores) {
    if (core.l3 >= 0) ++cores_of[static_cast<std::size_t>(core.l3)];
  }
  std::map<std::pair<std::uint64_t, std::size_t>, std::size_t> alike;
  for (std::size_t i = 0; i < cores_of.size(); ++i) ++alike[{topology.l3_groups[i].cache_bytes, cores_of[i]}];
  std::string text;
  for (const auto& [kind, groups] : alike) {
    text += format_text("{}{} of {} for {}{}", text.empty() ? "" : ", ", groups, print_bytes(kind.first),
                        print_count(kind.second, "core"), groups > 1 ? " each" : "");
  }
  page.line("L3 caches", text);
}

void kinds_lines(Page& page, const Topology& topology) {
  if (topology.cpu_kinds.size() < 2) return;
  for (const auto& kind : topology.cpu_kinds) {
    page.line(&kind == &topology.cpu_kinds.front() ? "CPU kinds" : "",
              format_text("{}  {}", brief(kind.cpus), in_words(kind)));
  }
}

bool has_gpu(const RankGpus& ranks, std::size_t rank, const Gpu& gpu) {
  const auto is_it = [&](const Gpu& one) { return one.pci_address == gpu.pci_address; };
  if (!ranks.gpus[rank]) return false;
  return is_it(*ranks.gpus[rank]) || (!ranks.more.empty() && std::ranges::any_of(ranks.more[rank], is_it));
}

/// Returns the ranks that compute on this GPU: "0,4".
std::string ranks_on(const Gpu& gpu, const RankGpus& ranks) {
  std::string text;
  for (std::size_t rank = 0; rank < ranks.gpus.size(); ++rank) {
    if (!has_gpu(ranks, rank, gpu)) continue;
    text += format_text("{}{}", text.empty() ? "" : ",", rank);
  }
  return text.empty() ? "-" : text;
}

void gpus_lines(Page& page, const Topology& topology, const RankGpus& ranks) {
  if (topology.gpus.empty()) return page.line("GPUs", "none");
  Table table({{"GPU", Table::Align::left},
               {"node"},
               {"rank"},
               {"near CPUs", Table::Align::left},
               {"name", Table::Align::left}});
  for (const auto& gpu : topology.gpus) {
    table.add({gpu.pci_address, gpu.node ? format_text("{}", gpu.node->os_index) : "-", ranks_on(gpu, ranks),
               brief(gpu.local_cpus),
               gpu.usable ? gpu.name : format_text("{} ({})", gpu.name, gpu.why_unusable)});
  }
  page.table(table);
}

/// Says what looks like a GPU and is none, with one line for all devices that are alike.
void left_out_lines(Page& page, const Topology& topology) {
  constexpr std::size_t kMostNamed = 4;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> alike;
  for (const LeftOutDevice& device : topology.left_out)
    alike[{device.why, device.name}].push_back(device.pci_address);
  const char* label = "Left out";
  for (const auto& [device, addresses] : alike) {
    const std::string where =
        addresses.size() <= kMostNamed
            ? join_text(addresses, ", ")
            : format_text("{} of them, {} to {}", addresses.size(), addresses.front(), addresses.back());
    page.line(std::exchange(label, ""), format_text("{} ({}): {}", device.second, where, device.first));
  }
}

void allowed_lines(Page& page, const Machine& machine) {
  const Allowed& allowed = machine.allowed;
  page.line("Allowed", format_text("{} ({} of {}, on {})", print_cpus(allowed.cpus), allowed.cpus.size(),
                                   print_count(machine.topology.complete_cpus.size(), "PU"),
                                   print_count(allowed_cores(machine), "core")));
  page.line("", allowed.mems.empty() ? "memory of no known node" : "memory of " + print_nodes(allowed.mems));
  for (const auto& exclusion : allowed.exclusions) {
    page.line(&exclusion == &allowed.exclusions.front() ? "Excluded" : "",
              format_text("CPU{} {}: {}", exclusion.cpus.size() == 1 ? "" : "s", brief(exclusion.cpus),
                          exclusion.detail));
  }
  if (const auto words = isolation_in_words(allowed.cpus, machine.isolated)) {
    page.line("Isolated",
              format_text("{}; they are allowed because {}", *words,
                          machine.keeps_isolated ? "--isolated says so"
                                                 : why_not_left_out(allowed.cpus, machine.isolated)));
  }
  page.line("CPU quota",
            allowed.cpu_quota
                ? format_text("{:.4g} {} worth of time ({}){}", *allowed.cpu_quota,
                              *allowed.cpu_quota == 1 ? "CPU's" : "CPUs'", allowed.cpu_quota_path,
                              allowed.shared_cpus ? "; neighbours share these CPUs" : "")
                : "none");
  page.line("Memory",
            allowed.memory_bytes
                ? format_text("at most {} ({})", print_bytes(*allowed.memory_bytes), allowed.memory_path)
                : "no limit");
}

void ranks_line(Page& page, const Probe& probe) {
  std::string text = format_text("{} ({})", probe.ranks.count, probe.ranks.source);
  if (probe.local_rank) {
    text +=
        format_text("; this process is rank {} ({})", probe.local_rank->value, probe.local_rank->variable);
  }
  page.line("Ranks", text);
}

}  // namespace

std::string probe_text(const Probe& probe, std::size_t width) {
  const Topology& topology = probe.machine.topology;
  Page page(width);
  machine_line(page, topology);
  nodes_table(page, topology);
  l3_line(page, topology);
  kinds_lines(page, topology);
  gpus_lines(page, topology, probe.gpus);
  left_out_lines(page, topology);
  allowed_lines(page, probe.machine);
  ranks_line(page, probe);
  for (const auto& note : probe.gpus.notes) page.line("", note);
  if (is_spread_near(probe.gpus, probe.machine.allowed.cpus)) page.line("", probe.gpus.spread_note);
  for (const auto& [name, value] : probe.slurm)
    page.line(name == probe.slurm.begin()->first ? "Slurm" : "", format_text("{}={}", name, value));
  const auto missing = missing_parts(probe.machine);
  for (const auto& part : missing) page.line(&part == &missing.front() ? "Missing" : "", part);
  return strip_control_chars(page.text());
}

}  // namespace zf
