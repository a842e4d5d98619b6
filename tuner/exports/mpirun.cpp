// Open MPI's rankfile. Its numbers are logical unless rmaps_rank_file_physical says that they are the OS's,
// and each stands for the whole core that holds that CPU.
#include <fmt/core.h>

#include "base/cpu_list.hpp"
#include "tuner/exports/export.hpp"

namespace zf {

Export mpirun_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) {
    result.text += fmt::format("rank {}=localhost slot={}\n", rank.rank, print(rank.training.cpus));
  }
  result.notes = {
      fmt::format("for Open MPI 4, on this node: mpirun -n {} --mca rmaps_rank_file_physical 1 --rankfile "
                  "FILE …; it binds the whole core of each CPU",
                  input.ranks.size())};
  return result;
}

}  // namespace zf
