#include "measure/workload_file.hpp"

#include <algorithm>
#include <cassert>

#include "base/error.hpp"
#include "base/format.hpp"
#include "os/file.hpp"
#include "plan/field_check.hpp"
#include "plan/json_reader.hpp"
#include "plan/json_writer.hpp"
#include "plan/workload_fields.hpp"

namespace zf {

template <class Io, MaybeConst<Recorded> Struct>
void fields(Io& io, Struct& recorded) {
  io.required("updates", recorded.updates, Whole{1, 1'000'000});
  io.required("threads", recorded.threads, Whole{1, 65536});
  io.required("period_ns", recorded.period_ns);
  io.required("training_ns", recorded.training_ns);
  io.required("forward_ns", recorded.forward_ns);
  io.required("backward_ns", recorded.backward_ns);
  io.optional("step_ns", recorded.step_ns);
  io.optional("backward_one_thread_ns", recorded.backward_one_thread_ns);
  io.optional("backward_all_threads_ns", recorded.backward_all_threads_ns);
}

/// All fields but the schema, which comes first.
template <class Io, MaybeConst<WorkloadFile> Struct>
void fields(Io& io, Struct& file) {
  fields(io, file.workload);
  io.optional("estimates", file.estimates);
  io.optional("recorded", file.recorded);
  io.required("source", file.source);
}

namespace {

constexpr const char* kSchema = "zf-workload/2";

/// Returns the fields that may be an estimate: all figures and choices of a workload.
std::vector<std::string> estimable_fields() {
  std::vector<std::string> names;
  for (const std::string_view key : keys_of<Workload>().all) {
    if (key != "name" && key != "ranks" && key != "training") names.emplace_back(key);
  }
  for (const std::string_view key : keys_of<TrainingDemand>().all)
    names.push_back(format_text("training.{}", key));
  return names;
}

std::vector<std::string> read_estimates(const Field& list) {
  const std::vector<std::string> known = estimable_fields();
  std::vector<std::string> names;
  for (const Field& item : list.items()) {
    const std::string name = item.text();
    if (std::find(known.begin(), known.end(), name) == known.end())
      item.fail(format_text("is \"{}\", which is no field that may be an estimate", name));
    names.push_back(name);
  }
  return names;
}

/// Returns the larger of two figures; nothing if one is missing.
template <class Value>
std::optional<Value> larger(const std::optional<Value>& a, const std::optional<Value>& b) {
  return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
}

/// Joins field by field, in the order of the struct.
TrainingDemand joined(const TrainingDemand& a, const TrainingDemand& b) {
  return {std::max(a.launches, b.launches),
          std::max(a.launch_ns, b.launch_ns),
          std::max(a.gpu_ns, b.gpu_ns),
          std::max(a.host_bytes, b.host_bytes),
          std::max(a.gradient_bytes, b.gradient_bytes),
          std::max(a.parameter_bytes, b.parameter_bytes),
          std::min(a.copy_bytes_per_s, b.copy_bytes_per_s),
          larger(a.forward_share, b.forward_share),
          std::max(a.parallel_ns, b.parallel_ns),
          larger(a.first_group_share, b.first_group_share),
          larger(a.last_forward_share, b.last_forward_share),
          larger(a.last_gradient_ns, b.last_gradient_ns)};
}

Recorded joined(const Recorded& a, const Recorded& b) {
  return {std::min(a.updates, b.updates),
          std::max(a.threads, b.threads),
          std::max(a.period_ns, b.period_ns),
          std::max(a.training_ns, b.training_ns),
          std::max(a.forward_ns, b.forward_ns),
          std::max(a.backward_ns, b.backward_ns),
          larger(a.step_ns, b.step_ns),
          larger(a.backward_one_thread_ns, b.backward_one_thread_ns),
          larger(a.backward_all_threads_ns, b.backward_all_threads_ns)};
}

void need_equal(const Workload& a, const Workload& b) {
  if (a.mode == b.mode && a.framework == b.framework && a.update_interval == b.update_interval) return;
  const auto words = [](const Workload& workload) {
    return format_text("{} in mode {} with update interval {}", name_of(workload.framework),
                       name_of(workload.mode), workload.update_interval);
  };
  throw Error(Exit::runtime_error,
              format_text("the ranks do not do the same: one is {}, another {}", words(a), words(b)),
              "record one job at a time");
}

}  // namespace

WorkloadFile load_workload_file(const std::filesystem::path& path) {
  const std::string name = path.string();
  const JsonDocument document(read_text_file(path), name);
  Keys keys = keys_of<WorkloadFile>();
  keys.all.insert(keys.all.begin(), "schema");
  const Field file = document.root().schema(kSchema).need_keys(keys);
  WorkloadFile read;
  JsonReader reader(file);
  fields(reader, read.workload);
  if (const auto found = check_fields(read.workload)) file.fail_at(found->field, found->what);
  if (file.has("estimates")) read.estimates = read_estimates(file["estimates"]);
  if (file.has("recorded")) read_value(file["recorded"], read.recorded);
  read.source = file["source"].text();
  return read;
}

Workload load_workload(const std::filesystem::path& path) { return load_workload_file(path).workload; }

std::string print_workload_file(const WorkloadFile& file) {
  Object object{{"schema", kSchema}};
  JsonWriter writer(object);
  fields(writer, file);
  object.emplace("estimates", Object(file.estimates));  // an empty list says that all was measured
  return print_json(object);
}

WorkloadFile joined_ranks(const std::vector<WorkloadFile>& ranks) {
  assert(!ranks.empty());
  WorkloadFile all = ranks.front();
  for (auto rank = ranks.begin() + 1; rank != ranks.end(); ++rank) {
    need_equal(all.workload, rank->workload);
    all.workload.params += rank->workload.params;
    if (all.workload.training && rank->workload.training)
      all.workload.training = joined(*all.workload.training, *rank->workload.training);
    if (all.recorded && rank->recorded) all.recorded = joined(*all.recorded, *rank->recorded);
    for (const std::string& name : rank->estimates) {
      if (std::find(all.estimates.begin(), all.estimates.end(), name) == all.estimates.end())
        all.estimates.push_back(name);
    }
  }
  all.workload.ranks = static_cast<int>(ranks.size());
  return all;
}

}  // namespace zf
