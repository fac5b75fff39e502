/* status_view.c - a status that fits a small terminal, or a line. */
#include "ipc/cli/status_view.h"

#include "ipc/cli/status_build.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define NAME_WIDTH 9 /* of the lines' names */
#define MIB (1024.0 * 1024.0)

static void put_time(FILE *file)
{
    time_t now = time(NULL);
    struct tm parts;
    char text[40] = "";

    if (localtime_r(&now, &parts))
        (void) strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    (void) fputs(text, file);
}

void status_view_print_line(const struct status_numbers *numbers)
{
    static const struct {
        const char *section;
        const char *name;
        bool has_rate;
    } fields[] = {
        {"build", "percent", false},      {"build", "facts_per_second", false},
        {"build", "remaining_ms", false}, {"index", "facts", false},
        {"index", "broken", false},       {"ipc", "requests", true},
        {"ipc", "errors", false},         {"ipc", "timeouts", false},
        {"ipc", "waiting", false},        {"sync", "searches", true},
        {"sync", "compares", true},       {"sync", "refreshes", true},
        {"sync", "waiting", false},       {"sync", "fresh", false},
        {"sync", "refreshed", false},     {"sync", "stale", false},
        {"sync", "unverified", false},
    };
    double rate;

    put_time(stdout);
    (void) printf(" uptime=%" JSON_INTEGER_FORMAT, status_number(numbers, NULL, "uptime_s"));
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        const char *section = fields[i].section;
        const char *name = fields[i].name;
        if (!json_is_integer(status_member(numbers, section, name)))
            continue;
        (void) printf(" %s.%s=%" JSON_INTEGER_FORMAT, section, name,
                      status_number(numbers, section, name));
        if (fields[i].has_rate && status_rate(numbers, section, name, &rate))
            (void) printf(" %s.%s_s=%.1f", section, name, rate);
    }
    (void) printf(" problems=%zu\n", json_array_size(json_object_get(numbers->now, "problems")));
}

static void put_name(FILE *file, const char *name)
{
    (void) fprintf(file, "%-*s", NAME_WIDTH, name);
}

static void put_uptime(FILE *file, json_int_t seconds)
{
    if (seconds >= 86400)
        (void) fprintf(file, "%d d ", (int) (seconds / 86400));
    (void) fprintf(file, "%02d:%02d:%02d", (int) (seconds / 3600 % 24), (int) (seconds / 60 % 60),
                   (int) (seconds % 60));
}

static void put_head(FILE *file, const struct status_numbers *numbers)
{
    AUTO_FREE char *version = status_text(numbers, NULL, "version");
    AUTO_FREE char *pid = status_text(numbers, NULL, "pid");
    AUTO_FREE char *backend = status_text(numbers, NULL, "backend");

    (void) fprintf(file, "  memsyncd %s  pid %s  %s  up ", version, pid, backend);
    put_uptime(file, status_number(numbers, NULL, "uptime_s"));
}

static void put_volume(FILE *file, const struct status_numbers *numbers)
{
    AUTO_FREE char *path = status_text(numbers, "volume", "path");
    AUTO_FREE char *filesystem = status_text(numbers, "volume", "filesystem");
    AUTO_FREE char *kind = status_text(numbers, "volume", "kind");
    bool is_writable = json_is_true(status_member(numbers, "volume", "writable"));
    bool is_suspended = json_is_true(status_member(numbers, "volume", "suspended"));

    put_name(file, "volume");
    (void) fprintf(file, "%s, %s%s  %s\n", filesystem, kind,
                   is_suspended  ? ", SUSPENDED"
                   : is_writable ? ", writable"
                                 : ", read-only",
                   path);
}

static void put_index(FILE *file, const struct status_numbers *numbers)
{
    bool is_damaged = json_is_true(status_member(numbers, "index", "damaged"));

    put_name(file, "index");
    (void) fprintf(file,
                   "%" JSON_INTEGER_FORMAT " facts in %" JSON_INTEGER_FORMAT
                   " scopes, %" JSON_INTEGER_FORMAT " broken, %.1f MiB%s\n",
                   status_number(numbers, "index", "facts"),
                   status_number(numbers, "index", "scopes"),
                   status_number(numbers, "index", "broken"),
                   (double) (status_number(numbers, "index", "file_bytes") +
                             status_number(numbers, "index", "wal_bytes")) /
                       MIB,
                   is_damaged ? ", DAMAGED" : "");
}

static void put_build(FILE *file, const struct status_numbers *numbers)
{
    const json_t *build = json_object_get(numbers->now, "build");

    put_name(file, status_build_is_under_way(build) ? "building" : "build");
    status_build_print(file, build);
    (void) fputc('\n', file);
}

static void put_watch(FILE *file, const struct status_numbers *numbers)
{
    put_name(file, "watch");
    (void) fprintf(file,
                   "%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
                   " directories, %" JSON_INTEGER_FORMAT " users polled\n",
                   status_number(numbers, "watch", "watched"),
                   status_number(numbers, "watch", "wanted"),
                   status_number(numbers, "watch", "polled"));
}

/* A counter and its rate, in a column of its own. */
static void put_count(FILE *file, const struct status_numbers *numbers, const char *section,
                      const char *name)
{
    double rate;
    char text[40] = "-";

    if (status_rate(numbers, section, name, &rate))
        (void) snprintf(text, sizeof text, "%.1f/s", rate);
    (void) fprintf(file, "  %-16s %10" JSON_INTEGER_FORMAT " %9s", name,
                   status_number(numbers, section, name), text);
}

/* Two counters a line: what the agent does, and what searches got. */
static void put_counts(FILE *file, const struct status_numbers *numbers)
{
    static const char *const pairs[][2] = {
        {"searches", "fresh"},
        {"compares", "refreshed"},
        {"refreshes", "stale"},
        {"files_read", "unverified"},
        {"compare_errors", "refreshes_failed"},
    };

    (void) fputs("sync\n", file);
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        put_count(file, numbers, "sync", pairs[i][0]);
        put_count(file, numbers, "sync", pairs[i][1]);
        (void) fputc('\n', file);
    }
    (void) fprintf(file,
                   "  %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
                   " users compared, %" JSON_INTEGER_FORMAT " refreshes wait, %" JSON_INTEGER_FORMAT
                   " run, the oldest for %" JSON_INTEGER_FORMAT " ms\n",
                   status_number(numbers, "sync", "compared"),
                   status_number(numbers, "sync", "buckets"),
                   status_number(numbers, "sync", "waiting"),
                   status_number(numbers, "sync", "running"),
                   status_number(numbers, "sync", "oldest_running_ms"));
}

static void put_ipc(FILE *file, const struct status_numbers *numbers)
{
    (void) fputs("ipc\n", file);
    put_count(file, numbers, "ipc", "requests");
    put_count(file, numbers, "ipc", "errors");
    (void) fputc('\n', file);
    put_count(file, numbers, "ipc", "timeouts");
    put_count(file, numbers, "ipc", "busy");
    (void) fprintf(file,
                   "\n  %" JSON_INTEGER_FORMAT " clients, %" JSON_INTEGER_FORMAT
                   " requests wait, %" JSON_INTEGER_FORMAT
                   " threads are busy, the oldest for %" JSON_INTEGER_FORMAT " ms\n",
                   status_number(numbers, "ipc", "clients"),
                   status_number(numbers, "ipc", "waiting"),
                   status_number(numbers, "ipc", "threads_busy"),
                   status_number(numbers, "ipc", "oldest_running_ms"));
}

static void put_problems(FILE *file, const struct status_numbers *numbers)
{
    const json_t *problems = json_object_get(numbers->now, "problems");

    if (json_array_size(problems) == 0)
        (void) fputs("no problems\n", file);
    for (size_t i = 0; i < json_array_size(problems); i++) {
        const json_t *problem = json_array_get(problems, i);
        AUTO_FREE char *line =
            screen_line(json_is_string(problem) ? json_string_value(problem) : "",
                        json_string_length(problem), true);
        put_name(file, "problem");
        (void) fprintf(file, "%s\n", line ? line : "");
    }
}

/* What the backend does not tell of is left out. */
static void put_view(FILE *file, const struct status_numbers *numbers)
{
    static const struct {
        const char *section;
        void (*put)(FILE *file, const struct status_numbers *numbers);
    } parts[] = {
        {"volume", put_volume},     {"index", put_index}, {"build", put_build},
        {"watch", put_watch},       {"sync", put_counts}, {"ipc", put_ipc},
        {"problems", put_problems},
    };

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        if (json_object_get(numbers->now, parts[i].section))
            parts[i].put(file, numbers);
    }
}

static enum style style_of(const char *line)
{
    static const struct {
        const char *start;
        enum style style;
    } styles[] = {{"problem", STYLE_BAD},
                  {"no answer", STYLE_BAD},
                  {"building", STYLE_WARNING},
                  {"no problems", STYLE_GOOD},
                  {"  ", STYLE_PLAIN}};

    for (size_t i = 0; i < ARRAY_SIZE(styles); i++) {
        if (strncmp(line, styles[i].start, strlen(styles[i].start)) == 0)
            return styles[i].style;
    }
    return STYLE_PLAIN;
}

/* Lines are cut to the width; those that do not fit are told of in the last. */
static void draw_lines(const struct screen *screen, char *text)
{
    size_t count = 0;
    size_t shown = 0;
    size_t used;
    char *rest = text;

    for (const char *at = text; *at; at++)
        count += *at == '\n';
    (void) fputs("\033[H", stdout);
    for (const char *line; (line = strsep(&rest, "\n")) && rest; shown++) {
        if (shown + 1 == screen->height && count > screen->height) {
            (void) printf("\n\033[K... %zu more", count - shown);
            break;
        }
        int size = (int) screen_fit(line, screen->width, &used);
        /* The last row has no line end, which would scroll. */
        (void) printf("%s\033[K%s%.*s%s", shown > 0 ? "\n" : "",
                      screen_style(screen, shown == 0 ? STYLE_STRONG : style_of(line)), size, line,
                      screen_end(screen));
    }
    (void) fputs("\033[J", stdout);
}

void status_view_draw(const struct status_numbers *numbers, const struct screen *screen,
                      const char *trouble)
{
    AUTO_FREE char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    if (!file)
        return;
    put_time(file);
    if (numbers->now)
        put_head(file, numbers);
    (void) fputc('\n', file);
    if (trouble) {
        AUTO_FREE char *line = screen_line(trouble, strlen(trouble), true);
        (void) fputs("no answer\n", file);
        screen_wrap(file, line ? line : "", 0, screen->width);
    }
    if (numbers->now)
        put_view(file, numbers);
    if (fclose(file) == 0 && text)
        draw_lines(screen, text);
}
