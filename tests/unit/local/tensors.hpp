// Tensors with arrays of their own for the tests of steps in place.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/kernel.hpp"
#include "local/local_stepper.hpp"

namespace zf {

inline AdamScalars test_scalars() {
  return {.beta1 = 0.9F,
          .one_minus_beta1 = 0.1F,
          .beta2 = 0.999F,
          .one_minus_beta2 = 0.001F,
          .eps = 1e-8F,
          .inv_sqrt_bias2 = 31.6F,
          .step_size = -1e-2F,
          .decay = -1e-4F,
          .grad_scale = 0.5F};
}

/// Random tensors of the given sizes, the same in each object.
class Tensors {
 public:
  explicit Tensors(const std::vector<std::size_t>& sizes) : counters(sizes.size(), 0.0F) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> values(-1.0F, 1.0F);
    for (const std::size_t size : sizes) {
      arrays.emplace_back(4, std::vector<float>(size));
      for (std::vector<float>& array : arrays.back()) {
        for (float& value : array) value = values(random);
      }
      for (float& value : arrays.back()[3]) value = value * value;  // second moments
    }
  }

  void fill(std::vector<TensorStep>& steps, std::vector<float*>& counts, Isa isa) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      TensorStep& step = steps.emplace_back();
      step.p = arrays[i][0].data();
      step.g = arrays[i][1].data();
      step.m = arrays[i][2].data();
      step.v = arrays[i][3].data();
      step.elements = arrays[i][0].size();
      step.scalars = test_scalars();
      step.kernel = adam_kernel(isa, {.decay = true});
      counts.push_back(&counters[i]);
    }
  }

  /// Takes a step of all.
  void step(const TeamWish& wish) {
    LocalStepper& stepper = LocalStepper::of_this_process();
    stepper.step(list, wish, [&](std::vector<TensorStep>& steps, std::vector<float*>& counts) {
      fill(steps, counts, stepper.isa());
    });
  }

  /// Returns the bits of all arrays.
  std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> all;
    for (const auto& tensor : arrays) {
      for (const std::vector<float>& array : tensor) {
        const std::size_t at = all.size();
        all.resize(at + array.size());
        if (!array.empty()) std::memcpy(all.data() + at, array.data(), array.size() * sizeof(float));
      }
    }
    return all;
  }

  std::vector<std::vector<std::vector<float>>> arrays;  ///< p, g, m, v of each tensor
  std::vector<float> counters;
  StepList list;
};

inline const std::vector<std::size_t> kTestSizes = {100'003, 0, 1, 70'000, 1024, 17, 300'000, 5000};

/// Returns the bits after three steps of the calling thread alone.
inline std::vector<std::uint32_t> bits_of_one_thread() {
  Tensors tensors(kTestSizes);
  for (int i = 0; i < 3; ++i) tensors.step({.openmp = false, .threads = 1});
  return tensors.bits();
}

/// Returns how many threads of this process are helpers.
inline std::size_t count_helpers() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    count += std::getline(file, name) && name.starts_with("zf-local-") ? 1 : 0;
  }
  return count;
}

/// Waits until there are so many: /proc shows a thread for a moment after it was joined.
inline bool helpers_become(std::size_t wanted) {
  for (int look = 0; look < 200 && count_helpers() != wanted; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return count_helpers() == wanted;
}

}  // namespace zf
