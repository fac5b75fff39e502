/* tests/support/temp_volume_private.h - between temp_volume.c, temp_writer.c and temp_fact.c. */
#ifndef MEMSYNC_TESTS_TEMP_VOLUME_PRIVATE_H
#define MEMSYNC_TESTS_TEMP_VOLUME_PRIVATE_H

#include "tests/support/temp_volume.h"

/* A manifest that was replaced, for `rollback`. */
struct temp_former {
    struct temp_former *next; /* the one replaced before it, of any bucket */
    char *bytes;              /* NULL: there was none */
    size_t size;
    char bucket[SCOPE_PATH_MAX];
};

struct temp_volume {
    char directory[PATH_MAX]; /* "" when it is not ours to remove */
    char root[PATH_MAX];
    char manifest_name[SCOPE_NAME_MAX + 1];
    bool frozen;
    unsigned summary_count;
    struct temp_former *formers; /* the latest first */
};

/* The scope, which must be a valid one. */
void temp_scope(const char *user, const char *agent, struct scope *ret);

/* Writes the manifest with a revision and, when not NULL, a summary; remembers the one before. */
void temp_manifest_put(struct temp_volume *volume, const char *bucket, int64_t revision,
                       const char *summary);

/* What `change` makes of the fact that lies at `path` (or of none): its new bytes. */
char *temp_fact_next(const char *user, const char *agent, const struct temp_change *change,
                     const char *path);

/* "YYYY-MM-DDTHH:MM:SS.ffffffZ" of now. */
void temp_now(char ret[32]);

#endif
