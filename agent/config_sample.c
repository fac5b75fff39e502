#include "agent/config.h"

#include "agent/config_table.h"

#include <string.h>

/* Each line of the help behind "  # ". */
static void write_comment(struct text *text, const char *lines)
{
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        text_append_format(text, "  # %.*s\n", (int) length, lines);
        lines += length + (lines[length] == '\n');
    }
}

/* Words whose meaning YAML readers disagree about are quoted, so that any reader may be used. */
static bool needs_quotes(const struct config_key *key, const char *value)
{
    return !*value || key->kind == CONFIG_MODE;
}

static void write_key(struct text *text, const struct config_key *key)
{
    const char *value = key->standard ? key->standard : key->example;
    const char *quote = needs_quotes(key, value) ? "\"" : "";
    char variable[CONFIG_ENVIRONMENT_NAME_SIZE];
    bool active = key->standard || key->kind == CONFIG_ABSOLUTE;

    config_key_environment(key, variable);
    write_comment(text, key->help);
    text_append_string(text, "  # Allowed: ");
    config_key_describe(key, text);
    text_append_format(text, ".\n  # Environment: %s\n", variable);
    text_append_format(text, "  %s%s: %s%s%s\n", active ? "" : "#", config_key_word(key), quote,
                       value, quote);
}

void config_write_sample(struct text *text)
{
    char section[CONFIG_SECTION_NAME_SIZE] = "";
    const struct config_key *key;

    text_append_string(text,
                       "# Configuration of memsyncd; printed by memsyncd --print-sample-config.\n"
                       "# Every key but volume.path may be left out: what stands here is the\n"
                       "# default. The environment overrides the file, and the command line\n"
                       "# both. Check a changed file with memsyncd --config FILE --check-config.\n"
                       "config_version: 1\n");
    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        char here[CONFIG_SECTION_NAME_SIZE];
        config_key_section(key, here);
        if (strcmp(here, section) != 0)
            text_append_format(text, "\n%s:\n", here);
        else
            text_append_char(text, '\n');
        memcpy(section, here, sizeof here);
        write_key(text, key);
    }
}
