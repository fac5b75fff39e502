#include "chaos/replay/schedule.h"

#include "chaos/replay/step.h"
#include "tests/support/files.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 16384

/* Where the parser is. */
struct reading_place {
    const char *name;
    unsigned line;
    struct schedule_list *list;
    struct schedule *schedule; /* the one that the next lines belong to */
};

static void destroy_schedule(struct schedule *schedule)
{
    for (size_t i = 0; i < schedule->count; i++)
        step_destroy(&schedule->steps[i]);
    free(schedule->steps);
    free(schedule->title);
    free(schedule->source);
    json_decref(schedule->start);
}

void schedule_list_destroy(struct schedule_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        destroy_schedule(&list->schedules[i]);
    free(list->schedules);
    *list = (struct schedule_list){0};
}

static void *grown(void *items, size_t count, size_t item_size)
{
    void *larger = realloc(items, (count + 1) * item_size);

    if (!larger)
        test_die("no memory for a schedule");
    return larger;
}

static void begin_schedule(struct reading_place *place, const char *rest)
{
    struct schedule_list *list = place->list;
    int used = 0;

    list->schedules = grown(list->schedules, list->count, sizeof *list->schedules);
    place->schedule = &list->schedules[list->count++];
    *place->schedule = (struct schedule){.start = json_object()};
    if (sscanf(rest, "%31s %n", place->schedule->id, &used) != 1)
        test_die("%s:%u: a schedule without a name", place->name, place->line);
    place->schedule->title = strdup(rest + used);
}

/* "u/a f1=one f2=two", or "u" for a user with nothing on the disk. */
static void read_start(struct reading_place *place, const char *rest)
{
    AUTO_WORDS struct step_words words = {0};
    struct step_scope scope = {0};
    json_t *facts = json_object();

    step_words_split(rest, &words);
    bool has_agent = words.count > 0 && step_scope_parse(words.words[0], &scope);
    for (size_t i = 1; i < words.count; i++) {
        if (!step_facts_parse(words.words[i], "", facts))
            test_die("%s:%u: no fact: %s", place->name, place->line, words.words[i]);
    }
    json_t *user = json_object_get(place->schedule->start, scope.user);
    if (!user) {
        user = json_object();
        (void) json_object_set_new(place->schedule->start, scope.user, user);
    }
    if (has_agent)
        (void) json_object_set_new(user, scope.agent, facts);
    else
        json_decref(facts);
}

static void append_source(struct schedule *schedule, const char *line)
{
    size_t length = schedule->source ? strlen(schedule->source) : 0;

    schedule->source = realloc(schedule->source, length + strlen(line) + 2);
    if (!schedule->source)
        test_die("no memory for a schedule");
    (void) sprintf(schedule->source + length, "%s\n", line);
}

static bool is_word(const char *line, const char *word, const char **ret_rest)
{
    size_t length = strlen(word);

    if (strncmp(line, word, length) != 0 || (line[length] != '\0' && line[length] != ' '))
        return false;
    *ret_rest = line + length + strspn(line + length, " ");
    return true;
}

static void read_step(struct reading_place *place, const char *line)
{
    struct schedule *schedule = place->schedule;
    char why[256] = "";

    schedule->steps = grown(schedule->steps, schedule->count, sizeof *schedule->steps);
    if (!step_parse(line, &schedule->steps[schedule->count], why, sizeof why))
        test_die("%s:%u: %s: %s", place->name, place->line, why, line);
    schedule->count++;
}

static void read_line(struct reading_place *place, const char *line)
{
    const char *rest;

    line += strspn(line, " ");
    if (*line == '\0' || *line == '#')
        return;
    if (is_word(line, "schedule", &rest))
        begin_schedule(place, rest);
    if (!place->schedule)
        test_die("%s:%u: no schedule has begun: %s", place->name, place->line, line);
    append_source(place->schedule, line);
    if (is_word(line, "schedule", &rest))
        return;
    if (is_word(line, "start", &rest))
        read_start(place, rest);
    else if (is_word(line, "cold", &rest))
        place->schedule->cold = true;
    else if (is_word(line, "closed", &rest))
        place->schedule->closed = true;
    else if (is_word(line, "kinds", &rest))
        place->schedule->kinds = true;
    else
        read_step(place, line);
}

/* What most schedules start from. */
static void fill_in_starts(struct schedule_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (json_object_size(list->schedules[i].start) > 0)
            continue;
        json_decref(list->schedules[i].start);
        list->schedules[i].start = json_pack("{s:{s:{s:s, s:s}, s:{s:s}}}", "u", "a", "f1", "one",
                                             "f2", "two", "b", "g1", "bee");
    }
}

void schedule_list_parse(struct schedule_list *list, const char *name, const char *text)
{
    struct reading_place place = {.name = name, .list = list};
    char line[LINE_MAX_BYTES];

    while (*text) {
        size_t length = strcspn(text, "\n");
        place.line++;
        if (length >= sizeof line)
            test_die("%s:%u: the line is too long", name, place.line);
        memcpy(line, text, length);
        line[length] = '\0';
        read_line(&place, line);
        text += length + (text[length] == '\n');
    }
    fill_in_starts(list);
}

static void load_file(struct schedule_list *list, const char *path)
{
    AUTO_FREE char *text = test_read_file(path, NULL);

    schedule_list_parse(list, path, text);
}

void schedule_list_load(struct schedule_list *list, const char *path)
{
    char pattern[PATH_MAX];
    glob_t found;

    (void) snprintf(pattern, sizeof pattern, "%s/*.txt", path);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            load_file(list, found.gl_pathv[i]);
    } else {
        load_file(list, path);
    }
    globfree(&found);
}

const struct schedule *schedule_list_find(const struct schedule_list *list, const char *id)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->schedules[i].id, id) == 0)
            return &list->schedules[i];
    }
    return NULL;
}

const struct step *schedule_look(const struct schedule *schedule, size_t nth)
{
    for (size_t i = 0; i < schedule->count; i++) {
        const struct step *step = &schedule->steps[i];
        if ((step->verb == STEP_SEARCH || step->verb == STEP_STATE) && nth-- == 0)
            return step;
    }
    return NULL;
}
