/* core/refresh_cause.h - what a refresh was asked for by, and what came of it; for counting. */
#ifndef MEMSYNC_CORE_REFRESH_CAUSE_H
#define MEMSYNC_CORE_REFRESH_CAUSE_H

enum refresh_cause {
    REFRESH_CAUSE_SEARCH,  /* a search or another read found the scope out of step */
    REFRESH_CAUSE_INOTIFY, /* the kernel told of a change */
    REFRESH_CAUSE_POLL,    /* a compare that nobody had asked for */
    REFRESH_CAUSE_PASS,    /* a look at everything: after the start, or when the index was lost */
    REFRESH_CAUSE_WRITE, /* a write of this node that needs the scope in step, or left it behind */
    REFRESH_CAUSE_REQUEST, /* somebody asked for just that */
    REFRESH_CAUSE_SETTLE,  /* a second look at what could not be trusted yet */
    REFRESH_CAUSE_RETRY,   /* the one before had failed */
};
#define REFRESH_CAUSE_COUNT (REFRESH_CAUSE_RETRY + 1)

/* "search", "inotify", "poll", "pass", "write", "request", "settle", "retry" */
const char *refresh_cause_name(enum refresh_cause cause);

enum refresh_outcome {
    REFRESH_INSTALLED, /* the index was brought in step */
    REFRESH_IN_STEP,   /* it was already */
    REFRESH_YIELDED,   /* to a write of this node, which brings the scope in step itself */
    REFRESH_FAILED,
};
#define REFRESH_OUTCOME_COUNT (REFRESH_FAILED + 1)

/* "installed", "in_step", "yielded", "failed" */
const char *refresh_outcome_name(enum refresh_outcome outcome);

#endif
