// Compares every lane of this CPU with the scalar one, bit for bit. It does without GoogleTest, so that
// another architecture needs only a cross compiler and an emulator (neon_cross.sh).
#include <cstdio>

#include "engine/gradient_norm.hpp"
#include "engine/reading.hpp"
#include "engine/rollback.hpp"
#include "engine/undo.hpp"
#include "kernel_fixture.hpp"

namespace {

using namespace zf;

TestState stepped_with_undo(TestState state, Isa isa, const KernelVariant& variant) {
  UndoLog log = {};
  AdamArrays arrays = state.arrays(variant, 0, state.p.size());
  arrays.undo = &log;
  begin_run(log, 1, 0);
  adam_kernel(isa, variant)(test_scalars(variant, 3), arrays);
  output_kernel(isa, variant)(arrays);
  return state;
}

std::vector<double> norms_of(TestState& state, Isa isa, ElementType type) {
  std::vector<double> sums(norm_blocks(state.p.size()));
  const AdamArrays arrays = state.arrays({.grad = type}, 0, state.p.size());
  norm_kernel(isa, type)(arrays.g, arrays.n, sums.data());
  return sums;
}

std::uint64_t digest_of_gradients(TestState& state, Isa isa, ElementType type) {
  const AdamArrays arrays = state.arrays({.grad = type}, 0, state.p.size());
  return read_kernel(isa, type)({.array = arrays.g, .n = arrays.n, .digest = true});
}

/// Steps a state with a log, and takes that back. Returns the log.
std::vector<unsigned char> log_of(TestState& state, Isa isa, const KernelVariant& variant) {
  const std::size_t n = state.p.size();
  AlignedArray<unsigned char> bytes(rollback_bytes(n));
  UndoLog undo = {};
  const auto run = [&](auto kernel, std::size_t count) {
    AdamArrays arrays = state.arrays(variant, 0, count);
    arrays.undo = &undo;
    begin_run(undo, 1, 0);
    return kernel(test_scalars(variant, 3), arrays,
                  rollback_place(*reinterpret_cast<RollbackHeader*>(bytes.data()), n, 0));
  };
  run(take_back_kernel(isa, variant), run(speculate_kernel(isa, variant), n));
  return {bytes.begin(), bytes.end()};
}

/// Returns the lanes that can differ from the scalar one.
std::vector<Isa> wide_isas() {
  std::vector<Isa> isas = supported_isas();
  std::erase(isas, Isa::scalar);
  return isas;
}

}  // namespace

int main() {
  std::size_t compared = 0;
  for (const Isa isa : wide_isas()) {
    for (const ElementType grad : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
      for (const std::size_t n : {1U, 3U, 4U, 7U, 16U, 29U, 64U, 30011U}) {
        TestState calm = random_state(n, grad, static_cast<unsigned>(n), false);
        if (norms_of(calm, isa, grad) != norms_of(calm, Isa::scalar, grad)) {
          std::printf("the norm of %s differs from scalar: %zu elements\n", std::string(name_of(isa)).c_str(),
                      n);
          return 1;
        }
        if (digest_of_gradients(calm, isa, grad) != digest_of_gradients(calm, Isa::scalar, grad)) {
          std::printf("the digest of %s differs from scalar: %zu elements\n",
                      std::string(name_of(isa)).c_str(), n);
          return 1;
        }
        ++compared;
      }
    }
  }
  for (const Isa isa : wide_isas()) {
    for (KernelVariant variant : all_variants()) {
      for (const std::size_t n : {1U, 3U, 4U, 7U, 16U, 29U, 64U, 1051U}) {
        for (variant.undo = false;; variant.undo = true) {
          const TestState state = random_state(n, variant.grad, static_cast<unsigned>(n), true);
          if (!(stepped_with_undo(state, isa, variant) == stepped_with_undo(state, Isa::scalar, variant))) {
            std::printf("%s differs from scalar: %zu elements, %s\n", std::string(name_of(isa)).c_str(), n,
                        text(variant).c_str());
            return 1;
          }
          ++compared;
          if (variant.undo) break;
        }
        if (!can_be_taken_back(variant)) continue;
        const TestState begin = random_state(n, variant.grad, static_cast<unsigned>(n), false);
        TestState one = begin;
        TestState other = begin;
        if (log_of(one, isa, variant) != log_of(other, Isa::scalar, variant) || !(one == begin) ||
            !(other == begin)) {
          std::printf("a step of %s is not taken back: %zu elements, %s\n", std::string(name_of(isa)).c_str(),
                      n, text(variant).c_str());
          return 1;
        }
        ++compared;
      }
    }
  }
  for (const Isa isa : supported_isas()) {
    for (const KernelVariant& variant : truth_variants()) {
      for (const std::size_t n : {1U, 3U, 4U, 7U, 16U, 29U, 64U, 1051U}) {
        for (std::size_t offset = 0; offset < 4; ++offset) {
          TestState state = consistent_state(n, variant, static_cast<unsigned>(n));
          if (offset != 0) write_copy(state, variant, static_cast<unsigned>(n));
          const auto theirs = stepped_at(state, isa, variant, {offset, 1, offset, 3, offset});
          if (!theirs || !(*theirs == *stepped_at(state, Isa::scalar, variant, {}))) {
            std::printf("%s differs from scalar: %zu elements at offset %zu, %s\n",
                        std::string(name_of(isa)).c_str(), n, offset, text(variant).c_str());
            return 1;
          }
          ++compared;
        }
      }
    }
  }
  for (const Isa isa : wide_isas()) {
    for (const StateFormat format : kNarrowFormats) {
      for (KernelVariant variant : variants_of(format)) {
        for (const std::size_t n : {1U, 3U, 4U, 7U, 16U, 29U, 64U, 1051U}) {
          TestState state = random_state(n, variant.grad, static_cast<unsigned>(n), true);
          to_format(state, format);
          if (n % 2 == 1) write_halves(state, format, static_cast<unsigned>(n));
          for (variant.undo = false;; variant.undo = true) {
            if (!(stepped_with_undo(state, isa, variant) == stepped_with_undo(state, Isa::scalar, variant))) {
              std::printf("%s differs from scalar: %zu elements, %s\n", std::string(name_of(isa)).c_str(), n,
                          text(variant).c_str());
              return 1;
            }
            ++compared;
            if (variant.undo) break;
          }
        }
      }
    }
  }
  std::printf("%zu comparisons, widest lane %s: all equal\n", compared,
              std::string(name_of(supported_isas().back())).c_str());
  return 0;
}
