/* core/fact.h - one fact file: YAML front matter, a title line, a Markdown body.
 *
 * Reading gives the peers' document of the fact (docs/volume-format.md, "Facts"): the front
 * matter's keys in their order, then title, content, scope, and defaults for what is missing.
 * Unknown keys stay; those that are no text are together in the member "$pairs". A user_id that is
 * missing counts as null. Pure: no I/O. Documents are immutable once built and may be shared
 * between threads.
 */
#ifndef MEMSYNC_CORE_FACT_H
#define MEMSYNC_CORE_FACT_H

#include "core/scope.h"

#define FACT_FILE_BYTES_MAX (4u << 20)

struct fact {
    json_t *document; /* what list_facts answers */
    const char *id;   /* these point into the document */
    const char *content;
    size_t content_size;  /* bytes; the content may hold NUL */
    const char *category; /* "" when absent */
    const char *created_at;
    double confidence;
    int64_t revision;
    bool duplicate_key; /* the front matter had a key twice; the last one counts */
};

/* Why a file is not served although it may be sound. */
enum fact_fault {
    FACT_FAULT_NONE,
    FACT_FAULT_BROKEN,  /* cannot be understood */
    FACT_FAULT_FOREIGN, /* sound, but of another user than the one asked for */
    FACT_FAULT_REFUSED, /* nobody knows: the right to read it is missing. That passes without a
                           trace on the file (a ticket is renewed, a server's export mended) */
};

/* Parses the bytes of the file named `<expected_id>.md` of `scope`. Faults are STATUS_CORRUPT, with
 * line or field in the message; `ret_fault` tells which kind. `file_time_ns` (the file's mtime)
 * stands in for dates that the file lacks, so that two readings agree. With `scope` NULL the
 * identity is not checked against one (the owner is taken from the file, see fact_owner). */
MUST_CHECK enum status fact_parse(const char *bytes, size_t size, const struct scope *scope,
                                  const char *expected_id, uint64_t file_time_ns, struct fact **ret,
                                  enum fact_fault *ret_fault, struct error *error);

/* The raw user id in a parsed document (scope.userId), or NULL when it says null. */
const char *fact_owner(const struct fact *fact);

void fact_destroy(struct fact **fact);

static inline void cleanup_fact(struct fact **fact)
{
    fact_destroy(fact);
}
#define AUTO_FACT CLEANUP(cleanup_fact)

#endif
