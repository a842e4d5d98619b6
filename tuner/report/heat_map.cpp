#include "report/heat_map.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/format.hpp"
#include "report/explain.hpp"
#include "report/html.hpp"
#include "report/time_unit.hpp"
#include "search/decision.hpp"

namespace zf {
namespace {

/// Periods of at least this many times the shortest one have no colour.
constexpr double kPalest = 1.5;

/// Returns 100 for the shortest period, down to 0 for kPalest times that.
int heat_of(Nanoseconds period_ns, Nanoseconds shortest_ns) {
  const double ratio = static_cast<double>(period_ns) / static_cast<double>(shortest_ns);
  return static_cast<int>(100 * (1 - std::min(1.0, (ratio - 1) / (kPalest - 1))));
}

/// Cells by reserved cores and pool threads.
using Cells = std::map<std::pair<int, int>, const CandidateEvidence*>;

/// Returns whether some number of reserved cores has several pools, and some pool several numbers of reserved
/// cores. Where each pool has the rest of its home, the cells are one diagonal.
bool has_two_dimensions(const Cells& cells) {
  std::map<int, int> pools_of;
  std::map<int, int> reserved_of;
  for (const auto& [place, candidate] : cells) {
    ++pools_of[place.first];
    ++reserved_of[place.second];
  }
  const auto is_several = [](const auto& count) { return count.second > 1; };
  return std::any_of(pools_of.begin(), pools_of.end(), is_several) &&
         std::any_of(reserved_of.begin(), reserved_of.end(), is_several);
}

}  // namespace

std::string heat_map(const Plan& plan) {
  Cells cells;
  std::set<int> reserved;
  std::set<int> pools;
  const auto is_chosen = [&](const CandidateEvidence& candidate) {
    return candidate.id == plan.choice.candidate;
  };
  for (const CandidateEvidence& candidate : plan.evidence.candidates) {
    if (!is_eligible(candidate)) continue;
    reserved.insert(candidate.reserved_cores);
    pools.insert(candidate.pool_threads);
    const CandidateEvidence*& cell = cells[{candidate.reserved_cores, candidate.pool_threads}];
    const bool better =
        cell == nullptr || (!is_chosen(*cell) && candidate.period_ns_median < cell->period_ns_median);
    if (better || is_chosen(candidate)) cell = &candidate;
  }
  if (!has_two_dimensions(cells)) return "";

  const Nanoseconds shortest_ns = fastest_of(plan.evidence).period_ns_median;
  const TimeUnit unit = unit_for(shortest_ns);
  std::string text =
      format_text("<div class=\"wide\"><table class=\"heat\"><thead><tr><th>period, {}</th>", unit.name);
  text +=
      format_text("<th colspan=\"{}\" scope=\"colgroup\">pool threads per rank</th></tr>\n", pools.size());
  text += "<tr><th>reserved cores</th>";
  for (const int pool : pools) text += format_text("<th scope=\"col\">{}</th>", pool);
  text += "</tr></thead>\n<tbody>\n";
  for (const int cores : reserved) {
    // Without a reserved core, training has the whole home and shares it with the pool.
    text += format_text("<tr><th scope=\"row\">{}{}</th>", cores, cores == 0 ? ", shared" : "");
    for (const int pool : pools) {
      const auto cell = cells.find({cores, pool});
      if (cell == cells.end()) {
        text += "<td></td>";
        continue;
      }
      const CandidateEvidence& candidate = *cell->second;
      text += format_text("<td{} style=\"--heat:{}%\" title=\"{}\">{}</td>",
                          is_chosen(candidate) ? " class=\"chosen\"" : "",
                          heat_of(candidate.period_ns_median, shortest_ns), html_text(candidate.label),
                          format_text("{:.4g}", static_cast<double>(candidate.period_ns_median) / unit.ns));
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

}  // namespace zf
