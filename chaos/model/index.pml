/* index.pml - the index of one node: rows, and the mark of the manifest that they were built from.
 *
 * It outlives the agent. The generation is not counted: a refresh asks only whether it has moved since
 * the refresh was planned, which is one bit of each refresh.
 */

byte row_a, row_b;
byte synced;       /* the manifest's commit, or NOTHING */
byte synced_inode;
bool moved;        /* the generation, since the refresh under way was planned */

#define IN_STEP SAME_MARK(synced, synced_inode, manifest, manifest_inode)
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
