// Finds the template instance of a variant, which is known at run time only. Included as adam_loop.hpp is,
// under its rules.
#pragma once

#include "engine/kernel.hpp"

namespace zf {
namespace {

/// A member of a variant and its values. The first one also stands for all that are not named.
template <auto kMember, auto kFirst, auto... kOthers>
struct MemberChoice {};

template <auto kMember>
using MemberFlag = MemberChoice<kMember, false, true>;

constexpr KernelVariant with(KernelVariant variant, auto member, auto value) {
  variant.*member = value;
  return variant;
}

/// Returns the kernel of a family for the variant that is wanted. Each choice makes one member of kKnown a
/// constant. A variant that does not exist with the other members at their defaults leads to none.
template <class Family, KernelVariant kKnown>
AdamKernel chosen_kernel(const KernelVariant&) {
  if constexpr (Family::exists(kKnown)) return Family::template kKernel<kKnown>;
  return nullptr;
}

template <class Family, KernelVariant kKnown = KernelVariant{}, auto kMember, auto kFirst, auto... kOthers,
          class... Choices>
AdamKernel chosen_kernel(const KernelVariant& wanted, MemberChoice<kMember, kFirst, kOthers...>,
                         Choices... next) {
  if constexpr (Family::exists(kKnown)) {
    AdamKernel kernel = nullptr;
    const bool is_other =
        ((wanted.*kMember == kOthers &&
          (kernel = chosen_kernel<Family, with(kKnown, kMember, kOthers)>(wanted, next...), true)) ||
         ...);
    return is_other ? kernel : chosen_kernel<Family, with(kKnown, kMember, kFirst)>(wanted, next...);
  }
  return nullptr;
}

}  // namespace
}  // namespace zf
