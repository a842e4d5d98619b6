// Descriptors 0, 1 and 2 belong to nobody else.
#pragma once

namespace zf {

/// Where the caller closed one of them, the next file that is opened would get its number, and what is meant
/// for the stream: puts something in each free place that refuses to be read (0) or written (1, 2), as if it
/// were still closed. A program that is exec'd does not inherit it. Where there is no /dev/null, all stays as
/// it is. First thing in main().
void guard_standard_streams();

}  // namespace zf
