// The fields of evidence and trials in a plan (field_rules.hpp).
#pragma once

#include "plan/evidence.hpp"
#include "plan/field_rules.hpp"
#include "plan/trial_result.hpp"

namespace zf {

template <class Io, MaybeConst<SplitSample> Struct>
void fields(Io& io, Struct& times) {
  io.required("step_ns", times.step_ns);
  io.required("roofline_ns", times.roofline_ns);
  io.required("training_ns", times.training_ns);
  io.required("launch_delay_p50_ns", times.launch_delay_p50_ns);
  io.required("launch_delay_p99_ns", times.launch_delay_p99_ns);
  io.required("training_bytes", times.training_bytes);
}

template <class Io, MaybeConst<Sample> Struct>
void fields(Io& io, Struct& sample) {
  io.required("candidate", sample.candidate);
  io.required("round", sample.round);
  fields(io, sample.times);
}

template <class Io, MaybeConst<CandidateEvidence> Struct>
void fields(Io& io, Struct& candidate) {
  io.required("id", candidate.id);
  io.required("label", candidate.label);
  io.required("control", candidate.control);
  io.required("reserved_cores", candidate.reserved_cores);
  io.required("pool_cores", candidate.pool_cores, Whole{1});
  io.required("pool_threads", candidate.pool_threads, Whole{1});
  io.required("idle_cores", candidate.idle_cores);
  io.required("placement", candidate.placement);
  io.optional("pool_kind", candidate.pool_make);
  io.required("period_ns_median", candidate.period_ns_median);
  io.required("period_spread", candidate.period_spread, Real{});
  io.required("step_ns_median", candidate.step_ns_median);
  io.required("step_spread", candidate.step_spread, Real{});
  io.required("training_ns_median", candidate.training_ns_median);
  io.required("training_spread", candidate.training_spread, Real{});
  io.required("exposed_ns_median", candidate.exposed_ns_median);
  io.required("launch_delay_p50_ns", candidate.launch_delay_p50_ns);
  io.required("launch_delay_p99_ns", candidate.launch_delay_p99_ns);
  io.required("roofline_ratio", candidate.roofline_ratio, Real{});
}

template <class Io, MaybeConst<Roofline> Struct>
void fields(Io& io, Struct& roofline) {
  io.required("bytes_per_s_median", roofline.bytes_per_s_median, Real{});
  io.required("threads", roofline.threads);
}

template <class Io, MaybeConst<Evidence> Struct>
void fields(Io& io, Struct& evidence) {
  io.required("roofline", evidence.roofline);
  io.required("elements_per_rank", evidence.elements_per_rank);
  io.required("working_set_bytes_per_rank", evidence.working_set_bytes_per_rank);
  io.required("scale", evidence.scale, Real{0, 1});
  io.required("isa", evidence.isa);
  io.required("noise_floor", evidence.noise_floor, Real{});
  io.required("accuracy_wanted", evidence.accuracy_wanted, Real{});
  io.required("accuracy_reached", evidence.accuracy_reached, Real{});
  io.required("candidates", evidence.candidates);
  io.required("samples", evidence.samples);
  io.optional("estimate_round", evidence.estimate_round, Whole{}, -1);
}

template <class Io, MaybeConst<TrialCandidate> Struct>
void fields(Io& io, Struct& candidate) {
  io.required("label", candidate.label);
  io.required("control", candidate.control);
  io.required("shared", candidate.shared);
  io.required("pool_threads", candidate.pool_threads, Whole{1});
  io.required("median", candidate.median);
  io.required("runs", candidate.runs, Each{NotEmpty{": a run has at least one value"}});
}

template <class Io, MaybeConst<Trial> Struct>
void fields(Io& io, Struct& trial) {
  io.required("command", trial.command);
  io.required("metric", trial.metric);
  io.required("higher_is_better", trial.higher_is_better);
  io.required("winner", trial.winner);
  io.required("candidates", trial.candidates, NotEmpty{": a trial has at least one candidate"});
}

}  // namespace zf
