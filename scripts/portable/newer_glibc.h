/* Declares what glibc's headers hide when they are read for glibc 2.28. The portable build reads this file
 * first. */
#ifndef ZF_NEWER_GLIBC_H
#define ZF_NEWER_GLIBC_H

#ifdef __cplusplus
extern "C" {
#endif
/* Closes these files. The flags must be 0. Returns 0. */
int close_range(unsigned int first, unsigned int last, int flags);
#ifdef __cplusplus
}
#endif
#endif
