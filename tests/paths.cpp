#include "paths.hpp"

const char* const kSourceDir = ZF_SOURCE_DIR;
const char* const kBinDir = ZF_BIN_DIR;
const char* const kLibDir = ZF_LIB_DIR;
