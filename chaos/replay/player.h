/* chaos/replay/player.h - plays a schedule over the real code and says what it found.
 *
 * A real store on a scratch volume; the peer is another process; refreshes and own writes are
 * threads that are let go on from pause point to pause point; searches are the calling thread's.
 * One schedule at a time in a process.
 */
#ifndef MEMSYNC_CHAOS_PLAYER_H
#define MEMSYNC_CHAOS_PLAYER_H

#include "chaos/replay/schedule.h"
#include "chaos/support/peer_process.h"
#include "core/text.h"

/* What a broken manifest is like. */
enum broken_kind {
    BROKEN_SYSTEM,   /* the system reports an error; the file is as it was */
    BROKEN_CUT,      /* half of it */
    BROKEN_EMPTY,    /* no JSON at all */
    BROKEN_ENCODING, /* not UTF-8 */
    BROKEN_REVISION, /* JSON, with a revision that is no number */
    BROKEN_KINDS,
};
const char *broken_kind_name(enum broken_kind kind);

struct play_options {
    struct peer_process *peer;
    enum broken_kind kind;
    /* Of a schedule from the list of interleavings: the one of the same name that has our states
     * and says where ours are better; NULL: the schedule is one of ours. */
    const struct schedule *ours;
    bool verbose;   /* tells the steps on standard output as they happen */
    bool by_chance; /* nobody has thought the schedule through: only a failure is worth a line, and
                       a refresh may find nothing to install */
    bool judges_truth; /* after the last step, what every scope finds is compared with the volume */
};

struct play_result {
    bool passed;
    struct text findings; /* a line each: what was expected, what was found */
    struct text outcome;  /* everything that was seen, for comparing two runs */
    unsigned held;        /* pause points at which somebody was held as a step wanted */
    unsigned passed_by;   /* pause points met in all */
};

void play(const struct schedule *schedule, const struct play_options *options,
          struct play_result *ret);
void play_result_destroy(struct play_result *result);
#define AUTO_PLAY_RESULT CLEANUP(play_result_destroy)

#endif
