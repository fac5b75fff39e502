/* peer.pml - another program that follows the format and knows nothing of us. It may die before every
 * step; the kernel then frees its lock. What it finds after a crash it takes back in its own order:
 * the manifest first, the facts afterwards. */

#define PEER_DIES :: atomic { deaths > 0 -> deaths--; lock = FREE; goto next }

proctype Peer()
{
    byte left = PEER_COMMITS;
    byte commit;

next:
    commit = 0;
    if
    :: left == 0 -> goto done
    :: atomic { left > 0 && lock == FREE -> lock = PEER; left-- }
    fi;

    if
    :: journal == PREPARED ->
        if
        :: atomic { true -> replace_manifest(backup) }
        PEER_DIES
        fi;
        if
        :: fact_a = backup_a
        PEER_DIES
        fi;
        if
        :: fact_b = backup_b
        PEER_DIES
        fi;
        if
        :: atomic { true -> remove_journal() }
        PEER_DIES
        fi
    :: journal == COMMITTED ->
        if
        :: atomic { true -> remove_journal() }
        PEER_DIES
        fi
    :: else
    fi;

    if
    :: atomic { next_commit < COMMITS -> number_commit(commit, true, true); prepare(commit) }
    PEER_DIES
    fi;
    if
    :: fact_a = commit
    PEER_DIES
    fi;
    if
    :: fact_b = commit
    PEER_DIES
    fi;
    if
    :: atomic { true -> replace_manifest(commit) }
    PEER_DIES
    fi;
    if
    :: atomic { true -> mark_committed() }
    PEER_DIES
    fi;
    if
    :: atomic { true -> remove_journal() }
    PEER_DIES
    fi;
    atomic { lock = FREE; goto next };

done:
    skip
}
