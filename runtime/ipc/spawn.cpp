#include "ipc/spawn.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/address_space.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

std::string_view next_step(int error) {
  if (error == EAGAIN) return kTaskLimitHint;
  if (error == EMFILE || error == ENFILE) return descriptor_hint(error);
  if (error == ENOMEM) return memory_hint(kAllocatorBytes, "give the job more memory");
  if (error == EPERM || error == ENOSYS) return "allow clone, vfork and execve in the sandbox";
  return {};
}

/// Throws if a posix_spawn function failed; they return an errno value.
void spawn_checked(int error, std::string_view what) {
  if (error != 0) throw_errno(error, what, next_step(error));
}

constexpr const char* kNull = "/dev/null";

/// Returns a copy of a descriptor, with this number or a higher one.
FileDescriptor copy_above(int number, int fd) {
  FileDescriptor copy(fcntl(fd, F_DUPFD_CLOEXEC, number));
  // EINVAL: the limit is below the number.
  if (!copy.valid())
    throw_errno(errno == EINVAL ? EMFILE : errno, "a copy of a descriptor", descriptor_hint(EMFILE));
  return copy;
}

/// Throws if the standard streams of a child cannot be opened. posix_spawn() reports that as it reports a
/// missing program.
void need_null() {
  const FileDescriptor null(open(kNull, O_RDWR | O_CLOEXEC));
  if (null.valid() || !descriptor_hint(errno).empty()) return;
  throw_errno(errno, kNull, "a child process needs it: mount or make /dev/null");
}

/// Initializes the list of actions, and destroys it also when something throws in between.
struct FileActions {
  FileActions() { spawn_checked(posix_spawn_file_actions_init(&list), "posix_spawn_file_actions_init"); }
  ~FileActions() { posix_spawn_file_actions_destroy(&list); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  posix_spawn_file_actions_t list;
};

/// The descriptors of the child, arranged between its birth and its exec.
class SpawnActions {
 public:
  explicit SpawnActions(const std::vector<InheritedFd>& fds) {
    spawn_checked(posix_spawn_file_actions_addopen(&actions_.list, 0, kNull, O_RDONLY, 0), "addopen");
    spawn_checked(posix_spawn_file_actions_addopen(&actions_.list, 1, kNull, O_WRONLY, 0), "addopen");
    int next = 3;
    const int above = next + static_cast<int>(fds.size());
    for (const InheritedFd& inherited : fds) {
      assert(inherited.number == next);
      // The copies lie above all targets, because a target may be the number of another source.
      copies_.push_back(copy_above(above, inherited.fd));
      spawn_checked(posix_spawn_file_actions_adddup2(&actions_.list, copies_.back().get(), inherited.number),
                    "dup2");
      next = inherited.number + 1;
    }
    // Closes sockets and devices that other libraries of the trainer opened without close-on-exec.
    spawn_checked(posix_spawn_file_actions_addclosefrom_np(&actions_.list, next), "closefrom");
  }

  const posix_spawn_file_actions_t* get() const { return &actions_.list; }

 private:
  FileActions actions_;
  std::vector<FileDescriptor> copies_;
};

/// Default signal actions and no blocked signal.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    spawn_checked(posix_spawnattr_init(&attributes_), "posix_spawnattr_init");
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

/// Returns pointers to the words with a null pointer at the end, as exec expects.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Child spawn(const std::filesystem::path& program, const std::vector<std::string>& arguments,
            const std::vector<InheritedFd>& fds, const std::optional<std::vector<std::string>>& environment) {
  const SpawnActions actions(fds);
  const SpawnAttributes attributes;
  std::vector<std::string> words = {program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = pointers_to(words);
  std::vector<std::string> variables = environment.value_or(std::vector<std::string>());
  const std::vector<char*> envp = pointers_to(variables);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), actions.get(), attributes.get(), argv.data(),
                                environment ? envp.data() : environ);
  if (error != 0) {  // Nothing may be allocated between the birth of a child and its owner's.
    need_null();
    spawn_checked(error, "starting " + program.string());
  }
  return Child::adopt(pid);
}

}  // namespace zf
