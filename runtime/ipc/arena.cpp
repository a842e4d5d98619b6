#include "ipc/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <new>
#include <utility>

#include "base/address_space.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/signals_blocked.hpp"
#include "base/text.hpp"
#include "ipc/notes.hpp"

namespace zf {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// These constants are newer than the headers of Debian 12. An older kernel answers EINVAL.
constexpr unsigned kNoExecSeal = 0x0008U;  // MFD_NOEXEC_SEAL, Linux 6.3; required by vm.memfd_noexec=2
constexpr int kPopulateRead = 22;          // MADV_POPULATE_READ, Linux 5.14
constexpr int kPopulateWrite = 23;         // MADV_POPULATE_WRITE, for the same reason
/// One fallocate holds the lock of the file, but clearing its pages needs no lock. In pieces of this size the
/// threads that share the work overlap.
constexpr std::uint64_t kReserveBytes = std::uint64_t{32} << 20;
/// While the kernel unmaps a piece, no other thread of the process can map or unmap memory.
constexpr std::size_t kUnmapBytes = std::size_t{4} << 20;
/// A multiple of huge pages: a part of one would be cleared instead of freed.
constexpr std::size_t kFreedBytes = std::size_t{32} << 20;

FileDescriptor make_memfd() {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = memfd_create("zf-arena", flags | kNoExecSeal);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("zf-arena", flags);
  if (fd < 0) throw_errno(errno, "memfd_create", descriptor_hint(errno));
  return FileDescriptor(fd);
}

std::string size_text(std::uint64_t bytes) {
  const std::string exact = format_text("{} bytes", bytes);
  const std::string rounded = print_bytes(bytes);
  return rounded == exact ? exact : format_text("{} ({})", rounded, exact);
}

/// Returns whether madvise() does not populate here: kernels before 5.14 do not know how, and a sandbox may
/// refuse the call.
bool cannot_populate(int error) { return error == EINVAL || error == ENOSYS || error == EPERM; }

/// The lock of a worker: it is the process's, and goes when all of its threads have ended.
struct flock worker_lock() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return lock;
}

constexpr const char* kLessMemory = "give the job more memory, or fewer parameters per rank";

[[noreturn]] void refuse(std::string_view what) {
  throw Error(Exit::usage, format_text("descriptor {} {}", kWorkerArenaFd, what),
              "zf-optimizer is started by libzf_runtime.so, not by hand");
}

void check_prefix(ArenaPrefix& prefix) {
  if (prefix.magic != kArenaMagic) refuse("is not an arena");
  if (prefix.version == kArenaVersion) return;
  const Error error(Exit::usage,
                    format_text("libzf_runtime.so uses arena version {}, this zf-optimizer uses {}",
                                prefix.version, kArenaVersion),
                    "install both from one release, or set ZF_OPTIMIZER to the right zf-optimizer");
  prefix.error.store(error.what());
  prefix.worker_state.store(WorkerState::failed, std::memory_order_seq_cst);
  throw error;
}

/// Returns true if `count` elements of `each` bytes lie inside the file. No sum here can overflow.
bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t each, std::uint64_t bytes) {
  return offset <= bytes && count <= (bytes - offset) / each;
}

/// Returns the end of an arena with arrays up to `bytes`. The saved area has room for the whole image.
std::uint64_t saved_end(std::uint64_t bytes, std::uint64_t image_bytes) {
  return bytes + (image_bytes + kImageUnit - 1) / kImageUnit * kImageUnit;
}

void check_offsets(const Arena& arena, std::uint64_t file_bytes) {
  const ControlBlock& control = arena.control();
  const std::uint64_t bytes = control.arena_bytes;
  if (control.arrays_offset > bytes || control.image_bytes > bytes ||
      (file_bytes != bytes && file_bytes != saved_end(bytes, control.image_bytes)) ||
      control.group_count == 0 || !std::has_single_bit(control.ring_capacity) ||
      control.ring_capacity / (kGradBuffers * kWorkKinds) < control.group_count ||
      !fits(control.groups_offset, control.group_count, sizeof(GroupBlock), bytes) ||
      !fits(control.ring_offset, control.ring_capacity, sizeof(WorkEntry), bytes) ||
      !fits(control.undo_offset, control.members, sizeof(UndoLog), bytes) ||
      !fits(control.members_offset, control.members, sizeof(MemberProgress), bytes) ||
      control.note_bytes > kMaxNoteBytes ||
      !fits(control.notes_offset, control.note_bytes == 0 ? 0 : 2, note_stride(control.note_bytes), bytes)) {
    refuse("is an arena with a control block that does not fit its size");
  }
  for (std::size_t i = 0; i < control.group_count; ++i) {
    if (arena.group(i).chunk_elements == 0)
      refuse(format_text("is an arena in which group {} has chunks of 0 elements", i));
    if (!fits(arena.group(i).ranges_offset, arena.group(i).range_count, sizeof(ElementRange), bytes))
      refuse(format_text("is an arena in which group {} has ranges outside of it", i));
    if (!fits(arena.group(i).log.offset, arena.group(i).log.bytes, 1, bytes))
      refuse(format_text("is an arena in which group {} has a log outside of it", i));
    const std::uint64_t image_end = arena.group(i).image_end();
    if (image_end < arena.group(i).image_offset || image_end > control.image_bytes)
      refuse(format_text("is an arena in which group {} has a state outside of its image", i));
    for (const ArrayPlace& place : arena.group(i).arrays) {
      if (!fits(place.offset, place.bytes, 1, bytes))
        refuse(format_text("is an arena in which group {} lies outside of it", i));
    }
  }
}

}  // namespace

Arena::Arena(FileDescriptor fd, std::size_t file_bytes, std::size_t bytes)
    : fd_(std::move(fd)), mapped_bytes_(file_bytes), bytes_(bytes) {
  const auto map = [&](std::size_t size) {
    return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  };
  void* start = map(file_bytes);
  if (start == MAP_FAILED && bytes < file_bytes) start = map(mapped_bytes_ = bytes);
  if (start == MAP_FAILED)
    throw_errno(errno, "cannot map an arena of " + size_text(bytes), memory_hint(bytes, kLessMemory));
  base_ = static_cast<std::byte*>(start);
}

Arena::Arena(Arena&& other) noexcept
    : fd_(std::move(other.fd_)),
      mapped_bytes_(other.mapped_bytes_),
      bytes_(other.bytes_),
      base_(std::exchange(other.base_, nullptr)) {}

Arena::~Arena() {
  if (base_ == nullptr) return;
  // The last piece drops the file, which frees the pages without the lock of the mappings.
  for (std::size_t at = 0; at < mapped_bytes_; at += kUnmapBytes) {
    munmap(base_ + at, std::min(kUnmapBytes, mapped_bytes_ - at));
  }
}

Arena Arena::create(const ArenaLayout& layout) {
  FileDescriptor fd = make_memfd();
  std::uint64_t file_bytes = saved_end(layout.bytes, layout.image_bytes);
  // `ulimit -f` holds for files in memory too. It may have room for the arrays alone.
  const auto set_size = [&](std::uint64_t bytes) {
    return error_without_signals({SIGXFSZ},
                                 [&] { return ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0; });
  };
  int error = set_size(file_bytes);
  if (error != 0) error = set_size(file_bytes = layout.bytes);
  if (error != 0) {
    throw_errno(error, "cannot make an arena of " + size_text(layout.bytes),
                error == EFBIG   ? writing_hint(error)
                : error == EPERM ? std::string(descriptor_hint(error))
                                 : std::string(kLessMemory));
  }
  checked(fcntl(fd.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL), "sealing the arena");
  Arena arena(std::move(fd), file_bytes, layout.bytes);
  arena.reserve(0, layout.arrays_offset);

  auto& control = *new (arena.base_) ControlBlock{};
  control.prefix.magic = kArenaMagic;
  control.prefix.version = kArenaVersion;
  control.arena_bytes = layout.bytes;
  control.groups_offset = layout.groups_offset;
  control.ring_offset = layout.ring_offset;
  control.arrays_offset = layout.arrays_offset;
  control.group_count = static_cast<std::uint32_t>(layout.shapes.size());
  control.ring_capacity = layout.ring_capacity;
  control.undo_offset = layout.undo_offset;
  control.members_offset = layout.members_offset;
  control.members = layout.members;
  control.notes_offset = layout.notes_offset;
  control.note_bytes = layout.note_bytes;
  control.image_bytes = layout.image_bytes;
  control.work.init();
  control.done.init();
  std::uint64_t ranges_offset = layout.ranges_offset;
  for (std::size_t i = 0; i < layout.shapes.size(); ++i) {
    auto& group = *new (&arena.group(i)) GroupBlock{};
    group.elements = layout.shapes[i].elements;
    group.grad_type = layout.shapes[i].grad_type;
    group.copy_type = layout.shapes[i].copy_type;
    group.stale = layout.shapes[i].stale ? 1 : 0;
    group.moment_sets = layout.shapes[i].moment_sets;
    group.chunk_elements = chunk_elements(layout.shapes[i]);
    group.format = layout.shapes[i].format;
    group.first_element = layout.shapes[i].first_element;
    group.ranges_offset = ranges_offset;
    group.range_count = static_cast<std::uint32_t>(layout.shapes[i].ranges.size());
    std::ranges::copy(layout.shapes[i].ranges, arena.at<ElementRange>(ranges_offset));
    ranges_offset += group.range_count * sizeof(ElementRange);
    group.arrays = layout.arrays[i];
    group.log = layout.logs[i];
    group.image_offset = layout.image_offsets[i];
  }
  return arena;
}

Arena Arena::attach(FileDescriptor fd) {
  struct stat status = {};
  if (fstat(fd.get(), &status) != 0) refuse("cannot be used: " + errno_text(errno));
  // Without these seals the other side could shrink the file, and our next access would raise SIGBUS.
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) refuse("is not a sealed memory file");
  if (status.st_size < static_cast<off_t>(sizeof(ControlBlock))) refuse("is too small for an arena");
  const auto file_bytes = static_cast<std::size_t>(status.st_size);
  std::uint64_t bytes = 0;  // as the other side says, in an arena of this version
  if (pread(fd.get(), &bytes, sizeof bytes, offsetof(ControlBlock, arena_bytes)) != sizeof bytes)
    refuse("cannot be read");
  bytes = std::clamp<std::uint64_t>(bytes, sizeof(ControlBlock), file_bytes);
  Arena arena(std::move(fd), file_bytes, bytes);
  check_prefix(arena.control().prefix);
  check_offsets(arena, file_bytes);
  arena.bytes_ = arena.control().arena_bytes;
  return arena;
}

void Arena::reserve(std::uint64_t offset, std::uint64_t bytes) const {
  if (bytes == 0) return;
  const std::uint64_t end = (offset + bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  for (std::uint64_t at = offset / kPageBytes * kPageBytes; at < end; at += kReserveBytes) {
    reserve_chunk(at, std::min(kReserveBytes, end - at));
  }
}

void Arena::reserve_chunk(std::uint64_t begin, std::uint64_t bytes) const {
  // Populating this process's mapping comes first: only there the kernel knows that it may use huge pages.
  if (madvise(base_ + begin, bytes, kPopulateWrite) == 0) return;
  if (!cannot_populate(errno))
    throw_errno(errno, "cannot get memory for an arena of " + size_text(bytes_), kLessMemory);
  int result = 0;
  do {
    result = fallocate(fd_.get(), 0, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) throw_errno(errno, "cannot get memory for an arena of " + size_text(bytes_), kLessMemory);
  read_each_page(begin, bytes);
}

void Arena::map_reserved(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (bytes == 0) return;
  const std::uint64_t begin = offset / kPageBytes * kPageBytes;
  const std::uint64_t end = (offset + bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  // Only faults for reading map the pages around. Shared memory is mapped writable in any case, because the
  // kernel does not have to notice the first write to it.
  if (madvise(base_ + begin, end - begin, kPopulateRead) != 0 && cannot_populate(errno))
    read_each_page(begin, end - begin);
}

bool Arena::lock_for_worker(Nanoseconds deadline) const {
  struct flock lock = worker_lock();
  while (fcntl(fd_.get(), F_SETLK, &lock) != 0) {
    if (errno != EACCES && errno != EAGAIN && errno != EINTR) throw_errno(errno, "locking the arena");
    if (now_ns() >= deadline) return false;
    usleep(500);
  }
  return true;
}

bool Arena::has_worker() const {
  struct flock lock = worker_lock();
  checked(fcntl(fd_.get(), F_GETLK, &lock), "looking for a lock of the arena");
  return lock.l_type != F_UNLCK;
}

bool Arena::keep_from_children() noexcept {
  fd_ = FileDescriptor();
  return madvise(base_, mapped_bytes_, MADV_DONTFORK) == 0;
}

bool Arena::free_saved() const noexcept {
  for (std::size_t at = 0; at < saved_bytes();) {
    const std::size_t begin = std::exchange(at, free_saved_part(at));
    if (at == begin) return false;
  }
  return true;
}

std::size_t Arena::free_saved_part(std::size_t at) const noexcept {
  const std::size_t bytes = std::min(kFreedBytes, saved_bytes() - at);
  return free_pages({bytes_ + at, bytes}) ? at + bytes : at;
}

void Arena::free_logs() const noexcept {
  for (std::size_t i = 0; i < control().group_count; ++i) {
    if (group(i).log.bytes != 0) free_pages(group(i).log);  // else the pages stay
  }
}

bool Arena::free_pages(const ArrayPlace& place) const noexcept {
  int result = 0;
  do {
    result = fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(place.offset), static_cast<off_t>(place.bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

bool is_saved(const Arena& arena, std::size_t group, std::uint64_t end) {
  const SavedByStep by_step = arena.group(group).saved_by_step.load(std::memory_order_acquire);
  if (by_step != SavedByStep::no) return by_step == SavedByStep::done;
  for (std::size_t i = 0; i < arena.control().members; ++i) {
    if (arena.member(i).saved.load(std::memory_order_acquire) < end) return false;
  }
  return true;
}

void Arena::read_each_page(std::uint64_t begin, std::uint64_t bytes) const noexcept {
  // A write could undo a write of the other side.
  for (std::uint64_t at = begin; at < begin + bytes; at += kPageBytes) {
    static_cast<void>(*reinterpret_cast<const volatile unsigned char*>(base_ + at));
  }
}

}  // namespace zf
