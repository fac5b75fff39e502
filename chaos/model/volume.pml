/* volume.pml - the shared volume: one bucket with one scope of two facts, its journal and its lock.
 *
 * A step is what one system call makes visible to others (a rename, a link, an unlink); what happens
 * between two steps of one program may be interleaved with everything else.
 *
 * Contents are numbers: every attempt at a commit has one of its own, 0 is what lay there in the
 * beginning. A fact's text is the number of the commit that wrote it. A manifest is the number of its
 * commit, which stands for its bytes (its digest: `lastUpdated` makes them differ), and an inode. Time
 * and size are not there at all: the clock of the volume stands still and all manifests are of one
 * size, which is the worst a volume can do. So is ctime. A revision is no number of its own: two
 * attempts that began at the same base have the same one (`revision`), which is how it is used again
 * after a roll-back.
 */

/* Where listings are cached, what must be told apart lies further apart than the coarsest tick. */
#if defined(CACHED) && !defined(CLOCK_MOVES)
#define CLOCK_MOVES
#endif

#define NOTHING 7 /* no commit, no inode */
#define COMMITS 6 /* numbers of commits: 0 to 5 */
#define INODES 3  /* one live, one held open, one to take: as few as there can be, so they come back */

#define FREE 0 /* the lock's holders */
#define WRITER 1
#define REFRESHER 2
#define PEER 3

#define GONE 0 /* states of the journal */
#define PREPARED 1
#define COMMITTED 2

byte manifest;       /* the commit it is of */
#ifdef FIRST
byte manifest_inode = NOTHING;
#else
byte manifest_inode;
#endif
byte fact_a, fact_b; /* the commits that wrote them */

byte journal = GONE;
byte journal_commit;
byte backup;           /* the manifest's bytes before the journal's commit */
byte backup_a, backup_b;

byte lock = FREE;
byte held_inode = NOTHING; /* of the manifest that a refresh keeps open */

/* What is known of each commit from outside; no program reads it. */
byte revision[COMMITS];             /* of its manifest */
byte facts_a[COMMITS], facts_b[COMMITS]; /* the facts that belong to its manifest */
byte ancestors[COMMITS];                 /* bits: the commits it builds upon, itself among them */
byte next_commit = 1;
byte succeeded = 1; /* bits: the commits that reached `committed` */
byte used = 1;      /* bits: the revisions of them */

#define BIT(number) (1 << (number))
#define HAS(bits, number) ((bits) & BIT(number))

/* Deaths that may still happen to peers, errors to the own writer, restarts to the agent. */
byte deaths = DEATHS;
byte errors = ERRORS;
byte restarts = RESTARTS;

/* The two marks are of the same manifest, as far as a program can tell. */
#ifdef NO_DIGEST
#define SAME_BYTES(a, b) (revision[a] == revision[b])
#else
#define SAME_BYTES(a, b) ((a) == (b))
#endif
#ifdef NO_INODE
#define SAME_INODE(a, b) true
#else
#define SAME_INODE(a, b) ((a) == (b))
#endif
#define SAME_MARK(commit_a, inode_a, commit_b, inode_b) \
    ((commit_a) != NOTHING && (commit_b) != NOTHING && SAME_BYTES(commit_a, commit_b) && \
     SAME_INODE(inode_a, inode_b))

/* With -DFIRST there is nothing in the beginning: number 0 stands for no manifest and no fact. Such a
 * mark is always the same, so it proves nothing by itself. */
#ifdef FIRST
#define IS_ABSENT(commit) ((commit) == 0)
#else
#define IS_ABSENT(commit) false
#endif
#define BARE (fact_a == 0 && fact_b == 0 && journal == GONE)

#define WHOLE (fact_a == facts_a[manifest] && fact_b == facts_b[manifest])

#ifdef NOT_HELD_OPEN
#define IS_HELD(inode) false
#else
#define IS_HELD(inode) (held_inode == (inode))
#endif

#ifdef CLOCK_MOVES
/* Any two manifests differ in ctime, which is as if no inode came back. */
byte next_inode = 1;
inline replace_manifest(commit)
{
    manifest_inode = next_inode;
    next_inode++;
    assert(next_inode != NOTHING);
    manifest = commit
}
#else
/* A new file comes over the manifest: any inode that nobody uses. Or it is removed. */
inline replace_manifest(commit)
{
    if
    :: IS_ABSENT(commit) -> manifest_inode = NOTHING
    :: !IS_ABSENT(commit) && manifest_inode != 0 && !IS_HELD(0) -> manifest_inode = 0
    :: !IS_ABSENT(commit) && manifest_inode != 1 && !IS_HELD(1) -> manifest_inode = 1
    :: !IS_ABSENT(commit) && manifest_inode != 2 && !IS_HELD(2) -> manifest_inode = 2
    fi;
    manifest = commit
}
#endif

/* Takes a number for a commit upon the manifest as it is; says which facts it will write. */
inline number_commit(commit, writes_a, writes_b)
{
    commit = next_commit;
    next_commit++;
    revision[commit] = revision[manifest] + 1;
    ancestors[commit] = ancestors[manifest] | BIT(commit);
    facts_a[commit] = (writes_a -> commit : facts_a[manifest]);
    facts_b[commit] = (writes_b -> commit : facts_b[manifest])
}

/* Backups and journal: the backups are there before the journal, and nobody looks at them without it,
 * so it is one step. */
inline prepare(commit)
{
    backup = manifest;
    backup_a = fact_a;
    backup_b = fact_b;
    journal_commit = commit;
    journal = PREPARED
}

/* The commit point. */
inline mark_committed()
{
    journal = COMMITTED;
    succeeded = succeeded | BIT(journal_commit);
    assert(!HAS(used, revision[journal_commit])); /* a revision is never used by two commits */
    used = used | BIT(revision[journal_commit])
}

/* The journal is the last thing that goes; what it leaves must be the state of one commit, and must
 * build upon every commit that succeeded. */
inline remove_journal()
{
    journal = GONE;
    journal_commit = 0;
    backup = 0;
    backup_a = 0;
    backup_b = 0;
    assert(WHOLE);
    assert((ancestors[manifest] & succeeded) == succeeded)
}
