#include "ipc/keep_channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

/// Messages are whole or not there, and the end of the other side is seen.
constexpr int kKind = SOCK_SEQPACKET | SOCK_CLOEXEC;

FileDescriptor make_socket(int flags = 0) {
  const int fd = socket(AF_UNIX, kKind | flags, 0);
  if (fd < 0) throw_errno(errno, "a socket for kept arenas", descriptor_hint(errno));
  return FileDescriptor(fd);
}

/// Every wait has a deadline: the other side may be stopped.
void limit_waits(int fd) {
  constexpr timeval limit = {.tv_sec = 5, .tv_usec = 0};
  checked(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), "SO_RCVTIMEO");
  checked(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), "SO_SNDTIMEO");
}

ucred peer_of(int socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  checked(getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size), "SO_PEERCRED");
  return peer;
}

sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), std::min(path.native().size(), sizeof address.sun_path - 1));
  return address;
}

/// Room for one descriptor beside a message.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

template <class Message>
bool send_with(int socket, const Message& message, int fd) {
  iovec part = {.iov_base = const_cast<Message*>(&message), .iov_len = sizeof message};
  msghdr whole = {};
  whole.msg_iov = &part;
  whole.msg_iovlen = 1;
  Control control = {};
  if (fd >= 0) {
    whole.msg_control = &control;
    whole.msg_controllen = sizeof control.bytes;
    cmsghdr* const header = CMSG_FIRSTHDR(&whole);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &whole, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof message);
}

template <class Message>
std::optional<Message> receive_from(int socket, FileDescriptor* fd) {
  Message message;
  iovec part = {.iov_base = &message, .iov_len = sizeof message};
  Control control = {};
  msghdr whole = {};
  whole.msg_iov = &part;
  whole.msg_iovlen = 1;
  whole.msg_control = &control;
  whole.msg_controllen = sizeof control.bytes;
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &whole, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  FileDescriptor received;
  const cmsghdr* const header = got < 0 ? nullptr : CMSG_FIRSTHDR(&whole);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header), sizeof number);
    received = FileDescriptor(number);
  }
  if (got != static_cast<ssize_t>(sizeof message) || message.version != kKeepVersion) return std::nullopt;
  if (fd != nullptr) *fd = std::move(received);
  return message;
}

}  // namespace

std::optional<KeepChannel> KeepChannel::connect(const std::filesystem::path& path) {
  FileDescriptor fd = make_socket();
  limit_waits(fd.get());
  const sockaddr_un address = address_of(path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
    throw_errno(errno, format_text("cannot connect to {}", path.string()));
  }
  KeepChannel channel(std::move(fd));
  if (channel.user() == geteuid()) return channel;
  throw Error(
      Exit::usage,
      format_text("user {} listens at {}, and you are user {}", channel.user(), path.string(), geteuid()),
      "set ZF_KEEP_FOLDER to a folder of your own");
}

uid_t KeepChannel::user() const { return peer_of(fd_.get()).uid; }
pid_t KeepChannel::process() const { return peer_of(fd_.get()).pid; }

bool KeepChannel::send(const KeepMessage& message, int fd) const { return send_with(fd_.get(), message, fd); }
bool KeepChannel::send(const KeepAnswer& answer, int fd) const { return send_with(fd_.get(), answer, fd); }

std::optional<KeepMessage> KeepChannel::receive_message(FileDescriptor* fd) const {
  return receive_from<KeepMessage>(fd_.get(), fd);
}

std::optional<KeepAnswer> KeepChannel::receive_answer(FileDescriptor* fd) const {
  return receive_from<KeepAnswer>(fd_.get(), fd);
}

bool KeepChannel::is_closed(Nanoseconds deadline) const {
  for (;;) {
    pollfd closed = {.fd = fd_.get(), .events = 0, .revents = 0};
    const Nanoseconds left_ms = deadline == 0 ? 0 : (deadline - now_ns()) / kMillisecondNs;
    poll(&closed, 1, static_cast<int>(std::clamp<Nanoseconds>(left_ms, 0, 60'000)));
    if ((closed.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return true;
    if (deadline == 0 || now_ns() >= deadline) return false;
  }
}

KeepPair make_keep_pair() {
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, kKind, 0, ends.data()) != 0)
    throw_errno(errno, "two sockets for kept arenas", descriptor_hint(errno));
  KeepPair pair{KeepChannel(FileDescriptor(ends[0])), KeepChannel(FileDescriptor(ends[1]))};
  for (const int end : ends) limit_waits(end);
  return pair;
}

KeepAnswer ask(const KeepChannel& channel, KeepRequest request, int fd, FileDescriptor* arena) {
  const bool sent = channel.send(KeepMessage{.request = request}, fd);
  const std::optional<KeepAnswer> answer = sent ? channel.receive_answer(arena) : std::nullopt;
  if (answer) return *answer;
  throw Error(Exit::runtime_error, "the process that keeps the arena does not answer",
              "it may be stopped or of another release: `ps -C zf-optimizer` shows it");
}

std::optional<KeepAnswer> ask_unless_ended(const std::filesystem::path& path, const KeepChannel& channel,
                                           KeepRequest request, int fd, FileDescriptor* arena) try {
  return ask(channel, request, fd, arena);
} catch (const Error&) {
  if (KeepChannel::connect(path)) throw;  // it lives: it may have hung up on us
  return std::nullopt;
}

FileDescriptor listen_at(const std::filesystem::path& path) {
  FileDescriptor fd = make_socket(SOCK_NONBLOCK);
  const sockaddr_un address = address_of(path);
  checked(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
          "cannot make " + path.string());
  if (listen(fd.get(), 16) == 0) return fd;
  const int error = errno;
  unlink(path.c_str());
  throw_errno(error, "cannot listen at " + path.string());
}

std::optional<KeepChannel> accept_own(int listener) {
  FileDescriptor fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  limit_waits(fd.get());
  KeepChannel channel(std::move(fd));
  if (channel.user() != geteuid()) return std::nullopt;
  return channel;
}

}  // namespace zf
