#include "agent/options.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define ARGUMENTS_MAX 12

static struct options options;
static struct error problem;
static char *arguments[ARGUMENTS_MAX];

/* The results point into argv, so the copies live until the next parse. */
static void free_arguments(void)
{
    for (size_t i = 0; i < ARGUMENTS_MAX; i++) {
        free(arguments[i]);
        arguments[i] = NULL;
    }
}

TestSuite(options, .fini = free_arguments);

static enum status parse(const char *const *list)
{
    char *argv[ARGUMENTS_MAX + 1] = {NULL};
    int count = 0;

    free_arguments();
    error_clear(&problem);
    for (; list[count]; count++)
        arguments[count] = argv[count] = strdup(list[count]);
    return options_parse(count, argv, &options, &problem);
}

#define PARSE(...) parse((const char *const[]){"memsyncd", ##__VA_ARGS__, NULL})

Test(options, none_means_run_with_the_defaults)
{
    cr_assert_eq(PARSE(), STATUS_OK);
    cr_expect_eq(options.action, OPTIONS_RUN);
    cr_expect_null(options.config_path);
    cr_expect_null(options.volume);
    cr_expect_null(options.index);
    cr_expect_null(options.endpoint);
    cr_expect_null(options.log_level);
}

Test(options, values_are_taken_in_both_forms)
{
    cr_assert_eq(PARSE("--config", "c", "--volume=v", "--index=", "--endpoint", "ipc:///e",
                       "--log-level=debug"),
                 STATUS_OK, "%s", problem.message);
    cr_expect_str_eq(options.config_path, "c");
    cr_expect_str_eq(options.volume, "v");
    cr_expect_str_eq(options.index, "");
    cr_expect_str_eq(options.endpoint, "ipc:///e");
    cr_expect_str_eq(options.log_level, "debug");
}

Test(options, each_action_has_its_option)
{
    static const struct {
        const char *option;
        enum options_action action;
    } cases[] = {
        {"--check-config", OPTIONS_CHECK_CONFIG},
        {"--print-config", OPTIONS_PRINT_CONFIG},
        {"--print-sample-config", OPTIONS_PRINT_SAMPLE_CONFIG},
        {"--version", OPTIONS_PRINT_VERSION},
        {"-V", OPTIONS_PRINT_VERSION},
        {"--help", OPTIONS_PRINT_HELP},
        {"-h", OPTIONS_PRINT_HELP},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cr_expect_eq(PARSE(cases[i].option), STATUS_OK, "row %zu", i);
        cr_expect_eq(options.action, cases[i].action, "row %zu", i);
    }
}

Test(options, a_mistake_is_told_in_the_words_that_were_typed)
{
    static const struct {
        const char *arguments[3];
        const char *message;
    } cases[] = {
        {{"--bananas"}, "unknown or ambiguous option --bananas"},
        {{"--print"}, "unknown or ambiguous option --print"},
        {{"-x"}, "unknown option -x"},
        {{"-Vx"}, "unknown option -x"},
        {{"--config"}, "option --config needs a value"},
        {{"--check-config=yes"}, "option --check-config=yes takes no value"},
        {{"--help=me"}, "option --help=me takes no value"},
        {{"start"}, "unexpected argument start"},
        {{"--", "--help"}, "unexpected argument --help"},
        {{"--config", ""}, "option --config needs a file name"},
        {{"--volume", ""}, "option --volume: volume.path: must be an absolute path, not \"\""},
        {{"--log-level", "loud"},
         "option --log-level: log.level: must be one of error, warning, notice, info, debug, not "
         "\"loud\""},
        {{"--endpoint", "x"},
         "option --endpoint: ipc.endpoint: must be ipc:///PATH or tcp://ADDRESS:PORT, not \"x\""},
        {{"--endpoint=tcp://0.0.0.0:55"},
         "option --endpoint: ipc.endpoint: tcp:// may only listen on the loopback interface "
         "(127.0.0.0/8 or [::1]), not on 0.0.0.0"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *list[] = {"memsyncd", cases[i].arguments[0], cases[i].arguments[1], NULL};
        cr_expect_eq(parse(list), STATUS_INVALID, "row %zu", i);
        cr_expect_str_eq(problem.message, cases[i].message, "row %zu", i);
    }
}

static void write_file(const char *path, const char *bytes)
{
    FILE *file = fopen(path, "we");

    cr_assert_not_null(file);
    cr_assert_geq(fputs(bytes, file), 0);
    cr_assert_eq(fclose(file), 0);
}

Test(options, the_command_line_beats_the_environment_beats_the_file)
{
    char directory[] = "/tmp/memsync-options-XXXXXX";
    char path[64];
    char *environment[] = {strdup("MEMSYNC_ENDPOINT=ipc:///tmp/env"),
                           strdup("MEMSYNC_LOG_LEVEL=warning"), NULL};
    AUTO_TEXT struct text warnings = {0};
    AUTO_TEXT struct text errors = {0};
    struct config *config = NULL;

    cr_assert_not_null(mkdtemp(directory));
    (void) snprintf(path, sizeof path, "%s/c.yaml", directory);
    write_file(path, "config_version: 1\n"
                     "volume: {path: /file}\n"
                     "ipc: {endpoint: \"ipc:///tmp/file\"}\n"
                     "log: {level: error}\n"
                     "sync: {readers: 5}\n");
    cr_assert_eq(PARSE("--config", path, "--log-level", "debug", "--index", "idx"), STATUS_OK);
    cr_assert_eq(options_load_config(&options, environment, &config, &warnings, &errors, &problem),
                 STATUS_OK, "%s", problem.message);
    cr_expect_str_eq(text_string(&warnings), "");
    cr_expect_str_eq(config->volume_path, "/file");
    cr_expect_str_eq(config->ipc_endpoint, "ipc:///tmp/env");
    cr_expect_str_eq(config->log_level, "debug");
    cr_expect_str_eq(config->index_path, "idx");
    cr_expect_eq(config->sync_readers, 5);
    config_destroy(&config);
    free(environment[0]);
    free(environment[1]);
    cr_expect_eq(unlink(path), 0);
    cr_expect_eq(rmdir(directory), 0);
}

Test(options, a_relative_volume_lies_below_the_working_directory)
{
    char *none[] = {NULL};
    AUTO_TEXT struct text warnings = {0};
    AUTO_TEXT struct text errors = {0};
    struct config *config = NULL;

    cr_assert_eq(chdir("/tmp"), 0);
    cr_assert_eq(PARSE("--config", "/dev/null", "--volume", "./v"), STATUS_OK);
    cr_assert_eq(options_load_config(&options, none, &config, &warnings, &errors, &problem),
                 STATUS_OK, "%s", problem.message);
    cr_expect_str_eq(config->volume_path, "/tmp/./v");
    config_destroy(&config);
}

Test(options, a_configuration_that_fails_names_the_culprit_and_gives_nothing)
{
    static const struct {
        const char *arguments[4];
        const char *message;
    } cases[] = {
        {{"--config", "/dev/null"}, "volume.path: must be given"},
        {{"--config", "/nonexistent/c.yaml"}, "/nonexistent/c.yaml: cannot be opened: No such"},
    };
    char *none[] = {NULL};
    AUTO_TEXT struct text warnings = {0};
    AUTO_TEXT struct text errors = {0};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct config *config = NULL;
        const char *list[] = {"memsyncd",
                              cases[i].arguments[0],
                              cases[i].arguments[1],
                              cases[i].arguments[2],
                              cases[i].arguments[3],
                              NULL};
        cr_assert_eq(parse(list), STATUS_OK, "row %zu", i);
        cr_expect_neq(options_load_config(&options, none, &config, &warnings, &errors, &problem),
                      STATUS_OK, "row %zu", i);
        cr_expect_null(config, "row %zu", i);
        cr_expect_eq(strncmp(problem.message, cases[i].message, strlen(cases[i].message)), 0,
                     "row %zu: %s", i, problem.message);
    }
}

Test(options, help_names_every_option)
{
    static const char *const names[] = {
        "--config FILE",     "--volume DIR",   "--index DIR",    "--endpoint EP",
        "--log-level LEVEL", "--check-config", "--print-config", "--print-sample-config",
        "--version",         "--help",
    };
    AUTO_TEXT struct text help = {0};
    AUTO_TEXT struct text version = {0};

    options_write_help(&help);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        cr_expect_not_null(strstr(text_string(&help), names[i]), "%s", names[i]);
    options_write_version(&version);
    cr_expect_str_eq(text_string(&version), "memsyncd " MEMSYNC_VERSION "\n");
}
