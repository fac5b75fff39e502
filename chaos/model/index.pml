/* index.pml - the index of one node: rows, and the mark of the manifest that they were built from.
 *
 * It outlives the agent. The generation is not counted: a refresh asks only whether it has moved since
 * the refresh was planned, which is one bit of each refresh.
 */

byte row_a, row_b;
byte synced;       /* the manifest's commit, or NOTHING */
#ifdef FIRST
byte synced_inode = NOTHING;
#else
byte synced_inode;
#endif
bool moved;        /* the generation, since the refresh under way was planned */

/* No manifest: in step only if there is nothing on either side, by a listing. */
#ifdef ABSENT_IS_A_MARK
#define FITS(commit, inode, is_bare) SAME_MARK(synced, synced_inode, commit, inode)
#else
#define FITS(commit, inode, is_bare) \
    ((IS_ABSENT(commit) && (is_bare) && row_a == 0 && row_b == 0) || \
     (!IS_ABSENT(commit) && SAME_MARK(synced, synced_inode, commit, inode)))
#endif
#define IN_STEP FITS(manifest, manifest_inode, BARE)
#define ROWS_ARE_OF(commit) (row_a == facts_a[commit] && row_b == facts_b[commit])

/* Rows and mark fit, and what they show did not fail afterwards: after every transaction. In runs with
 * a rule left out only what a worker can notice counts, so that this does not find the mistake before
 * anybody was harmed by it. */
#if defined(CACHED) || defined(RULE_LEFT_OUT)
#define check_index() skip
#else
inline check_index()
{
    assert(synced == NOTHING || (ROWS_ARE_OF(synced) && HAS(succeeded, synced)))
}
#endif
