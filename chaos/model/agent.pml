/* agent.pml - our own programs: the writer, the refresher, a search, and the restart that ends all
 * three at once and leaves only the index.
 */

bool kill_writer, kill_refresher, kill_search;
bool waiting;                /* a search waits for the run under way, or for the next */
bool again_later;            /* a second look is due (volumes with cached listings) */
byte unprompted = UNPROMPTED; /* runs that somebody asks for although nothing has changed */

/* ---- what a listing shows ---- */

#ifdef CACHED
/* What the node's kernel still remembers of its last look. A listing tells either that or the truth.
 * The second look comes when the kernel must have forgotten it. */
byte cached_a, cached_b, cached_journal;

inline list(real, remembered, seen)
{
    if
    :: remembered = real; seen = real
    :: seen = remembered
    fi
}
#define EXPIRE_CACHE cached_a = fact_a; cached_b = fact_b; cached_journal = journal
#define OWN_FACT_A cached_a = fact_a
/* Who finds that a name in a listing is not there drops that listing. */
#define FORGET_JOURNAL cached_journal = journal

/* A second look is the last one only if it found what the rows were from and nothing else: the same
 * manifest, the same facts. What it finds anew may again be half old. */
#ifdef ANY_MANIFEST_IS_LAST
#define FOUND_SAME_MANIFEST true
#else
#define FOUND_SAME_MANIFEST SAME_MARK(synced, synced_inode, captured, captured_inode)
#endif
#ifdef ANY_FACTS_ARE_LAST
#define FOUND_SAME_FACTS true
#else
#define FOUND_SAME_FACTS (read_a == base_a && read_b == base_b)
#endif
#ifdef NO_LATER_LOOK
#define NOTE_LATER_LOOK skip
#else
#define NOTE_LATER_LOOK again_later = !(second && FOUND_SAME_MANIFEST && FOUND_SAME_FACTS)
#endif
#else
inline list(real, remembered, seen) { seen = real }
#define cached_a 0
#define cached_b 0
#define cached_journal 0
#define EXPIRE_CACHE skip
#define OWN_FACT_A skip
#define FORGET_JOURNAL skip
#define NOTE_LATER_LOOK skip
#endif

/* ---- recovery ---- */

/* Taking a dead writer's commit back, with the lock held: the facts first, the manifest last. The
 * manifest is written anew even where it is the old one still: only its new inode tells a refresh
 * under way that the facts it has read meanwhile were not to stay. */
inline take_back()
{
#ifdef MANIFEST_FIRST
    atomic { true -> replace_manifest(backup) };
#endif
    fact_a = backup_a;
    fact_b = backup_b;
#ifdef KEEP_MANIFEST
    atomic {
        if
        :: manifest != backup -> replace_manifest(backup)
        :: else
        fi
    };
#endif
#if !defined(MANIFEST_FIRST) && !defined(KEEP_MANIFEST)
    atomic { true -> replace_manifest(backup) };
#endif
    atomic { true -> remove_journal() }
}

inline recover()
{
    if
    :: journal == PREPARED -> take_back()
    :: journal == COMMITTED -> atomic { true -> remove_journal() }
    :: else
    fi
}

/* ---- the writer ---- */

/* The one transaction of an own write: rows and mark move together, and only where it is proved that
 * the change fits the rows. */
inline tell_index()
{
    if
#ifdef PROMOTE_UNPROVEN
    :: true ->
#else
    :: SAME_MARK(synced, synced_inode, pre, pre_inode) -> /* promoted */
#endif
        if
        :: writes_a -> row_a = commit; moved = true
        :: else
        fi;
        synced = commit;
        synced_inode = post_inode
    :: else ->
        if
        :: SAME_MARK(synced, synced_inode, commit, post_inode) /* already current */
        :: else -> synced = NOTHING; synced_inode = NOTHING    /* forgotten */
        fi
    fi
}

#define OR_ERROR :: atomic { errors > 0 -> errors--; goto undo }

proctype Writer()
{
    byte left = WRITES;
    byte commit, pre, pre_inode, post_inode;
    bool writes_a;

again:
    {
        atomic { commit = 0; pre = 0; pre_inode = 0; post_inode = 0; writes_a = false };
        if
        :: left == 0 -> goto done
        :: atomic { left > 0 && lock == FREE -> lock = WRITER; left-- }
        fi;
        recover();
#ifdef NOOP_ADVANCES
        if
        :: atomic { true -> synced = manifest; synced_inode = manifest_inode; lock = FREE; goto again }
        :: true
        fi;
#endif
        atomic {
            next_commit < COMMITS ->
            pre = manifest;
            pre_inode = manifest_inode;
            /* A fact of this scope, or summaries, or another agent's fact. */
            if
            :: writes_a = true
            :: writes_a = false
            fi;
            number_commit(commit, writes_a, false);
            prepare(commit)
        };
        if
        :: atomic { writes_a -> fact_a = commit; OWN_FACT_A }
        :: !writes_a
        OR_ERROR
        fi;
        if
        :: atomic { true -> replace_manifest(commit); post_inode = manifest_inode }
        OR_ERROR
        fi;
        if
        :: atomic { true -> mark_committed() }
        OR_ERROR
        fi;
        atomic { true -> remove_journal() };
        lock = FREE;
        atomic { true -> tell_index(); check_index() };
        goto again;
undo:
        take_back();
        atomic { lock = FREE; goto again }
    } unless { atomic { kill_writer -> kill_writer = false; goto again } };

done:
    skip
}

/* ---- the refresher ---- */

/* A change that was planned against rows which are gone by now fits nothing. A fact that looked like
 * the row it had is not touched. */
inline install_rows()
{
    if
    :: read_a != base_a -> row_a = read_a
    :: else
    fi;
    if
    :: read_b != base_b -> row_b = read_b
    :: else
    fi
}

inline install_mark() { synced = captured; synced_inode = captured_inode }

inline capture()
{
    captured = manifest;
    captured_inode = manifest_inode;
    held_inode = manifest_inode
}

inline let_go()
{
    held_inode = NOTHING;
    captured = 0;
    captured_inode = 0;
    read_a = 0;
    read_b = 0;
    seen = 0
}

#ifdef FIRST
#define LET_GO_OF_LOCK lock = (lock == REFRESHER -> FREE : lock)
#else
#define LET_GO_OF_LOCK skip
#endif

#ifdef NO_GENERATION
#define HAS_MOVED false
#else
#define HAS_MOVED moved
#endif

/* A run begins because somebody waits for it, because a compare found the scope out of step, because
 * a second look is due, or for no reason at all. */
#ifdef CACHED
#define PROMPTED (waiting || !IN_STEP || again_later || unprompted > 0)
#else
#define PROMPTED (waiting || !IN_STEP || unprompted > 0)
#endif

proctype Refresher()
{
    byte captured, captured_inode, read_a, read_b, base_a, base_b, seen;
    bool second; /* this run is the second look: it installs whatever the compare says */

again:
    {
        atomic { let_go(); base_a = 0; base_b = 0; second = false };
end_idle:
        /* The plan: what the index holds, and the compare. */
        if
        :: atomic {
               PROMPTED ->
               if
               :: !IN_STEP
               :: again_later -> second = true; EXPIRE_CACHE
               :: unprompted > 0 -> unprompted--
               :: IN_STEP && waiting -> waiting = false; goto again
               fi;
plan:
               base_a = row_a;
               base_b = row_b;
               moved = false
           }
#ifdef HEALS
        /* Polling goes on for ever: a run that stands still is no run of which spin asks whether it
         * is fair. */
        :: atomic { !PROMPTED -> goto again }
#endif
        fi;

attempt:
        atomic { true -> let_go() };
#if !defined(CAPTURE_AFTER_READ) && !defined(JOURNAL_THEN_CAPTURE)
        atomic { true -> capture() };
#endif
        /* The journal is looked for when the manifest is held: a commit that begins later cannot be
         * taken back without a new manifest, and one that was there before is done with. */
#ifndef NO_JOURNAL_CHECK
        atomic {
            list(journal, cached_journal, seen);
            if
            :: seen != PREPARED -> goto clear
            :: seen == PREPARED && journal != PREPARED -> FORGET_JOURNAL; goto attempt
            :: seen == PREPARED && journal == PREPARED && lock != FREE && lock != REFRESHER ->
                goto failed
            :: seen == PREPARED && journal == PREPARED && (lock == FREE || lock == REFRESHER) ->
                lock = REFRESHER
            fi
        };
        atomic { true -> let_go() };
        take_back();
        atomic { lock = FREE; goto attempt };
clear:
#endif
#ifdef JOURNAL_THEN_CAPTURE
        atomic { true -> capture() };
#endif
#ifdef FIRST
        /* Facts without a manifest have no mark that could prove them: only the lock tells that nobody
         * writes. (It is the shared one; nobody else reads here.) */
        atomic {
            if
            :: IS_ABSENT(captured) && fact_a == 0 && fact_b == 0 -> goto second_look
#ifndef ABSENT_IS_A_MARK
            :: IS_ABSENT(captured) && !(fact_a == 0 && fact_b == 0) && lock == FREE ->
                lock = REFRESHER; goto attempt
            :: IS_ABSENT(captured) && !(fact_a == 0 && fact_b == 0) && lock != FREE &&
                   lock != REFRESHER -> goto failed
#endif
            :: else
            fi
        };
#endif
        if
        :: atomic { true -> list(fact_a, cached_a, read_a) };
           atomic { true -> list(fact_b, cached_b, read_b) }
        :: atomic { true -> list(fact_b, cached_b, read_b) };
           atomic { true -> list(fact_a, cached_a, read_a) }
        fi;
#ifdef CAPTURE_AFTER_READ
        atomic { true -> capture() };
#endif
#ifdef FIRST
second_look:
#endif
#ifndef NO_SECOND_LOOK
#if !defined(NO_JOURNAL_CHECK) && !defined(NO_JOURNAL_CHECK_AFTER)
        atomic {
            list(journal, cached_journal, seen);
            if
            :: seen == PREPARED -> FORGET_JOURNAL; goto attempt
            :: else
            fi
        };
#endif
        atomic {
            if
            :: SAME_MARK(captured, captured_inode, manifest, manifest_inode) -> LET_GO_OF_LOCK
            :: else -> goto attempt
            fi
        };
#endif
#ifdef TWO_TRANSACTIONS
        /* The mark, then the rows. */
        atomic {
            if
            :: HAS_MOVED -> goto lost
            :: else -> install_mark()
            fi
        };
        atomic { true -> install_rows(); moved = true };
#else
        atomic {
            if
            :: HAS_MOVED -> goto lost
            :: else -> NOTE_LATER_LOOK; install_rows(); install_mark(); moved = true
            fi;
            check_index()
        };
#endif
        atomic { waiting = false; goto again };
lost:
        atomic { let_go(); goto plan };
failed:
        atomic { LET_GO_OF_LOCK; waiting = false; goto again }
    } unless { atomic { kill_refresher -> kill_refresher = false; goto again } }
}

/* ---- a search ---- */

proctype Search()
{
    byte left = SEARCHES;
    byte rounds, live, live_inode;
#ifdef FIRST
    bool live_bare;
#define NOTE_BARE live_bare = BARE
#define FORGET_BARE live_bare = false
#else
#define live_bare false
#define NOTE_BARE skip
#define FORGET_BARE skip
#endif
#ifdef JOINED_IS_FRESH
    byte before; /* the commits that had succeeded when the search came */
#define NOTE_BEFORE before = succeeded
#else
#define NOTE_BEFORE skip
#endif

again:
    {
        atomic { live = 0; live_inode = 0; rounds = 0; FORGET_BARE };
        if
        :: left == 0 -> goto done
        :: atomic { left > 0 -> left--; rounds = ROUNDS; NOTE_BEFORE }
        fi;
look:
        atomic { live = manifest; live_inode = manifest_inode; NOTE_BARE };
        /* One transaction reads the hits and what they were built from. */
        atomic {
            if
            :: FITS(live, live_inode, live_bare)
            :: else ->
                if
                :: rounds == 0 -> goto again /* stale */
                :: else -> rounds--; waiting = true; goto join
                fi
            fi;
#ifdef HITS_UNCHECKED
        };
        atomic {
            true ->
#endif
            /* What it says: these are the facts of the manifest that I have seen, which is final. */
            assert(ROWS_ARE_OF(live) && HAS(succeeded, live));
            goto again
        };
join:
        !waiting;
#ifdef JOINED_IS_FRESH
        atomic { assert(synced == NOTHING || (ancestors[synced] & before) == before); goto again };
#endif
        goto look
    } unless { atomic { kill_search -> kill_search = false; goto again } };

done:
    skip
}

/* ---- a restart ---- */

proctype Restart()
{
end:
    do
    :: atomic {
           restarts > 0 ->
           restarts--;
           kill_writer = true;
           kill_refresher = true;
           kill_search = true;
           waiting = false;
           held_inode = NOTHING;
           if
           :: lock == WRITER || lock == REFRESHER -> lock = FREE
           :: else
           fi;
#ifdef RESTART_FORGETS_LOOK
           again_later = false
#endif
       }
    od
}
