#include "abi/worker_program.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <system_error>

#include "abi/status.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// Returns the absolute folder of this library; an empty path if it cannot be found.
std::filesystem::path find_folder_of_this_library() noexcept try {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&zf_version), &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::canonical(info.dli_fname).parent_path();
} catch (const std::exception&) {
  return {};
}

/// Found when the library is loaded: the loader may know it by a path relative to the working directory of
/// then (LD_LIBRARY_PATH=.), and programs change theirs.
const std::filesystem::path kFolderOfThisLibrary = find_folder_of_this_library();

/// The working directory of then, to which a relative ZF_OPTIMIZER belongs; an empty path if there is none.
const std::filesystem::path kFolderAtLoad = [] {
  std::error_code error;
  return std::filesystem::current_path(error);
}();

}  // namespace

std::filesystem::path find_worker_program(const Environment& environment) {
  if (const auto named = environment.get("ZF_OPTIMIZER"); named && !named->empty()) {
    const auto path = (kFolderAtLoad / *named).lexically_normal();
    if (is_program(path)) return path;
    throw AbiError(ZF_ERROR_WORKER, format_text("ZF_OPTIMIZER={} is not an executable file", path.string()),
                   "set it to the path of zf-optimizer, or unset it");
  }
  if (kFolderOfThisLibrary.empty())
    throw AbiError(ZF_ERROR_WORKER, "cannot find the path of libzf_runtime.so",
                   "set ZF_OPTIMIZER to the path of zf-optimizer");
  std::string tried;
  for (const char* const place : {"zf-optimizer", "../bin/zf-optimizer", "../../bin/zf-optimizer"}) {
    auto path = (kFolderOfThisLibrary / place).lexically_normal();
    if (is_program(path)) return path;
    tried += (tried.empty() ? "" : ", ") + path.string();
  }
  throw AbiError(ZF_ERROR_WORKER, format_text("cannot find zf-optimizer; tried {}", tried),
                 "install it there, or set ZF_OPTIMIZER to its path");
}

}  // namespace zf
