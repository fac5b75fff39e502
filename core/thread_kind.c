#include "core/thread_kind.h"

#include "core/clock.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROMPT_SLICE_NS (100 * NS_PER_US) /* the least that the kernel takes */
#define BACKGROUND_SLICE_NS (3 * NS_PER_MS)
#define BACKGROUND_NICE 5 /* above what the process has */
#define NICE_MAX 19

/* sched_setattr(2); the C library has neither the call nor the structure. */
struct attributes {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* the slice, since Linux 6.12; ignored before */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

void thread_kind_set(enum thread_kind kind)
{
    struct attributes attributes = {.size = sizeof attributes};

    /* What the operator has chosen stays: another policy altogether, and the level to start from.
     */
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) < 0 ||
        (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH))
        return;
    attributes.flags = 0;
    attributes.runtime_ns = kind == THREAD_PROMPT ? PROMPT_SLICE_NS : BACKGROUND_SLICE_NS;
    if (kind == THREAD_BACKGROUND) {
        attributes.policy = SCHED_BATCH;
        attributes.nice = attributes.nice > NICE_MAX - BACKGROUND_NICE
                              ? NICE_MAX
                              : attributes.nice + BACKGROUND_NICE;
    }
    /* A container may forbid it: then all threads are alike, which costs speed and nothing else. */
    (void) syscall(SYS_sched_setattr, 0, &attributes, 0);
}
