#include "fit/measured_kinds.hpp"

#include <array>

namespace zf {
namespace {

using enum StepMethod;
using enum Mode;
using enum StateFormat;

constexpr ParameterType kFp32 = ParameterType::fp32, kBf16 = ParameterType::bf16;

constexpr auto kKinds = std::to_array<MeasuredKind>({
    {in_place, 0, wait, kFp32, fp32},
    {in_place, 0, wait, kFp32, bf16},
    {in_place, 0, wait, kBf16, fp32},
    {in_place, 0, wait, kBf16, bf16},
    {in_place, 0, wait, kBf16, split},
    {in_place, 0, wait, kBf16, bf16_split},
    {in_place, 0, wait, kBf16, fp32, true},
    {native, 0, exact, kFp32, fp32},
    {native, 0, exact, kFp32, bf16},
    {native, 0, exact, kBf16, fp32},
    {native, 0, exact, kBf16, bf16},
    {native, 0, exact, kBf16, split},
    {native, 0, exact, kBf16, bf16_split},
    {native, 0, overlap, kFp32, fp32},
    {native, 0, overlap, kFp32, bf16},
    {native, 0, overlap, kBf16, fp32},
    {native, 0, overlap, kBf16, bf16},
    {native, 0, overlap, kBf16, split},
    {native, 0, overlap, kBf16, bf16_split},
    {native, 1, wait, kBf16, fp32},
    {native, 2, wait, kBf16, fp32},
    {native, 2, wait, kBf16, bf16},
    {native, 3, wait, kBf16, fp32},
    {torch, 0, wait, kFp32, fp32},
    {torch, 0, wait, kBf16, fp32},
    {deepspeed_offload, 1, wait, kBf16, fp32},
    {deepspeed_offload, 1, wait, kBf16, fp32, true},
    {deepspeed_offload, 1, wait, kBf16, fp32, false, false, true},
    {deepspeed_offload, 2, wait, kFp32, fp32},
    {deepspeed_offload, 2, wait, kBf16, fp32},
    {deepspeed_offload, 2, wait, kBf16, fp32, true},
    {deepspeed_offload, 2, wait, kBf16, fp32, false, true},
    {deepspeed_offload, 2, wait, kBf16, fp32, false, false, true},
    {deepspeed_offload, 3, wait, kFp32, fp32},
    {deepspeed_offload, 3, wait, kBf16, fp32},
    {deepspeed_offload, 3, wait, kBf16, fp32, true},
    {deepspeed_offload, 3, wait, kBf16, fp32, false, false, true},
    {fsdp2, 0, wait, kFp32, fp32},
    {fsdp2, 0, wait, kFp32, fp32, true},
    {fsdp2, 0, wait, kBf16, fp32},
    {fsdp2_in_place, 0, wait, kFp32, fp32},
    {fsdp2_in_place, 0, wait, kBf16, fp32},
    {fsdp2_in_place, 0, wait, kBf16, bf16},
});

}  // namespace

std::span<const MeasuredKind> measured_kinds() { return kKinds; }

MeasuredKind kind_of(const FitJob& job) {
  return {job.stepper,
          job.stage,
          job.mode,
          job.type,
          job.state,
          job.ranks > 1,
          job.model.trainable < job.model.params,
          job.has(FitExtra::fp32_accumulation)};
}

}  // namespace zf
