#include "fit/measured_kinds.hpp"

#include <array>
#include <sstream>
#include <utility>

#include "base/format.hpp"

namespace zf {
namespace {

constexpr const char* kAllStates = "fp32:fp32 fp32:bf16 bf16:fp32 bf16:bf16 bf16:split bf16:bf16+split";

constexpr auto kRuns = std::to_array<std::pair<const char*, const char*>>({
    {"in-place 0 wait", kAllStates},
    {"in-place 0 wait", "bf16:fp32:ranks"},
    {"native 0 exact", kAllStates},
    {"native 0 overlap", kAllStates},
    {"native 1 wait", "bf16:fp32"},
    {"native 2 wait", "bf16:fp32 bf16:bf16"},
    {"native 3 wait", "bf16:fp32"},
    {"torch 0 wait", "fp32:fp32 bf16:fp32"},
    {"deepspeed-offload 1 wait", "bf16:fp32 bf16:fp32:ranks bf16:fp32:sums"},
    {"deepspeed-offload 2 wait", "fp32:fp32 bf16:fp32 bf16:fp32:ranks bf16:fp32:frozen bf16:fp32:sums"},
    {"deepspeed-offload 3 wait", "fp32:fp32 bf16:fp32 bf16:fp32:ranks bf16:fp32:sums"},
    {"fsdp2 0 wait", "fp32:fp32 fp32:fp32:ranks bf16:fp32"},
    {"fsdp2-in-place 0 wait", "fp32:fp32 bf16:fp32 bf16:bf16"},
});

}  // namespace

std::string kind_of(const FitJob& job) {
  return format_text("{} {} {} {}:{}{}{}{}", name_of(job.stepper), job.stage, name_of(job.mode),
                     name_of(job.type), name_of(job.state), job.ranks > 1 ? ":ranks" : "",
                     job.model.trainable < job.model.params ? ":frozen" : "",
                     job.has(FitExtra::fp32_accumulation) ? ":sums" : "");
}

std::vector<std::string> measured_kinds() {
  std::vector<std::string> kinds;
  for (const auto& [job, runs] : kRuns) {
    std::istringstream words(runs);
    for (std::string word; words >> word;) kinds.push_back(format_text("{} {}", job, word));
  }
  return kinds;
}

}  // namespace zf
