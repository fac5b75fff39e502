/* core/mutant.h - rules that a chaos build leaves out, to prove that its scenarios would notice.
 *
 * Built with -DMEMSYNC_MUTANTS='MUTANT_BIT(NAME)' (or several with `|`), MUTANT(NAME) is true and
 * the code does what it must not do. In every other build it is a constant 0 and nothing of it is
 * left. Each mutant, what it breaks and who notices it: chaos/mutants/README.md.
 */
#ifndef MEMSYNC_CORE_MUTANT_H
#define MEMSYNC_CORE_MUTANT_H

#define MUTANTS(X)                                                                                 \
    X(CAPTURE_LATE)              /* the signature is captured after the facts were read */         \
    X(TWO_TRANSACTIONS)          /* the signature is stored before the rows, on its own */         \
    X(PROMOTE_UNPROVEN)          /* an own write moves a signature that it did not start from */   \
    X(DELTA_UNPROVEN)            /* its rows are applied to rows that they may not fit */          \
    X(NOOP_ADVANCES)             /* a write that changed nothing moves the signature */            \
    X(NO_JOURNAL_CHECK)          /* a snapshot does not look for a commit under way */             \
    X(NO_LOOK_AFTER_CAPTURE)     /* a snapshot looks for a journal before the capture only */      \
    X(NO_SECOND_LOOK)            /* a snapshot does not check the signature again */               \
    X(NO_GENERATION_INCREMENTAL) /* what changed is installed over rows of any generation */       \
    X(NO_GENERATION_COMPLETE)    /* the same for a complete re-read */                             \
    X(FRESH_UNCHECKED)           /* hits are of another moment than the signature */               \
    X(FORGET_BUMPS)              /* forgetting counts as a change of the rows */                   \
    X(STOP_AT_100)               /* a refresh takes a page of facts, not all */                    \
    X(ERROR_FORGETS)             /* a compare that fails makes the scope unsynced */               \
    X(NO_COMPARE_AFTER_JOIN)     /* a search trusts the refresh that it joined */                  \
    X(RECOVER_MANIFEST_FIRST)    /* a roll-back restores the manifest before the facts */          \
    X(JOURNAL_NOT_EXCLUSIVE)     /* the journal replaces whatever lies there */                    \
    X(NO_OVERTAKEN_CHECK)        /* a commit does not look whether it was overtaken */             \
    X(UNFORCED)                  /* attributes may come from the client's cache */                 \
    X(STAT_ONLY)                 /* a compare believes attributes, and reads no manifest */        \
    X(PROBE_NOT_LIST)            /* names are looked up that no listing has shown */               \
    X(NO_LATER_LOOK)             /* a refresh is not followed by a look after the caches' time */  \
    X(CLEAN_AT_ONCE)             /* a stamp is trusted without waiting */                          \
    X(NO_GRACE)                  /* locks that reach nobody are proof that a writer is dead */     \
    X(BARE_WITHOUT_LOCK)         /* facts without a manifest are told though no lock can be had */ \
    X(RESTORE_IN_PLACE)          /* a recovery that comes late can still change files */

#define MUTANT_ENUM(name) MUTANT_##name,
enum mutant { MUTANTS(MUTANT_ENUM) MUTANT_COUNT };

#define MUTANT_BIT(name) (1u << MUTANT_##name)

#ifndef MEMSYNC_MUTANTS
#define MEMSYNC_MUTANTS 0u
#endif

#define MUTANT(name) (((MEMSYNC_MUTANTS) &MUTANT_BIT(name)) != 0)

#endif
