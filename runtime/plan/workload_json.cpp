#include "plan/workload_json.hpp"

#include <algorithm>

#include "plan/field_check.hpp"
#include "plan/json_reader.hpp"
#include "plan/workload_fields.hpp"

namespace zf {
namespace {

/// A demand of the former format: bytes were those of each training step, copies of both directions together.
struct FormerDemand {
  TrainingDemand demand;  ///< its gradient_bytes are all copies
};

template <class Io, MaybeConst<FormerDemand> Former>
void fields(Io& io, Former& former) {
  auto& demand = former.demand;
  io.required("launches", demand.launches, kUpToAHundredMillion);
  io.required("launch_ns", demand.launch_ns, kUpToAnHour);
  io.required("host_bytes", demand.host_bytes, kUpToAPetabyte);
  io.required("copy_bytes", demand.gradient_bytes, kUpToAPetabyte);
  io.required("copy_bytes_per_s", demand.copy_bytes_per_s, copy_rate_rule(demand.gradient_bytes));
  io.required("gpu_ns", demand.gpu_ns, kUpToAnHour);
}

bool is_former(const Field& demand) { return demand.has("copy_bytes"); }

/// Returns the bytes of all training steps of a period, or a petabyte if they are more.
std::uint64_t of_all_steps(std::uint64_t bytes, int update_interval) {
  const auto steps = static_cast<std::uint64_t>(update_interval);
  return steps * std::min(bytes, kUpToAPetabyte.high / steps);
}

}  // namespace

void read_object(const Field& field, TrainingDemand& demand) {
  if (is_former(field)) {
    demand = read_as<FormerDemand>(field).demand;
  } else {
    read_object<TrainingDemand>(field, demand);
  }
}

void read_object(const Field& field, Workload& workload) {
  field.need_keys(keys_of<Workload>());
  workload = read_workload_fields(field, kFormerMode);
}

Workload read_workload_fields(const Field& field, Mode absent) {
  Workload workload;
  workload.mode = absent;
  JsonReader reader(field);
  fields(reader, workload);
  if (workload.training && is_former(field["training"])) {
    for (std::uint64_t* bytes : {&workload.training->host_bytes, &workload.training->gradient_bytes})
      *bytes = of_all_steps(*bytes, workload.update_interval);
  }
  if (const auto found = check_fields(workload)) field.fail_at(found->field, found->what);
  return workload;
}

}  // namespace zf
