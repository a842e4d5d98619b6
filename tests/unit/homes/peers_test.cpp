// Holds our homes against those of hwloc-distrib, with points that home_costs.hpp counts by itself, and of
// mpibind.
#include <gtest/gtest.h>
#include <hwloc.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include "base/format.hpp"
#include "corpus.hpp"
#include "home_costs.hpp"
#include "os/file.hpp"
#include "os/standard_streams.hpp"
#include "paths.hpp"
#include "simulate/simulated_machine.hpp"

namespace zf {
namespace {

constexpr unsigned kRandomJobs = 40 / ZF_FEWER;

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Hwloc = std::unique_ptr<hwloc_topology, Destroy>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Destroy>;

CpuSet cpus_in(hwloc_const_bitmap_t bitmap) {
  std::vector<Pu> pus;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu))
    pus.push_back(Pu{cpu});
  return CpuSet(std::move(pus));
}

/// Loads a machine as hwloc's own programs do: an XML file, or a synthetic description.
Hwloc load_hwloc(const std::string& source) {
  hwloc_topology_t raw = nullptr;
  hwloc_topology_init(&raw);
  Hwloc hwloc(raw);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  const bool is_file = source.ends_with(".xml");
  const int set = is_file ? hwloc_topology_set_xml(raw, source.c_str())
                          : hwloc_topology_set_synthetic(raw, source.c_str());
  EXPECT_EQ(set, 0) << source;
  EXPECT_EQ(hwloc_topology_load(raw), 0) << source;
  return hwloc;
}

/// Returns what `hwloc-distrib N` prints on the allowed CPUs.
std::vector<CpuSet> distributed(const Hwloc& machine, const CpuSet& allowed, unsigned ranks) {
  hwloc_topology_t raw = nullptr;
  EXPECT_EQ(hwloc_topology_dup(&raw, machine.get()), 0);
  const Hwloc hwloc(raw);
  const Bitmap cpus(hwloc_bitmap_alloc());
  for (const Pu cpu : allowed) hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu.os_index));
  EXPECT_EQ(hwloc_topology_restrict(raw, cpus.get(), 0), 0);
  std::vector<hwloc_cpuset_t> sets(ranks);
  hwloc_obj_t root = hwloc_get_root_obj(raw);
  EXPECT_EQ(hwloc_distrib(raw, &root, 1, sets.data(), ranks, INT_MAX, 0), 0);
  std::vector<CpuSet> homes;
  for (const hwloc_cpuset_t set : sets) {
    homes.push_back(cpus_in(set));
    hwloc_bitmap_free(set);
  }
  return homes;
}

/// Returns the first point in which the divisions differ if the peer is better there; else an empty text.
std::string lost_point(const Costs& ours, const Costs& peers) {
  for (std::size_t point = 0; point < ours.points.size(); ++point) {
    const auto& [name, own] = ours.points[point];
    if (own == peers.points[point].second) continue;
    return own > peers.points[point].second ? name : "";
  }
  return "";
}

/// Returns a line for each rank that has another home with this peer.
std::string print_both(const std::vector<CpuSet>& ours, const std::vector<CpuSet>& peers,
                       const std::string& peer) {
  std::string text;
  for (std::size_t rank = 0; rank < ours.size(); ++rank) {
    if (ours[rank] == peers[rank]) continue;
    text += format_text("  rank {}: ours {}, {} {}\n", rank, print(ours[rank]), peer, print(peers[rank]));
  }
  return text;
}

struct Tally {
  std::string peer = "hwloc-distrib";
  int cases = 0;
  int better = 0;       ///< ours
  int overlapping = 0;  ///< the peer gives one core to several ranks
  int smaller = 0;  ///< the peer's homes differ by more than two cores, and its smallest one is below ours
  std::vector<std::string> lost = {};

  Tally& operator+=(const Tally& other) {
    cases += other.cases;
    better += other.better;
    overlapping += other.overlapping;
    smaller += other.smaller;
    lost.insert(lost.end(), other.lost.begin(), other.lost.end());
    return *this;
  }
};

/// Compares the homes of one job with the peer's. A division in which ranks share cores is no contender. Nor
/// is one with homes that differ by more than two cores, if its smallest home is smaller than ours: all
/// ranks wait for that one (docs/homes.md).
void judge(const CorpusCase& c, const std::vector<CpuSet>& peers, Tally& tally) {
  std::vector<CpuSet> ours;
  for (const Home& home : rank_homes(c.machine, c.gpus).homes) ours.push_back(home.cpus());
  ASSERT_EQ(ours.size(), peers.size()) << c.words;
  const Costs own = costs_of(c.machine, c.gpus, ours);
  const Costs other = costs_of(c.machine, c.gpus, peers);
  EXPECT_FALSE(own.overlaps) << c.words;
  ++tally.cases;
  tally.overlapping += other.overlaps;
  const bool smaller = other.largest - other.smallest > 2 && other.smallest < own.smallest;
  tally.smaller += !other.overlaps && smaller;
  if (other.overlaps || smaller) return;
  const std::string lost = lost_point(own, other);
  tally.better += lost_point(other, own).empty() ? 0 : 1;
  if (!lost.empty())
    tally.lost.push_back(format_text("{}: {}\n{}", c.words, lost, print_both(ours, peers, tally.peer)));
}

void compare(const CorpusCase& c, const Hwloc& hwloc, Tally& tally) {
  judge(c, distributed(hwloc, c.machine.allowed.cpus, static_cast<unsigned>(c.gpus.gpus.size())), tally);
}

/// Compares random jobs on a machine, and jobs of 1 to 16 ranks on all of it.
void compare_all(const Topology& topology, const std::string& source, Tally& tally) {
  const Hwloc hwloc = load_hwloc(source);
  for (unsigned seed = 0; seed < kRandomJobs; ++seed) compare(corpus_case(topology, seed), hwloc, tally);
  for (int ranks = 1; ranks <= std::min(16, static_cast<int>(topology.cores.size())); ++ranks) {
    CorpusCase c;
    c.machine.topology = topology;
    c.machine.allowed = allowed_from(allowed_inputs_of(topology));
    std::size_t cores = 0;
    for (const Core& core : topology.cores) cores += core.cpus.intersects(c.machine.allowed.cpus);
    if (cores < static_cast<std::size_t>(ranks)) break;
    c.gpus = first_gpus(topology, ranks);
    c.words = format_text("{}, all CPUs, {} ranks", topology.source, ranks);
    compare(c, hwloc, tally);
  }
}

int contenders_in(const Tally& tally) { return tally.cases - tally.overlapping - tally.smaller; }

/// Returns the numbers of the cases, those that are left out by reason.
std::string print_counts(const Tally& tally) {
  const int worse = static_cast<int>(tally.lost.size());
  return format_text(
      "{} cases. Left out: in {} {} gives cores to several ranks, in {} its homes differ by more "
      "than two cores and its smallest home is smaller than ours. Of the other {} ours are better in {}, "
      "equal in {}, worse in {}.\n",
      tally.cases, tally.overlapping, tally.peer, tally.smaller, contenders_in(tally), tally.better,
      contenders_in(tally) - tally.better - worse, worse);
}

/// Checks that the cases in which hwloc-distrib is better are few.
void expect_rarely_worse(const Tally& tally) {
  const int contenders = contenders_in(tally);
  const int worse = static_cast<int>(tally.lost.size());
  print_stdout("{}", print_counts(tally));
  EXPECT_GT(contenders, tally.cases / 4) << "too few to tell";
  if (ZF_FEWER == 1) {  // of a few cases, the share says little
    EXPECT_LE(worse * 100, contenders * 3);
  }
}

/// Checks that these cases, and their numbers, are those of tests/machines/golden/NAME.
void expect_listed(const Tally& tally, const std::string& name) {
  if (ZF_FEWER > 1) return;
  std::string list = print_counts(tally);
  for (const std::string& lost : tally.lost) list += lost;
  const std::string path = std::string(kSourceDir) + "/tests/machines/golden/" + name;
  if (std::getenv("ZF_REGENERATE") != nullptr) std::ofstream(path) << list;
  EXPECT_EQ(read_text_file(path), list) << "if that is meant, run again with ZF_REGENERATE=1";
}

/// Compares all machines of a folder, and adds them to those of other folders.
void compare_folder(const std::string& folder, const std::string& name, Tally& all) {
  Tally tally;
  for (const std::string& file : machine_files(folder)) {
    Topology topology = topology_of(file);
    topology.source = std::filesystem::path(file).filename();
    compare_all(topology, file, tally);
  }
  expect_listed(tally, name);
  all += tally;
}

/// Compares the simulated machines. hwloc-distrib is better on none of them.
void compare_simulated(Tally& all) {
  Tally tally;
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(kSourceDir) + "/configs/machines")) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    const std::string text = read_text_file(file);
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, std::regex("\"topology\": \"([^\"]+)\""))) << file;
    compare_all(load_simulated_machine(file).topology, found[1], tally);
  }
  EXPECT_EQ(tally.lost, std::vector<std::string>());
  all += tally;
}

TEST(Peers, HwlocDistribIsRarelyBetter) {
  Tally all;
  compare_folder(std::string(kSourceDir) + "/tests/machines", "hwloc-distrib-is-better.txt", all);
  compare_simulated(all);
  const bool others = !machine_files(foreign_machines()).empty();
  if (others) compare_folder(foreign_machines(), "hwloc-distrib-is-better-on-machines-of-others.txt", all);
  expect_rarely_worse(all);
  if (!others && !HasFailure()) GTEST_SKIP() << why_missing("file *.xml");  // our machines were compared
}

/// Reads "0-3 4-7".
std::vector<CpuSet> read_homes(const std::string& text) {
  std::istringstream words(text);
  std::vector<CpuSet> homes;
  for (std::string list; words >> list;) homes.push_back(parse_cpu_list(list, "mpibind.txt"));
  return homes;
}

std::size_t packages_in(const Topology& topology, const CpuSet& home) {
  std::set<int> packages;
  for (const Core& core : topology.cores) {
    if (core.cpus.intersects(home)) packages.insert(core.package);
  }
  return packages.size();
}

/// Checks that no rank's home crosses packages where mpibind's does not.
void expect_no_worse_crossing(const Machine& machine, const RankGpus& gpus, const std::vector<CpuSet>& peers,
                              const std::string& words) {
  const RankHomes ours = rank_homes(machine, gpus);
  ASSERT_EQ(ours.homes.size(), peers.size()) << words;
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    EXPECT_LE(packages_in(machine.topology, ours.homes[rank].cpus()),
              packages_in(machine.topology, peers[rank]))
        << words << ", rank " << rank << ": ours " << print(ours.homes[rank].cpus()) << ", mpibind "
        << print(peers[rank]);
  }
}

/// Returns the file of this name among our machines and the foreign ones; nothing if there is none.
std::string machine_file(const std::string& name) {
  for (const std::string& folder : {std::string(kSourceDir) + "/tests/machines", foreign_machines()}) {
    for (const std::string& file : machine_files(folder)) {
      if (std::filesystem::path(file).filename() == name) return file;
    }
  }
  return {};
}

TEST(Peers, FewerRanksThanGpusCrossPackagesOnlyWhereMpibindsDo) {
  std::istringstream lines(read_text_file(std::string(kSourceDir) + "/tests/machines/golden/mpibind.txt"));
  std::set<std::string> compared;
  int jobs = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (!std::regex_match(line, found, std::regex("(\\S+) (\\d+): (.*)"))) continue;
    const std::string file = machine_file(found[1]);
    if (file.empty()) continue;
    Machine machine{topology_of(file), {}};
    machine.allowed = allowed_from(allowed_inputs_of(machine.topology));
    const int ranks = std::stoi(found[2]);
    const int gpus = static_cast<int>(usable_gpus(machine.topology).size());
    if (gpus % ranks != 0) continue;
    const auto peers = read_homes(found[3]);
    RankGpus spread = rank_gpus({}, machine.topology, ranks);
    if (!spread.spread.empty()) {
      spread.gpus.assign(spread.spread.begin(), spread.spread.end());
      expect_no_worse_crossing(machine, spread, peers, line + " (spread)");
    }
    const GpuShare share{gpus / ranks, 0};
    expect_no_worse_crossing(machine, rank_gpus({}, machine.topology, ranks, share), peers, line);
    compared.insert(found[1]);
    ++jobs;
  }
  EXPECT_GE(compared.size(), 6U) << "our own machines with several GPUs";
  EXPECT_GE(jobs, 13);
}

/// Returns the job of a line of mpibind.txt on one of our machines. Its ranks have the GPUs that mpibind
/// spreads over them: several each where they divide the GPUs.
CorpusCase mpibind_case(const std::string& file, int ranks) {
  CorpusCase c;
  c.machine.topology = topology_of(file);
  c.machine.allowed = allowed_from(allowed_inputs_of(c.machine.topology));
  const int gpus = static_cast<int>(usable_gpus(c.machine.topology).size());
  const GpuShare share{gpus % ranks == 0 ? gpus / ranks : 0, 0};
  c.gpus = rank_gpus({}, c.machine.topology, ranks, share);
  if (!c.gpus.spread.empty()) c.gpus.gpus.assign(c.gpus.spread.begin(), c.gpus.spread.end());
  c.words =
      format_text("{}, {} ranks, {} GPUs", std::filesystem::path(file).filename().string(), ranks, gpus);
  return c;
}

TEST(Peers, WhereMpibindIsBetterIsListed) {
  const std::string machines = std::string(kSourceDir) + "/tests/machines/";
  std::istringstream lines(read_text_file(machines + "golden/mpibind.txt"));
  Tally tally;
  tally.peer = "mpibind";
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (!std::regex_match(line, found, std::regex("(\\S+) (\\d+): (.*)"))) continue;
    if (const std::string file = machines + std::string(found[1]); std::filesystem::exists(file))
      judge(mpibind_case(file, std::stoi(found[2])), read_homes(found[3]), tally);
  }
  expect_listed(tally, "mpibind-is-better.txt");
}

}  // namespace
}  // namespace zf
