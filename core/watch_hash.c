#include "core/watch_hash.h"

#include "core/signature.h"

#include <string.h>

#define SLOTS_MIN 64

uint64_t watch_hash_bucket(bool has_user, const char *bucket)
{
    return signature_digest(bucket, strlen(bucket)) ^ (has_user ? 1 : 0);
}

uint64_t watch_hash_number(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

static struct watch_link **slot_of(const struct watch_hash *table, uint64_t hash)
{
    return &table->slots[hash & (table->slot_count - 1)];
}

static void put(struct watch_hash *table, struct watch_link *link)
{
    struct watch_link **slot = slot_of(table, link->hash);

    link->next = *slot;
    *slot = link;
}

static enum status grow(struct watch_hash *table)
{
    struct watch_hash larger = {
        .slot_count = table->slot_count ? table->slot_count * 2 : SLOTS_MIN,
        .count = table->count,
    };

    larger.slots = (struct watch_link **) calloc(larger.slot_count, sizeof(struct watch_link *));
    if (!larger.slots)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < table->slot_count; i++) {
        for (struct watch_link *link = table->slots[i], *next; link; link = next) {
            next = link->next;
            put(&larger, link);
        }
    }
    free((void *) table->slots);
    *table = larger;
    return STATUS_OK;
}

enum status watch_hash_insert(struct watch_hash *table, struct watch_link *link, uint64_t hash)
{
    /* A full table that cannot grow still works, only slower. */
    if (table->count >= table->slot_count && grow(table) != STATUS_OK && !table->slots)
        return STATUS_NO_MEMORY;
    link->hash = hash;
    put(table, link);
    table->count++;
    return STATUS_OK;
}

void watch_hash_remove(struct watch_hash *table, struct watch_link *link)
{
    struct watch_link **at = slot_of(table, link->hash);

    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->next = NULL;
    table->count--;
}

static struct watch_link *skip_to(struct watch_link *link, uint64_t hash)
{
    while (link && link->hash != hash)
        link = link->next;
    return link;
}

struct watch_link *watch_hash_first(const struct watch_hash *table, uint64_t hash)
{
    return table->slots ? skip_to(*slot_of(table, hash), hash) : NULL;
}

struct watch_link *watch_hash_next(const struct watch_link *link)
{
    return skip_to(link->next, link->hash);
}

void watch_hash_each(struct watch_hash *table,
                     void (*visit)(void *context, struct watch_link *link), void *context)
{
    for (size_t i = 0; i < table->slot_count; i++) {
        for (struct watch_link *link = table->slots[i], *next; link; link = next) {
            next = link->next;
            visit(context, link);
        }
    }
}

void watch_hash_destroy(struct watch_hash *table)
{
    free((void *) table->slots);
    *table = (struct watch_hash){0};
}
