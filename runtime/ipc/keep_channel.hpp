// How a trainer, or zf-tune, talks to the process that keeps an arena.
//
// One connection has one request. A trainer that opens an arena gets it with the answer, and takes it with a
// second message when it has found that the arena is the one that it wants. From then on the connection says
// that the trainer has it, until it asks the keeper to end. The first trainer has made the arena: the keeper
// makes their connection, and sends the trainer its end by kKeeperChannelFd.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/clock.hpp"
#include "base/file_descriptor.hpp"

namespace zf {

/// The descriptors that a keeper inherits from its first trainer.
inline constexpr int kKeeperArenaFd = 3;
inline constexpr int kKeeperLockFd = 4;  ///< of the folder: held until the keeper listens, whatever happens
inline constexpr int kKeeperPidFd = 5;   ///< of that trainer
inline constexpr int kKeeperChannelFd = 6;

/// Increased whenever a message changes.
inline constexpr std::uint32_t kKeepVersion = 1;

enum class KeepRequest : std::uint32_t {
  status,  ///< answered; nothing changes
  open,    ///< comes with a pidfd of the trainer. The answer comes with the arena, if no trainer has it
  take,    ///< on the connection of `open`: the arena is this trainer's. Answered
  drop,    ///< ends the keeper, if no trainer has the arena. Answered
  close,   ///< on the connection of `take`: ends the keeper, which closes the connection as its last act
};

struct KeepMessage {
  std::uint32_t version = kKeepVersion;
  KeepRequest request = KeepRequest::status;
};

/// What a keeper answers to each request except `close`.
struct KeepAnswer {
  std::uint32_t version = kKeepVersion;
  std::int32_t trainer = 0;  ///< the process that has the arena; 0: none, it is kept
  std::int32_t keeper = 0;   ///< the keeper's own process
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;   ///< of the arena
  std::uint64_t step = 0;    ///< the highest number of a group's last step that was begun
  std::int64_t left_ms = 0;  ///< for which it is kept yet; while a trainer has it, for which it will be
};
static_assert(sizeof(KeepMessage) == 8 && sizeof(KeepAnswer) == 40);

/// A connection. What fails throws Error(runtime_error).
class KeepChannel {
 public:
  explicit KeepChannel(FileDescriptor fd) : fd_(std::move(fd)) {}

  /// Connects to a keeper. Returns nothing if none listens at the path. Throws Error(usage) if the one who
  /// listens is another user.
  static std::optional<KeepChannel> connect(const std::filesystem::path& path);

  int fd() const { return fd_.get(); }
  /// Return the user and the process at the other end: of a connection that was accepted, the one that asked
  /// for it; of another, the one that first listened.
  uid_t user() const;
  pid_t process() const;

  /// Send a message, and a descriptor if one is given. Return false if the other side is gone.
  bool send(const KeepMessage& message, int fd = -1) const;
  bool send(const KeepAnswer& answer, int fd = -1) const;
  /// Receive a message, and its descriptor if it has one. Return nothing if the other side is gone, of
  /// another version, or silent for 5 s.
  std::optional<KeepMessage> receive_message(FileDescriptor* fd = nullptr) const;
  std::optional<KeepAnswer> receive_answer(FileDescriptor* fd = nullptr) const;
  /// Returns whether the other side has closed the connection; waits for that until a point of now_ns().
  bool is_closed(Nanoseconds deadline = 0) const;

 private:
  FileDescriptor fd_;
};

/// The two ends of a connection.
struct KeepPair {
  KeepChannel trainer;
  KeepChannel keeper;
};
KeepPair make_keep_pair();

/// Asks a keeper on a connection. Throws Error(runtime_error) if it does not answer.
KeepAnswer ask(const KeepChannel& channel, KeepRequest request, int fd = -1, FileDescriptor* arena = nullptr);
/// Asks the keeper that listens at the path. Returns nothing if it has ended since the connection was made.
std::optional<KeepAnswer> ask_unless_ended(const std::filesystem::path& path, const KeepChannel& channel,
                                           KeepRequest request, int fd = -1, FileDescriptor* arena = nullptr);

/// Makes a socket that listens at a path, where there is no file. Throws Error(runtime_error).
FileDescriptor listen_at(const std::filesystem::path& path);

/// Accepts a connection of this user. Returns nothing if there is none, or if it is another user's.
std::optional<KeepChannel> accept_own(int listener);

}  // namespace zf
