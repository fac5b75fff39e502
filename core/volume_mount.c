/* What the options of a mount let us believe. */
#include "core/volume_private.h"

#include "core/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Where nothing is known. It is also what NFS clients do when nobody says otherwise. */
#define CACHE_TIME_S 60u
#define CACHE_TIME_MAX_S 86400u

/* Mount options with which flock() succeeds and no other node hears of it. */
static const char *const local_lock_options[] = {
    "nolock", "local_lock=all", "local_lock=flock", "localflocks", "localflock",
};

/* File systems whose clients hold what they keep by leave of the server, and give it up when
 * somebody changes it. */
static const char *const coherent[] = {"ceph", "gfs2", "ocfs2", "lustre", "gpfs"};

/* Calls `take` for each option of the last field, until it says true. */
static bool any_option(const char *options,
                       bool (*take)(const char *option, size_t length, void *context),
                       void *context)
{
    while (options) {
        size_t length = strcspn(options, ",\n");
        if (take(options, length, context))
            return true;
        options = options[length] == ',' ? options + length + 1 : NULL;
    }
    return false;
}

static bool is_local_lock_option(const char *option, size_t length, void *context)
{
    (void) context;
    for (size_t i = 0; i < ARRAY_SIZE(local_lock_options); i++) {
        if (strlen(local_lock_options[i]) == length &&
            strncmp(option, local_lock_options[i], length) == 0)
            return true;
    }
    return false;
}

bool volume_mount_keeps_locks(const char *options)
{
    return any_option(options, is_local_lock_option, NULL);
}

struct cache_times {
    uint64_t files_s, directories_s;
};

static bool begins(const char *option, size_t length, const char *name, uint64_t *ret)
{
    size_t size = strlen(name);

    if (length <= size || strncmp(option, name, size) != 0)
        return false;
    *ret = strtoull(option + size, NULL, 10);
    return true;
}

static bool take_cache_time(const char *option, size_t length, void *context)
{
    struct cache_times *times = context;

    if (length == strlen("noac") && strncmp(option, "noac", length) == 0)
        *times = (struct cache_times){0};
    else if (!begins(option, length, "acregmax=", &times->files_s))
        (void) begins(option, length, "acdirmax=", &times->directories_s);
    return false;
}

uint64_t volume_mount_cache_ns(const char *fs_name, const char *options)
{
    struct cache_times times = {.files_s = CACHE_TIME_S, .directories_s = CACHE_TIME_S};

    for (size_t i = 0; i < ARRAY_SIZE(coherent); i++) {
        if (strcmp(fs_name, coherent[i]) == 0)
            return 0;
    }
    if (strcmp(fs_name, "nfs") == 0)
        (void) any_option(options, take_cache_time, &times);
    uint64_t longest_s = times.files_s > times.directories_s ? times.files_s : times.directories_s;
    return (longest_s < CACHE_TIME_MAX_S ? longest_s : CACHE_TIME_MAX_S) * NS_PER_SECOND;
}

/* ID parent device root place options [fields] - type source super-options */
const char *volume_mount_options_of_line(const char *line, uint64_t id)
{
    char *end = NULL;
    const char *type = strstr(line, " - ");

    if (strtoull(line, &end, 10) != id || end == line || *end != ' ' || !type)
        return NULL;
    const char *source = strchr(type + 3, ' ');
    const char *options = source ? strchr(source + 1, ' ') : NULL;
    return options ? options + 1 : NULL;
}

char *volume_mount_options(int fd)
{
    AUTO_FREE char *line = NULL;
    size_t capacity = 0;
    struct statx status;
    const char *options = NULL;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status) < 0 ||
        !(status.stx_mask & STATX_MNT_ID))
        return NULL;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (!file)
        return NULL;
    while (!options && getline(&line, &capacity, file) > 0)
        options = volume_mount_options_of_line(line, status.stx_mnt_id);
    (void) fclose(file);
    return options ? strdup(options) : NULL;
}
