#include "chaos/replay/step.h"

#include "tests/support/files.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The words of the step that is read, and how far they are used up. */
struct parser {
    struct step_words words;
    size_t at;
    struct step *step;
    char *why;
    size_t why_size;
};

static bool refuse(struct parser *parser, const char *format, ...) PRINTF(2, 3);
static bool refuse(struct parser *parser, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(parser->why, parser->why_size, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- words ---- */

static void add_word(struct step_words *words, const char *word, size_t length)
{
    char **larger = realloc(words->words, (words->count + 1) * sizeof *larger);
    char *copy = larger ? strndup(word, length) : NULL;

    if (!copy)
        test_die("no memory for a schedule");
    words->words = larger;
    words->words[words->count++] = copy;
}

void step_words_split(const char *line, struct step_words *ret)
{
    char word[1024];
    size_t length = 0;
    bool quoted = false;
    bool any = false;

    for (const char *at = line;; at++) {
        if (*at == '"' || (*at && (quoted || *at != ' '))) {
            quoted ^= *at == '"';
            any = true;
            if (*at != '"' && length < sizeof word)
                word[length++] = *at;
            continue;
        }
        if (any)
            add_word(ret, word, length);
        length = 0;
        any = false;
        if (!*at)
            return;
    }
}

void step_words_destroy(struct step_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->words[i]);
    free(words->words);
    *words = (struct step_words){0};
}

static const char *peek(const struct parser *parser)
{
    return parser->at < parser->words.count ? parser->words.words[parser->at] : "";
}

static const char *next(struct parser *parser)
{
    const char *word = peek(parser);

    parser->at += parser->at < parser->words.count;
    return word;
}

static bool take(struct parser *parser, const char *word)
{
    if (strcmp(peek(parser), word) != 0)
        return false;
    parser->at++;
    return true;
}

static void copy_name(char ret[STEP_NAME_SIZE], const char *name, size_t length)
{
    size_t end = strnlen(name, length < STEP_NAME_SIZE ? length : STEP_NAME_SIZE - 1);

    memcpy(ret, name, end);
    ret[end] = '\0';
}

bool step_scope_parse(const char *word, struct step_scope *ret)
{
    size_t length = strcspn(word, "/");

    copy_name(ret->user, word, length);
    copy_name(ret->agent, word[length] ? word + length + 1 : "", STEP_NAME_SIZE);
    return word[length] == '/';
}

static void set_text(json_t *facts, const char *prefix, const char *id, const char *text)
{
    char key[2 * STEP_NAME_SIZE];

    (void) snprintf(key, sizeof key, "%s%s", prefix, id);
    if (json_object_set_new(facts, key, json_string(text)) != 0)
        test_die("no memory for a fact");
}

bool step_facts_parse(const char *word, const char *prefix, json_t *facts)
{
    char letters[8];
    char id[STEP_NAME_SIZE];
    char text[64];
    unsigned first;
    unsigned last;

    if (sscanf(word, "%7[a-z]%u..%*[a-z]%u", letters, &first, &last) == 3) {
        for (; first <= last; first++) {
            (void) snprintf(id, sizeof id, "%s%03u", letters, first);
            (void) snprintf(text, sizeof text, "text %u", first);
            set_text(facts, prefix, id, text);
        }
        return true;
    }
    const char *equals = strchr(word, '=');
    if (!equals)
        return false;
    copy_name(id, word, (size_t) (equals - word));
    set_text(facts, prefix, id, equals + 1);
    return true;
}

/* "a/f1=one": the part up to the slash goes in front of the key. */
static bool add_found(json_t *facts, const char *word)
{
    char prefix[STEP_NAME_SIZE];
    const char *slash = strchr(word, '/');

    if (!slash)
        return false;
    copy_name(prefix, word, (size_t) (slash - word) + 1);
    return step_facts_parse(slash + 1, prefix, facts);
}

/* ---- parts of steps ---- */

static bool read_scope(struct parser *parser, bool agent_too)
{
    struct step *step = parser->step;

    if (step->scope_count >= STEP_SCOPES_MAX)
        return refuse(parser, "too many scopes");
    const char *word = next(parser);
    bool has_agent = step_scope_parse(word, &step->scopes[step->scope_count++]);
    return (has_agent || !agent_too) && *word ? true : refuse(parser, "no scope: %s", word);
}

/* "+f3=three", "~f1=ONE", "-f2", "summary", "nothing" */
static bool read_change(struct parser *parser)
{
    const char *word = next(parser);
    const char *equals = strchr(word, '=');
    char id[STEP_NAME_SIZE];

    if (strcmp(word, "nothing") == 0)
        return true;
    if (strcmp(word, "summary") == 0) {
        parser->step->summary = true;
        return true;
    }
    if (!strchr("+~-", *word) || (*word == '-') != !equals)
        return refuse(parser, "no change: %s", word);
    copy_name(id, word + 1, equals ? (size_t) (equals - word) - 1 : STEP_NAME_SIZE);
    const char *kind = *word == '+' ? "add" : *word == '~' ? "update" : "delete";
    return json_array_append_new(parser->step->changes, json_pack("[s, s, s?]", kind, id,
                                                                  equals ? equals + 1 : NULL)) == 0;
}

static bool read_changes(struct parser *parser)
{
    while (parser->at < parser->words.count) {
        if (take(parser, "blocked"))
            parser->step->blocked = true;
        else if (!read_change(parser))
            return false;
    }
    return true;
}

static bool read_scope_and_changes(struct parser *parser)
{
    return read_scope(parser, false) && read_changes(parser);
}

static bool read_user(struct parser *parser)
{
    return read_scope(parser, false);
}

static bool read_nothing(struct parser *parser)
{
    if (take(parser, "blocked"))
        parser->step->blocked = true;
    if (take(parser, "fails"))
        parser->step->fails = true;
    if (take(parser, "second"))
        parser->step->second = true;
    return true;
}

static bool read_scope_or_everything(struct parser *parser)
{
    if (take(parser, "changes"))
        parser->step->changes_only = true;
    return take(parser, "everything") || read_scope(parser, true);
}

static bool read_word_and_changes(struct parser *parser)
{
    if (!read_scope(parser, false))
        return false;
    copy_name(parser->step->word, next(parser), STEP_NAME_SIZE);
    return read_changes(parser);
}

/* "1", or "0(1)": 0, where the list of interleavings says 1 */
static bool read_count(struct parser *parser, long *ret, long *ret_listed)
{
    int count = sscanf(next(parser), "%ld(%ld)", ret, ret_listed);

    if (count == 1)
        *ret_listed = *ret;
    return count >= 1 ? true : refuse(parser, "no count");
}

/* "synced", or "synced(behind)" */
static bool read_state(struct parser *parser)
{
    struct step *step = parser->step;

    if (step->state_count >= STEP_SCOPES_MAX)
        return refuse(parser, "too many states");
    struct step_state *state = &step->states[step->state_count++];
    return sscanf(next(parser), "%31[a-z](%31[a-z])", state->name, state->better_than) >= 1
               ? true
               : refuse(parser, "no state");
}

static bool read_looks(struct parser *parser)
{
    struct step *step = parser->step;
    long ignored;
    bool done = true;

    while (done && parser->at < parser->words.count) {
        if (take(parser, "|"))
            continue;
        if (take(parser, "refreshes"))
            done = read_count(parser, &step->refreshes, &step->refreshes_listed);
        else if (take(parser, "moved"))
            done = read_count(parser, &step->refreshes_moved, &ignored);
        else if (take(parser, "files"))
            done = read_count(parser, &step->files, &ignored);
        else
            done = read_state(parser);
    }
    return done;
}

static bool read_found(struct parser *parser)
{
    struct step *step = parser->step;

    if (strcmp(peek(parser), "error") == 0 || strcmp(peek(parser), "truth") == 0) {
        step->result = json_string(next(parser));
        return true;
    }
    if (take(parser, "anything"))
        return true;
    step->result = json_object();
    if (take(parser, "nothing"))
        return true;
    while (parser->at < parser->words.count && strcmp(peek(parser), "|") != 0) {
        if (!add_found(step->result, next(parser)))
            return refuse(parser, "no fact to find: %s", parser->words.words[parser->at - 1]);
    }
    return true;
}

/* None: those of the step before. */
static bool read_scopes(struct parser *parser)
{
    while (parser->at < parser->words.count && strcmp(peek(parser), "->") != 0) {
        if (!read_scope(parser, true))
            return false;
    }
    return true;
}

static bool read_answer(struct parser *parser)
{
    return take(parser, "->") ? read_found(parser) && read_looks(parser)
                              : refuse(parser, "nothing is expected");
}

static bool read_search(struct parser *parser)
{
    return read_scopes(parser) && read_answer(parser);
}

static bool read_state_of(struct parser *parser)
{
    return read_scope(parser, true) && take(parser, "->") && read_state(parser);
}

/* ---- steps ---- */

static const struct step_form {
    const char *actor; /* its first word, without a number */
    const char *word;
    enum step_verb verb;
    bool (*read)(struct parser *parser);
} forms[] = {
    {"peer", "commit", STEP_PEER_COMMIT, read_scope_and_changes},
    {"peer", "raw", STEP_PEER_RAW, read_scope_and_changes},
    {"peer", "die", STEP_PEER_DIE, read_word_and_changes},
    {"peer", "manifest", STEP_PEER_MANIFEST, read_user},
    {"peer", "rollback", STEP_PEER_ROLLBACK, read_user},
    {"peer", "restore", STEP_PEER_RESTORE, read_user},
    {"peer", "touch", STEP_PEER_TOUCH, read_user},
    {"peer", "freeze", STEP_PEER_FREEZE, read_nothing},
    {"peer", "recover", STEP_PEER_RECOVER, read_user},
    {"peer", "hide", STEP_HIDE, read_user},
    {"peer", "show", STEP_SHOW, read_user},
    {"break", "manifest", STEP_BREAK, read_user},
    {"repair", "manifest", STEP_REPAIR, read_user},
    {"break", "fact", STEP_BREAK_FACT, read_word_and_changes},
    {"repair", "fact", STEP_REPAIR_FACT, read_user},
    {"R", "capture", STEP_REFRESH_CAPTURE, read_scope_or_everything},
    {"R", "facts", STEP_REFRESH_FACTS, read_nothing},
    {"R", "read", STEP_REFRESH_READ, read_nothing},
    {"R", "install", STEP_REFRESH_INSTALL, read_nothing},
    {"R", "publish", STEP_REFRESH_PUBLISH, read_nothing},
    {"R", "all", STEP_REFRESH_ALL, read_scope_or_everything},
    {"R", "refuse", STEP_REFRESH_REFUSE, read_nothing},
    {"T", "capture", STEP_REFRESH_CAPTURE, read_scope_or_everything},
    {"T", "facts", STEP_REFRESH_FACTS, read_nothing},
    {"T", "read", STEP_REFRESH_READ, read_nothing},
    {"T", "install", STEP_REFRESH_INSTALL, read_nothing},
    {"T", "publish", STEP_REFRESH_PUBLISH, read_nothing},
    {"Q", "looks", STEP_ASK_LOOKS, read_scopes},
    {"Q", "joins", STEP_ASK_JOINS, read_scopes},
    {"Q", "goes-on", STEP_ASK_GOES_ON, read_nothing},
    {"Q", "answers", STEP_ASK_ANSWERS, read_answer},
    {"W", "commit", STEP_WRITE_COMMIT, read_scope_and_changes},
    {"W", "install", STEP_WRITE_INSTALL, read_nothing},
    {"W", "all", STEP_WRITE_ALL, read_scope_and_changes},
    {"W", "refuse", STEP_WRITE_REFUSE, read_nothing},
    {"search", NULL, STEP_SEARCH, read_search},
    {"state", NULL, STEP_STATE, read_state_of},
    {"node", "opens", STEP_OPEN, read_nothing},
    {"second", "owner", STEP_OWNER, read_nothing},
};

static const struct step_form *find_form(struct parser *parser)
{
    const char *actor = next(parser);
    size_t letters = strcspn(actor, "0123456789");

    if (actor[letters])
        parser->step->number = (unsigned) strtoul(actor + letters, NULL, 10);
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        if (strlen(forms[i].actor) == letters && strncmp(forms[i].actor, actor, letters) == 0 &&
            (!forms[i].word || take(parser, forms[i].word)))
            return &forms[i];
    }
    return NULL;
}

static bool parse(struct parser *parser)
{
    const struct step_form *form = find_form(parser);

    if (!form)
        return refuse(parser, "no such step");
    parser->step->verb = form->verb;
    parser->step->in_table = *form->actor == 'T';
    if (!form->read(parser))
        return parser->why[0] ? false : refuse(parser, "something is missing");
    return parser->at == parser->words.count
               ? true
               : refuse(parser, "what does '%s' mean?", parser->words.words[parser->at]);
}

bool step_parse(const char *line, struct step *ret, char *why, size_t why_size)
{
    struct parser parser = {.step = ret, .why = why, .why_size = why_size};

    *ret = (struct step){
        .text = strdup(line),
        .changes = json_array(),
        .refreshes = NOT_SAID,
        .refreshes_listed = NOT_SAID,
        .refreshes_moved = NOT_SAID,
        .files = NOT_SAID,
    };
    if (!ret->text || !ret->changes)
        test_die("no memory for a step");
    step_words_split(line, &parser.words);
    bool done = parse(&parser);
    step_words_destroy(&parser.words);
    if (!done)
        step_destroy(ret);
    return done;
}

void step_destroy(struct step *step)
{
    free(step->text);
    json_decref(step->changes);
    json_decref(step->result);
    *step = (struct step){0};
}
