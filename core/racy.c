#include "core/racy.h"

#include "core/mutant.h"

#include <string.h>

struct racy_path {
    char *path;
    uint64_t since_ns;
};

void racy_start(struct racy *racy, uint64_t now_ns)
{
    racy_clear(racy);
    racy->base_ns = now_ns;
}

static struct racy_path *find(const struct racy *racy, const char *path)
{
    for (size_t i = 0; i < racy->count; i++) {
        if (strcmp(racy->paths[i].path, path) == 0)
            return &racy->paths[i];
    }
    return NULL;
}

/* Too many single paths, or no memory for one more: all of them count as seen now. */
static void collapse(struct racy *racy, uint64_t now_ns)
{
    racy_start(racy, now_ns);
}

void racy_note(struct racy *racy, const char *path, uint64_t now_ns)
{
    struct racy_path *known = find(racy, path);

    if (known) {
        known->since_ns = now_ns;
        return;
    }
    if (racy->base_ns == 0)
        return;
    if (racy->count == RACY_PATHS_MAX) {
        collapse(racy, now_ns);
        return;
    }

    struct racy_path *paths = realloc(racy->paths, (racy->count + 1) * sizeof *paths);
    char *copy = paths ? strdup(path) : NULL;
    if (paths)
        racy->paths = paths;
    if (!copy) {
        collapse(racy, now_ns);
        return;
    }
    racy->paths[racy->count++] = (struct racy_path){.path = copy, .since_ns = now_ns};
}

uint64_t racy_since(const struct racy *racy, const char *path, uint64_t now_ns)
{
    const struct racy_path *known = find(racy, path);

    if (known)
        return known->since_ns;
    return racy->base_ns ? racy->base_ns : now_ns;
}

void racy_clear(struct racy *racy)
{
    for (size_t i = 0; i < racy->count; i++)
        free(racy->paths[i].path);
    free(racy->paths);
    *racy = (struct racy){0};
}

bool racy_is_settled(uint64_t since_ns, uint64_t looked_ns, uint64_t settle_ns)
{
    return MUTANT(CLEAN_AT_ONCE) || (looked_ns >= since_ns && looked_ns - since_ns >= settle_ns);
}
