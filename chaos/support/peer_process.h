/* chaos/support/peer_process.h - the peer of tests/support/peer.py as a process of its own.
 *
 * A program in another language that knows the volume format and nothing of us. It is started once
 * and told line by line what to do; the answer means that it is done. One thread at a time uses it.
 * Functions work or abort the program: a peer that cannot do as it is told is a mistake in a test.
 */
#ifndef MEMSYNC_CHAOS_PEER_PROCESS_H
#define MEMSYNC_CHAOS_PEER_PROCESS_H

#include "core/compiler.h"

struct peer_process;

/* Must be called from the top of the tree, where the peer's program lies. */
struct peer_process *peer_process_start(void);
void peer_process_stop(struct peer_process **peer);

/* From here on it works below `root`, and remembers nothing of another volume. */
void peer_process_move(struct peer_process *peer, const char *root);

/* Has a request done, which is a JSON object as peer.py describes it (its reference is taken), and
 * returns the answer, to be released. */
json_t *peer_process_do(struct peer_process *peer, json_t *request);

/* The facts of a scope as they lie on the volume: id to text; to be released. */
json_t *peer_process_facts(struct peer_process *peer, const char *user, const char *agent);

#endif
