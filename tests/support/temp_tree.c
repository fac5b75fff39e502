#include "tests/support/temp_tree.h"

#include "tests/support/files.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>

#define DESCRIPTORS_MAX 16
#define LOCK ".memory.lock"
#define JOURNAL ".memory.journal.json"
#define RECOVERY "/.recovery/"

/* nftw() has no argument for its caller. */
static _Thread_local const char *top;
static _Thread_local json_t *tree;
static _Thread_local char *leftovers;
static _Thread_local size_t leftovers_size;

static const char *below_top(const char *path)
{
    size_t length = strlen(top);

    return path[length] ? path + length + 1 : "";
}

static int read_one(const char *path, const struct stat *status UNUSED, int kind, struct FTW *place)
{
    size_t size = 0;

    if (kind != FTW_F || strcmp(path + place->base, LOCK) == 0)
        return 0;
    /* Somebody else may be removing what a dead writer has left. */
    AUTO_FREE char *bytes = test_read_file_if_there(path, &size);
    if (!bytes)
        return 0;
    return json_object_set_new(tree, below_top(path), json_stringn_nocheck(bytes, size));
}

json_t *temp_tree_read(const struct temp_volume *volume, const char *path)
{
    char full[PATH_MAX];

    temp_volume_file(volume, path, full);
    top = full;
    tree = json_object();
    if (!tree || (test_exists(full) && nftw(full, read_one, DESCRIPTORS_MAX, FTW_PHYS) != 0))
        test_die("cannot read %s", full);
    return tree;
}

static bool is_leftover(const char *path, const char *name)
{
    size_t length = strlen(name);

    return strcmp(name, JOURNAL) == 0 || strstr(path, RECOVERY) ||
           (name[0] == '.' && length > 4 && strcmp(name + length - 4, ".tmp") == 0);
}

static int judge_one(const char *path, const struct stat *status UNUSED, int kind UNUSED,
                     struct FTW *place)
{
    size_t used = strlen(leftovers);

    if (is_leftover(path, path + place->base))
        (void) snprintf(leftovers + used, leftovers_size - used, "%s%s", used ? " " : "",
                        below_top(path));
    return 0;
}

void temp_tree_leftovers(const struct temp_volume *volume, const char *path, char *ret, size_t size)
{
    char full[PATH_MAX];

    temp_volume_file(volume, path, full);
    top = full;
    leftovers = ret;
    leftovers_size = size;
    ret[0] = '\0';
    if (test_exists(full) && nftw(full, judge_one, DESCRIPTORS_MAX, FTW_PHYS) != 0)
        test_die("cannot read %s", full);
}

static bool lacks(const json_t *a, const json_t *b, char *ret, size_t size)
{
    const char *path;
    json_t *bytes;

    json_object_foreach(json_unconst(a), path, bytes)
    {
        if (json_equal(bytes, json_object_get(b, path)))
            continue;
        (void) snprintf(ret, size, "%s", path);
        return true;
    }
    return false;
}

void temp_tree_differ(const json_t *a, const json_t *b, char *ret, size_t size)
{
    ret[0] = '\0';
    if (!lacks(a, b, ret, size))
        (void) lacks(b, a, ret, size);
}
