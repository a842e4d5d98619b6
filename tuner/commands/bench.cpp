#include <fmt/core.h>

#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "engine/working_set.hpp"
#include "homes/homes.hpp"
#include "measure/bench.hpp"
#include "measure/working_set_size.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr int kDefaultRounds = 5;

CommandSpec spec() {
  return {"bench", "bench [--threads LIST] [--params N] [--format text|json]",
          "Measures the production Adam step and a roofline loop with the same 4 reads and 3 writes per "
          "parameter, and prints the bandwidth of both.",
          with_machine_options({
              {"threads", 't', "LIST",
               "pool sizes, one thread per core (default: 1, 2, 4, … and all cores; e.g. 1,2)"},
              {"params", 'p', "COUNT",
               "number of fp32 parameters that each pool steps over, 16 bytes each (default: enough for 1 "
               "GiB or four times the last-level caches, whichever is more; e.g. 128M)"},
              {"rounds", 'r', "N", "how often each pool size is measured, in turn (default: 5; e.g. 10)"},
              format_option(),
          })};
}

std::vector<int> thread_counts(const Arguments& arguments, int cores) {
  if (const auto given = arguments.text("threads")) {
    const auto counts = parse_counts(*given, "zf-tune bench: --threads");
    for (const int count : counts) {
      if (count <= cores) continue;
      throw Error(Exit::infeasible,
                  fmt::format("zf-tune bench: --threads: a pool of {0} threads needs {0} cores, more than "
                              "the {1} allowed here",
                              count, cores),
                  fmt::format("give pool sizes up to {}", cores));
    }
    return counts;
  }
  return usual_thread_counts(cores);
}

Exit run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const Machine machine = read_machine(machine_source(arguments));
  if (!machine.topology.is_this_machine) {
    throw Error(Exit::usage,
                fmt::format("{} is not this machine: nothing can be measured on it", machine.topology.source),
                "leave out --topology and --sysroot");
  }
  const Home home = homes_of(machine.topology, machine.allowed, {Preference{}}).front();
  const std::uint64_t available = available_memory_bytes(SysRoot(), machine.allowed);
  std::uint64_t elements =
      working_set_size(0, 1, last_level_cache_bytes(machine.topology), available).elements_per_rank;
  if (const auto params = arguments.text("params")) {
    elements = parse_quantity(*params, "zf-tune bench: --params");
    if (elements > available / WorkingSet::kBytesPerElement) {
      throw Error(
          Exit::infeasible,
          fmt::format("zf-tune bench: --params: {} parameters need {} of memory, but {} are available",
                      *params, print_bytes(elements * WorkingSet::kBytesPerElement), print_bytes(available)),
          "ask for fewer parameters");
    }
  }

  const Bench bench = run_bench(home, thread_counts(arguments, static_cast<int>(home.cores.size())), elements,
                                arguments.integer("rounds", 1, 1000).value_or(kDefaultRounds));
  fmt::print("{}", format == Format::json ? bench_json(bench) : bench_text(bench));
  return Exit::done;
}

}  // namespace

Command bench_command() { return {spec(), run}; }

}  // namespace zf
