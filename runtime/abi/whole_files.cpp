// The C functions for files that another library writes.
#include <memory>

#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "os/atomic_file.hpp"
#include "zf_runtime.h"

extern "C" {

zf_status zf_file_begin(const char* path, zf_file** out, int32_t* descriptor) {
  if (out != nullptr) *out = nullptr;
  return zf::guarded([&] {
    zf::required(out, "out");
    zf::required(descriptor, "descriptor");
    auto file = std::make_unique<zf::AtomicFile>(zf::required(path, "path"));
    *descriptor = file->descriptor();
    *out = reinterpret_cast<zf_file*>(file.release());
  });
}

zf_status zf_file_end(zf_file* file, int32_t keep) {
  return zf::guarded([&] {
    const std::unique_ptr<zf::AtomicFile> owned(reinterpret_cast<zf::AtomicFile*>(file));
    if (owned && keep != 0) owned->commit();
  });
}

}  // extern "C"
