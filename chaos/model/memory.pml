#include "volume.pml"
#include "index.pml"
#include "peer.pml"
#include "agent.pml"

init {
    atomic {
        ancestors[0] = 1;
#if WRITES > 0
        run Writer();
#endif
#ifdef TWO_WRITERS
        run Writer();
#endif
        run Refresher();
#if PEER_COMMITS > 0
        run Peer();
#endif
#if SEARCHES > 0
        run Search();
#endif
#if RESTARTS > 0
        run Restart()
#endif
    }
}

#ifdef HEALS
/* After the last change and the last fault the rows are those of the manifest that lies there, for
 * good, and nobody had to search. */
#define RIGHT (IN_STEP && ROWS_ARE_OF(manifest) && HAS(succeeded, manifest))
ltl heals { <>[] RIGHT }
#endif
