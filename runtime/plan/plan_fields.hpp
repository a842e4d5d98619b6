// The fields of a plan (field_rules.hpp), struct by struct. configs/plan.schema.json says the same to others,
// and tests/unit/plan/plan_schema_test.cpp compares the two.
#pragma once

#include "plan/evidence_fields.hpp"
#include "plan/field_rules.hpp"
#include "plan/plan.hpp"
#include "plan/workload_fields.hpp"

namespace zf {

template <class Io, MaybeConst<Provenance> Struct>
void fields(Io& io, Struct& made) {
  io.required("by", made.by);
  io.required("at", made.at, Shaped{TextShape::utc_time});
  io.required("host", made.host);
  io.required("command", made.command);
}

template <class Io, MaybeConst<MachineClass> Struct>
void fields(Io& io, Struct& machine) {
  io.required("fingerprint", machine.fingerprint, Shaped{TextShape::fingerprint});
  io.required("model", machine.model);
  io.required("packages", machine.packages);
  io.required("numa_nodes", machine.numa_nodes);
  io.required("cores", machine.cores, Whole{1});
  io.required("pus", machine.pus, Whole{1});
  io.required("cpus", machine.cpus, NotEmpty{});
}

template <class Io, MaybeConst<GpuPlace> Struct>
void fields(Io& io, Struct& place) {
  io.required("kind", place.kind);
  io.required("count", place.count, Whole{1});
  io.optional("node", place.node);
}

template <class Io, MaybeConst<GpuPlaces> Struct>
void fields(Io& io, Struct& gpus) {
  io.required("fingerprint", gpus.fingerprint, Shaped{TextShape::fingerprint});
  io.required("places", gpus.places);
}

template <class Io, MaybeConst<Allocation> Struct>
void fields(Io& io, Struct& allocation) {
  io.required("fingerprint", allocation.fingerprint, Shaped{TextShape::fingerprint});
  io.required("cpus", allocation.cpus, NotEmpty{});
  io.required("mems", allocation.mems, NotEmpty{});
  io.optional("cpu_quota", allocation.cpu_quota, Real{.low = 0, .ends = Real::Ends::low_excluded});
  io.optional("memory_bytes", allocation.memory_bytes, Whole{1});
  io.optional("shared_cpus", allocation.shared_cpus);
  io.optional("notes", allocation.notes);
}

template <class Io, MaybeConst<Intent> Struct>
void fields(Io& io, Struct& intent) {
  io.required("placement", intent.placement);
  io.required("pool_pus_per_core", intent.pool_pus_per_core);
  io.required("pool_cores", intent.pool_cores, Whole{1});
  io.required("reserved_fraction", intent.reserved_fraction, Real{0, 1});
  io.required("idle_fraction", intent.idle_fraction, Real{0, 1});
  io.optional("pool_kind", intent.pool_make);
  io.optional("for", intent.for_deepspeed, Word{"deepspeed"});
  io.optional("isolated", intent.isolated);
  io.optional("own_cpus", intent.own_cpus);
  io.required("shared", intent.shared);
  io.required("state_format", intent.state_format);
  io.optional("gpus_per_rank", intent.gpus_per_rank, Whole{1, 4096});
  io.optional("ranks_per_gpu", intent.ranks_per_gpu, Whole{1, 4096});
}

template <class Io, MaybeConst<RankGpu> Struct>
void fields(Io& io, Struct& gpu) {
  io.required("pci", gpu.pci_address);
  io.optional("node", gpu.node);
  io.optional("cpus", gpu.cpus);
  io.optional("minor", gpu.minor);
  io.optional("uuid", gpu.uuid);
  io.optional("cuda_number", gpu.cuda_number);
}

template <class Io, class Struct>
requires MaybeConst<Struct, HomeSide> || MaybeConst<Struct, TrainingSide>
void fields(Io& io, Struct& side) {
  io.required("cpus", side.cpus, NotEmpty{});
  io.required("threads", side.threads, Whole{1});
}

template <class Io, MaybeConst<OptimizerSide> Struct>
void fields(Io& io, Struct& optimizer) {
  io.required("cpus", optimizer.cpus, NotEmpty{});
  io.required("mems", optimizer.mems, NotEmpty{});
  io.required("memory_policy", optimizer.memory_policy);
  io.optional("threads", optimizer.threads, Whole{1});
}

template <class Io, MaybeConst<RankBinding> Struct>
void fields(Io& io, Struct& rank) {
  io.required("rank", rank.rank);
  io.optional("gpu", rank.gpu);
  io.optional("more_gpus", rank.more_gpus);
  io.optional("spread_gpu", rank.spread_gpu);
  io.required("home", rank.home);
  io.required("training", rank.training);
  io.required("optimizer", rank.optimizer);
  io.required("pt_reserved_cores", rank.pt_reserved_cores);
  io.required("pt_reserved_cores_perc", rank.pt_reserved_cores_perc);  // plan_check.cpp says what it must be
  io.required("shared", rank.shared);
}

template <class Io, MaybeConst<Headroom> Struct>
void fields(Io& io, Struct& headroom) {
  io.required("training_speedup", headroom.training_speedup, Real{});
  io.required("step_slowdown", headroom.step_slowdown, Real{});
}

template <class Io, MaybeConst<Choice> Struct>
void fields(Io& io, Struct& choice) {
  io.required("reason", choice.reason, NotEmpty{});
  io.optional("candidate", choice.candidate, Whole{}, -1);
  io.required("period_ns_median", choice.period_ns_median);
  io.required("pool_threads", choice.pool_threads, Whole{1});
  io.optional("headroom", choice.headroom);
}

template <class Io, MaybeConst<Plan> Struct>
void fields(Io& io, Struct& plan) {
  io.required("schema", plan.schema);
  io.required("made", plan.made);
  io.required("machine", plan.machine);
  io.optional("gpus", plan.gpus);
  io.required("allocation", plan.allocation);
  io.required("workload", plan.workload);
  io.required("intent", plan.intent);
  io.required("ranks", plan.ranks, NotEmpty{});
  io.required("choice", plan.choice);
  io.required("warnings", plan.warnings);
  io.required("evidence", plan.evidence);
  io.optional("trial", plan.trial);
}

}  // namespace zf
