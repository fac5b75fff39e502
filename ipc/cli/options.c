/* options.c - reads the command line and the environment. */
#include "ipc/cli/options.h"

#include "ipc/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#define TIMEOUT_MS_MAX 600000
#define STALENESS_MS_MAX 86400000
#define COUNT_MAX 1000000
#define REVISION_MAX INT64_MAX
#define INTERVAL_S_MIN 0.1
#define INTERVAL_S_MAX 3600.0
#define NAMES_WIDTH 29

static const struct option_row {
    char letter; /* 0: the long name only */
    const char *name;
    const char *value; /* what it stands before, NULL: a switch */
    enum option_bit bit;
    const char *help;
} option_rows[] = {
    {'e', "endpoint", "ENDPOINT", OPTION_ENDPOINT,
     "where the agent listens ($MEMSYNC_ENDPOINT; " MEMSYNC_DEFAULT_ENDPOINT ")"},
    {0, "json", NULL, OPTION_JSON, "print the agent's answer as it came, errors as JSON too"},
    {0, "timeout", "MS", OPTION_TIMEOUT,
     "wait this long for an answer (5000; writing 30000; import, clear, migrate 600000)"},
    {0, "color", "WHEN", OPTION_COLOR, "auto, always or never; $NO_COLOR means never"},
    {'h', "help", NULL, OPTION_HELP, "show help, also for a command"},
    {'V', "version", NULL, OPTION_VERSION, "show the version"},
    {'u', "user", "USER", OPTION_USER, "whose memory ($MEMSYNC_USER)"},
    {0, "no-user", NULL, OPTION_NO_USER, "the memory that belongs to no user"},
    {'a', "agent", "AGENT", OPTION_AGENT, "which agent's facts ($MEMSYNC_AGENT; the default one)"},
    {'k', "top-k", "N", OPTION_TOP_K, "at most this many results (5)"},
    {'c', "category", "CATEGORY", OPTION_CATEGORY,
     "only facts of this category ('other': any that is not of the core set); with add and "
     "update, the fact's own"},
    {0, "freshness", "MODE", OPTION_FRESHNESS,
     "strict: compare with the volume first; bounded: unless that was done lately; local: never"},
    {0, "max-staleness", "MS", OPTION_MAX_STALENESS, "what \"lately\" means for bounded"},
    {0, "full", NULL, OPTION_FULL, "read every file again, whatever seems unchanged"},
    {0, "all", NULL, OPTION_ALL,
     "every scope that the agent knows; to clear, every agent of the user"},
    {0, "accept-volume", NULL, OPTION_ACCEPT_VOLUME,
     "take the volume that is mounted now for the right one"},
    {0, "watch", NULL, OPTION_WATCH, "show the main numbers again and again until interrupted"},
    {0, "interval", "S", OPTION_INTERVAL, "with --watch: seconds from one look to the next (1)"},
    {0, "count", "N", OPTION_COUNT, "stop after this many"},
    {0, "limit", "N", OPTION_LIMIT, "at most this many facts"},
    {0, "offset", "N", OPTION_OFFSET, "without the first N facts"},
    {'y', "yes", NULL, OPTION_YES, "do not ask before something is destroyed"},
    {0, "content", "TEXT", OPTION_CONTENT, "the fact's new text; - reads standard input"},
    {0, "confidence", "N", OPTION_CONFIDENCE, "how sure the fact is, from 0 to 1"},
    {0, "topic", "TOPIC", OPTION_TOPIC, "a topic of the fact, can be repeated; '' alone: none"},
    {0, "source", "SOURCE", OPTION_SOURCE,
     "manual (unless given), consolidation, import, unknown, or the id of a thread"},
    {0, "source-error", "TEXT", OPTION_SOURCE_ERROR, "of a correction: what was wrong before"},
    {0, "expect-revision", "N", OPTION_EXPECT_REVISION,
     "only if the fact (or, for summaries, import and clear, the memory) still has this revision"},
    {'o', "output", "FILE", OPTION_OUTPUT, "write to this file, which appears when it is whole"},
    {0, "dry-run", NULL, OPTION_DRY_RUN, "say what would happen, and change nothing"},
    {0, "set", "SECTION=TEXT", OPTION_SET,
     "replace the text of a summary, e.g. user.workContext=...; can be repeated"},
    {0, "set-file", "FILE", OPTION_SET_FILE,
     "replace the summaries that this JSON document names; - reads standard input"},
    {0, "erase", NULL, OPTION_ERASE, "also what is kept of memories in earlier formats"},
};

#define OPTION_ROWS ARRAY_SIZE(option_rows)

static const struct option_row *find_row(uint64_t bit)
{
    for (size_t i = 0; i < OPTION_ROWS; i++) {
        if (option_rows[i].bit == bit)
            return &option_rows[i];
    }
    return NULL;
}

static bool read_number(const char *name, const char *text, long min, long max, long *ret)
{
    char *end;

    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min || value > max) {
        complain(NULL, "--%s takes a number from %ld to %ld, not \"%s\"", name, min, max, text);
        return false;
    }
    *ret = value;
    return true;
}

static bool read_seconds(const char *name, const char *text, long *ret_ms)
{
    char *end;

    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(value >= INTERVAL_S_MIN) ||
        value > INTERVAL_S_MAX) {
        complain(NULL, "--%s takes seconds from %g to %g, not \"%s\"", name, INTERVAL_S_MIN,
                 INTERVAL_S_MAX, text);
        return false;
    }
    *ret_ms = (long) (value * 1000 + 0.5);
    return true;
}

static bool read_word(const char *name, const char *text, const char *const words[3],
                      const char **ret)
{
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret = text;
            return true;
        }
    }
    complain(NULL, "--%s is %s, %s or %s, not \"%s\"", name, words[0], words[1], words[2], text);
    return false;
}

static bool read_text(const char *name, const char *text, const char **ret)
{
    if (*text == '\0') {
        complain(NULL, "--%s must not be empty", name);
        return false;
    }
    *ret = text;
    return true;
}

/* strtod() alone would take blanks, hexadecimal digits and words as well. */
static bool read_confidence(const char *name, const char *text, double *ret)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || text[strspn(text, "+-.0123456789")] != '\0' ||
        !(value >= 0) || value > 1) {
        complain(NULL, "--%s takes a number from 0 to 1, such as 0.8, not \"%s\"", name, text);
        return false;
    }
    *ret = value > 0 ? value : 0; /* -0 is 0 */
    return true;
}

static bool add_value(const char *name, const char *text, struct option_list *list)
{
    if (list->count == ARRAY_SIZE(list->values)) {
        complain(NULL, "--%s may be given %zu times", name, list->count);
        return false;
    }
    list->values[list->count++] = text;
    return true;
}

static bool take_option(struct options *options, const struct option_row *row, const char *value)
{
    static const char *const colors[] = {"auto", "always", "never"};
    static const char *const modes[] = {"strict", "bounded", "local"};

    options->given |= row->bit;
    switch (row->bit) {
    case OPTION_ENDPOINT:
        return read_text(row->name, value, &options->endpoint);
    case OPTION_USER:
        return read_text(row->name, value, &options->user);
    case OPTION_AGENT:
        return read_text(row->name, value, &options->agent);
    case OPTION_CATEGORY:
        return read_text(row->name, value, &options->category);
    case OPTION_COLOR:
        return read_word(row->name, value, colors, &options->color);
    case OPTION_FRESHNESS:
        return read_word(row->name, value, modes, &options->freshness);
    case OPTION_TIMEOUT:
        return read_number(row->name, value, 1, TIMEOUT_MS_MAX, &options->timeout_ms);
    case OPTION_TOP_K:
        return read_number(row->name, value, 1, COUNT_MAX, &options->top_k);
    case OPTION_MAX_STALENESS:
        return read_number(row->name, value, 0, STALENESS_MS_MAX, &options->max_staleness_ms);
    case OPTION_COUNT:
        return read_number(row->name, value, 1, COUNT_MAX, &options->count);
    case OPTION_LIMIT:
        return read_number(row->name, value, 1, COUNT_MAX, &options->limit);
    case OPTION_OFFSET:
        return read_number(row->name, value, 0, COUNT_MAX, &options->offset);
    case OPTION_INTERVAL:
        return read_seconds(row->name, value, &options->interval_ms);
    case OPTION_CONTENT:
        return read_text(row->name, value, &options->content);
    case OPTION_CONFIDENCE:
        return read_confidence(row->name, value, &options->confidence);
    case OPTION_TOPIC:
        return *value == '\0' || add_value(row->name, value, &options->topics);
    case OPTION_SOURCE:
        return read_text(row->name, value, &options->source);
    case OPTION_SOURCE_ERROR:
        return read_text(row->name, value, &options->source_error);
    case OPTION_EXPECT_REVISION:
        return read_number(row->name, value, 0, REVISION_MAX, &options->expected_revision);
    case OPTION_OUTPUT:
        return read_text(row->name, value, &options->output);
    case OPTION_SET:
        return add_value(row->name, value, &options->sets);
    case OPTION_SET_FILE:
        return read_text(row->name, value, &options->set_file);
    default: /* a switch */
        return true;
    }
}

static const char *from_environment(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* The forms that getopt_long() wants. */
static void make_tables(struct option long_rows[OPTION_ROWS + 1], char letters[])
{
    char *at = letters;

    *at++ = ':'; /* no messages of its own */
    for (size_t i = 0; i < OPTION_ROWS; i++) {
        const struct option_row *row = &option_rows[i];
        long_rows[i] = (struct option){row->name, row->value ? required_argument : no_argument,
                                       NULL, row->letter ? row->letter : 256 + (int) i};
        if (row->letter) {
            *at++ = row->letter;
            if (row->value)
                *at++ = ':';
        }
    }
    *at = '\0';
    long_rows[OPTION_ROWS] = (struct option){0};
}

static const struct option_row *find_result(int result)
{
    if (result >= 256)
        return &option_rows[result - 256];
    for (size_t i = 0; i < OPTION_ROWS; i++) {
        if (option_rows[i].letter == result)
            return &option_rows[i];
    }
    return NULL;
}

/* A long option that getopt does not take: one of several with that beginning, or of none. */
static void refuse_long(const char *word, int size)
{
    char names[300] = "";
    size_t used = 0;

    for (size_t i = 0; i < OPTION_ROWS; i++) {
        const char *name = option_rows[i].name;
        if (size > 2 && strncmp(name, word + 2, (size_t) size - 2) == 0 &&
            used + strlen(name) + 6 < sizeof names)
            used += (size_t) snprintf(names + used, sizeof names - used, "%s--%s",
                                      used > 0 ? ", " : "", name);
    }
    if (used > 0)
        complain(NULL, "%.*s may mean %s", size, word, names);
    else
        complain(NULL, "unknown option %.*s; see `memsync help`", size, word);
}

static bool refuse(int result, char **argv)
{
    const char *word = argv[optind - 1];
    bool is_long = strncmp(word, "--", 2) == 0;
    int size = (int) (is_long ? strcspn(word, "=") : strlen(word));

    if (result == ':' && is_long)
        complain(NULL, "%.*s needs a value", size, word);
    else if (result == ':')
        complain(NULL, "-%c needs a value", optopt);
    else if (is_long && optopt != 0)
        complain(NULL, "%.*s takes no value", size, word);
    else if (is_long)
        refuse_long(word, size);
    else
        complain(NULL, "unknown option -%c; see `memsync help`", optopt);
    return false;
}

bool options_parse(int argc, char **argv, struct options *ret)
{
    struct option long_rows[OPTION_ROWS + 1];
    char letters[2 * OPTION_ROWS + 2];
    int result;

    *ret = (struct options){.color = "auto",
                            .user = from_environment("MEMSYNC_USER"),
                            .agent = from_environment("MEMSYNC_AGENT")};
    make_tables(long_rows, letters);
    while ((result = getopt_long(argc, argv, letters, long_rows, NULL)) != -1) {
        const struct option_row *row = find_result(result);
        if (!row)
            return refuse(result, argv);
        if (!take_option(ret, row, optarg))
            return false;
    }
    if ((ret->given & OPTION_USER) && (ret->given & OPTION_NO_USER)) {
        complain(NULL, "--user and --no-user exclude each other");
        return false;
    }
    if (ret->given & OPTION_NO_USER)
        ret->user = NULL;
    ret->arguments = argv + optind;
    ret->argument_count = (size_t) (argc - optind);
    return true;
}

const char *options_find_misplaced(const struct options *options, uint64_t allowed)
{
    for (size_t i = 0; i < OPTION_ROWS; i++) {
        if ((options->given & option_rows[i].bit) && !(allowed & option_rows[i].bit))
            return option_rows[i].name;
    }
    return NULL;
}

char *options_join_words(const struct options *options)
{
    size_t size = 1;

    for (size_t i = 1; i < options->argument_count; i++)
        size += strlen(options->arguments[i]) + 1;
    char *text = calloc(size, 1);
    char *at = text;
    for (size_t i = 1; text && i < options->argument_count; i++) {
        if (i > 1)
            *at++ = ' ';
        at = stpcpy(at, options->arguments[i]);
    }
    return text;
}

void options_print_help(FILE *file, uint64_t bits, size_t width)
{
    for (uint64_t bit = 1; bit <= OPTION_LAST; bit <<= 1) {
        const struct option_row *row = bits & bit ? find_row(bit) : NULL;
        char names[60];
        if (!row)
            continue;
        (void) snprintf(names, sizeof names, "%c%c%c --%s%s%s", row->letter ? '-' : ' ',
                        row->letter ? row->letter : ' ', row->letter ? ',' : ' ', row->name,
                        row->value ? " " : "", row->value ? row->value : "");
        (void) fprintf(file, "  %-*s ", NAMES_WIDTH - 3, names);
        screen_wrap(file, row->help, NAMES_WIDTH, width);
    }
}
