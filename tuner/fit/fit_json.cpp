// The keys of `zf-tune fit --format json`. All memory is in bytes, of this node's ranks together.
//
//   schema        "zf-fit/1"
//   fits          bool
//   verdict       the line that the text begins with
//   phase         the phase that needs most: start, steady, checkpoint, resume
//   needed_bytes, capacity_bytes, limit (what sets it)
//   job           framework, stage (0: none), mode, state, dtype, device, load, pinned (bool), ranks, nodes,
//                 with[] (accumulation, fp32-accumulation, host-flatten, offload-param, speculate, exports),
//                 params, trainable, largest_parameter, largest_layer, model_is_estimated (bool)
//   phases        by name: bytes, items (by name)
//   pinned_bytes, shared_memory_bytes (in /dev/shm)
//   basis         measured, or from source
//   problems[]    one sentence each
//   changes[]     what, saves_bytes, is_enough (bool)
//   largest_model parameters; 0: none fits
//   assumed[]     what the user did not say, one sentence each
#include <nlohmann/json.hpp>

#include "fit/fit_report.hpp"
#include "plan/json_fields.hpp"

namespace zf {
namespace {

Object job_json(const FitJob& job) {
  Object extras = Object::array();
  for (const auto& [extra, name] : kEnumNames<FitExtra>) {
    if (job.has(extra)) extras.push_back(name);
  }
  return {{"framework", name_of(job.stepper)},
          {"stage", job.stage},
          {"mode", name_of(job.mode)},
          {"state", name_of(job.state)},
          {"dtype", name_of(job.type)},
          {"device", name_of(job.device)},
          {"load", name_of(job.load)},
          {"pinned", job.pinned},
          {"with", std::move(extras)},
          {"ranks", job.ranks},
          {"nodes", job.nodes},
          {"params", job.model.params},
          {"trainable", job.model.trainable},
          {"largest_parameter", job.model.largest},
          {"largest_layer", job.model.layer},
          {"model_is_estimated", job.model.estimated}};
}

Object phases_json(const MemoryForecast& forecast) {
  Object phases = Object::object();
  for (const auto& [phase, name] : kEnumNames<FitPhase>) {
    Object items = Object::object();
    for (const auto& [item, item_name] : kEnumNames<FitItem>) {
      if (forecast.at(phase).of(item) > 0) items[item_name] = forecast.at(phase).of(item);
    }
    phases[name] = {{"bytes", forecast.at(phase).bytes}, {"items", std::move(items)}};
  }
  return phases;
}

}  // namespace

std::string fit_json(const FitReport& report) {
  Object json{{"schema", "zf-fit/1"},
              {"fits", report.verdict.fits},
              {"verdict", in_words(report.verdict)},
              {"phase", name_of(report.verdict.phase)},
              {"needed_bytes", report.verdict.needed},
              {"capacity_bytes", report.verdict.capacity},
              {"limit", report.limits.capacity.limit},
              {"job", job_json(report.job)},
              {"phases", phases_json(report.forecast)},
              {"pinned_bytes", report.forecast.pinned_bytes},
              {"shared_memory_bytes", report.forecast.shared_memory_bytes},
              {"basis", what_is_from_source(report.job) ? "from source" : "measured"},
              {"problems", report.verdict.problems},
              {"changes", Object::array()},
              {"largest_model", report.largest},
              {"assumed", report.assumed}};
  for (const Change& change : report.changes) {
    json["changes"].push_back(
        {{"what", change.what}, {"saves_bytes", change.saves}, {"is_enough", change.is_enough}});
  }
  return print_json(json);
}

}  // namespace zf
