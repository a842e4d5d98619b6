// What systemd's logind does to a user's processes and files at the end of a session, as its files say.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "os/sysroot.hpp"

namespace zf {

/// Returns whether logind removes a folder when the last session of this user ends: it lies in the user's
/// folder under /run/user or, with RemoveIPC, in /dev/shm. Not of a user who has no session, or who lingers;
/// in /dev/shm not of a system user.
bool logind_removes(const SysRoot& sysroot, uid_t user, const std::filesystem::path& folder);

/// Returns whether logind ends all processes of the session that this process belongs to, at its end:
/// KillExcludeUsers (where it is not set: root) counts before KillOnlyUsers, and that before
/// KillUserProcesses.
bool logind_kills_session(const SysRoot& sysroot, uid_t user);

}  // namespace zf
