#include "plan/evidence_json.hpp"

namespace zf {
namespace {

Object print_candidate(const CandidateEvidence& candidate) {
  Object object{{"id", candidate.id},
                {"label", candidate.label},
                {"control", name_of(candidate.control)},
                {"reserved_cores", candidate.reserved_cores},
                {"pool_cores", candidate.pool_cores},
                {"pool_threads", candidate.pool_threads},
                {"idle_cores", candidate.idle_cores},
                {"placement", name_of(candidate.placement)}};
  if (candidate.pool_make) object["pool_kind"] = *candidate.pool_make;
  object["period_ns_median"] = candidate.period_ns_median;
  object["period_spread"] = candidate.period_spread;
  object["step_ns_median"] = candidate.step_ns_median;
  object["step_spread"] = candidate.step_spread;
  object["training_ns_median"] = candidate.training_ns_median;
  object["training_spread"] = candidate.training_spread;
  object["exposed_ns_median"] = candidate.exposed_ns_median;
  object["launch_delay_p50_ns"] = candidate.launch_delay_p50_ns;
  object["launch_delay_p99_ns"] = candidate.launch_delay_p99_ns;
  object["roofline_ratio"] = candidate.roofline_ratio;
  return object;
}

CandidateEvidence read_candidate(const Field& field) {
  field.object({"id", "label", "control", "reserved_cores", "pool_cores", "pool_threads", "idle_cores",
                "placement", "pool_kind", "period_ns_median", "period_spread", "step_ns_median",
                "step_spread", "training_ns_median", "training_spread", "exposed_ns_median",
                "launch_delay_p50_ns", "launch_delay_p99_ns", "roofline_ratio"},
               {"pool_kind"});
  CandidateEvidence candidate;
  candidate.id = field["id"].integer(0, kMaxInt);
  candidate.label = field["label"].text();
  candidate.control = field["control"].one_of<Control>();
  candidate.reserved_cores = field["reserved_cores"].integer(0, kMaxInt);
  candidate.pool_cores = field["pool_cores"].integer(1, kMaxInt);
  candidate.pool_threads = field["pool_threads"].integer(1, kMaxInt);
  candidate.idle_cores = field["idle_cores"].integer(0, kMaxInt);
  candidate.placement = field["placement"].one_of<Placement>();
  if (field.has("pool_kind")) candidate.pool_make = field["pool_kind"].integer(0, kMaxInt);
  candidate.period_ns_median = field["period_ns_median"].integer<Nanoseconds>(0);
  candidate.period_spread = field["period_spread"].number();
  candidate.step_ns_median = field["step_ns_median"].integer<Nanoseconds>(0);
  candidate.step_spread = field["step_spread"].number();
  candidate.training_ns_median = field["training_ns_median"].integer<Nanoseconds>(0);
  candidate.training_spread = field["training_spread"].number();
  candidate.exposed_ns_median = field["exposed_ns_median"].integer<Nanoseconds>(0);
  candidate.launch_delay_p50_ns = field["launch_delay_p50_ns"].integer<Nanoseconds>(0);
  candidate.launch_delay_p99_ns = field["launch_delay_p99_ns"].integer<Nanoseconds>(0);
  candidate.roofline_ratio = field["roofline_ratio"].number();
  return candidate;
}

Object print_sample(const Sample& sample) {
  Object object{{"candidate", sample.candidate}, {"round", sample.round}};
  add_times(object, sample.times);
  return object;
}

Sample read_sample(const Field& field) {
  field.object({"candidate", "round", "step_ns", "roofline_ns", "training_ns", "launch_delay_p50_ns",
                "launch_delay_p99_ns", "training_bytes"});
  return {field["candidate"].integer(0, kMaxInt), field["round"].integer(0, kMaxInt), read_times(field)};
}

Object print_trial_candidate(const TrialCandidate& candidate) {
  return {{"label", candidate.label},   {"control", name_of(candidate.control)},
          {"shared", candidate.shared}, {"pool_threads", candidate.pool_threads},
          {"median", candidate.median}, {"runs", candidate.runs}};
}

std::vector<double> read_run(const Field& field) {
  std::vector<double> values;
  for (const Field& value : field.items()) values.push_back(value.number());
  if (values.empty()) field.fail("is empty: a run has at least one value");
  return values;
}

TrialCandidate read_trial_candidate(const Field& field) {
  field.object({"label", "control", "shared", "pool_threads", "median", "runs"}, {"shared"});
  TrialCandidate candidate;
  candidate.label = field["label"].text();
  candidate.control = field["control"].one_of<Control>();
  if (field.has("shared")) candidate.shared = field["shared"].boolean();
  candidate.pool_threads = field["pool_threads"].integer(1, kMaxInt);
  candidate.median = field["median"].number();
  candidate.runs = read_list(field["runs"], read_run);
  return candidate;
}

}  // namespace

void add_times(Object& object, const SplitSample& times) {
  object["step_ns"] = times.step_ns;
  object["roofline_ns"] = times.roofline_ns;
  object["training_ns"] = times.training_ns;
  object["launch_delay_p50_ns"] = times.launch_delay_p50_ns;
  object["launch_delay_p99_ns"] = times.launch_delay_p99_ns;
  object["training_bytes"] = times.training_bytes;
}

SplitSample read_times(const Field& field) {
  SplitSample times;
  times.step_ns = field["step_ns"].integer<Nanoseconds>(0);
  times.roofline_ns = field["roofline_ns"].integer<Nanoseconds>(0);
  times.training_ns = field["training_ns"].integer<Nanoseconds>(0);
  times.launch_delay_p50_ns = field["launch_delay_p50_ns"].integer<Nanoseconds>(0);
  times.launch_delay_p99_ns = field["launch_delay_p99_ns"].integer<Nanoseconds>(0);
  times.training_bytes = field["training_bytes"].integer<std::uint64_t>(0);
  return times;
}

Object print_evidence(const Evidence& evidence) {
  Object object{{"roofline",
                 {{"bytes_per_s_median", evidence.roofline.bytes_per_s_median},
                  {"threads", evidence.roofline.threads}}},
                {"elements_per_rank", evidence.elements_per_rank},
                {"working_set_bytes_per_rank", evidence.working_set_bytes_per_rank},
                {"scale", evidence.scale},
                {"isa", evidence.isa},
                {"noise_floor", evidence.noise_floor},
                {"accuracy_wanted", evidence.accuracy_wanted},
                {"accuracy_reached", evidence.accuracy_reached},
                {"candidates", print_list(evidence.candidates, print_candidate)},
                {"samples", print_list(evidence.samples, print_sample)}};
  if (evidence.estimate_round >= 0) object["estimate_round"] = evidence.estimate_round;
  return object;
}

Evidence read_evidence(const Field& field) {
  field.object({"roofline", "elements_per_rank", "working_set_bytes_per_rank", "scale", "isa", "noise_floor",
                "accuracy_wanted", "accuracy_reached", "estimate_round", "candidates", "samples"},
               {"estimate_round"});
  Evidence evidence;
  const Field roofline = field["roofline"].object({"bytes_per_s_median", "threads"});
  evidence.roofline.bytes_per_s_median = roofline["bytes_per_s_median"].number();
  evidence.roofline.threads = roofline["threads"].integer(0, kMaxInt);
  evidence.elements_per_rank = field["elements_per_rank"].integer<std::uint64_t>(0);
  evidence.working_set_bytes_per_rank = field["working_set_bytes_per_rank"].integer<std::uint64_t>(0);
  evidence.scale = field["scale"].number();
  evidence.isa = field["isa"].text();
  evidence.noise_floor = field["noise_floor"].number();
  evidence.accuracy_wanted = field["accuracy_wanted"].number();
  evidence.accuracy_reached = field["accuracy_reached"].number();
  if (field.has("estimate_round")) evidence.estimate_round = field["estimate_round"].integer(0, kMaxInt);
  evidence.candidates = read_list(field["candidates"], read_candidate);
  evidence.samples = read_list(field["samples"], read_sample);
  return evidence;
}

Object print_trial(const Trial& trial) {
  return {{"command", trial.command},
          {"metric", trial.metric},
          {"higher_is_better", trial.higher_is_better},
          {"winner", trial.winner},
          {"candidates", print_list(trial.candidates, print_trial_candidate)}};
}

Trial read_trial(const Field& field) {
  field.object({"command", "metric", "higher_is_better", "winner", "candidates"});
  Trial trial;
  trial.command = field["command"].text();
  trial.metric = field["metric"].text();
  trial.higher_is_better = field["higher_is_better"].boolean();
  trial.candidates = read_list(field["candidates"], read_trial_candidate);
  const auto count = static_cast<int>(trial.candidates.size());
  if (count == 0) field["candidates"].fail("is empty: a trial has at least one candidate");
  trial.winner = field["winner"].integer(0, count - 1);
  if (trial.candidates[static_cast<std::size_t>(trial.winner)].control == Control::unbound)
    field["winner"].fail("is the unbound control, which is not a split");
  return trial;
}

}  // namespace zf
