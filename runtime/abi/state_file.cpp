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
#include "engine/half.hpp"
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

template <class T>
std::span<std::byte> bytes_of_object(T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

/// Returns the checksum after the zeros that follow an array up to the next page.
std::uint32_t crc_with_zeros(std::uint32_t crc, std::uint64_t bytes) {
  static constexpr std::array<std::byte, kStatePage> zeros = {};
  return crc32(crc, std::span(zeros).first(to_image_page(bytes) - bytes));
}

std::uint64_t arrays_offset_of(std::size_t groups) {
  return to_image_page(sizeof(StateHeader) + groups * sizeof(StateGroup));
}

/// Returns the number of arrays that the file holds of this group.
std::size_t array_count(const StateGroup& group) {
  return group.moment_sets == 1 ? kOneSetArrays : kStateArrays.size();
}

/// Returns the type of the elements of an array in the file.
ElementType type_in_file(const StateGroup& group, std::size_t array) {
  const bool is_moment = kStateArrays[array] != ArrayKind::params;
  return is_moment && has_bf16_moments(group.format) ? ElementType::bf16 : ElementType::f32;
}

/// Returns the bytes of an array in the file, without the zeros that follow it.
std::uint64_t bytes_in_file(const StateGroup& group, std::size_t array) {
  return group.elements * bytes_of(type_in_file(group, array));
}

/// The header and the table of groups of a file.
struct StateTable {
  StateHeader header = {};
  std::vector<StateGroup> groups;
};

/// Returns the table of a file for these groups. The checksums are still 0.
StateTable table_of(const Arena& arena) {
  StateTable table;
  table.groups.resize(arena.control().group_count);
  std::uint64_t at = arrays_offset_of(table.groups.size());
  table.header = {.magic = kStateMagic,
                  .version = kStateVersion,
                  .group_count = static_cast<std::uint32_t>(table.groups.size()),
                  .file_bytes = 0,
                  .arrays_offset = at,
                  .groups_crc = 0,
                  .header_crc = 0};
  for (std::size_t i = 0; i < table.groups.size(); ++i) {
    GroupBlock& block = arena.group(i);
    table.groups[i] = {.elements = block.elements,
                       .step = last_step_number(block),
                       .moment_sets = block.moment_sets,
                       .format = block.format,
                       .first_element = block.first_element,
                       .arrays = {}};
    StateGroup& group = table.groups[i];
    for (std::size_t k = 0; k < array_count(group); ++k) {
      group.arrays[k].offset = at;
      at += to_image_page(bytes_in_file(group, k));
    }
  }
  table.header.file_bytes = at;
  return table;
}

/// Returns the bytes before the arrays, with their checksums filled in.
std::vector<std::byte> packed(const StateTable& table) {
  StateHeader header = table.header;
  std::vector<std::byte> bytes(header.arrays_offset);
  std::memcpy(bytes.data() + sizeof header, table.groups.data(), table.groups.size() * sizeof(StateGroup));
  header.groups_crc = crc32(0, std::span(bytes).subspan(sizeof header));
  header.header_crc = crc32(0, bytes_of_object(header).first(offsetof(StateHeader, header_crc)));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

constexpr const char* kOpenSameGroups = "open the groups that the file was written from";

constexpr std::uint64_t kCopiedBytes = std::uint64_t{1} << 20;

/// Calls use(offset, bytes) for the pieces of a range. A piece is small enough to stay in the cache when it
/// is used twice.
template <class Use>
void in_pieces(std::uint64_t bytes, Use use) {
  for (std::uint64_t at = 0; at < bytes; at += kCopiedBytes) use(at, std::min(kCopiedBytes, bytes - at));
}

void check_group_count(const std::filesystem::path& path, std::size_t in_file, std::size_t ours) {
  if (in_file == ours) return;
  refuse(path, format_text("has {}, and this optimizer has {}", print_count(in_file, "group"), ours),
         kOpenSameGroups);
}

/// Reads the header and the table. Takes no more memory than the table of `groups` groups.
StateTable read_table(const std::filesystem::path& path, int fd, std::size_t groups) {
  StateTable table;
  StateHeader& header = table.header;
  const std::uint64_t size = size_of_file(fd);
  const std::size_t got = read_at(path, fd, 0, bytes_of_object(header));
  if (got >= sizeof header.magic && header.magic != kStateMagic)
    refuse(path, "is not a state file of zf_runtime", "was it written by zf_export_state?");
  if (got < sizeof header)
    refuse(path, format_text("is truncated: it has {}, fewer than its header", print_count(size, "byte")));
  if (header.version != kStateVersion) {
    refuse(path,
           format_text("has state version {}; this library ({}) reads version {}", header.version, version(),
                       kStateVersion),
           "read it with the release that wrote it");
  }
  if (header.header_crc != crc32(0, bytes_of_object(header).first(offsetof(StateHeader, header_crc))))
    refuse(path, "its header is damaged (checksum)");
  if (header.arrays_offset != arrays_offset_of(header.group_count)) {
    refuse(path,
           format_text("its header puts the arrays at {}; after a table of {} they begin at {}",
                       header.arrays_offset, print_count(header.group_count, "group"),
                       arrays_offset_of(header.group_count)),
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
  check_group_count(path, header.group_count, groups);
  std::vector<std::byte> rest(header.arrays_offset - sizeof header);
  read_at(path, fd, sizeof header, rest);
  if (header.groups_crc != crc32(0, rest)) refuse(path, "its table of groups is damaged (checksum)");
  table.groups.resize(header.group_count);
  std::memcpy(table.groups.data(), rest.data(), table.groups.size() * sizeof(StateGroup));
  for (std::size_t i = 0; i < table.groups.size(); ++i) {
    const StateGroup& group = table.groups[i];
    if (group.step > kMaxStep) {
      refuse(path, format_text("group {} is at step {}, more than {}", i, group.step, kMaxStep),
             "was it written by zf_export_state?");
    }
    if (group.format > StateFormat::bf16_split) {
      refuse(path,
             format_text("group {} has state format {}; this library ({}) knows 0 to {}", i,
                         static_cast<unsigned>(group.format), version(),
                         static_cast<unsigned>(StateFormat::bf16_split)),
             "read it with the release that wrote it");
    }
  }
  return table;
}

/// Checks that the file was written from the same groups as ours.
void check_same_groups(const std::filesystem::path& path, const StateTable& file, const StateTable& ours) {
  for (std::size_t i = 0; i < ours.groups.size(); ++i) {
    if (file.groups[i].elements != ours.groups[i].elements) {
      refuse(path,
             format_text("group {} has {}, and {} in this optimizer", i,
                         print_count(file.groups[i].elements, "element"), ours.groups[i].elements),
             kOpenSameGroups);
    }
    if (file.groups[i].moment_sets != ours.groups[i].moment_sets) {
      refuse(path,
             format_text("group {} has {} of moments, and {} in this optimizer", i,
                         print_count(file.groups[i].moment_sets, "set"), ours.groups[i].moment_sets),
             kOpenSameGroups);
    }
  }
}

/// Reads a range of the file into the memory that memory_for(offset, bytes) gives for each piece. Then calls
/// use(offset, piece). Returns the checksum. If the file ends within the range, the checksum is of the bytes
/// before its end.
template <class MemoryFor, class Use>
std::uint32_t read_in_pieces(const std::filesystem::path& path, int fd, std::uint64_t offset,
                             std::uint64_t range_bytes, MemoryFor memory_for, Use use) {
  std::uint32_t crc = 0;
  in_pieces(range_bytes, [&](std::uint64_t at, std::uint64_t bytes) {
    const std::span<std::byte> piece = memory_for(at, bytes);
    crc = crc32(crc, piece.first(read_at(path, fd, offset + at, piece)));
    use(at, piece);
  });
  return crc;
}

constexpr auto kUseNothing = [](std::uint64_t, std::span<std::byte>) {};

[[noreturn]] void refuse_array(const std::filesystem::path& path, std::size_t group, std::size_t array) {
  refuse(path, format_text("the {} of group {} are damaged (checksum)", kArrayNames[array], group));
}

void check_arrays(const std::filesystem::path& path, int fd, const StateTable& file) {
  std::vector<std::byte> buffer(kCopiedBytes);
  for (std::size_t i = 0; i < file.groups.size(); ++i) {
    for (std::size_t k = 0; k < array_count(file.groups[i]); ++k) {
      const StateArray& array = file.groups[i].arrays[k];
      const std::uint64_t array_bytes = to_image_page(bytes_in_file(file.groups[i], k));
      if (array.offset > file.header.file_bytes || array_bytes > file.header.file_bytes - array.offset)
        refuse(path, format_text("the {} of group {} lie beyond its end", kArrayNames[k], i));
      const auto buffer_for = [&](std::uint64_t, std::uint64_t bytes) {
        return std::span(buffer).first(bytes);
      };
      if (read_in_pieces(path, fd, array.offset, array_bytes, buffer_for, kUseNothing) != array.crc)
        refuse_array(path, i, k);
    }
  }
}

/// Reads an array into the memory that has the same type. Returns its checksum.
std::uint32_t load_array(const std::filesystem::path& path, int fd, const StateArray& array,
                         std::span<std::byte> memory) {
  const auto memory_for = [&](std::uint64_t at, std::uint64_t bytes) { return memory.subspan(at, bytes); };
  return read_in_pieces(path, fd, array.offset, memory.size(), memory_for, kUseNothing);
}

/// Reads an array of a file of another type than that of our group. Returns its checksum.
std::uint32_t load_converted(const std::filesystem::path& path, int fd, const StateGroup& file,
                             std::size_t array, const Arena& arena, const GroupBlock& ours) {
  const ElementType type = type_in_file(file, array);
  std::vector<std::byte> buffer(std::min(kCopiedBytes, bytes_in_file(file, array)));
  std::vector<float> values(buffer.size() / bytes_of(type));
  const auto buffer_for = [&](std::uint64_t, std::uint64_t bytes) { return std::span(buffer).first(bytes); };
  const auto convert = [&](std::uint64_t at, std::span<const std::byte> piece) {
    const std::span<float> converted = std::span(values).first(piece.size() / bytes_of(type));
    if (type == ElementType::f32) std::memcpy(converted.data(), piece.data(), piece.size());
    for (std::size_t i = 0; type == ElementType::bf16 && i < converted.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, piece.data() + i * sizeof half, sizeof half);
      converted[i] = f32_of_bf16(half);
    }
    write_values(arena, ours, kStateArrays[array], at / bytes_of(type), converted);
  };
  return read_in_pieces(path, fd, file.arrays[array].offset, bytes_in_file(file, array), buffer_for, convert);
}

/// Reads the arrays of a verified file into the buffers. Compares the checksums once more, because the file
/// may have changed since.
void load_arrays(const std::filesystem::path& path, int fd, const StateTable& file, const Arena& arena) {
  for (std::size_t i = 0; i < file.groups.size(); ++i) {
    for (std::size_t k = 0; k < array_count(file.groups[i]); ++k) {
      const StateArray& array = file.groups[i].arrays[k];
      const std::uint64_t bytes = bytes_in_file(file.groups[i], k);
      const std::uint32_t crc =
          type_in_file(file.groups[i], k) == stored_type(arena.group(i), kStateArrays[k])
              ? load_array(path, fd, array, stored_bytes(arena, arena.group(i), kStateArrays[k]))
              : load_converted(path, fd, file.groups[i], k, arena, arena.group(i));
      if (crc_with_zeros(crc, bytes) != array.crc) refuse_array(path, i, k);
    }
  }
}

/// Gives the bytes of an array as they go into the file.
class PiecesOf {
 public:
  PiecesOf(const Arena& arena, const GroupBlock& group, ArrayKind kind)
      : arena_(arena), group_(group), kind_(kind) {}
  /// The bytes are valid until the next call.
  std::span<const std::byte> at(std::uint64_t begin, std::uint64_t bytes) {
    if (stored_type(group_, kind_) != ElementType::none)
      return stored_bytes(arena_, group_, kind_).subspan(begin, bytes);
    values_.resize(bytes / sizeof(float));  // split masters
    read_values(arena_, group_, kind_, begin / sizeof(float), values_);
    return std::as_bytes(std::span(values_));
  }

 private:
  const Arena& arena_;
  const GroupBlock& group_;
  const ArrayKind kind_;
  std::vector<float> values_;
};

/// Writes all arrays, and sets their checksums. write(i, k, write_array) calls write_array(piece) for the
/// pieces of array k of group i.
template <class Write>
void write_arrays(AtomicFile& file, StateTable& table, Write write) {
  for (std::size_t i = 0; i < table.groups.size(); ++i) {
    for (std::size_t k = 0; k < array_count(table.groups[i]); ++k) {
      StateArray& array = table.groups[i].arrays[k];
      std::uint64_t at = array.offset;
      write(i, k, [&](std::span<const std::byte> piece) {
        array.crc = crc32(array.crc, piece);
        file.write_at(at, piece);
        at += piece.size();
      });
      array.crc = crc_with_zeros(array.crc, bytes_in_file(table.groups[i], k));
    }
  }
}

void commit(AtomicFile& file, const StateTable& table) {
  file.set_size(table.header.file_bytes);
  file.write_at(0, packed(table));
  file.commit();
}

}  // namespace

void write_state_file(AtomicFile& file, const Arena& arena) {
  StateTable table = table_of(arena);
  write_arrays(file, table, [&](std::size_t i, std::size_t k, auto write) {
    PiecesOf pieces(arena, arena.group(i), kStateArrays[k]);
    in_pieces(bytes_in_file(table.groups[i], k),
              [&](std::uint64_t at, std::uint64_t bytes) { write(pieces.at(at, bytes)); });
  });
  commit(file, table);
}

void write_saved_file(AtomicFile& file, const Arena& arena,
                      const std::function<void(std::size_t, std::uint64_t)>& await_saved,
                      const std::function<void()>& await_steps) {
  StateTable table = table_of(arena);
  write_arrays(file, table, [&](std::size_t i, std::size_t k, auto write) {
    std::uint64_t at = table.groups[i].arrays[k].offset - table.header.arrays_offset;
    const std::uint64_t array_end = at + bytes_in_file(table.groups[i], k);
    for (std::uint64_t end = 0; at < array_end; at = end) {
      end = std::min((at / kImageUnit + 1) * kImageUnit, array_end);
      await_saved(i, end);
      const ArrayPlace place = arena.saved(at, end - at);
      write(std::span<const std::byte>(arena.at<std::byte>(place.offset), place.bytes));
      arena.control().save_released.store(end, std::memory_order_release);
    }
  });
  await_steps();
  for (std::size_t i = 0; i < table.groups.size(); ++i) table.groups[i].step = arena.group(i).saved_step;
  commit(file, table);
}

std::vector<std::uint64_t> read_state_file(const std::filesystem::path& path, const Arena& arena) {
  constexpr const char* kTorn = "parameters and moments may be partly overwritten: import a whole file";
  const FileDescriptor file = open_regular_file(path);
  const StateTable table = read_table(path, file.get(), arena.control().group_count);
  check_same_groups(path, table, table_of(arena));
  check_arrays(path, file.get(), table);
  arena.control().is_overwritten.store(1, std::memory_order_seq_cst);
  try {
    load_arrays(path, file.get(), table, arena);
  } catch (const AbiError& error) {
    throw AbiError(error.status(), error.what(), kTorn);
  } catch (const Error& error) {
    throw AbiError(ZF_ERROR_SYSTEM, error.what(), kTorn);
  }
  std::vector<std::uint64_t> steps;
  for (const StateGroup& group : table.groups) steps.push_back(group.step);
  return steps;
}

}  // namespace zf
