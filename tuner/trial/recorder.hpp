// The Python files of the recorder, runtime/python/zf_runtime/record, as scripts/embed.cmake puts them into
// the program.
#pragma once

#include <string_view>

namespace zf {

extern const std::string_view kAttach;
extern const std::string_view kInit;
extern const std::string_view kJobs;
extern const std::string_view kProbes;
extern const std::string_view kRecorder;
extern const std::string_view kSitecustomize;
extern const std::string_view kTimeline;
extern const std::string_view kWorkload;

}  // namespace zf
