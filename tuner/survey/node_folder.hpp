// The folder of NODE.json: each node writes its own, and any host reads them all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "survey/node_record.hpp"

namespace zf {

/// The largest NODE.json that is read. One of 8 NUMA nodes and 384 CPUs has 2 KiB.
inline constexpr std::size_t kMostRecordBytes = std::size_t{64} << 10;

/// A file that is not believed, and why.
struct LeftOutFile {
  std::string file;
  std::string why;
  bool operator==(const LeftOutFile&) const = default;
};

struct NodeFolder {
  std::vector<NodeRecord> records;    ///< by name
  std::vector<LeftOutFile> left_out;  ///< by file
};

/// Reads each *.json with a name that does not begin with a dot. Leaves out, with the reason: what is no
/// regular file (a link is not followed, a FIFO not waited for), a file of another owner than this user, root
/// or the folder's owner, one of more than kMostRecordBytes, and one that parse_record() refuses or that
/// names another node than its file. Throws Error(usage) if the folder cannot be read or has more than
/// kMostNodes files.
NodeFolder read_node_folder(const std::filesystem::path& folder);

/// Writes the node's file atomically. Makes the folder if only it is missing. Throws Error(runtime_error).
void write_record(const NodeRecord& record, const std::filesystem::path& folder);

/// Removes the node's file. Returns whether there was one. Throws Error(runtime_error).
bool forget_node(const std::string& name, const std::filesystem::path& folder);

}  // namespace zf
