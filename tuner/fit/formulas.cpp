// DeepSpeed 0.19.8: runtime/zero/stage_1_and_2.py and stage3.py, runtime/zenflow, runtime/superoffload.
// PyTorch 2.13.
#include "fit/formulas.hpp"

#include <algorithm>

namespace zf {
namespace {

using enum FitItem;
using enum Moment;
using enum StepMethod;

template <StepMethod... steppers>
bool is_by(const FitJob& job) {
  return ((job.stepper == steppers) || ...);
}

template <int stage>
bool is_of_stage(const FitJob& job) {
  return job.stage == stage;
}

template <FitExtra extra>
bool has(const FitJob& job) {
  return job.has(extra);
}

/// Returns the opposite of a condition.
template <bool (*holds)(const FitJob&)>
bool lacks(const FitJob& job) {
  return !holds(job);
}

bool computes_on_cpu(const FitJob& job) { return job.device == Device::cpu; }
bool is_split(const FitJob& job) { return has_split_masters(job.state); }
bool frees_gradients(const FitJob& job) { return job.mode == Mode::backward; }
bool shares_memory(const FitJob& job) { return is_by<deepspeed_zenflow>(job) && job.mode == Mode::overlap; }

constexpr Condition kCpu{"CPU", computes_on_cpu};
constexpr Condition kGpu{"GPU", lacks<computes_on_cpu>};
constexpr Condition kPinned{"pinned", [](const FitJob& job) { return job.pinned; }};
constexpr Condition kUnshared{"unshared", lacks<shares_memory>};
constexpr Condition kHalf{"16-bit", [](const FitJob& job) { return job.is_half(); }};
constexpr Condition kSplit{"split", is_split};
constexpr Condition kUnsplit{"unsplit", lacks<is_split>};
constexpr Condition kBf16Moments{"bf16 moments",
                                 [](const FitJob& job) { return has_bf16_moments(job.state); }};
constexpr Condition kSeveral{"N>1", [](const FitJob& job) { return job.world() > 1; }};
constexpr Condition kKeptGradients{"not backward", lacks<frees_gradients>};
constexpr Condition kFreedGradients{"backward", frees_gradients};
constexpr Condition kLoadWhole{"load-whole", [](const FitJob& job) { return job.load == Load::whole; }};
constexpr Condition kOurs{"native", is_by<native>};
constexpr Condition kTheirs{"DeepSpeed's", lacks<is_by<native>>};
constexpr Condition kStage1{"stage 1", is_of_stage<1>};
constexpr Condition kStage2{"stage 2", is_of_stage<2>};
constexpr Condition kSums{"accumulation", has<FitExtra::accumulation>};
constexpr Condition kFp32Sums{"fp32-accumulation", has<FitExtra::fp32_accumulation>};
constexpr Condition kNoFp32Sums{"no fp32-accumulation", lacks<has<FitExtra::fp32_accumulation>>};
constexpr Condition kFlatten{"host-flatten", has<FitExtra::host_flatten>};
constexpr Condition kOffload{"offload-param", has<FitExtra::offload_param>};
constexpr Condition kNoOffload{"no offload-param", lacks<has<FitExtra::offload_param>>};
constexpr Condition kExports{"exports", has<FitExtra::exports>};

/// Ours in the job's process, and torch.optim.AdamW.
constexpr auto kInPlace = std::to_array<FormulaRow>({
    {model, "dP", made, read},
    // DistributedDataParallel sends the parameters of rank 0 in two pieces of 250 MiB at a time. Its buckets
    // of gradients are touched in the first backward.
    {staging, "B", made, made},
    {gradients, "dT", save, reduce, {&kKeptGradients}},
    {gradients, "dK", step, reduce, {&kFreedGradients}},  // one at a time, and small ones
    {gradients, "dT", save, reduce, {&kSeveral}},
    {masters, "wT", save, reduce},
    {moments, "2mT", save, reduce},
    {loaded, "dP", read, read},
    {loaded, "wT", read, read},
    {loaded, "2mT", read, read},
    {conversion, "cT", read, read},
});

/// zf_runtime.AdamW with a process.
constexpr auto kNative = std::to_array<FormulaRow>({
    {model, "dP", whole, whole, {&kGpu}},
    {model, "dP", made, read, {&kCpu}},
    {masters, "wT", made, read},
    {moments, "2mT", made, read},
    {copies, "dT", made, read, {&kHalf}},
    {optimizer_gradients, "A", made, read},
    {gradients, "dT", save, reduce, {&kCpu}},
    {gradients, "dT", save, reduce, {&kCpu, &kSeveral}},  // as in place
    {conversion, "wT", save, save, {&kSplit}},            // their low bits, by state_dict()
    {conversion, "dL", once, once, {&kGpu}},              // torch.save() copies one parameter after the other
    // The first step compares each 16-bit parameter with its whole master: a mask, and two fp32 tensors.
    {staging, "9K", step, step, {&kHalf, &kUnsplit}},
    {loaded, "dP", read, read},
    {loaded, "wT", read, read, {&kHalf}},
    {loaded, "2mT", read, read},
    // An export's copy keeps its memory for the next one.
    {loaded, "wT", save, reduce, {&kExports}},
    {loaded, "2mT", save, reduce, {&kExports}},
    // A moment, or a whole master of a split one, on its way to the arena.
    {staging, "4K", read, read, {&kSplit}},
    {staging, "mK", read, read, {&kUnsplit}},
});

/// FSDP2 with CPUOffloadPolicy.
constexpr auto kFsdp2 = std::to_array<FormulaRow>({
    // fully_shard() cuts one layer after the other: the whole model, and the shard of one.
    {model, "dP", whole, whole, {&kLoadWhole}},
    {conversion, "ds", whole, whole},
    {model, "dp", cut, read},
    {gradients, "dt", save, reduce},
    {masters, "wt", save, read},
    {moments, "2mt", save, read},
    // A layer that is gathered (as the ranks sent it, too, if there are others), and the gradients of one
    // before they are reduced.
    {staging, "2dS", step, reduce, {&kCpu}},
    {staging, "dS", step, reduce, {&kCpu, &kSeveral}},
    // set_state_dict() of torch.distributed.checkpoint, into states that are there already.
    {conversion, "ct", read, read},
    {model, "dp", pinned, pinned, {&kPinned}},
    // A gradient of a GPU is copied to pinned memory, too (foreach_reduce() of _fsdp_collectives.py).
    {gradients, "dt", pinned, pinned, {&kPinned, &kGpu}},
});

/// ZeRO-Offload, with DeepSpeed's optimizer or ours.
constexpr auto kZero12 = std::to_array<FormulaRow>({
    {model, "dP", whole, whole},
    // The parameters come back from the GPU, and are flattened. On the CPU, the flat buffer is made beside
    // the model.
    {model, "dT", cut, cut, {&kFlatten}},
    {model, "dP", cut, load, {&kCpu}},
    {conversion, "dT", cut, cut, {&kFlatten}},
    {conversion, "dT", cut, cut, {&kCpu}},
    {masters, "4t", made, load},
    {moments, "2mt", made, load, {&kOurs}},
    {moments, "8t", save, reduce, {&kTheirs}},  // they come with the first step
    {optimizer_gradients, "A", made, load, {&kOurs}},
    {optimizer_gradients, "4t", made, load, {&kTheirs}},
    {copies, "dt", made, load},
    {staging, "dK", made, load},  // one gradient, here and on the device
    {staging, "dK", made, load, {&kCpu}},
    // Masters and the copy are DeepSpeed's first. DeepSpeed's gradients are there before they are pinned.
    {conversion, "4t", made, made, {&kOurs}},
    {conversion, "dt", made, made, {&kOurs, &kHalf}},
    {conversion, "4t", made, made, {&kTheirs, &kPinned}},
    // The sum of what backward gave before (async_accumulate_grad_in_cpu_via_gpu()), which then stays. In
    // fp32 it is where backward computes, until the step.
    {gradients, "dt", save, reduce, {&kSums, &kNoFp32Sums}},
    {gradients, "4t", step, reduce, {&kCpu, &kFp32Sums}},
    {gradients, "eG", step, reduce, {&kCpu, &kStage1}},  // the bucket
    {gradients, "dG", step, reduce, {&kCpu, &kStage2}},
    {staging, "8K", step, step, {&kCpu}},  // one gradient in fp64 for its norm
    // Copies to reduce the bucket. Sums in fp32 take it apart, parameter by parameter, so that it is
    // flattened again: stage 1 in fp32 and then in the model's type, stage 2 in the model's type and then one
    // gradient in fp32 (_add_to_grad_partition_buffer()).
    {staging, "dG", reduce, reduce, {&kCpu, &kSeveral, &kNoFp32Sums}},
    {staging, "dG", reduce, reduce, {&kCpu, &kFp32Sums}},
    {staging, "4G", reduce, reduce, {&kCpu, &kFp32Sums, &kStage1}},
    {staging, "4K", reduce, reduce, {&kCpu, &kFp32Sums, &kStage2}},
    {conversion, "8t", save, save, {&kOurs, &kBf16Moments}},  // as fp32 tensors
    // Each rank copies the frozen parameters (_get_zero_frozen_param_attributes() of runtime/engine.py), but
    // not from the CPU. torch.save() copies the one storage of the trained ones.
    {conversion, "dF", save, save, {&kGpu, &kStage2}},
    {conversion, "dT", once, once, {&kGpu}},
    // Stage 2 has the frozen parameters in the file again (as the same bytes if they were saved from the
    // CPU), and they stay while the partition is loaded.
    {loaded, "dP", read, read},
    {loaded, "dF", read, read, {&kGpu, &kStage2}},
    {loaded, "12t", load, load},
    {loaded, "dF", load, load, {&kStage2}},
    {pinning, "R", made, made, {&kTheirs}},
    {pinning, "R", save, reduce, {&kTheirs, &kUnshared}},
    {pinning, "R", read, load, {&kTheirs}},
    {masters, "4t", pinned, pinned, {&kPinned, &kUnshared}},
    {optimizer_gradients, "4t", pinned, pinned, {&kPinned, &kUnshared}},
    {copies, "dt", pinned, pinned, {&kPinned, &kUnshared}},
    {gradients, "dt", pinned, pinned, {&kPinned, &kSums, &kNoFp32Sums}},
    {pinning, "R", pinned, pinned, {&kUnshared}},
});

constexpr auto kZero3 = std::to_array<FormulaRow>({
    {model, "dP", whole, whole, {&kLoadWhole}},
    {model, "dp", cut, cut},
    {model, "dp", init, load, {&kCpu}},
    // The trained ones move to one buffer, which is pinned always
    // (_create_param_groups_fp16_flat_cpu_memory()). Pinned ones that were moved stay in torch's cache.
    {conversion, "dt", cut, cut, {&kOffload}},
    {model, "dt", init, load, {&kOffload}},
    {model, "df", init, load, {&kOffload}},
    {pinning, "X", init, load, {&kOffload}},
    {pinning, "dt", init, load, {&kOffload, &kPinned}},
    {masters, "4t", init, load},
    {moments, "2mt", convert, load, {&kOurs}},
    {moments, "8t", save, reduce, {&kTheirs}},
    {optimizer_gradients, "4t", init, init},
    {optimizer_gradients, "A", convert, load, {&kOurs}},
    {optimizer_gradients, "4t", convert, load, {&kTheirs}},
    {copies, "dt", convert, load, {&kOurs, &kHalf}},
    {second_buffers, "et", made, load},
    {second_buffers, "et", convert, convert, {&kTheirs}},
    // initialize_optimizer_states() has gradients of the largest sub-group for a moment, beside those that
    // stay.
    {conversion, "4H", init, init},
    {conversion, "4H", init, init, {&kPinned}},
    {conversion, "4t", convert, convert, {&kOurs}},
    {conversion, "et", convert, convert, {&kTheirs, &kPinned}},
    {staging, "2dL", made, made, {&kCpu}},  // two gathered parameters
    {gradients, "dG", save, reduce, {&kCpu}},
    {staging, "dG", step, reduce, {&kCpu}},  // gradients before and after they are reduced
    {staging, "eG", step, reduce, {&kCpu}},
    {conversion, "8t", save, save, {&kOurs, &kBf16Moments}},
    {conversion, "df", save, save, {&kGpu, &kNoOffload}},
    {loaded, "12t", load, load},
    {loaded, "df", load, load},
    // Each sub-group's gradients are pinned alone, and masters not at all.
    {pinning, "R", convert, made, {&kTheirs}},
    {pinning, "R", save, reduce, {&kTheirs, &kUnshared}},
    {pinning, "R", read, load, {&kTheirs}},
    {model, "dt", pinned, pinned, {&kOffload}},
    {pinning, "X", pinned, pinned, {&kOffload}},
    {model, "dp", pinned, pinned, {&kOffload, &kPinned}},
    {optimizer_gradients, "4t", pinned, pinned, {&kPinned, &kUnshared}},
    {second_buffers, "et", pinned, pinned, {&kPinned, &kUnshared}},
    {pinning, "R", pinned, pinned, {&kUnshared}},
});

/// ZenFlow with overlap_step, beside ZeRO's rows. share_memory_() moves masters and gradients out of pinned
/// memory; the 16-bit copy stays. They, two buffers of gradients and a snapshot are shared with the optimizer
/// process, which has a set of moments for each buffer.
constexpr auto kZenFlow = std::to_array<FormulaRow>({
    {moments, "8t", save, reduce},
    {second_buffers, "8t", save, reduce},
    {pinning, "V", save, reduce},
    {copies, "dt", pinned, pinned, {&kPinned}},
    {pinning, "V", pinned, pinned},
    {second_buffers, "16t", shared, shared},
});

/// SuperOffload, beside the rows of ZeRO 3.
constexpr auto kSuperOffload = std::to_array<FormulaRow>({
    {staging, "4H", save, load},  // gradients in its process
    {second_buffers, "8t", shared, shared},
});

constexpr std::array<Formulas, 7> kAll{{
    {"`in-place`, `torch`", kInPlace, is_by<in_place, torch>},
    {"`native`", kNative, [](const FitJob& job) { return job.stepper == native && job.stage == 0; }},
    {"`fsdp2`, `fsdp2-in-place`", kFsdp2, is_by<fsdp2, fsdp2_in_place>},
    {"`deepspeed-offload` and `native`, ZeRO 1 and 2", kZero12,
     [](const FitJob& job) { return job.stage == 1 || job.stage == 2; }},
    {"`deepspeed-offload` and `native`, ZeRO 3", kZero3, is_of_stage<3>},
    {"`deepspeed-zenflow` with `overlap_step`, besides", kZenFlow, shares_memory},
    {"`superoffload`, beside ZeRO 3", kSuperOffload, is_by<superoffload>},
}};

}  // namespace

std::span<const Formulas> all_formulas() { return kAll; }

std::vector<FormulaRow> formulas_of(const FitJob& job) {
  std::vector<FormulaRow> rows;
  for (const Formulas& formulas : kAll) {
    if (!formulas.apply(job)) continue;
    std::ranges::copy_if(formulas.rows, std::back_inserter(rows), [&](const FormulaRow& row) {
      return std::ranges::all_of(row.when, [&](const Condition* each) { return !each || each->holds(job); });
    });
  }
  return rows;
}

}  // namespace zf
