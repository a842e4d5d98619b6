// Checks what is kept of trainers that have ended, and what would end that, or hide it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "inspect/doctor.hpp"
#include "inspect/logind.hpp"
#include "os/cgroup_path.hpp"

namespace zf {
namespace {

/// Counts what is kept under a name, of all ranks of this node.
struct KeptName {
  std::uint64_t bytes = 0;
  std::int64_t left_s = 0;
};

void name_what_waits(const KeptHere& kept, std::vector<Finding>& findings) {
  std::map<std::string, KeptName> names;
  for (const KeptRank& rank : kept.ranks) {
    if (rank.answer.trainer != 0) continue;
    KeptName& name = names[rank.name.name];
    name.bytes += rank.answer.bytes;
    name.left_s = std::max(name.left_s, rank.answer.left_ms / 1000);
  }
  for (const auto& [name, found] : names) {
    findings.push_back({Severity::note,
                        format_text("{} is kept of a trainer that has ended: {} of memory, for another {} s",
                                    name, print_bytes(found.bytes), found.left_s),
                        format_text("start that trainer again, or: zf-tune kept --drop {}", name)});
  }
}

/// Returns the file of a group, this process's or one above it, that says that all its processes die
/// together when its memory runs out; empty if none does.
std::string file_of_shared_death(const SysRoot& sysroot) {
  for (const std::string& group : groups_of(sysroot, read_cgroup_paths(sysroot), "memory")) {
    std::string file = group + "/memory.oom.group";
    if (sysroot.read(file) == "1") return file;
  }
  return "";
}

void name_what_ends_keepers(const Patient& patient, std::vector<Finding>& findings) {
  const uid_t user = patient.user;
  if (logind_kills_session(patient.sysroot, user)) {
    findings.push_back({Severity::warning,
                        "the end of this session ends trainer and keeper, and what is kept is gone: "
                        "KillUserProcesses or KillOnlyUsers of logind.conf",
                        "start the job with: systemd-run --user --scope, after loginctl enable-linger"});
  }
  if (const auto& folder = patient.kept->folder; logind_removes(patient.sysroot, user, folder)) {
    findings.push_back(
        {Severity::warning,
         format_text("your last logout removes {}{}, and no trainer finds what is kept", folder.string(),
                     folder.native().starts_with("/run/") ? "" : " (RemoveIPC=yes of logind.conf)"),
         "loginctl enable-linger, or set ZF_KEEP_FOLDER to a folder of your own in neither /dev/shm nor "
         "/run/user"});
  }
  if (const std::string file = file_of_shared_death(patient.sysroot); !file.empty()) {
    findings.push_back(
        {Severity::note,
         format_text("{} is 1: if that group's memory runs out, the kernel ends trainer and keeper together",
                     file),
         "a checkpoint is the way back then; Kubernetes: singleProcessOOMKill of the kubelet"});
  }
}

/// Returns why a trainer with this name is refused; empty if it is not.
std::string refusal(const KeptHere& kept, const std::string& name) {
  if (!kept.fault.empty()) return kept.fault;
  try {
    check_keep_name(name);
    keep_socket(kept.folder, {.name = name});
  } catch (const Error& error) {
    return std::string(error.cause());
  }
  return "";
}

}  // namespace

std::vector<Finding> kept_findings(const Patient& patient) {
  if (!patient.kept) return {};
  const KeptHere& kept = *patient.kept;
  const std::string wanted = patient.environment.get("ZF_KEEP").value_or("");
  std::vector<Finding> findings;
  if (const std::string why = wanted.empty() ? "" : refusal(kept, wanted); !why.empty())
    findings.push_back(
        {Severity::severe, "ZF_KEEP is set, and nothing can be kept: " + why,
         "let ZF_KEEP be a short name such as run7, and ZF_KEEP_FOLDER a short path of a folder "
         "that is yours alone (mode 0700)"});
  for (const KeepName& name : kept.silent) {
    findings.push_back(
        {Severity::warning,
         format_text("the process that keeps {} does not answer: a trainer of that name will be refused",
                     print(name)),
         "it may be stopped: end it, and what it keeps (ps -C zf-optimizer shows it)"});
  }
  name_what_waits(kept, findings);
  if (!wanted.empty() || !kept.ranks.empty()) name_what_ends_keepers(patient, findings);
  return findings;
}

}  // namespace zf
