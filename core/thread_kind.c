#include "core/thread_kind.h"

#include "core/clock.h"
#include "core/compiler.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROMPT_SLICE_NS (100 * NS_PER_US) /* the least that the kernel takes */
#define BACKGROUND_SLICE_NS (3 * NS_PER_MS)
#define BACKGROUND_NICE 5

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
    bool prompt = kind == THREAD_PROMPT;
    struct attributes attributes = {
        .size = sizeof attributes,
        .policy = prompt ? SCHED_OTHER : SCHED_BATCH,
        .nice = prompt ? 0 : BACKGROUND_NICE,
        .runtime_ns = prompt ? PROMPT_SLICE_NS : BACKGROUND_SLICE_NS,
    };

    /* A container may forbid it: then all threads are alike. */
    (void) syscall(SYS_sched_setattr, 0, &attributes, 0);
}
