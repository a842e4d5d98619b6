// What hwloc-bind and hwloc-calc read. Nothing of hwloc itself is needed to write it.
#include "tuner/exports/bitmap.hpp"
#include "tuner/exports/export.hpp"

namespace zf {

Export hwloc_export(const ExportInput& input) {
  Export result;
  for (const RankBinding& rank : input.ranks) result.text += words_of(rank.training.cpus) + "\n";
  return result;
}

}  // namespace zf
