// Compares the production kernel with the roofline loop and with two-pass variants, all in one run.
//
// In every round each candidate runs once, in turn, over the same arrays on the same pinned threads. Ratios
// are taken within a round, so that noise from other processes hits both sides of a ratio. The medians of the
// ratios are printed. With --state the state formats are compared with fp32.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "candidates.hpp"
#include "engine/half.hpp"
#include "engine/isa.hpp"
#include "engine/kernel.hpp"
#include "engine/pool.hpp"
#include "engine/rollback.hpp"
#include "engine/undo.hpp"
#include "engine/working_set.hpp"
#include "os/affinity.hpp"
#include "os/standard_streams.hpp"
#include "state_formats.hpp"

namespace {

using namespace zf;

enum class Format { text, json, markdown };

struct Options {
  std::size_t params = std::size_t{128} << 20;
  std::vector<std::size_t> threads;  ///< if empty: 1, 2, 4, ... and all
  std::size_t rounds = 15;
  Format format = Format::text;
  bool states = false;                    ///< compare the state formats instead
  std::optional<StateFormat> state = {};  ///< this one alone
};

/// Does the second pass of a two-pass copy-out, as fast as the compiler can make it for this CPU.
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) void narrow(const float* from,
                                                                                          std::uint16_t* to,
                                                                                          std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = bf16_of_f32(from[i]);
}

double gb_per_s(const Options& options, const Candidate& candidate) {
  return zf::gb_per_s(options.params, candidate);
}

void print(const Options& options, std::size_t threads, const std::vector<Candidate>& candidates) {
  const bool json = options.format == Format::json;
  if (!json) {
    print_stdout("\n{} thread{}\n{:<28}{:>10}{:>9}{:>9}  {:<22}{}\n", threads, threads == 1 ? "" : "s", "",
                 "ms", "GB/s", "time ×", "of", "spread");
  }
  for (const Candidate& candidate : candidates) {
    const std::vector<double> ratio = ratios_of(candidate, candidates);
    const auto [least, most] = std::minmax_element(ratio.begin(), ratio.end());
    const double ns = median(candidate.ns);
    if (json) {
      print_stdout(
          "{{\"threads\": {}, \"candidate\": \"{}\", \"step_ns_median\": {:.0f}, \"gb_per_s\": {:.2f}, "
          "\"against\": \"{}\", \"ratio_median\": {:.4f}, \"ratio_min\": {:.4f}, \"ratio_max\": {:.4f}}}\n",
          threads, candidate.name, ns, gb_per_s(options, candidate), candidate.against, median(ratio), *least,
          *most);
    } else {
      print_stdout("{:<28}{:>10.1f}{:>9.1f}{:>9.3f}  {:<22}{:.3f}..{:.3f}\n", candidate.name, ns / 1e6,
                   gb_per_s(options, candidate), median(ratio), candidate.against, *least, *most);
    }
  }
  std::fflush(stdout);
}

/// The candidates of one number of threads, measured.
struct Measured {
  std::size_t threads;
  std::vector<Candidate> candidates;
};

/// Prints the table of docs/arithmetic.md.
void print_markdown(const Options& options, const std::vector<Measured>& all) {
  print_stdout("| {:.1f}M parameters |", static_cast<double>(options.params) / 1e6);
  for (const Measured& one : all) print_stdout(" {} thread{} |", one.threads, one.threads == 1 ? "" : "s");
  print_stdout(" compared with | traffic alone |\n| --- |");
  for (std::size_t i = 0; i < all.size(); ++i) print_stdout(" --- |");
  print_stdout(" --- | --- |\n");
  for (std::size_t row = 0; row < all.front().candidates.size(); ++row) {
    const std::vector<Candidate>& first = all.front().candidates;
    print_stdout("| {} |", first[row].name);
    for (const Measured& one : all) {
      const std::vector<double> ratio = ratios_of(one.candidates[row], one.candidates);
      const auto [least, most] = std::minmax_element(ratio.begin(), ratio.end());
      print_stdout(" {:.1f} GB/s, {:.2f} × ({:.2f} to {:.2f}) |", gb_per_s(options, one.candidates[row]),
                   median(ratio), *least, *most);
    }
    const auto other = std::find_if(first.begin(), first.end(),
                                    [&](const Candidate& c) { return c.name == first[row].against; });
    print_stdout(" {} | {:.2f} × |\n", other->name, first[row].bytes_per_param / other->bytes_per_param);
  }
}

std::vector<Candidate> bench(const Options& options, const std::vector<Pu>& pus) {
  const Isa isa = chosen_isa();
  Pool pool(pus);
  const WorkingSet set(pool, options.params);
  const Buffer stale(options.params * 4, 0);
  const Buffer copy(options.params * 2, 1);
  const Buffer half_grads(options.params * 2, 2);
  const auto* const p = static_cast<const float*>(set.slice(0).p);
  const auto offset = [&](const AdamArrays& slice) { return static_cast<const float*>(slice.p) - p; };
  pool.run([&](std::size_t member) {
    const AdamArrays& slice = set.slice(member);
    std::fill_n(half_grads.as<std::uint16_t>() + offset(slice), slice.n, bf16_of_f32(1e-3F));
    std::fill_n(stale.as<float>() + offset(slice), slice.n, 0.0F);
    std::fill_n(copy.as<std::uint16_t>() + offset(slice), slice.n, std::uint16_t{0});
  });

  AdamSettings settings;
  settings.weight_decay = 0.01F;
  const AdamScalars scalars = adam_scalars(settings, 100);
  std::vector<UndoLog> logs(pus.size());
  const auto step = [&](ElementType grad, ElementType narrow_to, bool with_stale, bool undo = false) {
    const AdamKernel kernel = adam_kernel(isa, {grad, narrow_to, with_stale, settings.mode, true, undo});
    return [&, grad, undo, kernel](std::size_t member) {
      AdamArrays slice = set.slice(member);
      slice.stale = stale.as<float>() + offset(slice);
      slice.copy = copy.as<std::uint16_t>() + offset(slice);
      if (grad != ElementType::f32) slice.g = half_grads.as<std::uint16_t>() + offset(slice);
      if (undo) {
        slice.undo = &logs[member];
        begin_run(logs[member], 0, 0);
      }
      kernel(scalars, slice);
    };
  };
  const Buffer logs_of_steps(rollback_bytes(options.params) + rollback_bytes(1) * pus.size(), 3);
  const auto log_of = [&](const AdamArrays& slice) {
    return logs_of_steps.as<RollbackHeader>() +
           rollback_bytes(static_cast<std::size_t>(offset(slice))) / sizeof(RollbackHeader);
  };
  const KernelVariant logged = {ElementType::f32, ElementType::none, false, settings.mode, true, true};
  const auto slice_with_undo = [&](std::size_t member) {
    AdamArrays slice = set.slice(member);
    slice.undo = &logs[member];
    begin_run(logs[member], 0, 0);
    return slice;
  };
  const auto speculate = [&](std::size_t member) {
    AdamArrays slice = slice_with_undo(member);
    RollbackHeader& log = *log_of(slice);
    log.stepped = speculate_kernel(isa, logged)(scalars, slice, rollback_place(log, slice.n, 0));
  };
  const auto take_back = [&](std::size_t member) {
    AdamArrays slice = slice_with_undo(member);
    RollbackHeader& log = *log_of(slice);
    const RollbackPlace place = rollback_place(log, slice.n, 0);
    slice.n = log.stepped;
    take_back_kernel(isa, logged)(scalars, slice, place);
  };
  const auto roofline = [&](std::size_t member) { roofline_pass(isa, set.slice(member)); };
  const auto roofline_and_stale = [&](std::size_t member) {
    AdamArrays slice = set.slice(member);
    slice.stale = stale.as<float>() + offset(slice);
    roofline_pass(isa, slice);
  };
  const std::size_t other_ahead = preferred_prefetch_distance() == 0 ? 256 : 0;
  const auto roofline_otherwise = [&](std::size_t member) {
    AdamArrays slice = set.slice(member);
    slice.prefetch_distance = other_ahead;
    roofline_pass(isa, slice);
  };
  const auto step_otherwise = [&](std::size_t member) {
    AdamArrays slice = set.slice(member);
    slice.prefetch_distance = other_ahead;
    adam_kernel(isa, {ElementType::f32, ElementType::none, false, settings.mode, true, false})(scalars,
                                                                                               slice);
  };
  const auto plain = step(ElementType::f32, ElementType::none, false);

  std::vector<Candidate> candidates = {
      {"roofline", "step", 28, roofline},
      {"roofline and snapshot", "roofline", 32, roofline_and_stale},
      {"step", "roofline", 28, plain},
      {other_ahead == 0 ? "roofline, no prefetch" : "roofline, prefetch", "roofline", 28, roofline_otherwise},
      {other_ahead == 0 ? "step, no prefetch" : "step, prefetch", "step", 28, step_otherwise},
      {"stale, second pass", "step", 36,
       [&](std::size_t member) {
         plain(member);
         const AdamArrays& slice = set.slice(member);
         std::memcpy(stale.as<float>() + offset(slice), slice.p, slice.n * 4);
       }},
      {"stale, fused", "step", 32, step(ElementType::f32, ElementType::none, true)},
      {"bf16 copy, second pass", "step", 34,
       [&](std::size_t member) {
         plain(member);
         const AdamArrays& slice = set.slice(member);
         narrow(static_cast<const float*>(slice.p), copy.as<std::uint16_t>() + offset(slice), slice.n);
       }},
      {"bf16 copy, fused", "step", 30, step(ElementType::f32, ElementType::bf16, false)},
      {"fp16 copy, fused", "step", 30, step(ElementType::f32, ElementType::f16, false)},
      {"bf16 gradients", "step", 26, step(ElementType::bf16, ElementType::none, false)},
      {"all: bf16 g, stale, copy", "step", 32, step(ElementType::bf16, ElementType::bf16, true)},
      {"undo", "step", 28, step(ElementType::f32, ElementType::none, false, true)},
      {"undo and log", "undo", 30.25, speculate},
      {"taken back", "undo", 30.25, take_back},
      {"all and undo", "all: bf16 g, stale, copy", 32,
       step(ElementType::bf16, ElementType::bf16, true, true)},
  };
  measure(pool, candidates, options.rounds);
  for (Candidate& candidate : candidates) candidate.work = nullptr;  // it refers to what ends here
  return candidates;
}

std::size_t number(std::string_view flag, const std::string& text) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  if (value == 0 || *end != '\0') {
    throw Error(Exit::usage, format_text("{}={}: not a count", flag, text),
                "write for example " + std::string(flag) + "=2");
  }
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto at = std::min(argument.find('='), argument.size());
    const std::string_view flag = argument.substr(0, at);
    const std::string value(argument.substr(std::min(at + 1, argument.size())));
    if (flag == "--params") {
      options.params = number(flag, value);
    } else if (flag == "--rounds") {
      options.rounds = number(flag, value);
    } else if (flag == "--threads") {
      for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find(',', begin), value.size());
        options.threads.push_back(number(flag, value.substr(begin, end - begin)));
        begin = end + 1;
      }
    } else if (flag == "--state") {
      options.states = true;
      if (value != "all" && !value_named<StateFormat>(value)) {
        throw Error(Exit::usage, format_text("--state={}: not a state format", value),
                    "use all, " + all_names<StateFormat>(", ", " or "));
      }
      options.state = value_named<StateFormat>(value);
    } else if (argument == "--pages=4K") {
      forbid_huge_pages();
    } else if (argument == "--pages=2M") {
      // the default, where the machine has them
    } else if (argument == "--format=json") {
      options.format = Format::json;
    } else if (argument == "--format=markdown") {
      options.format = Format::markdown;
    } else if (argument == "--format=text") {
      options.format = Format::text;
    } else {
      throw Error(Exit::usage, format_text("\"{}\" is not an option", argument),
                  "kernel_bench [--params=N] [--threads=1,2] [--rounds=N] [--format=text|json|markdown] "
                  "[--state=all|bf16|split|bf16+split] [--pages=2M|4K]");
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  Options options = parse(argc, argv);
  const CpuSet allowed = thread_affinity();
  const std::vector<Pu> pus(allowed.begin(), allowed.end());
  if (options.threads.empty()) {
    for (std::size_t n = 1; n < pus.size(); n *= 2) options.threads.push_back(n);
    options.threads.push_back(pus.size());
  }
  if (options.format == Format::text) {
    print_stdout("{} params, {} rounds, {}\n", options.params, options.rounds, name_of(chosen_isa()));
  }
  std::vector<Measured> all;
  for (const std::size_t n : options.threads) {
    if (n > pus.size()) {
      throw Error(Exit::usage, format_text("--threads={}: only {} CPUs are allowed", n, pus.size()),
                  "ask for fewer threads");
    }
    if (options.states) {
      print_state_formats({pus.begin(), pus.begin() + static_cast<std::ptrdiff_t>(n)}, options.params,
                          options.rounds, options.state);
      continue;
    }
    all.push_back({n, bench(options, {pus.begin(), pus.begin() + static_cast<std::ptrdiff_t>(n)})});
    if (options.format != Format::markdown) print(options, n, all.back().candidates);
  }
  if (options.format == Format::markdown && !all.empty()) print_markdown(options, all);
  return 0;
} catch (const Error& error) {
  print_stderr("kernel_bench: {}\n", error.what());
  return static_cast<int>(error.exit());
}
