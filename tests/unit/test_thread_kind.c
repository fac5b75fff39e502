/* core/thread_kind.h: what the scheduler is told, beside what the operator has chosen. */
#include "core/thread_kind.h"

#include "core/compiler.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(thread_kind, .timeout = 30);

struct seen {
    enum thread_kind kind;
    int start_nice;
    int start_policy;
    int nice;
    int policy;
};

static void *be(void *context)
{
    struct seen *seen = context;
    const struct sched_param none = {0};
    id_t self = (id_t) syscall(SYS_gettid);

    cr_assert(setpriority(PRIO_PROCESS, self, seen->start_nice) == 0);
    cr_assert(sched_setscheduler((pid_t) self, seen->start_policy, &none) == 0);
    thread_kind_set(seen->kind);
    errno = 0;
    seen->nice = getpriority(PRIO_PROCESS, self);
    seen->policy = sched_getscheduler((pid_t) self);
    return NULL;
}

/* In a thread of its own: a level is not lowered again without a privilege. */
Test(thread_kind, starts_from_what_the_operator_has_chosen)
{
    const struct {
        struct seen seen;
        int nice, policy;
    } rows[] = {
        {{.kind = THREAD_PROMPT, .start_nice = 0, .start_policy = SCHED_OTHER}, 0, SCHED_OTHER},
        {{.kind = THREAD_PROMPT, .start_nice = 7, .start_policy = SCHED_OTHER}, 7, SCHED_OTHER},
        {{.kind = THREAD_PROMPT, .start_nice = 7, .start_policy = SCHED_BATCH}, 7, SCHED_BATCH},
        {{.kind = THREAD_BACKGROUND, .start_nice = 0, .start_policy = SCHED_OTHER}, 5, SCHED_BATCH},
        {{.kind = THREAD_BACKGROUND, .start_nice = 7, .start_policy = SCHED_OTHER},
         12,
         SCHED_BATCH},
        {{.kind = THREAD_BACKGROUND, .start_nice = 18, .start_policy = SCHED_OTHER},
         19,
         SCHED_BATCH},
        {{.kind = THREAD_BACKGROUND, .start_nice = 3, .start_policy = SCHED_IDLE}, 3, SCHED_IDLE},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct seen seen = rows[i].seen;
        pthread_t thread;

        cr_assert(pthread_create(&thread, NULL, be, &seen) == 0);
        cr_assert(pthread_join(thread, NULL) == 0);
        cr_expect(seen.nice == rows[i].nice && seen.policy == rows[i].policy,
                  "row %zu: nice %d, policy %d", i, seen.nice, seen.policy);
    }
}
