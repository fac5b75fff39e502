#include "chaos/faults/truth.h"

#include "core/json_text.h"
#include "tests/support/files.h"
#include "tests/support/temp_tree.h"

#include <stdio.h>
#include <string.h>

#define WORD "note "
#define FACTS_MAX 32
#define ITEM_MAX 96

struct fact_list {
    char facts[FACTS_MAX][ITEM_MAX];
    char contents[FACTS_MAX][ITEM_MAX];
    size_t count;
};

struct fact_list *fact_list_create(void)
{
    struct fact_list *list = calloc(1, sizeof *list);

    if (!list)
        test_die("no memory for facts");
    return list;
}

void fact_list_add(struct fact_list *list, const char *id, const char *content)
{
    if (list->count == FACTS_MAX)
        test_die("too many facts");
    if (strncmp(content, WORD, strlen(WORD)) == 0)
        content += strlen(WORD);
    (void) snprintf(list->facts[list->count], ITEM_MAX, "%.40s=%.40s", id, content);
    (void) snprintf(list->contents[list->count], ITEM_MAX, "%.40s", content);
    list->count++;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void join(char (*items)[ITEM_MAX], size_t count, char ret[TRUTH_TEXT_MAX])
{
    size_t used = 0;

    qsort(items, count, sizeof *items, by_text);
    ret[0] = '\0';
    for (size_t i = 0; i < count && used < TRUTH_TEXT_MAX; i++)
        used += (size_t) snprintf(ret + used, TRUTH_TEXT_MAX - used, "%s%s", i > 0 ? "," : "",
                                  items[i]);
}

void fact_list_finish(struct fact_list **list, struct truth *ret)
{
    join((*list)->facts, (*list)->count, ret->facts);
    join((*list)->contents, (*list)->count, ret->contents);
    free(*list);
    *list = NULL;
}

void scope_name_split(const char *scope, char ret_user[64], char ret_agent[64])
{
    if (sscanf(scope, "%63[^/]/%63s", ret_user, ret_agent) != 2)
        test_die("no scope: %s", scope);
    if (strcmp(ret_agent, "-") == 0)
        (void) strcpy(ret_agent, SCOPE_DEFAULT_AGENT);
}

/* What a reader needs and a careless writer could lose. */
static const char *missing_key(const char *bytes)
{
    static const char *const keys[] = {"\ncategory: ",      "\nconfidence: ", "\ncreatedAt: ",
                                       "\nsource:",         "\nupdatedAt: ",  "\nrevision: ",
                                       "\nschemaVersion: ", "\nstatus: ",     "\ntopics:",
                                       "\nuser_id: ",       "\nagent_name: "};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (!strstr(bytes, keys[i]))
            return keys[i] + 1;
    }
    return NULL;
}

static bool has_id(const struct fact_list *list, const char *id)
{
    size_t length = strlen(id);

    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->facts[i], id, length) == 0 && list->facts[i][length] == '=')
            return true;
    }
    return false;
}

/* One fact file: the id of its front matter, and what follows the title. `is_old`: unless the fact
 * has a newer file. */
static void add_file(struct fact_list *list, const char *path, const char *bytes, bool is_old)
{
    const char *id = strstr(bytes, "\nid: ");
    const char *title = strstr(bytes, "\n---\n\n# ");
    const char *content = title ? strstr(title + 8, "\n\n") : NULL;
    char id_text[64];
    char content_text[64];

    if (!id || !content)
        test_die("no fact: %s", path);
    id += 5;
    content += 2;
    (void) snprintf(id_text, sizeof id_text, "%.*s", (int) strcspn(id, "\n"), id);
    (void) snprintf(content_text, sizeof content_text, "%.*s", (int) strcspn(content, "\n"),
                    content);
    const char *missing = missing_key(bytes);
    if (!is_old || !has_id(list, id_text))
        fact_list_add(list, id_text, missing ? missing : content_text);
}

static void add_files(struct fact_list *list, const struct temp_volume *volume, const char *bucket,
                      const char *agent, bool is_old)
{
    char directory[2 * SCOPE_PATH_MAX];
    const char *path;
    json_t *bytes;

    (void) snprintf(directory, sizeof directory, "%s/agents/%s/facts", bucket, agent);
    AUTO_JSON json_t *tree = temp_tree_read(volume, directory);
    json_object_foreach(json_unconst(tree), path, bytes)
    {
        const char *end = strrchr(path, '.');
        const char *name = strrchr(path, '/');
        if (end && strcmp(end, ".md") == 0 && (name ? name[1] : path[0]) != '.')
            add_file(list, path, json_string_value(bytes), is_old);
    }
}

/* The facts of an earlier layout lie in one list, where an id may come twice. What has a file of
 * its own by now is shown from there. */
static void add_old(struct fact_list *list, const json_t *document)
{
    const json_t *fact;
    size_t i;

    json_array_foreach(json_object_get(document, "facts"), i, fact)
    {
        const char *id = json_string_value(json_object_get(fact, "id"));
        if (!has_id(list, id))
            fact_list_add(list, id, json_string_value(json_object_get(fact, "content")));
    }
}

static json_t *read_document(const struct temp_volume *volume, const char *path)
{
    if (!temp_volume_exists(volume, path))
        return NULL;
    AUTO_FREE char *bytes = temp_volume_read(volume, path, NULL);
    return json_loads(bytes, 0, NULL);
}

/* What a commit has changed does not count before its journal says so. */
static bool is_half_done(const struct temp_volume *volume, const char *bucket)
{
    char path[2 * SCOPE_PATH_MAX];

    (void) snprintf(path, sizeof path, "%s/.memory.journal.json", bucket);
    AUTO_JSON json_t *journal = read_document(volume, path);
    const char *state = json_string_value(json_object_get(journal, "state"));
    return state && strcmp(state, "prepared") == 0;
}

void truth_read(const struct temp_volume *volume, const char *scope, struct truth *ret)
{
    char user[64];
    char agent[64];
    char bucket[SCOPE_PATH_MAX];
    char path[2 * SCOPE_PATH_MAX];
    struct fact_list *list = fact_list_create();

    scope_name_split(scope, user, agent);
    temp_volume_bucket_path(user, bucket);
    *ret = (struct truth){0};
    ret->is_whole = !is_half_done(volume, bucket);
    (void) snprintf(path, sizeof path, "%s/memory.json", bucket);
    AUTO_JSON json_t *manifest = read_document(volume, path);
    ret->revision = json_integer_value(json_object_get(manifest, "revision"));
    const json_t *section = json_object_get(json_object_get(manifest, "user"), "workContext");
    const char *summary = json_string_value(json_object_get(section, "summary"));
    (void) snprintf(ret->summary, sizeof ret->summary, "%s", summary ? summary : "");
    add_files(list, volume, bucket, agent, false);
    if (strcmp(agent, SCOPE_DEFAULT_AGENT) == 0) {
        add_files(list, volume, bucket, SCOPE_LEGACY_AGENT, true);
        add_old(list, manifest);
    }
    (void) snprintf(path, sizeof path, "%s/agents/%s/memory.json", bucket, agent);
    AUTO_JSON json_t *old = read_document(volume, path);
    add_old(list, old);
    fact_list_finish(&list, ret);
    if (ret->summary[0] && strcmp(ret->summary, TRUTH_OLD_SUMMARY) != 0) {
        size_t used = strlen(ret->contents);
        (void) snprintf(ret->contents + used, sizeof ret->contents - used, "|%s", ret->summary);
    }
}
