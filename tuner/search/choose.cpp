#include "search/choose.hpp"

#include "search/contest.hpp"
#include "search/headroom.hpp"

namespace zf {

Choice choose(const Evidence& evidence, const Workload& workload) {
  const Decision decision = decide(contest_of(evidence, workload));
  const CandidateEvidence& chosen = evidence.candidates[decision.winner];
  Choice choice;
  choice.candidate = chosen.id;
  choice.period_ns_median = chosen.period_ns_median;
  choice.pool_threads = chosen.pool_threads;
  choice.headroom = headroom_of(evidence, workload, chosen.id);
  return choice;
}

}  // namespace zf
