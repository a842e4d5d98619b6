// The trainer's side of a kept arena: takes over the last trainer's arena, or starts a keeper for a new one.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "ipc/arena_layout.hpp"
#include "ipc/keep_channel.hpp"
#include "ipc/keep_folder.hpp"

namespace zf {

/// The wish to keep an arena.
struct KeepWish {
  KeepName name;
  std::filesystem::path folder;
  int seconds = 0;                       ///< from the trainer's end on
  std::filesystem::path program;         ///< zf-optimizer
  std::vector<std::string> environment;  ///< of the keeper
  Nanoseconds timeout_ns = 0;            ///< for the end of the last trainer's worker
};

/// Owns the connection to the process that keeps this trainer's arena (worker/keeper.hpp). Move-only.
class Keeping {
 public:
  Keeping(KeepChannel channel, bool was_kept, std::string note)
      : channel_(std::move(channel)), was_kept_(was_kept), leaves_(was_kept), note_(std::move(note)) {}
  Keeping(Keeping&&) noexcept = default;
  Keeping& operator=(Keeping&&) = delete;
  /// Ends the keeper, unless the arena was kept and hold() was not called: then the next trainer gets it.
  ~Keeping();

  /// Returns whether the arena is that of a trainer that has ended.
  bool was_kept() const { return was_kept_; }
  /// Says that an open handle has the arena: from now on the destructor ends the keeper in any case.
  void hold() { leaves_ = false; }
  /// Ends the keeper, and waits up to 2 s until it has removed its socket. The second call does nothing.
  void end() noexcept;
  /// Returns why nothing is kept, or was; "" if all is well.
  std::string note() const;

 private:
  KeepChannel channel_;
  bool was_kept_;
  bool leaves_;
  std::string note_;
};

struct KeptArena {
  Arena arena;
  Keeping keeping;
};

/// Returns the arena that is kept under the name. If there is none, calls `make`, and has the new arena kept.
/// Waits until the last trainer's worker has ended. If this throws, nothing is changed:
/// - AbiError(ZF_ERROR_BUSY) if another trainer has the arena;
/// - AbiError(ZF_ERROR_STATE) if the arena has another layout or version, if its trainer died while it read a
///   state into the arena, or if the name is kept for other ranks alone;
/// - AbiError(ZF_TIMEOUT) if the last worker does not end; and Error.
KeptArena open_kept(const KeepWish& wish, const ArenaLayout& layout, const std::function<Arena()>& make);

}  // namespace zf
