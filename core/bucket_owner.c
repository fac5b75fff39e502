#include "core/bucket_owner.h"

#include "core/fact_walk.h"

#include <string.h>

#define FILES_TRIED_MAX 32

struct search {
    const struct snapshot_source *source;
    const char *bucket;
    int bucket_fd;
    unsigned tried;
    bool found;
    char *ret;
};

static void try_file(struct search *search, int shard_fd, const char *name)
{
    AUTO_IMAGE struct file_image image = {0};
    AUTO_FACT struct fact *fact = NULL;
    char id[SCOPE_NAME_MAX + 1];
    char bucket[SCOPE_NAME_MAX + 1];
    enum fact_fault fault = FACT_FAULT_NONE;

    search->tried++;
    if (!fact_walk_is_fact_name(name, id) ||
        volume_read_file(search->source->volume, shard_fd, name, FACT_FILE_BYTES_MAX, &image,
                         NULL) != STATUS_OK ||
        fact_parse(image.bytes, image.size, NULL, id, image.stamp.mtime_ns, &fact, &fault, NULL) !=
            STATUS_OK)
        return;
    const char *owner = fact_owner(fact);
    if (!owner || strlen(owner) > SCOPE_USER_MAX ||
        scope_bucket_of_user(owner, bucket, NULL) != STATUS_OK ||
        strcmp(bucket, search->bucket) != 0)
        return;
    memcpy(search->ret, owner, strlen(owner) + 1);
    search->found = true;
}

static void try_shard(struct search *search, int facts_fd, const char *shard)
{
    AUTO_CLOSE int fd = -1;
    AUTO_LISTING struct listing listing = {0};

    if (volume_open_dir(search->source->volume, facts_fd, shard, &fd, NULL) != STATUS_OK ||
        volume_list_fd(search->source->volume, fd, &listing, NULL) != STATUS_OK)
        return;
    for (size_t i = 0; i < listing.count && !search->found && search->tried < FILES_TRIED_MAX;
         i++) {
        if (listing.entries[i].is_file)
            try_file(search, fd, listing.entries[i].name);
    }
}

/* Ends the listing of agents as soon as one of them has told. */
static enum status try_agent(void *context, const char *agent)
{
    struct search *search = context;
    AUTO_PLACE struct facts_place place = FACTS_PLACE_NONE;
    AUTO_LISTING struct listing shards = {0};
    struct scope scope;

    if (search->found || search->tried >= FILES_TRIED_MAX ||
        scope_create(search->bucket, agent, &scope, NULL) != STATUS_OK ||
        bucket_find_facts(search->source->buckets, &scope, search->bucket_fd, &place, NULL) !=
            STATUS_OK ||
        place.facts_fd < 0 ||
        volume_list_fd(search->source->volume, place.facts_fd, &shards, NULL) != STATUS_OK)
        return STATUS_OK;
    for (size_t i = 0; i < shards.count && !search->found && search->tried < FILES_TRIED_MAX; i++) {
        if (shards.entries[i].is_dir)
            try_shard(search, place.facts_fd, shards.entries[i].name);
    }
    return STATUS_OK;
}

enum status bucket_owner_find(const struct snapshot_source *source, const char *bucket, char *ret,
                              struct error *error)
{
    AUTO_CLOSE int fd = -1;
    struct scope scope;
    char owner[SCOPE_USER_MAX + 1] = "";

    enum status status = scope_create(bucket, NULL, &scope, error);
    if (status != STATUS_OK)
        return status;
    if (!scope_bucket_is_ambiguous(bucket)) {
        memcpy(ret, bucket, strlen(bucket) + 1);
        return STATUS_OK;
    }
    status = bucket_open(source->buckets, &scope, &fd, error);
    if (status != STATUS_OK)
        return status;
    struct search search = {.source = source, .bucket = bucket, .bucket_fd = fd, .ret = owner};
    status = bucket_list_agents(source->buckets, fd, try_agent, &search, error);
    if (status != STATUS_OK)
        return status;
    if (!search.found)
        return error_set(error, STATUS_NOT_FOUND, bucket, "no fact tells whose directory this is");
    memcpy(ret, owner, strlen(owner) + 1);
    return STATUS_OK;
}
