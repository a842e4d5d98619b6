// Every available machine, and random jobs on it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "../topology/machines.hpp"
#include "base/format.hpp"
#include "homes/rank_homes.hpp"
#include "random_machine.hpp"

namespace zf {

/// Returns the XML files below a folder, sorted; none if the folder is missing.
inline std::vector<std::string> machine_files(const std::string& folder) {
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".xml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A part of a machine, and ranks with their GPUs.
struct CorpusCase {
  Machine machine;
  RankGpus gpus;
  std::string words;
};

/// Gives rank i the GPU i, and none to ranks beyond the last one: GPUs can be partly known.
inline RankGpus first_gpus(const Topology& topology, int ranks) {
  const int gpus = static_cast<int>(usable_gpus(topology).size());
  RankGpus known = rank_gpus({}, topology, gpus == 0 ? ranks : std::min(ranks, gpus));
  known.gpus.resize(static_cast<std::size_t>(ranks));
  known.spread.clear();
  return known;
}

/// Returns a random job on a machine, within the machine's own limits (a cgroup's, offline CPUs). Half of the
/// machines without GPUs get up to eight, on any nodes.
inline CorpusCase corpus_case(const Topology& topology, unsigned seed) {
  Dice dice(seed);
  CorpusCase c;
  c.machine.topology = topology;
  auto& gpus = c.machine.topology.gpus;
  const int invented = gpus.empty() && dice(0, 1) == 0 ? dice(1, 8) : 0;
  for (int gpu = 0; gpu < invented; ++gpu) {
    const NumaNode& node = topology.nodes[dice.index(topology.nodes.size())];
    if (!node.is_cpuless()) gpus.push_back({format_text("0000:{:02x}:00.0", gpu), "", node.cpus, node.id});
  }
  AllowedInputs inputs = allowed_inputs_of(c.machine.topology);
  c.machine.allowed = allowed_from(inputs);
  inputs.list = random_cpus(c.machine.allowed.cpus, dice);
  c.machine.allowed = allowed_from(inputs);
  c.gpus = first_gpus(c.machine.topology, random_ranks(c.machine.topology, c.machine.allowed.cpus, dice));
  c.words = format_text("{}, seed {}: CPUs {}, {} ranks, {} GPUs", topology.source, seed,
                        print(c.machine.allowed.cpus), c.gpus.gpus.size(), gpus.size());
  return c;
}

}  // namespace zf
