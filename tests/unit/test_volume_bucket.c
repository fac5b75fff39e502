/* core/volume_bucket.h: what is there is learnt from listings. */
#include "core/volume_bucket.h"

#include "tests/unit/engine_checks.h"

static struct temp_volume *temp;
static struct volume *volume;
static struct bucket_table *table;
static struct error error;

static void open_as(enum volume_kind kind)
{
    const struct volume_options options = {.path = temp_volume_path(temp),
                                           .calls = temp_calls(),
                                           .force_kind = &kind};

    bucket_table_destroy(&table);
    volume_close(&volume);
    cr_assert(volume_open(&options, &volume, NULL) == STATUS_OK);
    cr_assert(bucket_table_create(volume, "memory.json", &table) == STATUS_OK);
}

static void set_up(void)
{
    temp = temp_volume_create();
    open_as(VOLUME_LOCAL);
}

static void tear_down(void)
{
    temp_calls_reset();
    bucket_table_destroy(&table);
    cr_expect(table == NULL);
    bucket_table_destroy(&table);
    volume_close(&volume);
    temp_volume_destroy(&temp);
}

TestSuite(volume_bucket, .init = set_up, .fini = tear_down, .timeout = 60);

static const enum volume_kind kinds[] = {VOLUME_LOCAL, VOLUME_CLUSTER};

static enum status open_bucket(const char *name, int *ret)
{
    struct scope scope;

    temp_store_scope(name, &scope);
    error_clear(&error);
    return bucket_open(table, &scope, ret, &error);
}

static enum status view(const char *name, struct bucket_view *ret)
{
    AUTO_CLOSE int fd = -1;
    struct scope scope;

    temp_store_scope(name, &scope);
    enum status status = open_bucket(name, &fd);
    return status == STATUS_OK ? bucket_view_read(table, &scope, fd, ret, &error) : status;
}

static enum status read_manifest(const char *name)
{
    AUTO_IMAGE struct file_image image = {0};
    struct scope scope;

    temp_store_scope(name, &scope);
    return bucket_read_manifest(table, &scope, &image, &error);
}

Test(volume_bucket, a_view_shows_what_lies_in_a_bucket)
{
    (void) temp_volume_add(temp, "full", "a", "f1", "one");
    temp_volume_write(temp, "users/full/.memory.journal.json", "{}", 2);
    temp_volume_make_dir(temp, "users/empty");
    (void) temp_volume_add(temp, NULL, "a", "r1", "root");
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        AUTO_VIEW struct bucket_view full = {0};
        AUTO_VIEW struct bucket_view empty = {0};
        AUTO_VIEW struct bucket_view none = {0};
        AUTO_VIEW struct bucket_view top = {0};
        open_as(kinds[i]);
        cr_assert(view("full/a", &full) == STATUS_OK);
        cr_expect(full.has_manifest && full.has_journal && full.has_agents);
        cr_assert(view("empty/a", &empty) == STATUS_OK);
        cr_expect(!empty.has_manifest && !empty.has_journal && !empty.has_agents);
        cr_expect_eq(view("nobody/a", &none), STATUS_NOT_FOUND);
        cr_assert(view("-/a", &top) == STATUS_OK);
        cr_expect(top.has_manifest && !top.has_journal && top.has_agents);
    }
}

/* A look-up that finds nothing may be remembered as "not there" by a network client. */
Test(volume_bucket, where_lookups_are_not_safe_no_name_is_tried_that_no_listing_showed)
{
    AUTO_VIEW struct bucket_view shown = {0};
    int fd = -1;

    temp_volume_make_dir(temp, "users");
    open_as(VOLUME_CLUSTER);
    temp_calls_count(TEMP_CALL_OPEN, "/u");
    cr_expect_eq(open_bucket("u/a", &fd), STATUS_NOT_FOUND);
    cr_expect_eq(temp_calls_counted(), 0);
    temp_calls_count(TEMP_CALL_OPEN, "/memory.json");
    cr_expect_eq(read_manifest("u/a"), STATUS_NOT_FOUND);
    cr_expect_eq(temp_calls_counted(), 0);

    (void) temp_volume_add(temp, "u", "a", "f1", "one");
    cr_expect_eq(read_manifest("u/a"), STATUS_NOT_FOUND, "not listed yet");
    cr_expect_eq(temp_calls_counted(), 0);
    cr_assert(view("u/a", &shown) == STATUS_OK && shown.has_manifest);
    cr_expect_eq(read_manifest("u/a"), STATUS_OK);
    cr_expect_eq(temp_calls_counted(), 1);
}

Test(volume_bucket, a_name_that_went_is_not_tried_again_before_a_listing_shows_it)
{
    AUTO_VIEW struct bucket_view first = {0};
    AUTO_VIEW struct bucket_view second = {0};

    (void) temp_volume_add(temp, "u", "a", "f1", "one");
    open_as(VOLUME_CLUSTER);
    cr_assert(view("u/a", &first) == STATUS_OK);
    temp_volume_remove(temp, "users/u/memory.json");
    cr_expect_eq(read_manifest("u/a"), STATUS_NOT_FOUND);
    temp_calls_count(TEMP_CALL_OPEN, "/memory.json");
    (void) temp_volume_write_manifest(temp, "u");
    cr_expect_eq(read_manifest("u/a"), STATUS_NOT_FOUND);
    cr_expect_eq(temp_calls_counted(), 0);
    cr_assert(view("u/a", &second) == STATUS_OK);
    cr_expect_eq(read_manifest("u/a"), STATUS_OK);
}

Test(volume_bucket, where_lookups_are_safe_a_name_is_simply_tried)
{
    (void) temp_volume_add(temp, "u", "a", "f1", "one");
    temp_calls_count(TEMP_CALL_LIST, "");
    cr_expect_eq(read_manifest("u/a"), STATUS_OK);
    cr_expect_eq(read_manifest("v/a"), STATUS_NOT_FOUND);
    cr_expect_eq(temp_calls_counted(), 0, "no listing");
}

Test(volume_bucket, the_table_of_shown_names_grows)
{
    char user[16];
    char scope[24];

    for (unsigned i = 0; i < 200; i++) {
        (void) snprintf(user, sizeof user, "u%u", i);
        temp_volume_set_revision(temp, user, i);
    }
    open_as(VOLUME_CLUSTER);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 200; i++) {
            AUTO_VIEW struct bucket_view shown = {0};
            (void) snprintf(scope, sizeof scope, "u%u/a", i);
            if (round == 0)
                cr_assert(view(scope, &shown) == STATUS_OK && shown.has_manifest);
            cr_assert(read_manifest(scope) == STATUS_OK, "%s", scope);
        }
    }
}

/* ---- the way to the facts ---- */

static enum status find_facts(const char *name, struct facts_place *ret)
{
    AUTO_CLOSE int fd = -1;
    struct scope scope;

    temp_store_scope(name, &scope);
    cr_assert(open_bucket(name, &fd) == STATUS_OK);
    return bucket_find_facts(table, &scope, fd, ret, &error);
}

Test(volume_bucket, the_way_to_a_scopes_facts)
{
    (void) temp_volume_add(temp, "u", "a", "f1", "one");
    temp_volume_make_dir(temp, "users/u/agents/bare");
    temp_volume_make_dir(temp, "users/u/agents/lead-agent/facts");
    static const struct {
        const char *scope;
        bool agent, facts, lead;
    } cases[] = {
        {"u/a", true, true, false},          {"u/bare", true, false, false},
        {"u/none", false, false, false},     {"u/-", false, false, true},
        {"u/lead-agent", true, true, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO_PLACE struct facts_place place = FACTS_PLACE_NONE;
        cr_assert(find_facts(cases[i].scope, &place) == STATUS_OK);
        cr_expect(place.has_agent == cases[i].agent && (place.facts_fd >= 0) == cases[i].facts &&
                      place.has_lead == cases[i].lead,
                  "%s", cases[i].scope);
    }
}

static void make_link(const char *name, const char *target)
{
    char path[4096];

    (void) snprintf(path, sizeof path, "%s/%s", temp_volume_path(temp), name);
    cr_assert(symlink(target, path) == 0);
}

Test(volume_bucket, what_lies_in_a_directorys_place_is_not_nothing)
{
    static const struct {
        const char *scope, *path;
    } rows[] = {{"u/file", "users/u/agents/file"},
                {"u/odd", "users/u/agents/odd/facts"},
                {"u/linked", "users/u/agents/linked"},
                {"u/inside", "users/u/agents/inside/facts"}};

    temp_volume_make_dir(temp, "users/u/agents/odd");
    temp_volume_make_dir(temp, "users/u/agents/inside");
    temp_volume_write(temp, "users/u/agents/file", "", 0);
    temp_volume_write(temp, "users/u/agents/odd/facts", "", 0);
    make_link("users/u/agents/linked", "odd");
    make_link("users/u/agents/inside/facts", "../odd");
    temp_volume_write(temp, "users/u/agents/lead-agent", "", 0);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_PLACE struct facts_place place = FACTS_PLACE_NONE;
        cr_expect(find_facts(rows[i].scope, &place) == STATUS_DENIED, "%s", rows[i].scope);
        cr_expect_str_eq(error.path, rows[i].path);
    }
    AUTO_PLACE struct facts_place place = FACTS_PLACE_NONE;
    cr_expect(find_facts("u/-", &place) == STATUS_OK, "the earlier place of the default agent");
}

Test(volume_bucket, a_listed_directory_that_cannot_be_opened_starts_over)
{
    AUTO_PLACE struct facts_place place = FACTS_PLACE_NONE;
    static const char *const ends[] = {"/agents/a", "/a/facts", "/u/agents"};

    (void) temp_volume_add(temp, "u", "a", "f1", "one");
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        temp_calls_fail(TEMP_CALL_OPEN, ends[i], ENOENT, 0, 1);
        cr_expect_eq(find_facts("u/a", &place), STATUS_STALE, "%s", ends[i]);
        cr_expect_eq(place.facts_fd, -1);
        temp_calls_reset();
    }
    temp_calls_fail(TEMP_CALL_LIST, "/agents", EIO, 1, 1);
    cr_expect_eq(find_facts("u/a", &place), STATUS_IO);
}

/* ---- who is there ---- */

struct names {
    char text[512];
    enum status answer;
};

static enum status note_bucket(void *context, bool has_user, const char *bucket)
{
    struct names *names = context;
    size_t used = strlen(names->text);

    (void) snprintf(names->text + used, sizeof names->text - used, "%s ",
                    has_user ? bucket : "(root)");
    return names->answer;
}

static enum status note_agent(void *context, const char *agent)
{
    return note_bucket(context, true, agent);
}

Test(volume_bucket, users_are_listed_with_valid_names_only)
{
    struct names names = {.answer = STATUS_OK};

    cr_expect_eq(bucket_list_all(table, note_bucket, &names, NULL), STATUS_OK);
    cr_expect_str_eq(names.text, "");
    temp_volume_make_dir(temp, "users/ann");
    temp_volume_make_dir(temp, "users/bo b");
    temp_volume_make_dir(temp, "users/.hidden");
    temp_volume_make_dir(temp, "users/Zed_9-x");
    temp_volume_write(temp, "users/file", "", 0);
    cr_expect_eq(bucket_list_all(table, note_bucket, &names, NULL), STATUS_OK);
    cr_expect_str_eq(names.text, "Zed_9-x ann ");
    static const char *const roots[] = {"memory.json", ".memory.journal.json", "agents/a/facts/x"};
    for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
        names.text[0] = '\0';
        temp_volume_write(temp, roots[i], "", 0);
        cr_expect_eq(bucket_list_all(table, note_bucket, &names, NULL), STATUS_OK);
        cr_expect_str_eq(names.text, "(root) Zed_9-x ann ", "%s", roots[i]);
        temp_volume_remove(temp, i == 2 ? "agents" : roots[i]);
    }
    names = (struct names){.answer = STATUS_CONFLICT};
    cr_expect_eq(bucket_list_all(table, note_bucket, &names, NULL), STATUS_CONFLICT);
    cr_expect_str_eq(names.text, "Zed_9-x ", "the sink ends it");
}

Test(volume_bucket, agents_are_directories_in_lower_case)
{
    struct names names = {.answer = STATUS_OK};
    AUTO_CLOSE int fd = -1;

    temp_volume_make_dir(temp, "users/u");
    cr_assert(open_bucket("u/a", &fd) == STATUS_OK);
    cr_expect_eq(bucket_list_agents(table, fd, note_agent, &names, NULL), STATUS_OK);
    cr_expect_str_eq(names.text, "");
    static const char *const agents[] = {"desk", "Desk2", "__default__", ".x", "a b"};
    for (size_t i = 0; i < ARRAY_SIZE(agents); i++) {
        char path[64];
        (void) snprintf(path, sizeof path, "users/u/agents/%s", agents[i]);
        temp_volume_make_dir(temp, path);
    }
    temp_volume_write(temp, "users/u/agents/file", "", 0);
    cr_expect_eq(bucket_list_agents(table, fd, note_agent, &names, NULL), STATUS_OK);
    cr_expect_str_eq(names.text, "__default__ desk ");
}

Test(volume_bucket, a_listing_that_fails_tells_of_nobody)
{
    struct names names = {.answer = STATUS_OK};

    temp_volume_make_dir(temp, "users/ann");
    temp_calls_fail(TEMP_CALL_LIST, "/users", EIO, 1, 0);
    cr_expect_eq(bucket_list_all(table, note_bucket, &names, &error), STATUS_IO);
    cr_expect_str_eq(names.text, "");
    cr_expect_str_eq(error.path, "users");
}
