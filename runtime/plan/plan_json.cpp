#include "plan/plan_json.hpp"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "base/cpu_list.hpp"
#include "base/crc32.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"
#include "plan/evidence_json.hpp"
#include "plan/json_fields.hpp"
#include "plan/plan_check.hpp"
#include "plan/workload_json.hpp"

namespace zf {
namespace {

Object print_texts(const std::vector<std::string>& texts) {
  Object list = Object::array();
  for (const std::string& text : texts) list.push_back(text);
  return list;
}
std::vector<std::string> read_texts(const Field& field) {
  std::vector<std::string> texts;
  for (const Field& text : field.items()) texts.push_back(text.text());
  return texts;
}

// One pair of functions for each struct of plan.hpp, in its order.

Object print_made(const Provenance& made) {
  return {{"by", made.by}, {"at", made.at}, {"host", made.host}, {"command", made.command}};
}
Provenance read_made(const Field& field) {
  field.object({"by", "at", "host", "command"});
  return {field["by"].text(), field["at"].text(), field["host"].text(), field["command"].text()};
}

Object print_machine(const MachineClass& machine) {
  return {{"fingerprint", machine.fingerprint}, {"model", machine.model}, {"packages", machine.packages},
          {"numa_nodes", machine.numa_nodes},   {"cores", machine.cores}, {"pus", machine.pus},
          {"cpus", print(machine.cpus)}};
}
MachineClass read_machine_class(const Field& field) {
  field.object({"fingerprint", "model", "packages", "numa_nodes", "cores", "pus", "cpus"});
  MachineClass machine;
  machine.fingerprint = field["fingerprint"].text();
  machine.model = field["model"].text();
  machine.packages = field["packages"].integer(0, kMaxInt);
  machine.numa_nodes = field["numa_nodes"].integer(0, kMaxInt);
  machine.cores = field["cores"].integer(1, kMaxInt);
  machine.pus = field["pus"].integer(1, kMaxInt);
  machine.cpus = field["cpus"].cpus();
  return machine;
}

Object print_allocation(const Allocation& allocation) {
  Object object{{"fingerprint", allocation.fingerprint},
                {"cpus", print(allocation.cpus)},
                {"mems", print(allocation.mems)}};
  if (allocation.cpu_quota) object["cpu_quota"] = *allocation.cpu_quota;
  if (allocation.memory_bytes) object["memory_bytes"] = *allocation.memory_bytes;
  if (!allocation.notes.empty()) object["notes"] = print_texts(allocation.notes);
  return object;
}
Allocation read_allocation(const Field& field) {
  field.object({"fingerprint", "cpus", "mems", "cpu_quota", "memory_bytes", "notes"},
               {"cpu_quota", "memory_bytes", "notes"});
  Allocation allocation;
  allocation.fingerprint = field["fingerprint"].text();
  allocation.cpus = field["cpus"].cpus();
  allocation.mems = field["mems"].nodes();
  if (field.has("cpu_quota")) allocation.cpu_quota = field["cpu_quota"].number();
  if (field.has("memory_bytes")) allocation.memory_bytes = field["memory_bytes"].integer<std::uint64_t>(1);
  if (field.has("notes")) allocation.notes = read_texts(field["notes"]);
  return allocation;
}

Object print_intent(const Intent& intent) {
  Object object{{"placement", name_of(intent.placement)},
                {"pool_pus_per_core", intent.pool_pus_per_core},
                {"pool_cores", intent.pool_cores},
                {"reserved_fraction", intent.reserved_fraction},
                {"idle_fraction", intent.idle_fraction}};
  if (intent.pool_make) object["pool_kind"] = *intent.pool_make;
  if (intent.for_deepspeed) object["for"] = "deepspeed";
  if (intent.isolated) object["isolated"] = true;
  object["shared"] = intent.shared;
  object["state_format"] = name_of(intent.state_format);
  return object;
}
Intent read_intent(const Field& field) {
  field.object({"placement", "pool_pus_per_core", "pool_cores", "reserved_fraction", "idle_fraction",
                "pool_kind", "for", "isolated", "shared", "state_format"},
               {"pool_kind", "for", "isolated", "shared", "state_format"});
  Intent intent;
  intent.placement = field["placement"].one_of<Placement>();
  intent.pool_pus_per_core = field["pool_pus_per_core"].integer(0, kMaxInt);
  intent.pool_cores = field["pool_cores"].integer(1, kMaxInt);
  intent.reserved_fraction = field["reserved_fraction"].number();
  intent.idle_fraction = field["idle_fraction"].number();
  if (field.has("pool_kind")) intent.pool_make = field["pool_kind"].integer(0, kMaxInt);
  if (field.has("for")) {
    field["for"].need_word("deepspeed");
    intent.for_deepspeed = true;
  }
  if (field.has("isolated")) intent.isolated = field["isolated"].boolean();
  if (field.has("shared")) intent.shared = field["shared"].boolean();
  if (field.has("state_format")) intent.state_format = field["state_format"].one_of<StateFormat>();
  return intent;
}

Object print_gpu(const RankGpu& gpu) {
  Object object{{"pci", gpu.pci_address}};
  if (gpu.node) object["node"] = gpu.node->os_index;
  if (!gpu.cpus.empty()) object["cpus"] = print(gpu.cpus);
  if (gpu.minor) object["minor"] = *gpu.minor;
  return object;
}
RankGpu read_gpu(const Field& field) {
  field.object({"pci", "node", "cpus", "minor"}, {"node", "cpus", "minor"});
  RankGpu gpu{field["pci"].text()};
  if (field.has("node")) gpu.node = Node{field["node"].integer(0, kMaxOsIndex)};
  if (field.has("cpus")) gpu.cpus = field["cpus"].cpus();
  if (field.has("minor")) gpu.minor = field["minor"].integer(0, kMaxInt);
  return gpu;
}

Object print_rank(const RankBinding& rank) {
  Object object{{"rank", rank.rank}};
  if (rank.gpu) object["gpu"] = print_gpu(*rank.gpu);
  object["home"] = {{"cpus", print(rank.home.cpus)}, {"threads", rank.home.threads}};
  object["training"] = {{"cpus", print(rank.training.cpus)}, {"threads", rank.training.threads}};
  object["optimizer"] = {{"cpus", print(rank.optimizer.cpus)},
                         {"mems", print(rank.optimizer.mems)},
                         {"memory_policy", name_of(rank.optimizer.memory_policy)}};
  object["pt_reserved_cores"] = rank.pt_reserved_cores;
  object["pt_reserved_cores_perc"] = rank.pt_reserved_cores_perc;
  object["shared"] = rank.shared;
  return object;
}
RankBinding read_rank(const Field& field) {
  field.object({"rank", "gpu", "home", "training", "optimizer", "pt_reserved_cores", "pt_reserved_cores_perc",
                "shared"},
               {"gpu", "home"});
  RankBinding rank;
  rank.rank = field["rank"].integer(0, kMaxInt);
  if (field.has("gpu")) rank.gpu = read_gpu(field["gpu"]);
  const Field training = field["training"].object({"cpus", "threads"});
  rank.training.cpus = training["cpus"].cpus();
  rank.training.threads = training["threads"].integer(1, kMaxInt);
  const Field optimizer = field["optimizer"].object({"cpus", "mems", "memory_policy"});
  rank.optimizer.cpus = optimizer["cpus"].cpus();
  rank.optimizer.mems = optimizer["mems"].nodes();
  rank.optimizer.memory_policy = optimizer["memory_policy"].one_of<MemoryPolicy>();
  rank.pt_reserved_cores = field["pt_reserved_cores"].integer(0, kMaxInt);
  rank.pt_reserved_cores_perc = field["pt_reserved_cores_perc"].number();
  rank.shared = field["shared"].boolean();
  if (field.has("home")) {
    const Field home = field["home"].object({"cpus", "threads"});
    rank.home = {home["cpus"].cpus(), home["threads"].integer(1, kMaxInt)};
  } else {
    rank.home = {rank.both_sides(), 0};
  }
  return rank;
}

/// Completes the homes that the file does not have: such a home is both sides, with one thread for each core.
/// The cores of a pool are its CPUs, unless it runs on SMT siblings too; then the intent tells.
void complete_homes(Plan& plan) {
  for (RankBinding& rank : plan.ranks) {
    if (rank.home.threads != 0) continue;
    const int pool_cpus = static_cast<int>(rank.optimizer.cpus.size());
    const int pool_cores =
        plan.intent.pool_pus_per_core == 1 ? pool_cpus : std::min(pool_cpus, plan.intent.pool_cores);
    rank.home.threads = rank.training.threads + (rank.shared ? 0 : pool_cores);
  }
}

Object print_choice(const Choice& choice) {
  Object object{{"reason", choice.reason}};
  if (choice.candidate != -1) object["candidate"] = choice.candidate;
  object["period_ns_median"] = choice.period_ns_median;
  object["pool_threads"] = choice.pool_threads;
  if (choice.headroom) {
    object["headroom"] = {{"training_speedup", choice.headroom->training_speedup},
                          {"step_slowdown", choice.headroom->step_slowdown}};
  }
  return object;
}
Choice read_choice(const Field& field) {
  field.object({"reason", "candidate", "period_ns_median", "pool_threads", "headroom"},
               {"candidate", "headroom"});
  Choice choice;
  choice.reason = field["reason"].text();
  if (field.has("candidate")) choice.candidate = field["candidate"].integer(0, kMaxInt);
  choice.period_ns_median = field["period_ns_median"].integer<Nanoseconds>(0);
  choice.pool_threads = field["pool_threads"].integer(1, kMaxInt);
  if (field.has("headroom")) {
    const Field headroom = field["headroom"].object({"training_speedup", "step_slowdown"});
    choice.headroom = {headroom["training_speedup"].number(), headroom["step_slowdown"].number()};
  }
  return choice;
}

Plan read_plan(const Field& field) {
  field.object({"schema", "made", "machine", "allocation", "workload", "intent", "ranks", "choice",
                "warnings", "evidence", "trial"},
               {"trial"});
  Plan plan;
  plan.schema = field["schema"].text();
  plan.made = read_made(field["made"]);
  plan.machine = read_machine_class(field["machine"]);
  plan.allocation = read_allocation(field["allocation"]);
  plan.workload = read_workload_fields(
      field["workload"].object(
          {"name", "params", "ranks", "update_interval", "mode", "framework", "training", "step_factor"},
          {"mode", "framework", "training", "step_factor"}),
      kFormerMode);
  plan.intent = read_intent(field["intent"]);
  plan.ranks = read_list(field["ranks"], read_rank);
  plan.choice = read_choice(field["choice"]);
  plan.warnings = read_texts(field["warnings"]);
  plan.evidence = read_evidence(field["evidence"]);
  if (field.has("trial")) plan.trial = read_trial(field["trial"]);
  complete_homes(plan);
  return plan;
}

}  // namespace

std::string print_plan(const Plan& plan) {
  Object object{{"schema", kPlanSchema},
                {"made", print_made(plan.made)},
                {"machine", print_machine(plan.machine)},
                {"allocation", print_allocation(plan.allocation)},
                {"workload", print_workload(plan.workload)},
                {"intent", print_intent(plan.intent)},
                {"ranks", print_list(plan.ranks, print_rank)},
                {"choice", print_choice(plan.choice)},
                {"warnings", print_texts(plan.warnings)},
                {"evidence", print_evidence(plan.evidence)}};
  if (plan.trial) object["trial"] = print_trial(*plan.trial);
  return print_json(object);
}

std::string plan_id(const Plan& plan) {
  const std::string text = print_plan(plan);
  return format_text("{:08x}", crc32(0, std::as_bytes(std::span(text))));
}

Plan parse_plan(std::string_view text, std::string_view name) {
  const JsonDocument document(text, name);
  Plan plan = read_plan(document.root().schema({kPlanSchema, kFormerPlanSchema}));
  if (const auto violation = find_violation(plan)) {
    throw Error(Exit::usage, format_text("{}: {}: {}", name, violation->field, violation->what),
                "make the plan again with zf-tune, or correct this");
  }
  return plan;
}

Plan load_plan(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::status(path, unknown).type() == std::filesystem::file_type::not_found) {
    throw Error(Exit::usage, format_text("{}: {}", path.string(), errno_text(ENOENT)),
                "make a plan with zf-tune tune, or name another file");
  }
  return parse_plan(read_text_file(path), path.string());
}

void save_plan(const Plan& plan, const std::filesystem::path& path, const std::function<void()>& before) {
  if (const auto violation = find_violation(plan)) {
    throw Error(Exit::runtime_error,
                format_text("{}: not written, the plan is unsound: {}: {}", path.string(), violation->field,
                            violation->what),
                "this is a bug in zf-tune: please report it");
  }
  const std::string text = print_plan(plan);
  AtomicFile file(path);
  file.write_at(0, std::as_bytes(std::span(text)));
  if (before) before();
  file.commit();
}

}  // namespace zf
