/* busy.pml - an own writer that never rests: do the rows still follow it?
 *
 * That the scope is ever in step cannot be had: a snapshot may be one commit old when it is installed,
 * each time. But a refresh must not be in vain for ever: the rows move on, so that what is served as
 * stale is the newest there is.
 *
 * Commits have no end here, so nothing is counted. Of a mark it is only known how far it is behind the
 * manifest: not at all, by one commit, or by more (or none is known). An own write has nothing else to
 * compare. Contents are left to memory.pml.
 *
 * The lock is fair: who waits for it gets it next. (Programs poll it, and readers pause longer than
 * writers poll; a claim needs one of the two.)
 */

#define LIVE 0
#define BEFORE 1
#define OLDER 2
#define AGED(mark) ((mark) == OLDER -> OLDER : (mark) + 1)

#define FREE 0
#define WRITER 1
#define REFRESHER 2

byte lock = FREE;
bool wanted;           /* the refresher waits for the lock */
byte synced = OLDER;
byte captured = OLDER; /* by the refresh under way */
bool moved;            /* the generation, since it was planned */
bool queued;           /* an own write waits for its turn at the index */
bool installed;        /* the last refresh was not in vain */
bool behind;           /* the refresh entered the queue after it */

proctype Writer()
{
    do
    :: atomic { lock == FREE && !wanted -> lock = WRITER };
       atomic { synced = AGED(synced); captured = AGED(captured) };
       atomic { queued = true; lock = FREE }; /* in the order of the commits */
       atomic {
           if
           :: synced == BEFORE -> synced = LIVE; moved = true /* promoted */
           :: synced == LIVE                                 /* already current */
           :: else ->                                        /* forgotten */
               synced = OLDER;
#ifdef FORGET_BUMPS
               moved = true
#endif
           fi;
           queued = false;
           behind = false
       }
    od
}

proctype Refresher()
{
    byte attempts, lost;

    do
    :: synced != LIVE ->
        installed = false;
plan:
        moved = false;
        attempts = 0;
attempt:
        captured = LIVE;
        /* Facts are read; then the second look. */
        if
        :: captured == LIVE
        :: captured != LIVE && attempts < 2 -> attempts++; goto attempt
        :: captured != LIVE && attempts == 2 -> /* too fast: once more with the lock, for the reading */
#ifdef NO_LOCKED_READING
            goto failed;
#endif
            wanted = true;
            atomic { lock == FREE -> lock = REFRESHER; wanted = false };
            captured = LIVE;
            lock = FREE
        fi;
install:
        behind = queued;
        atomic {
            !behind ->
            if
            :: !moved -> synced = captured; moved = true; lost = 0; installed = true
            :: moved -> lost++
            fi
        };
        if
        :: lost == 0
        :: lost == 1 -> goto plan
        :: lost == 2 -> /* once more, planned and installed while nobody can commit */
            wanted = true;
            atomic { lock == FREE -> lock = REFRESHER; wanted = false };
            moved = false;
            captured = LIVE;
            goto install
        :: lost == 3
        fi;
failed:
        atomic {
            if
            :: lock == REFRESHER -> lock = FREE
            :: else
            fi;
            lost = 0
        }
    :: synced == LIVE
    od
}

init {
    atomic {
        run Writer();
        run Refresher()
    }
}

/* A busy writer cannot keep the rows from moving on. */
ltl catches_up { []<> (synced == LIVE || installed) }
