#include "commands/neighbours.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace zf {

std::vector<Neighbour> neighbours_of(const std::vector<CpuTime>& times) {
  std::map<int, Neighbour> by_pid;
  for (const CpuTime& time : times) {
    Neighbour& neighbour = by_pid[time.pid];
    neighbour.process = time.process;
    neighbour.pid = time.pid;
    neighbour.cpus += time.share;
  }
  std::vector<Neighbour> neighbours;
  for (auto& [pid, neighbour] : by_pid) {
    if (neighbour.cpus >= kLeastNeighbour) neighbours.push_back(std::move(neighbour));
  }
  std::stable_sort(neighbours.begin(), neighbours.end(),
                   [](const Neighbour& a, const Neighbour& b) { return a.cpus > b.cpus; });
  return neighbours;
}

}  // namespace zf
