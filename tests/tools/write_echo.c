/* Writes what it reads, for tests that let another program read it back.
 *
 *     write_echo yaml|again|fact <lines-of-json
 *
 * Each line is an object. `yaml` writes it as a mapping, `again` reads that and writes it as JSON,
 * `fact` takes it for a fact that a caller gives for the user "u" and the agent "a" and writes its
 * file. What comes out for a line begins
 * with a line `status size`, the text of that size follows and one newline. */
#include "core/fact_normalise.h"
#include "core/fact_write.h"
#include "core/json_text.h"
#include "core/yaml_value.h"
#include "core/yaml_write.h"

#include <stdio.h>
#include <string.h>

#define WALL_NS UINT64_C(1772352001500000000) /* 2026-03-01T08:00:01.5 */

static enum status write_yaml(const json_t *value, struct text *ret)
{
    yaml_write_mapping(ret, value);
    return text_ok(ret) ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status write_again(const json_t *value, struct text *ret)
{
    AUTO_TEXT struct text yaml = {0};
    AUTO_JSON json_t *read = NULL;

    enum status status = write_yaml(value, &yaml);
    if (status == STATUS_OK)
        status = yaml_value_read(yaml.bytes, yaml.size, &read, NULL, NULL);
    if (status == STATUS_OK)
        json_text_write(ret, read);
    return status;
}

static enum status write_fact(const json_t *value, struct text *ret)
{
    AUTO_JSON json_t *document = NULL;
    struct scope scope;
    struct error error = {0};

    enum status status = scope_create("u", "a", &scope, NULL);
    if (status == STATUS_OK)
        status = fact_normalise(value, &scope, WALL_NS, &document, &error);
    if (status == STATUS_OK)
        status = fact_write(document, &scope, ret, &error);
    if (status != STATUS_OK)
        text_append_string(ret, error.message);
    return status;
}

static const struct mode {
    const char *name;
    enum status (*write)(const json_t *value, struct text *ret);
} modes[] = {
    {"yaml", write_yaml},
    {"again", write_again},
    {"fact", write_fact},
};

static void echo(const struct mode *mode, const char *line, size_t size)
{
    AUTO_JSON json_t *value = NULL;
    AUTO_TEXT struct text written = {0};

    enum status status = json_text_read(line, size, JSON_TEXT_DEPTH_MAX, &value, NULL);
    if (status == STATUS_OK)
        status = mode->write(value, &written);
    (void) printf("%s %zu\n", status_name(status), written.size);
    (void) fwrite(text_string(&written), 1, written.size, stdout);
    (void) putchar('\n');
}

int main(int argc, char **argv)
{
    AUTO_FREE char *line = NULL;
    const struct mode *mode = NULL;
    size_t capacity = 0;
    ssize_t size;

    for (size_t i = 0; argc == 2 && i < ARRAY_SIZE(modes); i++) {
        if (strcmp(argv[1], modes[i].name) == 0)
            mode = &modes[i];
    }
    if (!mode) {
        (void) fprintf(stderr, "usage: write_echo yaml|again|fact\n");
        return 2;
    }
    while ((size = getline(&line, &capacity, stdin)) > 0)
        echo(mode, line, (size_t) size);
    return ferror(stdin) || fflush(stdout) != 0;
}
