/* Replaces malloc and its kin, and lets one allocation fail, or all from one on. */
#ifndef ZF_TESTS_ABI_FAILING_MALLOC_H
#define ZF_TESTS_ABI_FAILING_MALLOC_H

/* In memory that the test shares with the process in which allocations fail. */
struct malloc_faults {
  int armed;    /* allocations count, and may fail */
  int first;    /* the number of the first that fails, from 1 on */
  int for_good; /* those after it fail too */
  int count;
  int reached; /* one has failed */
};

/* Takes the faults from here, or from none (NULL). A program that is started with LD_PRELOAD of this takes
 * those of the file that ZF_TEST_FAULTS names. */
void set_malloc_faults(struct malloc_faults* faults);

#endif
