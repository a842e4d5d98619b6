// Jobs for the tests of fit.
#pragma once

#include <string_view>
#include <vector>

#include "fit/fit_job.hpp"

namespace zf {

/// Returns the model of the measured jobs: blocks of two matrices, 4 times as wide as high. The first block
/// is not trained ("frozen"), or none is but two matrices of rank 512 beside each ("lora").
inline ModelSize measured_model(std::uint64_t blocks, std::string_view change = "") {
  constexpr std::uint64_t kWidth = 2048;
  const std::uint64_t layer = 8 * kWidth * kWidth + 8 * kWidth - kWidth;
  const std::uint64_t lora = change == "lora" ? 2 * 512 * kWidth : 0;
  const std::uint64_t trainable = lora > 0 ? blocks * lora : (blocks - (change == "frozen" ? 1 : 0)) * layer;
  return {.params = blocks * (layer + lora),
          .trainable = trainable,
          .largest = 4 * kWidth * kWidth,
          .layer = layer + lora};
}

/// Returns every job that there is, of a model of this size, on 8 ranks of each of two nodes.
inline std::vector<FitJob> all_jobs(std::uint64_t params) {
  std::vector<FitJob> jobs;
  for (const auto& [stepper, stepper_name] : kEnumNames<StepMethod>)
    for (int stage = 0; stage <= 3; ++stage)
      for (const auto& [mode, mode_name] : kEnumNames<Mode>)
        for (const auto& [state, state_name] : kEnumNames<StateFormat>)
          for (const auto& [type, type_name] : kEnumNames<ParameterType>)
            for (const auto& [device, device_name] : kEnumNames<Device>)
              for (const auto& [load, load_name] : kEnumNames<Load>)
                for (const bool pinned : {false, true}) {
                  FitJob job;
                  job.model = usual_model(params);
                  job.stepper = stepper;
                  job.stage = stage;
                  job.mode = mode;
                  job.state = state;
                  job.type = type;
                  job.device = device;
                  job.load = load;
                  job.pinned = pinned;
                  job.ranks = 8;
                  job.nodes = 2;
                  if (!why_no_such_job(job)) jobs.push_back(job);
                }
  return jobs;
}

}  // namespace zf
