/* Fact files as the peers write them: front matter in their order, a title line, the text. */
#include "core/text.h"
#include "tests/support/files.h"
#include "tests/support/temp_volume_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TITLE_CHARACTERS_MAX 160

void temp_now(char ret[32])
{
    struct timespec now;
    struct tm parts;

    if (clock_gettime(CLOCK_REALTIME, &now) < 0 || !gmtime_r(&now.tv_sec, &parts))
        test_die("no clock");
    size_t used = strftime(ret, 32, "%Y-%m-%dT%H:%M:%S", &parts);
    (void) snprintf(ret + used, 32 - used, ".%06ldZ", now.tv_nsec / 1000);
}

static bool is_word(const char *value)
{
    static const char *const others[] = {"y",    "n",     "yes",  "no",  "on", "off",
                                         "true", "false", "null", "inf", "nan"};
    bool has_letter_first = (*value >= 'a' && *value <= 'z') || (*value >= 'A' && *value <= 'Z');

    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        if (strcasecmp(value, others[i]) == 0)
            return false;
    }
    return has_letter_first &&
           strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               strlen(value);
}

/* A YAML string on one line; what is no plain word goes into double quotes. */
static void append_string(struct text *text, const char *key, const char *value)
{
    if (!value) {
        text_append_format(text, "%s: null\n", key);
        return;
    }
    if (is_word(value) || strcmp(value, SCOPE_DEFAULT_AGENT) == 0) {
        text_append_format(text, "%s: %s\n", key, value);
        return;
    }
    text_append_format(text, "%s: \"", key);
    for (const char *at = value; *at; at++) {
        if (*at == '"' || *at == '\\')
            text_append_format(text, "\\%c", *at);
        else if ((unsigned char) *at < 0x20 || *at == 0x7f)
            text_append_format(text, "\\x%02x", (unsigned) *at);
        else
            text_append_char(text, *at);
    }
    text_append_string(text, "\"\n");
}

static void append_title(struct text *text, const char *title)
{
    size_t length = strcspn(title, "\n");
    size_t used = 0;

    for (unsigned characters = 0; used < length && characters < TITLE_CHARACTERS_MAX;
         characters++) {
        size_t size = 0;
        (void) text_decode(title + used, length - used, &size);
        used += size;
    }
    text_append_string(text, "# ");
    text_append(text, title, used);
}

char *temp_fact_render(const char *user, const char *agent, const struct temp_change *change,
                       const char *title, const char *created_at, int64_t revision)
{
    AUTO_TEXT struct text text = {0};
    char now[32];

    temp_now(now);
    text_append_string(&text, "---\n");
    append_string(&text, "id", change->id);
    append_string(&text, "category", change->category ? change->category : "context");
    text_append_format(&text,
                       "confidence: 0.8\ncreatedAt: '%s'\n"
                       "source:\n  type: manual\n  threadId: null\n"
                       "schemaVersion: 2\nstatus: active\ntopics: []\nconsolidatedFrom: []\n"
                       "updatedAt: '%s'\nrevision: %" PRId64 "\n",
                       created_at ? created_at : now, now, revision);
    append_string(&text, "user_id", user);
    append_string(&text, "agent_name", agent ? agent : SCOPE_DEFAULT_AGENT);
    text_append_string(&text, "---\n\n");
    append_title(&text, title ? title : change->text);
    text_append_format(&text, "\n\n%s\n", change->text);
    char *bytes = text_take(&text, NULL);
    if (!bytes)
        test_die("no memory for a fact");
    return bytes;
}

/* The rest of the line that begins with `start` (after a newline); "" when there is none. */
static char *line_after(const char *bytes, const char *start)
{
    const char *found = strstr(bytes, start);
    const char *value = found ? found + strlen(start) : "";
    char *line = strndup(value, strcspn(value, "\n"));

    if (!line)
        test_die("no memory for a line");
    return line;
}

char *temp_fact_next(const char *user, const char *agent, const struct temp_change *change,
                     const char *path)
{
    if (!test_exists(path))
        return temp_fact_render(user, agent, change, NULL, NULL, 1);

    AUTO_FREE char *old = test_read_file(path, NULL);
    AUTO_FREE char *revision = line_after(old, "\nrevision: ");
    AUTO_FREE char *created_at = line_after(old, "\ncreatedAt: '");
    AUTO_FREE char *category = line_after(old, "\ncategory: ");
    AUTO_FREE char *title = line_after(old, "\n---\n\n# ");
    struct temp_change next = *change;

    created_at[strcspn(created_at, "'")] = '\0';
    if (!next.category && *category)
        next.category = category;
    return temp_fact_render(user, agent, &next, *title ? title : NULL,
                            *created_at ? created_at : NULL, strtoll(revision, NULL, 10) + 1);
}
