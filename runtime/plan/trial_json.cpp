#include "plan/trial_json.hpp"

namespace zf {
namespace {

Object print_candidate(const TrialCandidate& candidate) {
  return {{"label", candidate.label},
          {"control", name_of(candidate.control)},
          {"pool_threads", candidate.pool_threads},
          {"median", candidate.median},
          {"runs", candidate.runs}};
}

std::vector<double> read_run(const Field& field) {
  std::vector<double> values;
  for (const Field& value : field.items()) values.push_back(value.number());
  if (values.empty()) field.fail("is empty: every run has values");
  return values;
}

TrialCandidate read_candidate(const Field& field) {
  field.object({"label", "control", "pool_threads", "median", "runs"});
  TrialCandidate candidate;
  candidate.label = field["label"].text();
  candidate.control = control_of(field["control"]);
  candidate.pool_threads = field["pool_threads"].integer(1, kMaxInt);
  candidate.median = field["median"].number();
  candidate.runs = read_list(field["runs"], read_run);
  return candidate;
}

}  // namespace

Object print_trial(const Trial& trial) {
  return {{"command", trial.command},
          {"metric", trial.metric},
          {"higher_is_better", trial.higher_is_better},
          {"winner", trial.winner},
          {"candidates", print_list(trial.candidates, print_candidate)}};
}

Trial read_trial(const Field& field) {
  field.object({"command", "metric", "higher_is_better", "winner", "candidates"});
  Trial trial;
  trial.command = field["command"].text();
  trial.metric = field["metric"].text();
  trial.higher_is_better = field["higher_is_better"].boolean();
  trial.candidates = read_list(field["candidates"], read_candidate);
  const auto count = static_cast<int>(trial.candidates.size());
  if (count == 0) field["candidates"].fail("is empty: a trial has candidates");
  trial.winner = field["winner"].integer(0, count - 1);
  if (trial.candidates[static_cast<std::size_t>(trial.winner)].control == Control::unbound)
    field["winner"].fail("is unbound: no split");
  return trial;
}

}  // namespace zf
