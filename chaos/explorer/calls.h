/* chaos/explorer/calls.h - what an explored agent asks of its volume, and the locks on it.
 *
 * The real calls, but for: nothing is synced; a lock that is held blocks the actor that wants it;
 * what changes the volume is noted, so that nobody looks for changes in vain; when a schedule is
 * over everything fails, so that whoever is under way comes to an end. Files that an actor opens
 * are not told apart by agent: all agents of a schedule use one table.
 */
#ifndef MEMSYNC_CHAOS_CALLS_H
#define MEMSYNC_CHAOS_CALLS_H

#include "core/volume.h"

const struct volume_calls *calls_table(void);

/* No lock is held, nothing changed. `locks_work` false: every lock is granted. */
void calls_reset(bool locks_work);

/* flock() for everybody here: 0, or -1 and errno. A release is told to those who wait. */
int calls_lock(int fd, int operation);

/* Waits, as an actor, for the lock that calls_lock() has just found held. False: the schedule is
 * over. */
bool calls_wait_for_lock(void);

/* What the locks' owner held when it was killed is free. */
void calls_release_locks_of(unsigned process);

/* What of the volume was touched since the last time, in sets of these. What an actor asks of the
 * judge counts as a look at everything. */
enum calls_part {
    CALLS_MANIFEST = 1,
    CALLS_JOURNAL = 2,
    CALLS_FACTS = 4,
    CALLS_BACKUPS = 8,
    CALLS_DIRECTORIES = 16, /* themselves; their lists are of everything */
    CALLS_ALL = 31,
};
#define CALLS_PARTS 5

struct calls_touched {
    unsigned reads, writes;
    bool locks;
};
void calls_note_look(unsigned parts);
struct calls_touched calls_take_touched(void);

/* Peers tell of their changes themselves. */
void calls_note_change(const char *path);

/* True once after something was changed. */
bool calls_take_change(void);

#endif
