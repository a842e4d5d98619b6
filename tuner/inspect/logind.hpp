// What systemd's logind does to a user's processes and files at the end of a session, as its files say.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "os/sysroot.hpp"

namespace zf {

/// Returns whether a setting of logind.conf is "yes". Where none sets it, the main file names its default in
/// a comment; where that is missing too, the answer is no.
bool logind_says(const SysRoot& sysroot, std::string_view setting);

/// Returns whether logind removes what this user has in /dev/shm when the last session ends: not of a system
/// user, of one who has no session, or of one who lingers.
bool logind_removes_shared_memory(const SysRoot& sysroot, uid_t user);

/// Returns whether logind ends all processes of the session that this process belongs to, at its end. It
/// spares root, and whom its lists spare.
bool logind_kills_session(const SysRoot& sysroot, uid_t user);

}  // namespace zf
