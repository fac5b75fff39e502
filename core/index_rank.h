/* core/index_rank.h - which rows match, how well: BM25 over the statistics of one scope.
 *
 * FTS5's own bm25() counts the rows of the whole table, so another tenant's writes would move one's
 * results. Here an auxiliary function only hands term frequencies out, row by row, into a
 * collector; the scores are computed from the scope's own number of facts, median length, and the
 * number of rows in which each phrase was seen.
 */
#ifndef MEMSYNC_CORE_INDEX_RANK_H
#define MEMSYNC_CORE_INDEX_RANK_H

#include "core/query.h"

#include <stdint.h>

struct sqlite3;

#define RANK_FUNCTION "memsync_collect"
#define RANK_POINTER "memsync-collector"

/* Lengths in words, as a byte in every fact's rowid: exact to 31, then in sixteenths of an octave.
 */
unsigned length_quantise(size_t words);
unsigned length_restore(unsigned quantised);

struct rank_collector; /* opaque */

struct rank_statistics {
    uint64_t facts;         /* of the scope */
    unsigned median_length; /* in words; 0: unknown */
};

struct rank_candidate {
    int64_t rowid;
    double relevance;
};

/* Registers the auxiliary function with a connection. An SQLite result code. */
int index_rank_register(struct sqlite3 *db);

/* `query` must outlive the collector. */
MUST_CHECK enum status rank_collector_create(const struct query *query,
                                             struct rank_collector **ret);
void rank_collector_destroy(struct rank_collector **collector);

/* Scores what was collected. Rows that match optional phrases only are dropped. The candidates,
 * in the order of their rowids, belong to the collector. */
MUST_CHECK enum status rank_collector_score(struct rank_collector *collector,
                                            const struct rank_statistics *statistics,
                                            struct rank_candidate **ret, size_t *ret_count);

#endif
