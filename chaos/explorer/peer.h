/* chaos/explorer/peer.h - another program on the volume: its commit and its recovery, a stop after
 * each thing that it does.
 *
 * It writes files by itself (tests/support), in the order of docs/volume-format.md. A peer may put
 * the manifest back before the facts when it recovers, and may die at every stop: it lets go of the
 * lock then and leaves the rest as it is.
 */
#ifndef MEMSYNC_CHAOS_PEER_H
#define MEMSYNC_CHAOS_PEER_H

#include "tests/support/temp_volume.h"

struct peer {
    struct temp_volume *volume;
    struct temp_commit commit; /* without changes: it only recovers */
    bool manifest_first;
    bool recovered; /* it found a dead writer's journal and took it back */
    bool committed; /* the journal said so */
    int64_t revision;
};

/* One lock, perhaps a recovery, perhaps a commit. On an actor's thread. */
void peer_run(struct peer *peer);

#endif
