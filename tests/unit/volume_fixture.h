/* tests/unit/volume_fixture.h - scratch directories for the tests of the volume modules. */
#ifndef MEMSYNC_TESTS_VOLUME_FIXTURE_H
#define MEMSYNC_TESTS_VOLUME_FIXTURE_H

#include "core/journal.h"
#include "core/text.h"
#include "core/volume.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Criterion's checks store an int in a bit-field. */
#pragma GCC diagnostic ignored "-Wconversion"

#define SCRATCH_SIZE 64

static inline void scratch_create(char ret[SCRATCH_SIZE])
{
    const char *base = getenv("TMPDIR");

    if (!base || strlen(base) > 32)
        base = "/tmp";
    (void) snprintf(ret, SCRATCH_SIZE, "%s/memsync-test-XXXXXX", base);
    cr_assert(ne(ptr, mkdtemp(ret), NULL));
}

static inline int scratch_remove_entry(const char *path, const struct stat *status, int type,
                                       struct FTW *where)
{
    (void) status;
    (void) type;
    (void) where;
    return remove(path);
}

static inline void scratch_remove(const char *dir)
{
    cr_assert(zero(int, nftw(dir, scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS)));
}

static inline const char *joined(char buffer[PATH_MAX], const char *dir, const char *path)
{
    cr_assert(lt(int, snprintf(buffer, PATH_MAX, "%s/%s", dir, path), PATH_MAX));
    return buffer;
}

/* Makes the directories above `path` too. */
static inline void put_dir(const char *dir, const char *path)
{
    char whole[PATH_MAX];

    (void) joined(whole, dir, path);
    for (char *at = strchr(whole + strlen(dir) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void) mkdir(whole, 0755);
        *at = '/';
    }
    (void) mkdir(whole, 0755);
}

static inline void put_file(const char *dir, const char *path, const char *bytes)
{
    char whole[PATH_MAX];
    char above[PATH_MAX];

    (void) snprintf(above, sizeof above, "%s", path);
    char *slash = strrchr(above, '/');
    if (slash) {
        *slash = '\0';
        put_dir(dir, above);
    }
    FILE *file = fopen(joined(whole, dir, path), "we");
    cr_assert(ne(ptr, file, NULL), "%s", whole);
    cr_assert(eq(sz, fwrite(bytes, 1, strlen(bytes), file), strlen(bytes)));
    cr_assert(zero(int, fclose(file)));
}

static inline bool has_file(const char *dir, const char *path)
{
    char whole[PATH_MAX];
    struct stat status;

    return lstat(joined(whole, dir, path), &status) == 0;
}

/* The file's bytes, for free(); NULL when there is none. */
static inline char *get_file(const char *dir, const char *path, size_t *ret_size)
{
    char whole[PATH_MAX];
    struct text text = {0};
    char buffer[4096];
    size_t got;
    FILE *file = fopen(joined(whole, dir, path), "re");

    if (!file)
        return NULL;
    while ((got = fread(buffer, 1, sizeof buffer, file)) > 0)
        text_append(&text, buffer, got);
    (void) fclose(file);
    return text_take(&text, ret_size);
}

static inline bool file_is(const char *dir, const char *path, const char *bytes)
{
    size_t size = 0;
    AUTO_FREE char *found = get_file(dir, path, &size);

    return found && size == strlen(bytes) && memcmp(found, bytes, size) == 0;
}

/* Says what differs, for use inside a check. */
static inline bool same_text(const char *found, const char *expected)
{
    if (strcmp(found, expected) == 0)
        return true;
    (void) fprintf(stderr, "found \"%s\" instead of \"%s\"\n", found, expected);
    return false;
}

/* ---- whole trees ---- */

/* nftw() has no context of its own. */
static struct {
    const char *root;
    const char *target; /* copying */
    char *lines[4096];  /* digesting: "path sha256" */
    size_t count;
} tree_walk;

static inline int tree_copy_entry(const char *path, const struct stat *status, int type,
                                  struct FTW *where)
{
    const char *below = path + strlen(tree_walk.root);
    char whole[PATH_MAX];

    (void) status;
    (void) where;
    if (type == FTW_D) {
        (void) mkdir(joined(whole, tree_walk.target, below), 0755);
        return 0;
    }
    size_t size = 0;
    AUTO_FREE char *bytes = get_file(tree_walk.root, below, &size);
    FILE *file = fopen(joined(whole, tree_walk.target, below), "we");
    if (!bytes || !file || fwrite(bytes, 1, size, file) != size)
        return 1;
    return fclose(file);
}

/* Copies a tree of directories and files into an existing directory. */
static inline void tree_copy(const char *from, const char *to)
{
    tree_walk.root = from;
    tree_walk.target = to;
    cr_assert(zero(int, nftw(from, tree_copy_entry, 16, FTW_PHYS)), "%s", from);
}

static inline char *tree_line(const char *path, const unsigned char digest[32])
{
    char hex[65];
    char *line = NULL;

    (void) sodium_bin2hex(hex, sizeof hex, digest, 32);
    cr_assert(gt(int, asprintf(&line, "%s %s\n", path, hex), 0));
    return line;
}

static inline int tree_digest_entry(const char *path, const struct stat *status, int type,
                                    struct FTW *where)
{
    const char *below = path + strlen(tree_walk.root) + 1;
    unsigned char digest[32];
    size_t size = 0;

    (void) status;
    if (type == FTW_D || strcmp(path + where->base, JOURNAL_LOCK_NAME) == 0)
        return 0;
    AUTO_FREE char *bytes = get_file(tree_walk.root, below, &size);
    if (!bytes || tree_walk.count == ARRAY_SIZE(tree_walk.lines))
        return 1;
    (void) crypto_hash_sha256(digest, (const unsigned char *) bytes, size);
    tree_walk.lines[tree_walk.count++] = tree_line(below, digest);
    return 0;
}

static inline int tree_compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Sorts and joins the lines that were gathered; for free(). */
static inline char *tree_join_lines(void)
{
    struct text text = {0};

    if (tree_walk.count > 0)
        qsort(tree_walk.lines, tree_walk.count, sizeof tree_walk.lines[0], tree_compare_lines);
    for (size_t i = 0; i < tree_walk.count; i++) {
        text_append_string(&text, tree_walk.lines[i]);
        free(tree_walk.lines[i]);
    }
    tree_walk.count = 0;
    return text_take(&text, NULL);
}

/* A line for each file, lock files left out: path and SHA-256; for free(). */
static inline char *tree_digest(const char *dir)
{
    tree_walk.root = dir;
    tree_walk.count = 0;
    cr_assert(zero(int, nftw(dir, tree_digest_entry, 16, FTW_PHYS)), "%s", dir);
    return tree_join_lines();
}

#endif
