#include "worker/arguments.hpp"

#include <charconv>

#include "base/cpu_list.hpp"
#include "base/enum_names.hpp"
#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

constexpr const char* kNotByHand =
    "it is started by libzf_runtime.so inside a training process; `zf-optimizer --help` says more";

/// Returns the number, which is at least `least`. `what` says what it counts.
int parse_number(const std::string& flag, const std::string& text, int least, std::string_view what) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < least) {
    throw Error(Exit::usage, format_text("{}: \"{}\" is not {}", flag, text, what),
                format_text("give a number like {}", least));
  }
  return number;
}

/// Returns the value with this name. `what` says what the word should have been.
template <NamedEnum Enum>
Enum parse_named(const std::string& flag, const std::string& text, std::string_view what) {
  if (const auto value = value_named<Enum>(text)) return *value;
  throw Error(Exit::usage, format_text("{}: \"{}\" is not {}", flag, text, what),
              "give " + all_names<Enum>(", ", " or "));
}

Strictness parse_strictness(const std::string& flag, const std::string& text) {
  return parse_named<Strictness>(flag, text, "a value of this option");
}

}  // namespace

WorkerArguments parse_worker_arguments(const std::vector<std::string>& words) {
  WorkerArguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& flag = words[i];
    if (flag == "--help") {
      arguments.help = true;
      continue;
    }
    if (flag == "--version") {
      arguments.version = true;
      continue;
    }
    const bool known = flag == "--rank" || flag == "--cpus" || flag == "--threads" || flag == "--home" ||
                       flag == "--mems" || flag == "--memory-policy" || flag == "--huge-pages" ||
                       flag == "--lock-memory" || flag == "--keep" || flag == "--keep-folder" ||
                       flag == "--keep-s";
    if (!known) throw Error(Exit::usage, format_text("unknown argument \"{}\"", flag), kNotByHand);
    if (++i == words.size()) throw Error(Exit::usage, format_text("{} has no value", flag), kNotByHand);
    const std::string& value = words[i];
    if (flag == "--rank") arguments.rank = parse_number(flag, value, 0, "a rank");
    if (flag == "--cpus") arguments.cpus = parse_cpu_list(value, flag);
    if (flag == "--threads") arguments.threads = parse_number(flag, value, 1, "a number of threads");
    if (flag == "--home") arguments.home = parse_cpu_list(value, flag);
    if (flag == "--mems") arguments.mems = parse_node_list(value, flag);
    if (flag == "--memory-policy")
      arguments.memory_policy = parse_named<MemoryPolicy>(flag, value, "a memory policy");
    if (flag == "--huge-pages") arguments.huge_pages = parse_strictness(flag, value);
    if (flag == "--lock-memory") arguments.lock_memory = parse_strictness(flag, value);
    if (flag == "--keep") arguments.keep = value;
    if (flag == "--keep-folder") arguments.keep_folder = value;
    if (flag == "--keep-s") arguments.keep_s = parse_number(flag, value, 1, "a number of seconds");
  }
  if (arguments.cpus.empty() && arguments.keep.empty() && !arguments.help && !arguments.version) {
    throw Error(Exit::usage, "--cpus is missing: there is no CPU to run on", kNotByHand);
  }
  return arguments;
}

std::string worker_help() {
  return "zf-optimizer: the native optimizer process of zf-tune.\n"
         "\n"
         "libzf_runtime.so starts it inside a training process (zf_open) and hands it the shared arena as\n"
         "descriptor 3 and a pidfd of the trainer as descriptor 4. It ends when it is told to (zf_close) or\n"
         "when the trainer ends. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are left to the trainer.\n"
         "\n"
         "  --cpus LIST            one pinned thread per CPU; OS indexes like 7-11 (required)\n"
         "  --threads N            so many threads; each may run on all CPUs of --cpus, because\n"
         "                         neighbours share them (default: one pinned thread per CPU)\n"
         "  --home LIST            all CPUs of the rank: threads without their own CPU run on these if all\n"
         "                         CPUs of the pool are gone (default: those of the pool)\n"
         "  --mems LIST            NUMA nodes for the arena's memory, like 0 (default: no preference)\n"
         "  --memory-policy NAME   preferred (default), bind or none\n"
         "  --huge-pages MODE      no (default), try or must: 2 MiB pages for the arena\n"
         "  --lock-memory MODE     no (default), try or must: the arena is never swapped out\n"
         "  --rank N               local rank, shown in ps (default: 0)\n"
         "  --keep NAME            steps nothing, and keeps the arena for the next trainer "
         "(zf_options.keep):\n"
         "                         descriptor 4 is then a socket that listens for it\n"
         "  --keep-folder PATH     with --keep: the folder of the socket\n"
         "  --keep-s N             with --keep: seconds from the trainer's end on\n"
         "  --version              print the version\n"
         "  --help                 print this page\n"
         "\n"
         "Environment: ZF_ISA=scalar|neon|avx2|avx512 forces the vector instructions; "
         "the result is the same.\n";
}

}  // namespace zf
