#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/exit_after_signal.hpp"
#include "base/format.hpp"
#include "commands/commands.hpp"
#include "commands/interrupt.hpp"
#include "commands/neighbours.hpp"
#include "commands/shared_arguments.hpp"
#include "commands/terminal.hpp"
#include "engine/working_set.hpp"
#include "homes/homes.hpp"
#include "inspect/activity.hpp"
#include "measure/bench.hpp"
#include "measure/working_set_size.hpp"
#include "os/standard_streams.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr int kDefaultRounds = 5;

CommandSpec bench_spec() {
  return {
      "bench", "bench [--threads LIST | --ranks LIST] [--params N] [--format text|json]",
      "Measures the production Adam step and a roofline loop with the same 4 reads and 3 writes per "
      "parameter, and prints the bandwidth of both. With --ranks, one process per rank updates its part of "
      "the parameters, all at once, bound and unbound; the slowest rank counts.",
      with_options_of_this_machine({
          {"threads", 't', "LIST",
           "pool sizes, one thread per core (default: 1, 2, 4, ... and all cores; e.g. 1,2)"},
          {"params", 0, "COUNT",
           "number of parameters that each pool, or all ranks together, step over, 16 bytes each in fp32 "
           "(default: enough for 1 GiB or four times the last-level caches, whichever is more; e.g. 128M)"},
          {"ranks", 'r', "LIST",
           "numbers of ranks that update at once, each on its home "
           "(default: none, pools alone; e.g. 1,2,4,8)"},
          {"rounds", 0, "N",
           "visits to each pool size or split, in turn, of three samples each (default: 5; e.g. 10)"},
          {"state", 0, "FORMAT",
           "state format of the step, with fp32 gradients: " + all_names<StateFormat>() +
               " (default: fp32; e.g. bf16)",
           all_names<StateFormat>()},
          format_option(),
      })};
}

std::vector<int> thread_counts(const Arguments& arguments, int cores) {
  if (const auto given = arguments.text("threads")) {
    const auto counts = parse_counts(*given, "zf-tune bench: --threads");
    for (const int count : counts) {
      if (count <= cores) continue;
      throw Error(Exit::infeasible,
                  format_text("zf-tune bench: --threads: a pool of {0} threads needs {0} cores, more than "
                              "the {1} allowed here",
                              count, cores),
                  format_text("give pool sizes up to {}", cores));
    }
    return counts;
  }
  return usual_thread_counts(cores);
}

/// Returns the splits to measure for --ranks. Throws Error(usage) if --threads is given as well.
BoundSplits splits_of_ranks(const Arguments& arguments, const Machine& machine) {
  if (arguments.has("threads")) {
    throw Error(Exit::usage,
                "zf-tune bench: --threads cannot be used with --ranks, which sets the number of threads",
                "leave out one of them");
  }
  BoundSplits splits;
  for (const int count : parse_counts(*arguments.text("ranks"), "zf-tune bench: --ranks")) {
    const std::vector<Preference> anywhere(static_cast<std::size_t>(count));
    for (auto& split : rank_splits(homes_of(machine.topology, machine.allowed, anywhere)))
      splits.push_back(std::move(split));
  }
  return splits;
}

/// Returns the pools to measure on this home.
BoundSplits pools_argument(const Arguments& arguments, const Home& home) {
  BoundSplits pools;
  for (const int count : thread_counts(arguments, static_cast<int>(home.cores.size())))
    pools.emplace_back("", pools_on({home}, count));
  return pools;
}

/// Returns what runs here beside this process.
ActivitySample activity_of_others() { return sample_activity(SysRoot(), ::getpid(), {}); }

/// Returns who has disturbed a measurement on these CPUs that began at `before` and ends now.
std::vector<Neighbour> neighbours_since(const ActivitySample& before, const CpuSet& cpus) {
  const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return neighbours_of(cpu_times(before, activity_of_others(), cpus, ticks_per_s));
}

/// Says that a signal (0: none) has cut the measurement short. Throws if there is nothing to print then.
void note_interrupt(int signal, bool is_empty) {
  if (signal == 0) return;
  if (is_empty)
    throw Error(exit_after_signal(signal), "zf-tune bench: interrupted before anything was measured");
  print_stderr("cut short by SIG{}: fewer samples than asked for\n", ::sigabbrev_np(signal));
}

Exit bench_run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const Machine machine = read_machine(machine_source(arguments));
  if (!machine.topology.is_this_machine) {
    throw Error(Exit::usage,
                format_text("{} is not this machine: nothing can be measured on it", machine.topology.source),
                "leave out --topology and --sysroot");
  }
  const Home home = homes_of(machine.topology, machine.allowed, {Preference{}}).front();
  const std::uint64_t available = available_memory_bytes(SysRoot(), machine.allowed);
  const StateFormat state = named_argument<StateFormat>(arguments, "state").value_or(StateFormat::fp32);
  const std::uint64_t each = WorkingSet::bytes_per_element(state);
  std::uint64_t elements = working_set_size(0, 1, last_level_cache_bytes(machine.topology),
                                            available / each * WorkingSet::kBytesPerElement)
                               .elements_per_rank;
  if (const auto params = arguments.text("params")) {
    elements = parse_quantity(*params, "zf-tune bench: --params");
    if (elements > available / 2 / each) {
      throw Error(
          Exit::infeasible,
          format_text("zf-tune bench: --params: {} parameters need {} of memory, and {} are available; "
                      "bench uses at most half of that",
                      *params, print_bytes(elements * each), print_bytes(available)),
          format_text("ask for {} or fewer", print_quantity(available / 2 / each)));
    }
  }

  const InterruptWatch interrupt;
  const auto stop = [&] { return interrupt.signal() != 0; };
  const int rounds = arguments.integer("rounds", 1, 1000).value_or(kDefaultRounds);
  const bool of_ranks = arguments.has("ranks");
  const BoundSplits splits = of_ranks ? splits_of_ranks(arguments, machine) : pools_argument(arguments, home);
  const ActivitySample before = activity_of_others();
  Bench bench = run_bench(splits, elements, rounds, state, stop);
  note_interrupt(interrupt.signal(), bench.rows.empty());
  CpuSet cpus;
  for (const BenchRow& row : bench.rows) cpus |= row.cpus;
  bench.neighbours = neighbours_since(before, cpus);
  bench.of_ranks = of_ranks;
  print_stdout(
      "{}", format == Format::json ? bench_json(bench) : bench_text(bench, terminal_columns(STDOUT_FILENO)));
  return exit_after_signal(interrupt.signal());
}

}  // namespace

Command bench_command() { return {bench_spec(), bench_run}; }

}  // namespace zf
