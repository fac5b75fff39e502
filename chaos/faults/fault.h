/* chaos/faults/fault.h - one fault of one run: which of the operations of a source fails, and how.
 *
 * Sources count their operations while a fault is armed and not paused, on whatever thread they
 * happen. The `at`th of those that the kind can strike fails, once or with all that follow. One
 * fault for the process.
 */
#ifndef MEMSYNC_CHAOS_FAULTS_FAULT_H
#define MEMSYNC_CHAOS_FAULTS_FAULT_H

#include "chaos/faults/places.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_source {
    FAULT_FILE,       /* calls that touch the volume */
    FAULT_SQLITE,     /* what SQLite asks of its file system */
    FAULT_STEP,       /* sqlite3_step() of the index's statements */
    FAULT_ALLOCATION, /* memory for our own code, SQLite and jansson */
    FAULT_SOURCE_COUNT,
};
const char *fault_source_name(enum fault_source source);

struct fault_kind {
    const char *name;
    enum fault_source source;
    int code;          /* errno, or SQLite's result */
    bool of_writes;    /* strikes only what writes */
    bool loses_answer; /* the call is done, and then said to have failed */
    bool halves;       /* a read or write does half of what it was asked for */
    bool is_harmless;  /* nobody may notice: repeated by who called */
    bool once_only;
};
extern const struct fault_kind fault_kinds[];
extern const unsigned fault_kind_count;
const struct fault_kind *fault_kind_find(const char *name); /* NULL: no such kind */

struct fault {
    const struct fault_kind *kind;
    bool persists;
    uint64_t at;           /* 0: only count */
    struct places *places; /* where a run that only counts notes what it meets; NULL: nowhere */
};

/* Before the first use of SQLite or jansson. */
void fault_set_up(void);

/* Nothing is counted before fault_resume(), and after fault_pause(). */
void fault_arm(const struct fault *fault);
void fault_disarm(void);
void fault_resume(void);
void fault_pause(void);

uint64_t fault_met(void);     /* operations that the kind could have struck since it was armed */
uint64_t fault_strikes(void); /* ... and those that it did */
/* What the first one hit; "" when none did. */
const char *fault_struck(void);

const struct fault_kind *fault_armed_kind(void); /* paused or not; NULL when none is armed */

/* ---- for the sources ---- */

/* The kind that is to strike this operation, or NULL. `what` is kept for fault_struck(). */
const struct fault_kind *fault_next(enum fault_source source, bool writes, const char *what);
/* The kind whose operations are counted now; NULL when none are. */
const struct fault_kind *fault_counted(void);

void fault_files_set_up(void);
void fault_sqlite_set_up(void);
void fault_allocations_set_up(void);

#endif
