/* commands.c - the table of commands. */
#include "ipc/cli/commands.h"

#include <string.h>

#define WORDS_ANY 1000000
#define NAME_BYTES_MAX 40
#define DISTANCE_MAX 2

static const struct command commands[] = {
    {"search", run_search, OPTIONS_SCOPE | OPTIONS_FRESHNESS | OPTION_TOP_K | OPTION_CATEGORY, 1,
     WORDS_ANY, "QUERY...", "find facts, best first",
     "A query is words, or \"a phrase\", AND, OR, NOT, NEAR, prefix* and parentheses. Put -- "
     "before "
     "words that begin with a dash."},
    {"list", run_list,
     OPTIONS_SCOPE | OPTIONS_FRESHNESS | OPTION_CATEGORY | OPTION_LIMIT | OPTION_OFFSET, 0, 0, "",
     "list a scope's facts",
     "In the order of their ids. Fact files that cannot be read are listed on standard error."},
    {"get", run_get, OPTIONS_SCOPE | OPTIONS_FRESHNESS, 1, 1, "FACT", "show one fact by its id",
     NULL},
    {"memory", run_memory, OPTIONS_SCOPE | OPTIONS_FRESHNESS, 0, 0, "",
     "show summaries and facts of a scope",
     "Exits with 1 when there are neither and nothing was ever written."},
    {"summaries", run_summaries,
     OPTIONS_SCOPE | OPTIONS_FRESHNESS | OPTION_SET | OPTION_SET_FILE | OPTION_EXPECT_REVISION, 0,
     0, "", "show a user's summaries, or set some",
     "Those that are not empty; exits with 1 when all are. With --set or --set-file the named ones "
     "are replaced, all others stay; --set SECTION= empties one. The document of --set-file is "
     "{\"user\": {\"workContext\": \"text\"}, \"history\": {}}, or one of `memsync export`."},
    {"add", run_add, OPTIONS_SCOPE | OPTIONS_FACT | OPTION_SOURCE, 0, WORDS_ANY, "[TEXT...]",
     "store a new fact, and print its id",
     "Without TEXT, or when it is -, standard input is read. Facts that had to go to make room are "
     "named on standard error. Exits with 1 when the fact itself was not stored, for lack of "
     "room."},
    {"update", run_update, OPTIONS_SCOPE | OPTIONS_FACT | OPTION_CONTENT | OPTION_EXPECT_REVISION,
     1, 1, "FACT", "change parts of a fact",
     "What is not named stays. Prints the fact's new revision."},
    {"delete", run_delete, OPTIONS_SCOPE | OPTION_YES | OPTION_EXPECT_REVISION, 1, WORDS_ANY,
     "FACT...", "delete facts, after asking",
     "Several go in one commit. Exits with 1 when one of them does not exist; the others are "
     "deleted all the same. What was shown is what is deleted: a fact that is changed after the "
     "question is a conflict."},
    {"export", run_export, OPTIONS_SCOPE | OPTIONS_FRESHNESS | OPTION_OUTPUT, 0, 0, "",
     "print a scope's memory as a JSON document",
     "With -o the file appears when all of it is written; until then, and after an error, an "
     "earlier one stays. Exits with 1 when there is no such memory."},
    {"import", run_import, OPTIONS_SCOPE | OPTION_YES | OPTION_DRY_RUN | OPTION_EXPECT_REVISION, 0,
     1, "[FILE]", "replace a scope's memory by an exported document",
     "Without FILE, or when it is -, standard input is read. The scope's facts become those of the "
     "document, in one commit: others are deleted. Without a member facts they are left alone. "
     "Summaries that the document names are replaced. Asks first when facts or texts would be "
     "lost, those of the document that find no room included. Exits with 1 when files were left "
     "because they cannot be read."},
    {"clear", run_clear,
     OPTIONS_SCOPE | OPTION_ALL | OPTION_YES | OPTION_ERASE | OPTION_EXPECT_REVISION, 0, 0,
     "(-a AGENT | --all)", "delete all facts of an agent or of a user",
     "Asks first. With --all the text of the summaries goes as well. MEMSYNC_AGENT does not count "
     "here. Exits "
     "with 1 when files were left because they cannot be read."},
    {"migrate", run_migrate, OPTIONS_SCOPE, 0, 0, "",
     "bring a memory of an earlier format into the present one",
     "The first write does this by itself. The agent is the one that gets the facts of a list that "
     "names none."},
    {"context", run_context, OPTIONS_SCOPE, 0, 0, "",
     "print the text that is put into an agent's prompt",
     "The agent at the endpoint may not support it (`memsync capabilities` tells: get_context); "
     "then the exit code is 4."},
    {"status", run_status, OPTION_WATCH | OPTION_INTERVAL, 0, 0, "", "show how the agent is doing",
     "With --watch on a terminal the screen is redrawn with the main numbers and their rates; "
     "elsewhere, each look prints a line of name=value. With --json each line is a whole status."},
    {"scopes", run_scopes, OPTION_USER | OPTION_NO_USER, 0, 0, "",
     "list the scopes that the agent knows",
     "Those of one user with -u; MEMSYNC_USER does not count here."},
    {"refresh", run_refresh, OPTIONS_SCOPE | OPTION_FULL | OPTION_ALL | OPTION_ACCEPT_VOLUME, 0, 0,
     "", "bring the index in step with the volume",
     "Searches do this by themselves. --full is for files that were edited by hand. --all and "
     "--accept-volume are about every scope, and go with no user, agent or --full."},
    {"verify", run_verify, OPTIONS_SCOPE, 0, 0, "",
     "compare the index with the volume, fact by fact",
     "Exits with 1 when they differ, or when there is nothing to compare."},
    {"events", run_events, OPTIONS_SCOPE | OPTION_COUNT, 0, 0, "",
     "show changes as they happen, until interrupted",
     "Without a user: those of all scopes. With a user but no agent: those of all agents of that "
     "user."},
    {"ping", run_ping, 0, 0, 0, "", "ask whether the agent is there, and which it is", NULL},
    {"capabilities", run_capabilities, 0, 0, 0, "", "show what the agent's backend can do", NULL},
    {"backends", run_capabilities, 0, 0, 0, "", "the same as capabilities", NULL},
    {"doctor", run_doctor, 0, 1, 2, "VOLUME [INDEX_DIR]",
     "check whether a volume and an index directory are fit for use",
     "Needs no agent. Writes probes to VOLUME/.memsyncd and removes them. Exits with 1 when "
     "something is wrong, also when VOLUME cannot be opened; with 0 when there are warnings at "
     "most."},
    {"version", run_version, 0, 0, 0, "", "show the version", NULL},
    {"help", run_help, 0, 0, 1, "[COMMAND]", "show help", NULL},
};

const struct command *command_at(size_t i)
{
    return i < ARRAY_SIZE(commands) ? &commands[i] : NULL;
}

const char *command_option_words(const struct command *command)
{
    return command->options ? " [OPTION]..." : "";
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* How many letters must be put in, taken out or replaced. */
static size_t distance(const char *a, const char *b)
{
    size_t a_size = strlen(a), b_size = strlen(b);
    size_t row[NAME_BYTES_MAX + 1];

    if (a_size > NAME_BYTES_MAX || b_size > NAME_BYTES_MAX)
        return NAME_BYTES_MAX;
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_size];
}

const char *command_nearest(const char *name)
{
    const char *nearest = NULL;
    size_t least = DISTANCE_MAX + 1;

    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        const char *candidate = commands[i].name;
        bool is_start = strlen(name) >= 2 && strncmp(candidate, name, strlen(name)) == 0;
        size_t steps = is_start ? 0 : distance(name, candidate);
        if (steps < least && steps < strlen(candidate)) {
            least = steps;
            nearest = candidate;
        }
    }
    return nearest;
}
