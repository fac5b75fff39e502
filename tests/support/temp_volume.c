#include "tests/support/files.h"
#include "tests/support/temp_volume_private.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define NS_PER_SECOND UINT64_C(1000000000)
#define BROKEN "{\"version\": \"2.0\", \"rev"
#define HELD ".held-by-test"

static struct temp_volume *make_volume(void)
{
    struct temp_volume *volume = calloc(1, sizeof *volume);

    if (!volume)
        test_die("no memory for a volume");
    (void) strcpy(volume->manifest_name, "memory.json");
    return volume;
}

struct temp_volume *temp_volume_create(void)
{
    struct temp_volume *volume = make_volume();
    const char *base = getenv("TMPDIR");
    char outside[PATH_MAX];

    test_join(volume->directory, base && *base ? base : "/tmp", "memsync-test-XXXXXX");
    if (!mkdtemp(volume->directory))
        test_die("cannot make %s", volume->directory);
    test_join(volume->root, volume->directory, "volume");
    test_join(outside, volume->directory, "outside");
    test_make_dirs(volume->root);
    test_make_dirs(outside);
    return volume;
}

struct temp_volume *temp_volume_create_at(const char *path)
{
    struct temp_volume *volume = make_volume();

    (void) snprintf(volume->root, sizeof volume->root, "%s", path);
    return volume;
}

void temp_volume_destroy(struct temp_volume **volume)
{
    if (!*volume)
        return;
    if ((*volume)->directory[0])
        test_remove_tree((*volume)->directory);
    for (struct temp_former *former = (*volume)->formers, *next; former; former = next) {
        next = former->next;
        free(former->bytes);
        free(former);
    }
    free(*volume);
    *volume = NULL;
}

const char *temp_volume_path(const struct temp_volume *volume)
{
    return volume->root;
}

void temp_volume_set_manifest_name(struct temp_volume *volume, const char *name)
{
    (void) snprintf(volume->manifest_name, sizeof volume->manifest_name, "%s", name);
}

/* ---- paths ---- */

void temp_scope(const char *user, const char *agent, struct scope *ret)
{
    struct error error = {0};

    if (scope_create(user, agent, ret, &error) != STATUS_OK)
        test_die("no scope: %s", error.message);
}

void temp_volume_file(const struct temp_volume *volume, const char *path, char ret[PATH_MAX])
{
    test_join(ret, volume->root, path);
}

void temp_volume_fact_path(const char *user, const char *agent, const char *id,
                           char ret[SCOPE_PATH_MAX])
{
    struct scope scope;
    char facts[SCOPE_PATH_MAX];
    char shard[3];

    temp_scope(user, agent, &scope);
    scope_facts_path(&scope, facts);
    fact_id_shard(id, shard);
    if (snprintf(ret, SCOPE_PATH_MAX, "%s/%s/%s.md", facts, shard, id) >= SCOPE_PATH_MAX)
        test_die("a fact's path is too long");
}

void temp_volume_bucket_path(const char *user, char ret[SCOPE_PATH_MAX])
{
    struct scope scope;

    temp_scope(user, NULL, &scope);
    scope_bucket_path(&scope, ret);
}

void temp_volume_manifest_path(const struct temp_volume *volume, const char *user,
                               char ret[SCOPE_PATH_MAX])
{
    struct scope scope;

    temp_scope(user, NULL, &scope);
    scope_file_path(&scope, volume->manifest_name, ret);
}

/* ---- single files ---- */

bool temp_volume_exists(const struct temp_volume *volume, const char *path)
{
    char file[PATH_MAX];

    temp_volume_file(volume, path, file);
    return test_exists(file);
}

char *temp_volume_read(const struct temp_volume *volume, const char *path, size_t *ret_size)
{
    char file[PATH_MAX];

    temp_volume_file(volume, path, file);
    return test_read_file(file, ret_size);
}

void temp_volume_write(struct temp_volume *volume, const char *path, const char *bytes, size_t size)
{
    char file[PATH_MAX];

    temp_volume_file(volume, path, file);
    test_replace_file(file, bytes, size);
}

void temp_volume_make_dir(struct temp_volume *volume, const char *path)
{
    char file[PATH_MAX];

    temp_volume_file(volume, path, file);
    test_make_dirs(file);
}

void temp_volume_remove(struct temp_volume *volume, const char *path)
{
    char file[PATH_MAX];

    temp_volume_file(volume, path, file);
    test_remove_tree(file);
}

void temp_volume_rename(struct temp_volume *volume, const char *from, const char *to)
{
    char old[PATH_MAX];
    char new[PATH_MAX];

    temp_volume_file(volume, from, old);
    temp_volume_file(volume, to, new);
    test_rename(old, new);
}

uint64_t temp_volume_mtime(const struct temp_volume *volume, const char *path)
{
    char file[PATH_MAX];
    struct stat status;

    temp_volume_file(volume, path, file);
    if (stat(file, &status) < 0)
        test_die("cannot look at %s", file);
    return (uint64_t) status.st_mtim.tv_sec * NS_PER_SECOND + (uint64_t) status.st_mtim.tv_nsec;
}

void temp_volume_set_mtime(struct temp_volume *volume, const char *path, uint64_t mtime_ns)
{
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t) (mtime_ns / NS_PER_SECOND),
         .tv_nsec = (long) (mtime_ns % NS_PER_SECOND)},
    };
    char file[PATH_MAX];

    temp_volume_file(volume, path, file);
    if (utimensat(AT_FDCWD, file, times, 0) < 0)
        test_die("cannot set the time of %s", file);
}

size_t temp_volume_count_files(const struct temp_volume *volume, const char *path)
{
    char file[PATH_MAX];

    temp_volume_file(volume, path, file);
    return test_count_files(file);
}

void temp_volume_copy_in(struct temp_volume *volume, const char *directory)
{
    test_copy_tree(directory, volume->root);
}

int temp_volume_lock(struct temp_volume *volume, const char *user, bool exclusive)
{
    char path[SCOPE_PATH_MAX];
    char file[PATH_MAX];
    struct scope scope;

    temp_scope(user, NULL, &scope);
    scope_file_path(&scope, ".memory.lock", path);
    temp_volume_file(volume, path, file);
    test_make_parents(file);
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || flock(fd, exclusive ? LOCK_EX : LOCK_SH) < 0)
        test_die("cannot lock %s", file);
    return fd;
}

/* ---- manifests ---- */

static json_t *read_manifest(const struct temp_volume *volume, const char *path)
{
    if (!temp_volume_exists(volume, path))
        return NULL;
    AUTO_FREE char *bytes = temp_volume_read(volume, path, NULL);
    json_t *manifest = json_loads(bytes, 0, NULL);
    if (!manifest)
        test_die("%s is no JSON", path);
    return manifest;
}

int64_t temp_volume_revision(const struct temp_volume *volume, const char *user)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_manifest_path(volume, user, path);
    AUTO_JSON json_t *manifest = read_manifest(volume, path);
    return manifest ? json_integer_value(json_object_get(manifest, "revision")) : 0;
}

static json_t *empty_summary(void)
{
    return json_pack("{s:s, s:s}", "summary", "", "updatedAt", "");
}

static json_t *empty_manifest(void)
{
    json_t *manifest =
        json_pack("{s:s, s:i, s:s, s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o}}", "version", "2.0",
                  "revision", 0, "lastUpdated", "", "user", "workContext", empty_summary(),
                  "personalContext", empty_summary(), "topOfMind", empty_summary(), "history",
                  "recentMonths", empty_summary(), "earlierContext", empty_summary(),
                  "longTermBackground", empty_summary());

    if (!manifest)
        test_die("no memory for a manifest");
    return manifest;
}

static void set_summary(json_t *manifest, const char *summary, const char *now)
{
    json_t *user = json_object_get(manifest, "user");

    if (!json_is_object(user))
        test_die("a manifest without summaries");
    if (json_object_set_new(user, "workContext",
                            json_pack("{s:s, s:s}", "summary", summary, "updatedAt", now)) < 0)
        test_die("no memory for a summary");
}

/* Replaces a manifest; with a frozen clock, size and time stay. */
static void put_bytes(struct temp_volume *volume, const char *path, const char *bytes, size_t size)
{
    AUTO_FREE char *padded = NULL;
    size_t old_size = 0;

    if (!volume->frozen || !temp_volume_exists(volume, path)) {
        temp_volume_write(volume, path, bytes, size);
        return;
    }
    uint64_t mtime_ns = temp_volume_mtime(volume, path);
    free(temp_volume_read(volume, path, &old_size));
    if (size > old_size)
        test_die("%s cannot keep its size of %zu bytes", path, old_size);
    padded = malloc(old_size + 1);
    if (!padded)
        test_die("no memory for a manifest");
    memset(padded, '\n', old_size);
    memcpy(padded, bytes, size);
    temp_volume_write(volume, path, padded, old_size);
    temp_volume_set_mtime(volume, path, mtime_ns);
}

static void remember(struct temp_volume *volume, const char *bucket, const char *path)
{
    struct temp_former *former = calloc(1, sizeof *former);

    if (!former)
        test_die("no memory for a manifest");
    (void) snprintf(former->bucket, sizeof former->bucket, "%s", bucket);
    if (temp_volume_exists(volume, path))
        former->bytes = temp_volume_read(volume, path, &former->size);
    former->next = volume->formers;
    volume->formers = former;
}

static void manifest_in(const struct temp_volume *volume, const char *bucket,
                        char ret[SCOPE_PATH_MAX])
{
    if (snprintf(ret, SCOPE_PATH_MAX, "%s/%s", bucket, volume->manifest_name) >= SCOPE_PATH_MAX)
        test_die("a manifest's path is too long");
}

void temp_manifest_put(struct temp_volume *volume, const char *bucket, int64_t revision,
                       const char *summary)
{
    char path[SCOPE_PATH_MAX];
    char now[32];

    manifest_in(volume, bucket, path);
    remember(volume, bucket, path);
    AUTO_JSON json_t *manifest = read_manifest(volume, path);
    if (!manifest)
        manifest = empty_manifest();
    temp_now(now);
    if (summary)
        set_summary(manifest, summary, now);
    (void) json_object_set_new(manifest, "version", json_string("2.0"));
    (void) json_object_set_new(manifest, "revision", json_integer(revision));
    (void) json_object_set_new(manifest, "lastUpdated", json_string(now));
    /* Without blanks a frozen one has room for a summary. */
    AUTO_FREE char *bytes = json_dumps(manifest, volume->frozen ? JSON_COMPACT : JSON_INDENT(2));
    if (!bytes)
        test_die("no memory for a manifest");
    put_bytes(volume, path, bytes, strlen(bytes));
}

void temp_volume_set_revision(struct temp_volume *volume, const char *user, int64_t revision)
{
    char bucket[SCOPE_PATH_MAX];

    temp_volume_bucket_path(user, bucket);
    temp_manifest_put(volume, bucket, revision, NULL);
}

/* ---- the verbs ---- */

void temp_volume_freeze_clock(struct temp_volume *volume, bool frozen)
{
    volume->frozen = frozen;
}

void temp_volume_touch(struct temp_volume *volume, const char *user)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_manifest_path(volume, user, path);
    temp_volume_set_mtime(volume, path, temp_volume_mtime(volume, path) + NS_PER_SECOND);
}

int64_t temp_volume_write_manifest(struct temp_volume *volume, const char *user)
{
    int64_t revision = temp_volume_revision(volume, user) + 1;

    temp_volume_set_revision(volume, user, revision);
    return revision;
}

void temp_volume_rollback(struct temp_volume *volume, const char *user)
{
    char bucket[SCOPE_PATH_MAX];
    char path[SCOPE_PATH_MAX];
    struct temp_former **at = &volume->formers;

    temp_volume_bucket_path(user, bucket);
    temp_volume_manifest_path(volume, user, path);
    while (*at && strcmp((*at)->bucket, bucket) != 0)
        at = &(*at)->next;
    struct temp_former *former = *at;
    if (!former)
        test_die("no manifest was replaced in %s", bucket);
    *at = former->next;
    if (former->bytes)
        put_bytes(volume, path, former->bytes, former->size);
    else
        temp_volume_remove(volume, path);
    free(former->bytes);
    free(former);
}

void temp_volume_restore(struct temp_volume *volume, const char *user)
{
    char path[SCOPE_PATH_MAX];
    size_t size = 0;

    temp_volume_manifest_path(volume, user, path);
    AUTO_FREE char *bytes = temp_volume_read(volume, path, &size);
    put_bytes(volume, path, bytes, size);
}

static void break_file(struct temp_volume *volume, const char *path)
{
    char held[SCOPE_PATH_MAX + sizeof HELD];

    (void) snprintf(held, sizeof held, "%s" HELD, path);
    temp_volume_rename(volume, path, held);
    temp_volume_write(volume, path, BROKEN, sizeof BROKEN - 1);
}

static void repair_file(struct temp_volume *volume, const char *path)
{
    char held[SCOPE_PATH_MAX + sizeof HELD];

    (void) snprintf(held, sizeof held, "%s" HELD, path);
    temp_volume_rename(volume, held, path);
}

void temp_volume_break(struct temp_volume *volume, const char *user)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_manifest_path(volume, user, path);
    break_file(volume, path);
}

void temp_volume_repair(struct temp_volume *volume, const char *user)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_manifest_path(volume, user, path);
    repair_file(volume, path);
}

void temp_volume_break_fact(struct temp_volume *volume, const char *user, const char *agent,
                            const char *id)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_fact_path(user, agent, id, path);
    break_file(volume, path);
}

void temp_volume_repair_fact(struct temp_volume *volume, const char *user, const char *agent,
                             const char *id)
{
    char path[SCOPE_PATH_MAX];

    temp_volume_fact_path(user, agent, id, path);
    repair_file(volume, path);
}

void temp_volume_raw(struct temp_volume *volume, const char *user, const char *agent,
                     const struct temp_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char path[SCOPE_PATH_MAX];
        char file[PATH_MAX];

        temp_volume_fact_path(user, agent, changes[i].id, path);
        temp_volume_file(volume, path, file);
        if (changes[i].kind == TEMP_DELETE) {
            test_remove_file(file);
            continue;
        }
        AUTO_FREE char *bytes = temp_fact_next(user, agent, &changes[i], file);
        test_replace_file(file, bytes, strlen(bytes));
    }
}
