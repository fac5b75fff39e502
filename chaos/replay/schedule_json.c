/* The list of interleavings, told in our own language: every step becomes a line of text, so that
 * one parser and one player serve both.
 */
#include "chaos/replay/schedule.h"
#include "core/text.h"
#include "tests/support/files.h"

#include <string.h>

/* Its verbs and ours; "" : nothing of ours happens there. The parts `snapshot` and `decide` of an
 * own write are no moments of ours: rows and signature change in one transaction, and what searches
 * see of it is what `apply` is there. */
static const struct verb {
    char actor;
    const char *theirs;
    const char *ours;
} verbs[] = {
    {'B', "commit", "peer commit"},
    {'B', "raw", "peer raw"},
    {'B', "manifest", "peer manifest"},
    {'B', "rollback", "peer rollback"},
    {'B', "restore", "peer restore"},
    {'B', "touch", "peer touch"},
    {'B', "freeze-clock", "peer freeze"},
    {'B', "break", "break manifest"},
    {'B', "repair", "repair manifest"},
    {'B', "break-fact", "break fact"},
    {'B', "repair-fact", "repair fact"},
    {'R', "capture", "capture"},
    {'R', "read", "read"},
    {'R', "install", "install"},
    {'R', "publish", "publish"},
    {'R', "all", "all"},
    {'W', "commit", "commit"},
    {'W', "snapshot", ""},
    {'W', "apply", "install"},
    {'W', "decide", ""},
    {'W', "fail-next", "refuse"},
    {'W', "all", "all"},
    {'S', "search", "search"},
    {'S', "state", "state"},
};

static const char *string_at(const json_t *array, size_t index)
{
    const char *text = json_string_value(json_array_get(array, index));

    return text ? text : "";
}

static const struct verb *find_verb(const json_t *step)
{
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        if (verbs[i].actor == *string_at(step, 0) &&
            strcmp(verbs[i].theirs, string_at(step, 1)) == 0)
            return &verbs[i];
    }
    test_die("no such step in the list: %s %s", string_at(step, 0), string_at(step, 1));
}

/* The first fact of a user, which a broken one is to be. */
static const char *const first_fact = "a f1";

static void say_changes(struct text *text, const json_t *changes)
{
    size_t i;
    json_t *change;

    if (json_array_size(changes) == 0)
        text_append_string(text, " nothing");
    json_array_foreach(json_unconst(changes), i, change)
    {
        const char *kind = string_at(change, 0);
        if (strcmp(kind, "summary") == 0)
            text_append_string(text, " summary");
        else if (strcmp(kind, "delete") == 0)
            text_append_format(text, " -%s", string_at(change, 1));
        else
            text_append_format(text, " %s%s=\"%s\"", strcmp(kind, "add") == 0 ? "+" : "~",
                               string_at(change, 1), string_at(change, 2));
    }
}

/* "u/a", "u" where no agent is meant. */
static void say_scope(struct text *text, const char *user, const char *agent)
{
    text_append_format(text, " %s", user);
    if (*agent && strcmp(agent, "-") != 0)
        text_append_format(text, "/%s", agent);
}

static void say_found(struct text *text, const json_t *result)
{
    const char *key;
    json_t *value;

    if (json_is_string(result)) {
        text_append_format(text, " %s", json_string_value(result));
        return;
    }
    if (json_object_size(result) == 0)
        text_append_string(text, " nothing");
    json_object_foreach(json_unconst(result), key, value)
        text_append_format(text, " %s=\"%s\"", key, json_string_value(value));
}

static void say_search(struct text *text, const json_t *step, const json_t *expect)
{
    size_t i;
    json_t *item;

    json_array_foreach(json_array_get(step, 2), i, item)
        say_scope(text, string_at(item, 0), string_at(item, 1));
    text_append_string(text, " ->");
    say_found(text, json_object_get(expect, "result"));
    const json_t *rebuilds = json_object_get(expect, "rebuilds");
    if (rebuilds)
        text_append_format(text, " | refreshes %lld", (long long) json_integer_value(rebuilds));
    json_array_foreach(json_object_get(expect, "states"), i, item)
        text_append_format(text, "%s %s", i == 0 ? " |" : "", json_string_value(item));
}

static void say_rest(struct text *text, const struct verb *verb, const json_t *step,
                     const json_t *expect)
{
    if (strcmp(verb->theirs, "search") == 0) {
        say_search(text, step, expect);
        return;
    }
    if (strcmp(verb->theirs, "break-fact") == 0) {
        text_append_format(text, " %s/%s", string_at(step, 2), first_fact);
        return;
    }
    if (json_array_size(step) > 2)
        say_scope(text, string_at(step, 2), string_at(step, 3));
    else if (strcmp(verb->theirs, "capture") == 0 ||
             (verb->actor == 'R' && strcmp(verb->theirs, "all") == 0))
        text_append_string(text, " everything");
    if (json_array_size(step) > 4)
        say_changes(text, json_array_get(step, 4));
    if (strcmp(verb->theirs, "state") == 0)
        text_append_format(text, " -> %s", json_string_value(json_object_get(expect, "state")));
}

static void say_step(struct text *text, const json_t *item)
{
    const json_t *step = json_object_get(item, "step");
    const struct verb *verb = find_verb(step);

    if (!*verb->ours)
        return;
    if (verb->actor == 'R' || verb->actor == 'W')
        text_append_format(text, "%s ", string_at(step, 0));
    text_append_string(text, verb->ours);
    say_rest(text, verb, step, json_object_get(item, "expect"));
    text_append_char(text, '\n');
}

static void say_agent(struct text *text, const char *user, const char *agent, const json_t *facts)
{
    const char *id;
    json_t *value;

    text_append_format(text, "start %s/%s", user, agent);
    json_object_foreach(json_unconst(facts), id, value)
        text_append_format(text, " %s=\"%s\"", id, json_string_value(value));
    text_append_char(text, '\n');
}

static void say_start(struct text *text, const json_t *start)
{
    const char *user;
    json_t *agents;

    json_object_foreach(json_unconst(start), user, agents)
    {
        const char *agent;
        json_t *facts;
        if (json_object_size(agents) == 0)
            text_append_format(text, "start %s\n", user);
        json_object_foreach(agents, agent, facts) say_agent(text, user, agent, facts);
    }
}

static void say_schedule(struct text *text, const json_t *schedule)
{
    size_t i;
    json_t *step;

    text_append_format(text, "schedule %s %s\n", json_string_value(json_object_get(schedule, "id")),
                       json_string_value(json_object_get(schedule, "title")));
    say_start(text, json_object_get(schedule, "start"));
    if (!json_is_true(json_object_get(schedule, "warm")))
        text_append_string(text, "cold\n");
    json_array_foreach(json_object_get(schedule, "steps"), i, step) say_step(text, step);
}

void schedule_list_load_json(struct schedule_list *list, const char *path)
{
    AUTO_JSON json_t *document = json_load_file(path, 0, NULL);
    AUTO_TEXT struct text text = {0};
    size_t i;
    json_t *schedule;

    json_array_foreach(json_object_get(document, "schedules"), i, schedule)
        say_schedule(&text, schedule);
    if (!text_ok(&text) || i == 0)
        test_die("no schedules in %s", path);
    schedule_list_parse(list, path, text_string(&text));
}
