#include "survey/node_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "base/format.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"
#include "os/folder.hpp"
#include "survey/node_names.hpp"

namespace zf {
namespace {

constexpr std::string_view kSuffix = ".json";

std::filesystem::path file_of(const std::string& name, const std::filesystem::path& folder) {
  return folder / (name + std::string(kSuffix));
}

/// Opens a file of the folder without following links or waiting for a FIFO. Throws Error(usage) if it is not
/// to be believed.
FileDescriptor open_record(int folder, const std::string& file, unsigned folder_owner) {
  FileDescriptor opened(::openat(folder, file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!opened.valid()) throw Error(Exit::usage, errno == ELOOP ? "is a link" : errno_text(errno));
  struct stat status = {};
  checked(::fstat(opened.get(), &status), file);
  if (!S_ISREG(status.st_mode)) throw Error(Exit::usage, "is no regular file");
  if (status.st_uid != ::geteuid() && status.st_uid != 0 && status.st_uid != folder_owner) {
    throw Error(Exit::usage,
                format_text("belongs to user {}, and neither to you, nor to root, nor to the folder's owner",
                            status.st_uid));
  }
  if (static_cast<std::size_t>(status.st_size) > kMostRecordBytes)
    throw Error(Exit::usage, format_text("has more than {} bytes", kMostRecordBytes));
  return opened;
}

NodeRecord read_record(int folder, const std::string& file, unsigned folder_owner) {
  const std::string name = file.substr(0, file.size() - kSuffix.size());
  if (!is_node_name(name)) throw Error(Exit::usage, "is not called as a node can be");
  const FileDescriptor opened = open_record(folder, file, folder_owner);
  std::string text(kMostRecordBytes, '\0');
  text.resize(read_at(file, opened.get(), 0, std::as_writable_bytes(std::span(text))));
  NodeRecord record = parse_record(text, file);
  if (record.name != name) throw Error(Exit::usage, format_text("is of the node \"{}\"", record.name));
  return record;
}

}  // namespace

NodeFolder read_node_folder(const std::filesystem::path& folder) {
  const FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status = {};
  if (!opened.valid() || ::fstat(opened.get(), &status) != 0) {
    throw Error(Exit::usage, format_text("{}: {}", folder.string(), errno_text(errno)),
                "name the folder that zf-tune survey add has filled");
  }
  std::vector<std::string> files;
  const int error = for_each_entry(folder.c_str(), [&](std::string_view name) {
    if (!name.starts_with('.') && name.ends_with(kSuffix)) files.emplace_back(name);
  });
  if (error != 0) throw Error(Exit::usage, format_text("{}: {}", folder.string(), errno_text(error)));
  if (files.size() > kMostNodes)
    throw Error(Exit::usage, format_text("{}: has more than {} nodes", folder.string(), kMostNodes));
  std::sort(files.begin(), files.end());
  NodeFolder read;
  for (const std::string& file : files) {
    try {
      read.records.push_back(read_record(opened.get(), file, status.st_uid));
    } catch (const Error& why) {
      std::string_view cause = why.cause();
      if (cause.starts_with(file + ": ")) cause.remove_prefix(file.size() + 2);
      read.left_out.push_back({file, std::string(cause)});
    }
  }
  return read;
}

void write_record(const NodeRecord& record, const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    throw_errno(errno, format_text("cannot make the folder {}", folder.string()));
  write_text_file_atomically(file_of(record.name, folder), print_record(record));
}

bool forget_node(const std::string& name, const std::filesystem::path& folder) {
  const std::filesystem::path file = file_of(name, folder);
  if (::unlink(file.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  throw_errno(errno, format_text("cannot remove {}", file.string()));
}

}  // namespace zf
