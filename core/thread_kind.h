/* core/thread_kind.h - what a thread is for, told to the scheduler.
 *
 * Without it a request that arrives while fact files are parsed waits for the parser's slice of the
 * CPU, 3 ms and more. Nothing needs a privilege, and where the kernel does not know a thing it is
 * left out.
 */
#ifndef MEMSYNC_CORE_THREAD_KIND_H
#define MEMSYNC_CORE_THREAD_KIND_H

enum thread_kind {
    THREAD_PROMPT,     /* somebody waits: short slices, which come sooner */
    THREAD_BACKGROUND, /* nobody does: long slices, which may be interrupted, and a lower weight */
};

/* Sets it for the calling thread, once. Threads that it starts later inherit it. A scheduling
 * policy for which none of this means anything (real time, idle) is left as it is. */
void thread_kind_set(enum thread_kind kind);

#endif
