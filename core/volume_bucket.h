/* core/volume_bucket.h - finding a user's directory and what lies in it, by listing and not by
 * probing.
 *
 * A name that was looked up once and not found may stay "not found" in a network client's cache,
 * even for open. So a bucket, a manifest or a journal exists when a listing of its directory, read
 * after that directory's attributes were forced, shows it; what such a listing once showed may be
 * opened directly until opening it fails. On volumes where look-ups are safe
 * (volume_lookups_are_safe) names are simply tried.
 */
#ifndef MEMSYNC_CORE_VOLUME_BUCKET_H
#define MEMSYNC_CORE_VOLUME_BUCKET_H

#include "core/scope.h"
#include "core/volume.h"

struct bucket_table; /* which names listings have shown; one per volume, thread-safe */

/* `volume` must outlive the table; the name is copied. STATUS_NO_MEMORY. */
MUST_CHECK enum status bucket_table_create(const struct volume *volume, const char *manifest_name,
                                           struct bucket_table **ret);
void bucket_table_destroy(struct bucket_table **table);

/* Valid while the table is. */
const char *bucket_table_manifest_name(const struct bucket_table *table);

/* Opens the bucket's directory. STATUS_NOT_FOUND: no listing shows it. The caller closes `ret`. */
MUST_CHECK enum status bucket_open(struct bucket_table *table, const struct scope *scope, int *ret,
                                   struct error *error);

/* Opens and reads the bucket's manifest without a listing where one has shown it before: the cheap
 * path of a compare, with the one look of volume_read_file_once(). STATUS_NOT_FOUND: no listing
 * shows it, look with bucket_view_read(). */
MUST_CHECK enum status bucket_read_manifest(struct bucket_table *table, const struct scope *scope,
                                            struct file_image *ret, struct error *error);

/* What a forced listing of a bucket shows. */
struct bucket_view {
    struct listing listing;
    bool has_manifest;
    bool has_journal;
    bool has_agents;
};
MUST_CHECK enum status bucket_view_read(struct bucket_table *table, const struct scope *scope,
                                        int bucket_fd, struct bucket_view *ret,
                                        struct error *error);
void bucket_view_destroy(struct bucket_view *view);
#define AUTO_VIEW CLEANUP(bucket_view_destroy)

/* The way to a scope's facts, as listings show it. */
struct facts_place {
    int facts_fd; /* -1: some part of agents/<agent>/facts is not there */
    bool has_agent;
    struct listing agent; /* of agents/<agent> */
    bool has_lead;
    struct listing lead; /* of the default bucket's earlier place, for the default agent only */
};

/* Lists the way from an open bucket whose view shows agents/. */
MUST_CHECK enum status bucket_find_facts(struct bucket_table *table, const struct scope *scope,
                                         int bucket_fd, struct facts_place *ret,
                                         struct error *error);
void facts_place_destroy(struct facts_place *place);
#define AUTO_PLACE CLEANUP(facts_place_destroy)
#define FACTS_PLACE_NONE                                                                           \
    {                                                                                              \
        .facts_fd = -1                                                                             \
    }

/* Names of the users' directories (valid ones), and whether the root itself is a bucket (has a
 * manifest, agents/ or a journal). Calls `sink` for each; it returns STATUS_OK to go on. */
typedef enum status (*bucket_sink)(void *context, bool has_user, const char *bucket);
MUST_CHECK enum status bucket_list_all(struct bucket_table *table, bucket_sink sink, void *context,
                                       struct error *error);

/* The agents of an open bucket: directories below agents/ with a valid name in lower case. */
typedef enum status (*agent_sink)(void *context, const char *agent);
MUST_CHECK enum status bucket_list_agents(struct bucket_table *table, int bucket_fd,
                                          agent_sink sink, void *context, struct error *error);

#endif
