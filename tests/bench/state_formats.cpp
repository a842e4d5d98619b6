#include "state_formats.hpp"

#include <sys/prctl.h>

#include <cerrno>

#include "candidates.hpp"
#include "engine/dither.hpp"
#include "engine/half.hpp"
#include "engine/kernel.hpp"
#include "engine/working_set.hpp"
#include "os/standard_streams.hpp"

namespace zf {
namespace {

/// A step, and the fp32 step that it is compared with.
struct Row {
  StateFormat format;
  ElementType grad;
  ElementType copy;
  bool truth;           ///< of the copy
  std::string against;  ///< name of a row before; "": itself
  std::string name;
};

/// Returns the bytes that a step moves for one parameter.
double bytes_of(const Row& row) {
  std::size_t bytes = step_bytes(row.format, row.grad) + element_bytes(row.copy);
  if (row.truth) bytes += element_bytes(row.copy);
  return static_cast<double>(bytes);
}

/// All rows. In the last four the parameters are bf16, which fp32 keeps as a copy that is the truth.
std::vector<Row> rows() {
  constexpr auto kNone = ElementType::none;
  constexpr auto kBf16 = ElementType::bf16;
  constexpr auto kF32 = ElementType::f32;
  using enum StateFormat;
  return {{fp32, kBf16, kNone, false, "", "fp32"},
          {bf16, kBf16, kNone, false, "fp32", "bf16"},
          {bf16_split, kBf16, kNone, false, "fp32", "bf16+split"},
          {split, kBf16, kNone, false, "fp32", "split"},
          {fp32, kF32, kNone, false, "", "fp32, fp32 gradients"},
          {bf16, kF32, kNone, false, "fp32, fp32 gradients", "bf16, fp32 gradients"},
          {fp32, kBf16, kBf16, false, "", "fp32, copy"},
          {bf16, kBf16, kBf16, false, "fp32, copy", "bf16, copy"},
          {bf16_split, kBf16, kNone, false, "fp32, copy", "bf16+split, for a copy"},
          {fp32, kBf16, kBf16, true, "", "fp32, bf16 parameters"},
          {bf16, kBf16, kBf16, true, "fp32, bf16 parameters", "bf16, bf16 parameters"},
          {bf16_split, kBf16, kNone, false, "fp32, bf16 parameters", "bf16+split, in place"},
          {split, kBf16, kNone, false, "fp32, bf16 parameters", "split, in place"}};
}

/// The arrays of all formats, first touched by the members that step them.
class Arrays {
 public:
  Arrays(Pool& pool, std::size_t params)
      : set_(pool, params),
        copy_(params * 2, 0),
        grads_(params * 2, 1),
        low_(params * 2, 2),
        m_(params * 2, 3),
        v_(params * 2, 4) {
    pool.run([&](std::size_t member) {
      const AdamArrays& slice = set_.slice(member);
      const std::size_t begin = begin_of(slice);
      fill(copy_, begin, slice.n, 1.0F);
      fill(grads_, begin, slice.n, 1e-3F);
      fill(low_, begin, slice.n, 0.0F);
      fill(m_, begin, slice.n, 1e-3F);
      fill(v_, begin, slice.n, 1e-6F);
    });
  }

  AdamArrays slice(std::size_t member, const Row& row) const {
    AdamArrays slice = set_.slice(member);
    const std::size_t begin = begin_of(slice);
    slice.copy = copy_.as<std::uint16_t>() + begin;
    slice.dither = dither_at(dither_of(0, 100), begin);
    if (row.grad != ElementType::f32) slice.g = grads_.as<std::uint16_t>() + begin;
    if (has_split_masters(row.format)) slice.p = low_.as<std::uint16_t>() + begin;
    if (!has_bf16_moments(row.format)) return slice;
    slice.m = m_.as<std::uint16_t>() + begin;
    slice.v = v_.as<std::uint16_t>() + begin;
    return slice;
  }

 private:
  std::size_t begin_of(const AdamArrays& slice) const {
    return static_cast<std::size_t>(static_cast<const float*>(slice.p) -
                                    static_cast<const float*>(set_.slice(0).p));
  }
  static void fill(const Buffer& buffer, std::size_t begin, std::size_t n, float value) {
    std::fill_n(buffer.as<std::uint16_t>() + begin, n, bf16_of_f32(value));
  }
  WorkingSet set_;
  Buffer copy_, grads_, low_, m_, v_;
};

void print(std::size_t params, std::size_t threads, const std::vector<Candidate>& candidates) {
  print_stdout("\n{:.1f}M parameters, {} thread{}\n{:<26}{:>9}{:>8}{:>7}{:>10}{:>9}{:>8}  {:<14}{}\n",
               static_cast<double>(params) / 1e6, threads, threads == 1 ? "" : "s", "", "ms", "GB/s", "bytes",
               "faster x", "bytes x", "share", "spread", "compared with");
  for (const Candidate& candidate : candidates) {
    const auto other = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& c) { return c.name == candidate.against; });
    const std::vector<double> faster = ratios(*other, candidate);
    const auto [least, most] = std::minmax_element(faster.begin(), faster.end());
    const double fewer = other->bytes_per_param / candidate.bytes_per_param;
    print_stdout("{:<26}{:>9.2f}{:>8.1f}{:>7.0f}{:>10.3f}{:>9.3f}{:>8.3f}  {:<14}{}\n", candidate.name,
                 median(candidate.ns) / 1e6, gb_per_s(params, candidate), candidate.bytes_per_param,
                 median(faster), fewer, median(faster) / fewer, format_text("{:.2f}..{:.2f}", *least, *most),
                 other->name);
  }
  std::fflush(stdout);
}

}  // namespace

void forbid_huge_pages() {
  if (::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
    throw_errno(errno, "cannot forbid huge pages", "measure without --pages=4K");
}

void print_state_formats(const std::vector<Pu>& pus, std::size_t params, std::size_t rounds,
                         std::optional<StateFormat> state) {
  Pool pool(pus);
  const Arrays arrays(pool, params);
  AdamSettings settings;
  settings.weight_decay = 0.01F;
  const AdamScalars scalars = adam_scalars(settings, 100);
  std::vector<Candidate> candidates;
  for (const Row& row : rows()) {
    if (state && row.format != StateFormat::fp32 && row.format != *state) continue;
    KernelVariant variant = {row.grad, row.copy, false, settings.mode, true};
    variant.truth = row.truth;
    variant.format = row.format;
    const AdamKernel kernel = adam_kernel(chosen_isa(), variant);
    const auto work = [&arrays, &scalars, row, kernel](std::size_t member) {
      kernel(scalars, arrays.slice(member, row));
    };
    candidates.push_back({row.name, row.against.empty() ? row.name : row.against, bytes_of(row), work});
  }
  measure(pool, candidates, rounds);
  print(params, pus.size(), candidates);
}

}  // namespace zf
