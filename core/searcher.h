/* core/searcher.h - one search: settle what the scopes are worth, query the index, merge, fall back
 * on substrings.
 */
#ifndef MEMSYNC_CORE_SEARCHER_H
#define MEMSYNC_CORE_SEARCHER_H

#include "core/reading.h"

#define SEARCH_TOP_K_MAX 1000

struct search_request {
    struct reading_request reading;
    const char *query;
    size_t query_size;
    const struct index_filter *filter;
    size_t top_k; /* 0: no hits are wanted, only the scopes' states */
};

struct search_hit {
    struct index_hit hit;
    size_t scope; /* index into the request's scopes */
};

struct search_result {
    struct search_hit *hits; /* best first */
    size_t count;
    bool substring;       /* they come from the fallback, since the index had none */
    const char *strategy; /* "words", "advanced" or "empty" */
    bool truncated;       /* the query had more words than are used */
    struct scope_report *reports;
    size_t report_count;
};

/* Searches all scopes of the request in one snapshot and merges their hits by score. What is not
 * fresh is a report's state, not an error; STATUS_WOULD_BLOCK: ask again from a thread that may
 * wait. The reading's thread number must be the caller's own. */
MUST_CHECK enum status searcher_run(struct store *store, const struct search_request *request,
                                    struct search_result *ret, struct error *error);
void search_result_destroy(struct search_result *result);
#define AUTO_SEARCH CLEANUP(search_result_destroy)

#endif
