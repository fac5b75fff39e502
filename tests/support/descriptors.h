/* tests/support/descriptors.h - a process that may not open any more. It works or aborts. */
#ifndef MEMSYNC_TESTS_DESCRIPTORS_H
#define MEMSYNC_TESTS_DESCRIPTORS_H

/* From here on only so many descriptors can be opened, until they are given back. The lowest
 * numbers that are free have to follow one another. */
void descriptors_leave(unsigned count);
void descriptors_give_back(void);

#endif
