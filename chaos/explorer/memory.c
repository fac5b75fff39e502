#include "chaos/explorer/memory.h"

#include "tests/support/files.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static int compare_facts(const void *a_address, const void *b_address)
{
    const struct memory_fact *a = a_address;
    const struct memory_fact *b = b_address;
    int order = strcmp(a->agent, b->agent);

    return order != 0 ? order : strcmp(a->id, b->id);
}

static struct memory_fact *find(struct memory *memory, const char *agent, const char *id)
{
    for (unsigned i = 0; i < memory->count; i++) {
        struct memory_fact *fact = &memory->facts[i];
        if (strcmp(fact->agent, agent) == 0 && strcmp(fact->id, id) == 0)
            return fact;
    }
    return NULL;
}

const struct memory_fact *memory_find(const struct memory *memory, const char *agent,
                                      const char *id)
{
    for (unsigned i = 0; i < memory->count; i++) {
        const struct memory_fact *fact = &memory->facts[i];
        if (strcmp(fact->agent, agent) == 0 && strcmp(fact->id, id) == 0)
            return fact;
    }
    return NULL;
}

static void copy_word(char *ret, size_t size, const char *text)
{
    memset(ret, 0, size);
    if (snprintf(ret, size, "%s", text) >= (int) size)
        test_die("too long for a memory: %s", text);
}

void memory_put(struct memory *memory, const char *agent, const char *id, const char *text)
{
    struct memory_fact *fact = find(memory, agent, id);

    if (!fact && memory->count == MEMORY_FACTS_MAX)
        test_die("too many facts for a memory");
    if (!fact) {
        fact = &memory->facts[memory->count++];
        copy_word(fact->agent, sizeof fact->agent, agent);
        copy_word(fact->id, sizeof fact->id, id);
    }
    copy_word(fact->text, sizeof fact->text, text);
    qsort(memory->facts, memory->count, sizeof memory->facts[0], compare_facts);
}

void memory_remove(struct memory *memory, const char *agent, const char *id)
{
    struct memory_fact *fact = find(memory, agent, id);

    if (!fact)
        return;
    size_t behind = (size_t) (memory->facts + memory->count - (fact + 1));
    memmove(fact, fact + 1, behind * sizeof *fact);
    memset(&memory->facts[--memory->count], 0, sizeof *fact);
}

void memory_apply(struct memory *memory, const char *agent, const struct temp_change *changes,
                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct temp_change *change = &changes[i];
        if (change->kind == TEMP_ADD || change->kind == TEMP_UPDATE)
            memory_put(memory, agent, change->id, change->text);
        else if (change->kind == TEMP_DELETE)
            memory_remove(memory, agent, change->id);
    }
}

void memory_only(const struct memory *memory, const char *agent, struct memory *ret)
{
    memset(ret, 0, sizeof *ret);
    for (unsigned i = 0; i < memory->count; i++) {
        if (strcmp(memory->facts[i].agent, agent) == 0)
            ret->facts[ret->count++] = memory->facts[i];
    }
}

bool memory_equal(const struct memory *a, const struct memory *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

void memory_describe(const struct memory *memory, struct text *text)
{
    if (memory->count == 0)
        text_append_string(text, "nothing");
    for (unsigned i = 0; i < memory->count; i++) {
        const struct memory_fact *fact = &memory->facts[i];
        text_append_format(text, "%s%s/%s=%s", i > 0 ? " " : "", fact->agent, fact->id, fact->text);
    }
}

/* ---- files ---- */

/* The body: what follows the title's line and an empty one. */
static void add_file(struct memory *memory, const char *agent, const char *path, const char *name)
{
    AUTO_FREE char *bytes = test_read_file(path, NULL);
    const char *title = strstr(bytes, "\n# ");
    const char *body = title ? strstr(title + 1, "\n\n") : NULL;
    char id[MEMORY_WORD_SIZE];
    char text[MEMORY_TEXT_SIZE];

    if (!body)
        test_die("no fact: %s", path);
    (void) snprintf(id, sizeof id, "%.*s", (int) (strlen(name) - strlen(".md")), name);
    (void) snprintf(text, sizeof text, "%.*s", (int) strcspn(body + 2, "\n"), body + 2);
    memory_put(memory, agent, id, text);
}

typedef void (*entry_sink)(struct memory *memory, const char *agent, const char *path,
                           const char *name);

static void for_each(struct memory *memory, const char *agent, const char *directory,
                     entry_sink sink)
{
    DIR *stream = opendir(directory);
    const struct dirent *entry;
    char path[PATH_MAX];

    while (stream && (entry = readdir(stream))) {
        if (entry->d_name[0] == '.')
            continue;
        test_join(path, directory, entry->d_name);
        sink(memory, agent, path, entry->d_name);
    }
    if (stream)
        (void) closedir(stream);
}

static void add_any(struct memory *memory, const char *agent, const char *path, const char *name)
{
    size_t length = strlen(name);

    if (length > 3 && strcmp(name + length - 3, ".md") == 0)
        add_file(memory, agent, path, name);
}

static void add_shard(struct memory *memory, const char *agent, const char *path, const char *name)
{
    (void) name;
    for_each(memory, agent, path, add_any);
}

static void add_agent(struct memory *memory, const char *agent, const char *path, const char *name)
{
    char facts[PATH_MAX];

    (void) agent;
    test_join(facts, path, "facts");
    for_each(memory, name, facts, add_shard);
}

void memory_read(const char *bucket, struct memory *ret)
{
    char agents[PATH_MAX];

    memset(ret, 0, sizeof *ret);
    test_join(agents, bucket, "agents");
    for_each(ret, "", agents, add_agent);
}
