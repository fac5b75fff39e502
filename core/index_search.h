/* core/index_search.h - reading the index: hits and the synced mark they were built from, from one
 * snapshot.
 *
 * A reader belongs to one thread at a time. Everything between index_begin() and index_end() sees
 * one state of the database; index_end() closes every statement, so an idle reader holds no
 * snapshot. Results are the caller's.
 */
#ifndef MEMSYNC_CORE_INDEX_SEARCH_H
#define MEMSYNC_CORE_INDEX_SEARCH_H

#include "core/index_install.h"
#include "core/query.h"

/* Opens nothing yet; `index` must outlive the reader. */
MUST_CHECK enum status index_reader_create(struct index *index, struct index_reader **ret,
                                           struct error *error);
void index_reader_destroy(struct index_reader **reader);

/* Starts a snapshot; reopens the file first when the index was rebuilt. */
MUST_CHECK enum status index_begin(struct index_reader *reader, struct error *error);
void index_end(struct index_reader *reader);

struct index_scope {
    int64_t id;
    uint64_t generation;
    struct synced_mark synced;
    uint64_t facts;
    uint64_t broken;
    bool unmigrated;
};

/* STATUS_NOT_FOUND: no such scope in the index. The scope stays selected for the calls below. */
MUST_CHECK enum status index_read_scope(struct index_reader *reader, const struct scope *scope,
                                        struct index_scope *ret, struct error *error);

/* The bytes of the manifest that the scope's rows were built from; the caller frees them. STATUS_OK
 * with NULL: there was none. STATUS_NOT_FOUND: no such scope. */
MUST_CHECK enum status index_read_manifest(struct index_reader *reader, int64_t scope_id,
                                           char **ret, size_t *ret_size, struct error *error);

/* All seen entries of a scope, sorted (core/seen_entry.h); free with seen_list_destroy(). */
MUST_CHECK enum status index_read_seen(struct index_reader *reader, int64_t scope_id,
                                       struct seen_list *ret, struct error *error);

/* Of these only the ones that tell whether something must be looked at: all directories, the files
 * beside them, and all files whose stamp is not trusted or that have a fault. */
MUST_CHECK enum status index_read_special(struct index_reader *reader, int64_t scope_id,
                                          struct seen_list *ret, struct error *error);

/* The files below one directory, however deep; "" is no directory here. */
MUST_CHECK enum status index_read_below(struct index_reader *reader, int64_t scope_id,
                                        const char *directory, struct seen_list *ret,
                                        struct error *error);

struct index_filter {
    const char *category; /* NULL: any; "" matches an empty one */
    const json_t *equals; /* an object: members that the fact's document must have; NULL: any */
};

struct index_hit {
    char *document; /* the fact's JSON, ready to be spliced into a reply */
    size_t document_size;
    double score;     /* relevance plus the bonus for confidence */
    double relevance; /* BM25 alone */
    int64_t order;    /* ties: larger is newer */
};

struct index_hits {
    struct index_hit *hits; /* best first */
    size_t count;
};

/* At most `limit` hits of one scope, filtered before the cut. `substring` true: the fallback, a
 * case-insensitive match of the whole query text over all facts of the scope, by confidence and
 * then id (score = confidence bonus alone). An empty query finds nothing. `deadline_ns` bounds the
 * work (STATUS_TIMEOUT). */
MUST_CHECK enum status index_search(struct index_reader *reader, int64_t scope_id,
                                    const struct query *query, const struct index_filter *filter,
                                    size_t limit, uint64_t deadline_ns, struct index_hits *ret,
                                    struct error *error);
MUST_CHECK enum status index_search_substring(struct index_reader *reader, int64_t scope_id,
                                              const char *query, size_t query_size,
                                              const struct index_filter *filter, size_t limit,
                                              uint64_t deadline_ns, struct index_hits *ret,
                                              struct error *error);
void index_hits_destroy(struct index_hits *hits);
#define AUTO_HITS CLEANUP(index_hits_destroy)

/* The weight of confidence in a score, 0.2 by default. A missing or zero confidence counts as 0.5
 * there. */
#define INDEX_CONFIDENCE_WEIGHT 0.2

/* Documents of a scope ordered by fact id (bytewise), then path; `offset` and `limit` page. Calls
 * `sink` for each; it returns STATUS_OK to go on. `ret_total` (may be NULL) counts all that pass
 * the filter. */
typedef enum status (*index_document_sink)(void *context, const char *document, size_t size,
                                           const char *path);
MUST_CHECK enum status index_list(struct index_reader *reader, int64_t scope_id,
                                  const struct index_filter *filter, uint64_t offset,
                                  uint64_t limit, index_document_sink sink, void *context,
                                  uint64_t *ret_total, struct error *error);

/* The document of one id; where it lies in several places, that of its own shard. STATUS_NOT_FOUND.
 * The caller frees `ret`. */
MUST_CHECK enum status index_get(struct index_reader *reader, int64_t scope_id, const char *fact_id,
                                 char **ret, size_t *ret_size, struct error *error);

/* Every place at which a fact of one id lies. */
MUST_CHECK enum status index_find_places(struct index_reader *reader, int64_t scope_id,
                                         const char *fact_id, index_document_sink sink,
                                         void *context, struct error *error);

/* The documents of a scope whose content has this hash (content_key_hash() of core/content_key.h),
 * ordered by fact id. Hashes can clash: whoever looks for a content compares it besides. Calls
 * `sink` for each; it returns STATUS_OK to go on. */
MUST_CHECK enum status index_find_content(struct index_reader *reader, int64_t scope_id,
                                          uint64_t key, index_document_sink sink, void *context,
                                          struct error *error);

/* The files of a scope that are kept out, with the reason. */
typedef enum status (*index_problem_sink)(void *context, const char *path, enum fact_fault fault,
                                          const char *problem);
MUST_CHECK enum status index_list_problems(struct index_reader *reader, int64_t scope_id,
                                           index_problem_sink sink, void *context,
                                           struct error *error);

/* Every scope that the index knows, for the start-up compare and for `status`. */
typedef enum status (*index_scope_sink)(void *context, const struct scope *scope,
                                        const struct index_scope *state);
MUST_CHECK enum status index_list_scopes(struct index_reader *reader, index_scope_sink sink,
                                         void *context, struct error *error);

/* Those of which something was read whose stamp may not be trusted yet: what an agent that ended
 * before its second look has left. What own writes put there does not count. Walks all that was
 * seen. */
MUST_CHECK enum status index_list_unsettled(struct index_reader *reader, index_scope_sink sink,
                                            void *context, struct error *error);

/* Those with a file that is kept out for `fault`. */
MUST_CHECK enum status index_list_faulty(struct index_reader *reader, enum fact_fault fault,
                                         index_scope_sink sink, void *context, struct error *error);

/* The scopes of one bucket directory ("" = root without users). */
MUST_CHECK enum status index_list_bucket(struct index_reader *reader, bool has_user,
                                         const char *bucket, index_scope_sink sink, void *context,
                                         struct error *error);

#endif
