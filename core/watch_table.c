#include "core/watch_table.h"

#include <string.h>

static void free_dir(void *context UNUSED, struct watch_link *link)
{
    free(link);
}

void watch_table_destroy(struct watch_table *table)
{
    watch_hash_each(&table->names, free_dir, NULL);
    watch_hash_destroy(&table->names);
    watch_hash_destroy(&table->descriptors);
    *table = (struct watch_table){0};
}

static uint64_t hash_of(enum watch_kind kind, const char *name)
{
    return watch_hash_bucket(kind == WATCH_BUCKET, name) + (kind == WATCH_USERS ? 1 : 0);
}

struct watch_dir *watch_table_find(const struct watch_table *table, enum watch_kind kind,
                                   const char *name)
{
    struct watch_link *link = watch_hash_first(&table->names, hash_of(kind, name));

    for (; link; link = watch_hash_next(link)) {
        struct watch_dir *dir = (struct watch_dir *) link;
        if (dir->kind == kind && strcmp(dir->name, name) == 0)
            return dir;
    }
    return NULL;
}

static struct watch_dir *dir_of_descriptor(struct watch_link *link)
{
    return (struct watch_dir *) (void *) ((char *) link -
                                          offsetof(struct watch_dir, by_descriptor));
}

struct watch_dir *watch_table_find_descriptor(const struct watch_table *table, int descriptor)
{
    if (descriptor < 0)
        return NULL;
    struct watch_link *link =
        watch_hash_first(&table->descriptors, watch_hash_number((uint64_t) descriptor));
    for (; link; link = watch_hash_next(link)) {
        if (dir_of_descriptor(link)->descriptor == descriptor)
            return dir_of_descriptor(link);
    }
    return NULL;
}

struct watch_dir *watch_table_add(struct watch_table *table, enum watch_kind kind, const char *name)
{
    struct watch_dir *dir = watch_table_find(table, kind, name);
    size_t size = strlen(name) + 1;

    if (dir)
        return dir;
    dir = calloc(1, sizeof *dir + size);
    if (!dir)
        return NULL;
    dir->kind = kind;
    dir->descriptor = WATCH_NONE;
    memcpy(dir->name, name, size);
    if (watch_hash_insert(&table->names, &dir->by_name, hash_of(kind, name)) != STATUS_OK) {
        free(dir);
        return NULL;
    }
    return dir;
}

void watch_table_remove(struct watch_table *table, struct watch_dir *dir)
{
    watch_table_unset(table, dir);
    watch_hash_remove(&table->names, &dir->by_name);
    free(dir);
}

void watch_table_unset(struct watch_table *table, struct watch_dir *dir)
{
    if (dir->descriptor == WATCH_NONE)
        return;
    watch_hash_remove(&table->descriptors, &dir->by_descriptor);
    dir->descriptor = WATCH_NONE;
}

enum status watch_table_set(struct watch_table *table, struct watch_dir *dir, int descriptor)
{
    struct watch_dir *former = watch_table_find_descriptor(table, descriptor);

    if (former == dir)
        return STATUS_OK;
    if (former)
        watch_table_unset(table, former);
    watch_table_unset(table, dir);
    enum status status = watch_hash_insert(&table->descriptors, &dir->by_descriptor,
                                           watch_hash_number((uint64_t) descriptor));
    if (status != STATUS_OK)
        return status;
    dir->descriptor = descriptor;
    return STATUS_OK;
}

void watch_table_push(struct watch_table *table, struct watch_dir *dir)
{
    if (dir->pending)
        return;
    dir->pending = true;
    dir->next_pending = NULL;
    if (table->pending_tail)
        table->pending_tail->next_pending = dir;
    else
        table->pending_head = dir;
    table->pending_tail = dir;
}

struct watch_dir *watch_table_pop(struct watch_table *table)
{
    struct watch_dir *dir = table->pending_head;

    if (!dir)
        return NULL;
    table->pending_head = dir->next_pending;
    if (!table->pending_head)
        table->pending_tail = NULL;
    dir->pending = false;
    return dir;
}

size_t watch_table_watched(const struct watch_table *table)
{
    return table->descriptors.count;
}

size_t watch_table_count(const struct watch_table *table)
{
    return table->names.count;
}
