/* tests/support/memory.h - how much memory this process uses. */
#ifndef MEMSYNC_TESTS_MEMORY_H
#define MEMSYNC_TESTS_MEMORY_H

/* The address sanitizer keeps what was freed for a while, so that the figure says nothing there. */
#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_IS_MEASURABLE 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMORY_IS_MEASURABLE 0
#endif
#endif
#ifndef MEMORY_IS_MEASURABLE
#define MEMORY_IS_MEASURABLE 1
#endif

/* What lies in memory now, in KiB. */
long memory_resident_kib(void);

#endif
