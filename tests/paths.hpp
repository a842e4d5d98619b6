// Where this build has its sources, its programs and its libraries.
#pragma once

extern const char* const kSourceDir;
extern const char* const kBinDir;
extern const char* const kLibDir;
