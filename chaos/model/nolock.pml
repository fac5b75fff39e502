/* nolock.pml - two nodes commit to one volume whose lock does not lock: every node gets it.
 *
 * What is left is the journal, which appears exclusively, the checks of it, and the time of grace: a
 * journal is taken back only when it has stood unchanged for longer than a live commit takes. With
 * -DSLOW a commit may stand still for any time, but for the moment between a check and what the check
 * is for; then the journal is checked before whatever is written.
 *
 * Peers are not here: they have no second guard. A manifest's mark never comes back, since a commit
 * keeps the manifest open that it started from.
 */

#define COMMITS (2 * COMMITS_EACH + 1)
#define GONE 0
#define PREPARED 1
#define COMMITTED 2

byte manifest, manifest_mark;
byte fact_a, fact_b;
byte journal = GONE, journal_commit;
byte backup, backup_a, backup_b;
byte deaths = DEATHS;

/* Known from outside only. */
byte next_commit = 1;
byte revision[COMMITS], ancestors[COMMITS];
byte succeeded = 1, used = 1; /* bits: commits, revisions */
byte running;                 /* bits: commits whose program lives and goes on */
byte unchecked;               /* bits: commits whose journal is there, but the first check is not made */

#define BIT(number) (1 << (number))
#define HAS(bits, number) ((bits) & BIT(number))
#define IS_WHOLE (fact_a == manifest && fact_b == manifest) /* every commit writes both */
#define KEEPS_ALL ((ancestors[manifest] & succeeded) == succeeded)

#if defined(NO_GRACE)
#define MAY_TAKE_BACK true
#elif defined(SLOW)
#define MAY_TAKE_BACK (!HAS(unchecked, journal_commit))
#else
#define MAY_TAKE_BACK (!HAS(running, journal_commit))
#endif

#define JOURNAL_IS(commit, state) (journal == (state) && journal_commit == (commit))

/* A check, and in the same step what it is for. */
#ifdef NO_JOURNAL_CHECK
#define OWNS(commit, state) true
#else
#define OWNS(commit, state) JOURNAL_IS(commit, state)
#endif
#ifdef NO_MANIFEST_CHECK
#define IS_BASE(mark) true
#else
#define IS_BASE(mark) (manifest_mark == (mark))
#endif
#ifdef RECOVERY_UNCHECKED
#define RECOVERS(commit) true
#else
#define RECOVERS(commit) JOURNAL_IS(commit, PREPARED)
#endif
#ifdef REMOVAL_UNCHECKED
#define REMOVES(commit) true
#else
#define REMOVES(commit) JOURNAL_IS(commit, COMMITTED)
#endif

inline replace_manifest(commit)
{
    manifest = commit;
#ifdef BYTES_ONLY
    manifest_mark = commit
#else
    manifest_mark++;
    assert(manifest_mark < 32)
#endif
}

inline remove_journal()
{
    journal = GONE;
    journal_commit = 0;
    backup = 0;
    backup_a = 0;
    backup_b = 0
}

#define OR_DIES :: atomic { deaths > 0 -> deaths--; goto stop }

proctype Node()
{
    byte left = COMMITS_EACH;
    byte commit, base, base_mark, own_mark, old_a, old_b, dead;
    byte dead_base, dead_a, dead_b; /* what the dead writer's backups hold, as read */

stop: /* dead, or overtaken: nothing is put right, that is for whoever owns the journal now */
    atomic {
        running = running & ~BIT(commit);
        unchecked = unchecked & ~BIT(commit);
        commit = 0; base = 0; base_mark = 0; own_mark = 0; old_a = 0; old_b = 0; dead = 0;
        dead_base = 0; dead_a = 0; dead_b = 0
    };
look:
    if
    :: left == 0 -> goto done
    :: atomic {
           left > 0 && journal == PREPARED && MAY_TAKE_BACK ->
           dead = journal_commit; dead_base = backup; dead_a = backup_a; dead_b = backup_b
       };
       if
       :: atomic { RECOVERS(dead) -> fact_a = dead_a }
       :: atomic { !RECOVERS(dead) -> goto stop }
       OR_DIES
       fi;
       if
       :: atomic { RECOVERS(dead) -> fact_b = dead_b }
       :: atomic { !RECOVERS(dead) -> goto stop }
       OR_DIES
       fi;
       if
       :: atomic { RECOVERS(dead) -> replace_manifest(dead_base) }
       :: atomic { !RECOVERS(dead) -> goto stop }
       OR_DIES
       fi;
       if
       :: atomic { RECOVERS(dead) -> remove_journal(); goto stop }
       :: atomic { !RECOVERS(dead) -> goto stop }
       OR_DIES
       fi
    :: atomic { left > 0 && journal == COMMITTED -> dead = journal_commit };
       atomic {
           if
           :: REMOVES(dead) -> remove_journal()
           :: else
           fi;
           goto stop
       }
    :: atomic { left > 0 && journal == GONE -> left-- }
    fi;

    atomic { base = manifest; base_mark = manifest_mark };
    old_a = fact_a;
    old_b = fact_b;
    atomic {
        if
#ifndef NO_EXCLUSIVE
        :: journal != GONE -> goto stop /* somebody else's */
#endif
        :: else ->
            commit = next_commit;
            next_commit++;
            revision[commit] = revision[base] + 1;
            ancestors[commit] = ancestors[base] | BIT(commit);
            running = running | BIT(commit);
            unchecked = unchecked | BIT(commit);
            journal = PREPARED;
            journal_commit = commit;
            backup = base;
            backup_a = old_a;
            backup_b = old_b
        fi
    };
    /* Somebody may have committed since the base was read. Nothing has been written yet. */
#ifndef NO_FIRST_CHECK
    if
    :: atomic { IS_BASE(base_mark) && OWNS(commit, PREPARED) -> unchecked = unchecked & ~BIT(commit) }
    :: atomic {
           !(IS_BASE(base_mark) && OWNS(commit, PREPARED)) ->
           if
           :: JOURNAL_IS(commit, PREPARED) -> remove_journal()
           :: else
           fi;
           goto stop
       }
#ifdef DIES_BEFORE_FIRST_CHECK
    OR_DIES
#endif
    fi;
#endif
    if
    :: fact_a = commit
    OR_DIES
    fi;
    if
    :: fact_b = commit
    OR_DIES
    fi;
    if
    :: atomic { OWNS(commit, PREPARED) && IS_BASE(base_mark) -> replace_manifest(commit); own_mark = manifest_mark }
    :: atomic { !(OWNS(commit, PREPARED) && IS_BASE(base_mark)) -> goto stop }
    OR_DIES
    fi;
    if
    :: atomic {
           OWNS(commit, PREPARED) && IS_BASE(own_mark) ->
           journal = COMMITTED;
           journal_commit = commit;
           succeeded = succeeded | BIT(commit);
           assert(!HAS(used, revision[commit])); /* a revision is never used by two commits */
           used = used | BIT(revision[commit])
       }
    :: atomic { !(OWNS(commit, PREPARED) && IS_BASE(own_mark)) -> goto stop }
    OR_DIES
    fi;
    if
    :: atomic { REMOVES(commit) -> remove_journal(); goto stop }
    :: atomic { !REMOVES(commit) -> goto stop }
    OR_DIES
    fi;

done:
    skip
}

/* Whenever nobody is at it, the volume holds the whole state of one commit that builds upon all that
 * succeeded. */
#ifndef REVISIONS_ONLY
proctype Watch()
{
end:
    atomic { journal != PREPARED && !(IS_WHOLE && KEEPS_ALL) -> assert(IS_WHOLE); assert(KEEPS_ALL) }
}
#endif

init {
    atomic {
        ancestors[0] = 1;
#ifndef REVISIONS_ONLY
        run Watch();
#endif
        run Node();
        run Node()
    }
}
