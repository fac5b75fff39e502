/* chaos/support/jobs.h - several scenarios at once, each in a process of its own. */
#ifndef MEMSYNC_CHAOS_JOBS_H
#define MEMSYNC_CHAOS_JOBS_H

#include <stdbool.h>
#include <stddef.h>

/* Does one job, in a child process, and prints about it. False: it failed. */
typedef bool (*job_work)(const void *context, size_t job);

struct job_counts {
    unsigned passed, failed;
};

/* Does jobs 0 to `count` - 1, `at_once` of them at a time, and prints what each has to say in the
 * order of their numbers. A child that dies has failed. `until_failure`: none is
 * begun after one has failed. */
struct job_counts jobs_run(size_t count, unsigned at_once, bool until_failure, job_work work,
                           const void *context);

#endif
