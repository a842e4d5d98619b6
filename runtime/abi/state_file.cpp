#include "abi/state_file.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "abi/status.hpp"
#include "base/crc32.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"

namespace zf {
namespace {

constexpr const char* kEarlier = "use an earlier checkpoint";
constexpr std::array<std::string_view, kStateArrays.size()> kArrayNames = {
    "parameters", "first moments", "second moments", "first moments (set 1)", "second moments (set 1)"};

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view what,
                         std::string_view next = kEarlier) {
  throw AbiError(ZF_ERROR_STATE, format_text("{}: {}", path.string(), what), next);
}

std::uint64_t to_page(std::uint64_t bytes) { return (bytes + kStatePage - 1) / kStatePage * kStatePage; }

template <class T>
std::span<std::byte> bytes_of_object(T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

std::span<std::byte> memory_of(const Arena& arena, std::size_t group, ArrayKind kind) {
  const ArrayPlace& place = arena.group(group).place(kind);
  return {arena.at<std::byte>(place.offset), place.bytes};
}

/// Returns the checksum after the zeros that follow an array up to the next page.
std::uint32_t crc_with_zeros(std::uint32_t crc, std::uint64_t bytes) {
  static constexpr std::array<std::byte, kStatePage> zeros = {};
  return crc32(crc, std::span(zeros).first(to_page(bytes) - bytes));
}

std::size_t record_bytes(std::uint32_t version) {
  return version == kStateOneSet ? offsetof(StateGroup, arrays) + kOneSetArrays * sizeof(StateArray)
                                 : sizeof(StateGroup);
}

std::uint64_t arrays_offset_of(std::size_t groups, std::uint32_t version) {
  return to_page(sizeof(StateHeader) + groups * record_bytes(version));
}

std::uint32_t moment_sets_of(const StateGroup& group) { return std::max(group.moment_sets, 1U); }

/// Returns the number of arrays that the file holds of this group.
std::size_t array_count(const StateGroup& group) {
  return moment_sets_of(group) == 1 ? kOneSetArrays : kStateArrays.size();
}

/// The header and the table of groups of a file.
struct StateTable {
  StateHeader header = {};
  std::vector<StateGroup> groups;
};

/// Returns the table of a file for these groups. The checksums are still 0.
StateTable table_of(const Arena& arena, const Submissions& submissions) {
  StateTable table;
  table.groups.resize(submissions.group_count());
  std::uint32_t version = kStateOneSet;
  for (std::size_t i = 0; i < table.groups.size(); ++i) {
    if (submissions.settings(i).moment_sets == 2) version = kStateTwoSets;
  }
  std::uint64_t at = arrays_offset_of(table.groups.size(), version);
  table.header = {.magic = kStateMagic,
                  .version = version,
                  .group_count = static_cast<std::uint32_t>(table.groups.size()),
                  .file_bytes = 0,
                  .arrays_offset = at,
                  .groups_crc = 0,
                  .header_crc = 0};
  for (std::size_t i = 0; i < table.groups.size(); ++i) {
    const zf_group& settings = submissions.settings(i);
    table.groups[i] = {
        .elements = settings.elements,
        .progress = last_progress(arena.group(i)),
        .mode = static_cast<std::uint32_t>(settings.mode),
        .bias_correction = settings.bias_correction != 0 ? 1U : 0U,
        .lr = settings.lr,
        .beta1 = settings.beta1,
        .beta2 = settings.beta2,
        .eps = settings.eps,
        .weight_decay = settings.weight_decay,
        .moment_sets = version == kStateOneSet ? 0U : static_cast<std::uint32_t>(settings.moment_sets),
        .arrays = {}};
    for (StateArray& array : std::span(table.groups[i].arrays).first(array_count(table.groups[i]))) {
      array.offset = at;
      at += to_page(settings.elements * sizeof(float));
    }
  }
  table.header.file_bytes = at;
  return table;
}

/// Returns the bytes before the arrays, with their checksums filled in.
std::vector<std::byte> packed(const StateTable& table) {
  StateHeader header = table.header;
  std::vector<std::byte> bytes(header.arrays_offset);
  const std::size_t each = record_bytes(header.version);
  for (std::size_t i = 0; i < table.groups.size(); ++i) {
    std::memcpy(bytes.data() + sizeof header + i * each, &table.groups[i], each);
  }
  header.groups_crc = crc32(0, std::span(bytes).subspan(sizeof header));
  header.header_crc = crc32(0, bytes_of_object(header).first(offsetof(StateHeader, header_crc)));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

/// Calls use(offset, bytes) for the pieces of a range. A piece is small enough to stay in the cache when it
/// is used twice.
template <class Use>
void in_pieces(std::uint64_t bytes, Use use) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  for (std::uint64_t at = 0; at < bytes; at += piece) use(at, std::min(piece, bytes - at));
}

StateTable read_table(const std::filesystem::path& path, int fd) {
  StateTable table;
  StateHeader& header = table.header;
  const std::uint64_t size = size_of_file(fd);
  const std::size_t got = read_at(path, fd, 0, bytes_of_object(header));
  if (got >= sizeof header.magic && header.magic != kStateMagic)
    refuse(path, "is not a state file of zf_runtime", "was it written by zf_export_state?");
  if (got < sizeof header)
    refuse(path, format_text("is truncated: it has {}, fewer than its header", print_count(size, "byte")));
  if (header.version != kStateOneSet && header.version != kStateTwoSets) {
    refuse(path,
           format_text("has state version {}; this library ({}) reads versions {} and {}", header.version,
                       version(), kStateOneSet, kStateTwoSets),
           "read it with the release that wrote it");
  }
  if (header.header_crc != crc32(0, bytes_of_object(header).first(offsetof(StateHeader, header_crc))))
    refuse(path, "its header is damaged (checksum)");
  if (header.arrays_offset != arrays_offset_of(header.group_count, header.version)) {
    refuse(path,
           format_text("its header puts the arrays at {}; after a table of {} they begin at {}",
                       header.arrays_offset, print_count(header.group_count, "group"),
                       arrays_offset_of(header.group_count, header.version)),
           "was it written by zf_export_state?");
  }
  if (size != header.file_bytes) {
    refuse(path, format_text("{}: it has {} instead of {}",
                             size < header.file_bytes ? "is truncated" : "is too long",
                             print_count(size, "byte"), header.file_bytes));
  }
  if (size < header.arrays_offset) {
    refuse(path, format_text("is truncated: it has {}, fewer than the table of {}", print_count(size, "byte"),
                             print_count(header.group_count, "group")));
  }
  std::vector<std::byte> rest(header.arrays_offset - sizeof header);
  read_at(path, fd, sizeof header, rest);
  if (header.groups_crc != crc32(0, rest)) refuse(path, "its table of groups is damaged (checksum)");
  table.groups.resize(header.group_count);
  const std::size_t each = record_bytes(header.version);
  for (std::size_t i = 0; i < table.groups.size(); ++i) {
    std::memcpy(&table.groups[i], rest.data() + i * each, each);
  }
  return table;
}

/// Checks that the file was written from the same groups as ours.
void check_same_groups(const std::filesystem::path& path, const StateTable& file, const StateTable& ours) {
  constexpr const char* next = "open the groups that the file was written from";
  if (file.groups.size() != ours.groups.size())
    refuse(path,
           format_text("has {}, and this optimizer has {}", print_count(file.groups.size(), "group"),
                       ours.groups.size()),
           next);
  for (std::size_t i = 0; i < ours.groups.size(); ++i) {
    if (file.groups[i].elements != ours.groups[i].elements) {
      refuse(path,
             format_text("group {} has {}, and {} in this optimizer", i,
                         print_count(file.groups[i].elements, "element"), ours.groups[i].elements),
             next);
    }
    if (file.groups[i].mode != ours.groups[i].mode) {
      const auto name = [](std::uint32_t mode) { return mode == ZF_ADAMW ? "AdamW" : "Adam"; };
      refuse(path,
             format_text("group {} uses {}, and {} in this optimizer", i, name(file.groups[i].mode),
                         name(ours.groups[i].mode)),
             next);
    }
    const std::uint32_t sets = moment_sets_of(ours.groups[i]);
    if (moment_sets_of(file.groups[i]) != sets) {
      refuse(path,
             format_text("group {} has {} of moments, and {} in this optimizer", i,
                         print_count(moment_sets_of(file.groups[i]), "set"), sets),
             next);
    }
  }
}

/// Reads a range of the file into the memory that memory_for(offset, bytes) gives for each piece. Returns its
/// checksum. If the file ends within the range, the checksum is of the bytes before its end.
template <class MemoryFor>
std::uint32_t read_in_pieces(const std::filesystem::path& path, int fd, std::uint64_t offset,
                             std::uint64_t range_bytes, MemoryFor memory_for) {
  std::uint32_t crc = 0;
  in_pieces(range_bytes, [&](std::uint64_t at, std::uint64_t bytes) {
    const std::span<std::byte> piece = memory_for(at, bytes);
    crc = crc32(crc, piece.first(read_at(path, fd, offset + at, piece)));
  });
  return crc;
}

[[noreturn]] void refuse_array(const std::filesystem::path& path, std::size_t group, std::size_t array) {
  refuse(path, format_text("the {} of group {} are damaged (checksum)", kArrayNames[array], group));
}

void check_arrays(const std::filesystem::path& path, int fd, const StateTable& file) {
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (std::size_t i = 0; i < file.groups.size(); ++i) {
    for (std::size_t k = 0; k < array_count(file.groups[i]); ++k) {
      const StateArray& array = file.groups[i].arrays[k];
      const std::uint64_t array_bytes = to_page(file.groups[i].elements * sizeof(float));
      if (array.offset > file.header.file_bytes || array_bytes > file.header.file_bytes - array.offset)
        refuse(path, format_text("the {} of group {} lie beyond its end", kArrayNames[k], i));
      const auto buffer_for = [&](std::uint64_t, std::uint64_t bytes) {
        return std::span(buffer).first(bytes);
      };
      if (read_in_pieces(path, fd, array.offset, array_bytes, buffer_for) != array.crc)
        refuse_array(path, i, k);
    }
  }
}

/// Reads the arrays of a verified file into the buffers. Compares the checksums once more, because the file
/// may have changed since.
void load_arrays(const std::filesystem::path& path, int fd, const StateTable& file, const Arena& arena) {
  for (std::size_t i = 0; i < file.groups.size(); ++i) {
    for (std::size_t k = 0; k < array_count(file.groups[i]); ++k) {
      const StateArray& array = file.groups[i].arrays[k];
      const std::span<std::byte> memory = memory_of(arena, i, kStateArrays[k]);
      const auto memory_for = [&](std::uint64_t at, std::uint64_t bytes) {
        return memory.subspan(at, bytes);
      };
      const std::uint32_t crc = read_in_pieces(path, fd, array.offset, memory.size(), memory_for);
      if (crc_with_zeros(crc, memory.size()) != array.crc) refuse_array(path, i, k);
    }
  }
}

}  // namespace

void write_state(const std::filesystem::path& path, const Arena& arena, const Submissions& groups) {
  StateTable table = table_of(arena, groups);
  AtomicFile file(path);
  for (std::size_t i = 0; i < table.groups.size(); ++i) {
    for (std::size_t k = 0; k < array_count(table.groups[i]); ++k) {
      StateArray& array = table.groups[i].arrays[k];
      const std::span<const std::byte> memory = memory_of(arena, i, kStateArrays[k]);
      in_pieces(memory.size(), [&](std::uint64_t at, std::uint64_t bytes) {
        array.crc = crc32(array.crc, memory.subspan(at, bytes));
        file.write_at(array.offset + at, memory.subspan(at, bytes));
      });
      array.crc = crc_with_zeros(array.crc, memory.size());
    }
  }
  file.set_size(table.header.file_bytes);
  file.write_at(0, packed(table));
  file.commit();
}

std::vector<AdamProgress> read_state(const std::filesystem::path& path, const Arena& arena,
                                     const Submissions& groups) {
  constexpr const char* kTorn = "parameters and moments may be partly overwritten: import a whole file";
  const FileDescriptor file = open_regular_file(path);
  const StateTable table = read_table(path, file.get());
  check_same_groups(path, table, table_of(arena, groups));
  check_arrays(path, file.get(), table);
  try {
    load_arrays(path, file.get(), table, arena);
  } catch (const AbiError& error) {
    throw AbiError(error.status(), error.what(), kTorn);
  } catch (const Error& error) {
    throw AbiError(ZF_ERROR_SYSTEM, error.what(), kTorn);
  }
  std::vector<AdamProgress> progress;
  for (const StateGroup& group : table.groups) progress.push_back(group.progress);
  return progress;
}

}  // namespace zf
