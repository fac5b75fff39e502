#include "agent/config.h"

#include "agent/config_table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct config *config;
static struct text warnings;
static struct text errors;
static struct error problem;

static void start(void)
{
    cr_assert_eq(config_create(&config), STATUS_OK);
}

static void finish(void)
{
    config_destroy(&config);
    text_destroy(&warnings);
    text_destroy(&errors);
}

TestSuite(config, .init = start, .fini = finish);

static enum status read_text(const char *yaml)
{
    error_clear(&problem);
    text_clear(&warnings);
    text_clear(&errors);
    return config_read(config, "c.yaml", yaml, strlen(yaml), &warnings, &errors, &problem);
}

static void expect_contains(const char *text, const char *part, const char *yaml)
{
    cr_expect(strstr(text, part) != NULL, "\"%s\" lacks \"%s\" for:\n%s", text, part, yaml);
}

/* `variables` ends in NULL. */
static enum status read_variables(const char *const *variables)
{
    char *environment[16] = {NULL};
    size_t count = 0;

    error_clear(&problem);
    text_clear(&warnings);
    for (; variables[count]; count++) {
        cr_assert_lt(count, ARRAY_SIZE(environment) - 1);
        environment[count] = strdup(variables[count]);
    }
    enum status status = config_read_environment(config, environment, &warnings, &problem);
    while (count > 0)
        free(environment[--count]);
    return status;
}

struct yaml_case {
    const char *yaml;
    const char *message;
};

static void expect_errors(const struct yaml_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cr_expect_eq(read_text(cases[i].yaml), STATUS_INVALID, "row %zu", i);
        cr_expect_str_eq(problem.message, cases[i].message, "row %zu", i);
    }
}

static void expect_warnings(const struct yaml_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cr_expect_eq(read_text(cases[i].yaml), STATUS_OK, "row %zu: %s", i, problem.message);
        cr_expect_str_eq(text_string(&warnings), cases[i].message, "row %zu", i);
    }
}

Test(config, has_the_documented_defaults)
{
    cr_expect_null(config->volume_path);
    cr_expect_str_eq(config->volume_manifest_filename, "memory.json");
    cr_expect_str_eq(config->volume_locks, "auto");
    cr_expect_eq(config->volume_recovery_grace_ms, 60000);
    cr_expect_eq(config->volume_cache_ms, 0);
    cr_expect_null(config->index_path);
    cr_expect_eq(config->index_mmap_bytes, 1 << 30);
    cr_expect_str_eq(config->sync_freshness, "strict");
    cr_expect_eq(config->sync_readers, 0);
    cr_expect(config->sync_inotify);
    cr_expect_str_eq(config->ipc_endpoint, "ipc:///run/memsync/memsyncd.sock");
    cr_expect_str_eq(config->ipc_events, "");
    cr_expect_null(config->ipc_socket_group);
    cr_expect_eq(config->ipc_max_message_bytes, UINT64_C(4) << 20);
    cr_expect_str_eq(config->backend_name, "deermem");
    cr_expect(json_is_object(config->backend_config));
    cr_expect_str_eq(config->log_level, "info");
}

Test(config, a_file_replaces_the_defaults_it_names)
{
    cr_assert_eq(read_text("config_version: 1\n"
                           "volume:\n"
                           "  path: /srv/v\n"
                           "  read_only: true\n"
                           "  locks: \"local\"\n"
                           "sync: {readers: 32, poll_interval_min_ms: 250}\n"
                           "ipc:\n"
                           "  socket_mode: 0600\n"
                           "  events: off\n"
                           "  socket_group: 'workers'\n"),
                 STATUS_OK, "%s", problem.message);
    cr_expect_str_eq(text_string(&warnings), "");
    cr_expect_str_eq(config->volume_path, "/srv/v");
    cr_expect(config->volume_read_only);
    cr_expect_str_eq(config->volume_locks, "local");
    cr_expect_eq(config->sync_readers, 32);
    cr_expect_eq(config->sync_poll_interval_min_ms, 250);
    cr_expect_eq(config->sync_poll_interval_max_ms, 60000, "not named, so the default");
    cr_expect_str_eq(config->ipc_socket_mode, "0600");
    cr_expect_str_eq(config->ipc_events, "off");
    cr_expect_str_eq(config->ipc_socket_group, "workers");
}

Test(config, the_version_is_asked_for_and_must_be_known)
{
    static const struct yaml_case missing[] = {
        {"log: {level: debug}\n", "c.yaml:1:1: config_version: 1 is missing\n"},
        {"", "c.yaml:1:1: the file is empty; config_version: 1 is missing\n"},
        {"# nothing\n", "c.yaml:1:1: the file is empty; config_version: 1 is missing\n"},
        {"--- ~\n", "c.yaml:1:5: the file is empty; config_version: 1 is missing\n"},
    };
    static const struct yaml_case other[] = {
        {"config_version: 2\n",
         "c.yaml:1:17: config_version: must be 1, the only version that this agent knows"},
        {"config_version: \"1\"\n",
         "c.yaml:1:17: config_version: must be 1, the only version that this agent knows"},
        {"config_version: [1]\n",
         "c.yaml:1:17: config_version: must be 1, the only version that this agent knows"},
        {"config_version:\n",
         "c.yaml:1:16: config_version: must be 1, the only version that this agent knows"},
    };

    expect_warnings(missing, ARRAY_SIZE(missing));
    expect_errors(other, ARRAY_SIZE(other));
}

Test(config, an_unknown_name_is_warned_about_with_the_nearest_known_one)
{
    static const struct yaml_case cases[] = {
        {"config_version: 1\nsync:\n  reader: 3\n",
         "c.yaml:3:3: unknown key sync.reader is ignored; did you mean sync.readers?\n"},
        {"config_version: 1\nsync:\n  freshnes: strict\n",
         "c.yaml:3:3: unknown key sync.freshnes is ignored; did you mean sync.freshness?\n"},
        {"config_version: 1\nindex:\n  paht: /x\n",
         "c.yaml:3:3: unknown key index.paht is ignored; did you mean index.path?\n"},
        {"config_version: 1\nsync:\n  timeout_ms: 3\n",
         "c.yaml:3:3: unknown key sync.timeout_ms is ignored; did you mean ipc.timeout_ms?\n"},
        {"config_version: 1\nsync:\n  bananas: 3\n",
         "c.yaml:3:3: unknown key sync.bananas is ignored\n"},
        {"config_version: 1\nvolumes: {path: /x}\n",
         "c.yaml:2:1: unknown section volumes is ignored; did you mean volume?\n"},
        {"config_version: 1\nlocks: auto\n",
         "c.yaml:2:1: unknown section locks is ignored; did you mean the key volume.locks?\n"},
        {"config_version: 1\nvolume.path: /x\n",
         "c.yaml:2:1: unknown section volume.path is ignored; write \"volume:\" and below it, "
         "indented, \"path:\"\n"},
        {"config_version: 1\nbananas: 3\n", "c.yaml:2:1: unknown section bananas is ignored\n"},
    };

    expect_warnings(cases, ARRAY_SIZE(cases));
}

Test(config, a_wrong_value_names_place_key_and_what_is_allowed)
{
    static const struct yaml_case cases[] = {
        {"sync:\n  readers: -1\n",
         "c.yaml:2:12: sync.readers: must be a whole number from 0 to 256, not \"-1\""},
        {"sync:\n  readers: 257\n",
         "c.yaml:2:12: sync.readers: must be a whole number from 0 to 256, not \"257\""},
        {"sync:\n  readers: \"8\"\n",
         "c.yaml:2:12: sync.readers: must be a whole number from 0 to 256, not a quoted text"},
        {"sync:\n  readers: [8]\n",
         "c.yaml:2:12: sync.readers: must be a whole number from 0 to 256, not a list"},
        {"sync:\n  readers: {a: 8}\n",
         "c.yaml:2:12: sync.readers: must be a whole number from 0 to 256, not a mapping"},
        {"sync:\n  poll_interval_min_ms: 5s\n", "c.yaml:2:25: sync.poll_interval_min_ms: must be a "
                                                "whole number of milliseconds from 10 to "
                                                "3600000, not \"5s\""},
        {"sync:\n  inotify: yes\n",
         "c.yaml:2:12: sync.inotify: must be true or false, not \"yes\""},
        {"sync:\n  inotify: \"true\"\n",
         "c.yaml:2:12: sync.inotify: must be true or false, not a quoted text"},
        {"sync:\n  freshness: Strict\n",
         "c.yaml:2:14: sync.freshness: must be one of strict, bounded, local, not \"Strict\""},
        {"volume:\n  path: srv\n",
         "c.yaml:2:9: volume.path: must be an absolute path, not \"srv\""},
        {"volume:\n  path: \"/a\\tb\"\n",
         "c.yaml:2:9: volume.path: must be without control characters"},
        {"volume:\n  path: \"/a\\0b\"\n",
         "c.yaml:2:9: volume.path: must be without control characters"},
        {"volume:\n  manifest_filename: a/b\n",
         "c.yaml:2:22: volume.manifest_filename: must be a file name without a slash, not \"a/b\""},
        {"ipc:\n  endpoint: /run/x\n",
         "c.yaml:2:13: ipc.endpoint: must be ipc:///PATH or tcp://ADDRESS:PORT, not \"/run/x\""},
        {"ipc:\n  socket_mode: 0170\n",
         "c.yaml:2:16: ipc.socket_mode: must be octal permissions from 0600 to 0777, not \"0170\""},
        {"ipc:\n  socket_mode: 0999\n",
         "c.yaml:2:16: ipc.socket_mode: must be octal permissions from 0600 to 0777, not \"0999\""},
        {"backend:\n  config: 7\n",
         "c.yaml:2:11: backend.config: must be a mapping, not a single value or a list"},
        {"log:\n  level: !!str info\n", "c.yaml:2:10: must be without YAML tags"},
        {"log: info\n", "c.yaml:1:6: log: must be a mapping of keys"},
        {"log: !x {}\n", "c.yaml:1:6: must be without YAML tags"},
        {"- log\n", "c.yaml:1:1: must be a mapping of sections"},
        {"log\n", "c.yaml:1:1: must be a mapping of sections"},
        {"? [log]\n: x\n", "c.yaml:1:3: a key must be a short plain word"},
        {"\"\": x\n", "c.yaml:1:1: a key must be a short plain word"},
    };

    expect_errors(cases, ARRAY_SIZE(cases));
}

Test(config, all_errors_of_a_file_are_told_at_once)
{
    static const char yaml[] = "config_version: 2\n"
                               "sync:\n"
                               "  readers: 300\n"
                               "  ? [x]\n"
                               "  : 1\n"
                               "  refreshers: 3\n"
                               "  max_staleness_ms: 1\n\n    2\n"
                               "  readers: 4\n"
                               "  redaers: 4\n"
                               "log: info\n"
                               "volume: {path: x}\n";

    cr_expect_eq(read_text(yaml), STATUS_INVALID);
    cr_expect_str_eq(
        text_string(&errors),
        "c.yaml:1:17: config_version: must be 1, the only version that this agent "
        "knows\n"
        "c.yaml:3:12: sync.readers: must be a whole number from 0 to 256, not \"300\"\n"
        "c.yaml:4:5: sync: a key must be a short plain word\n"
        "c.yaml:7:21: sync.max_staleness_ms: must be a whole number of milliseconds "
        "from 0 to 3600000, not \"1 2\"\n"
        "c.yaml:10:3: sync.readers: must be given only once\n"
        "c.yaml:12:6: log: must be a mapping of keys\n"
        "c.yaml:13:16: volume.path: must be an absolute path, not \"x\"\n");
    cr_expect_str_eq(problem.message, "c.yaml:1:17: config_version: must be 1, the only version "
                                      "that this agent knows");
    expect_contains(text_string(&warnings), "c.yaml:11:3: unknown key sync.redaers", yaml);
    cr_expect_eq(config->sync_refreshers, 3, "what is right is taken");
}

Test(config, a_missing_version_is_told_beside_errors)
{
    cr_expect_eq(read_text("? [x]\n: 1\nlog: {level: loud}\n"), STATUS_INVALID);
    expect_contains(text_string(&errors), "c.yaml:1:3: a key must be a short plain word\n", "");
    expect_contains(text_string(&errors), "c.yaml:3:14: log.level: must be", "");
    cr_expect_str_eq(text_string(&warnings), "c.yaml:1:1: config_version: 1 is missing\n");
}

Test(config, errors_beyond_twenty_are_not_told)
{
    AUTO_TEXT struct text yaml = {0};
    size_t lines = 0;

    text_append_string(&yaml, "sync:\n");
    for (int i = 0; i < 30; i++)
        text_append_string(&yaml, "  readers: 300\n");
    text_append_string(&yaml, "log: info\n");
    cr_expect_eq(read_text(text_string(&yaml)), STATUS_INVALID);
    for (const char *at = text_string(&errors); *at; at++)
        lines += *at == '\n';
    cr_expect_eq(lines, 21);
    expect_contains(text_string(&errors), "\nc.yaml: the rest is not looked at\n", "");
    cr_expect_null(strstr(text_string(&errors), "log: must be"));
}

Test(config, a_key_is_given_only_once)
{
    static const struct yaml_case cases[] = {
        {"log:\n  level: info\n  level: info\n", "c.yaml:3:3: log.level: must be given only once"},
        {"log:\n  bananas: 1\n  \"bananas\": 2\n",
         "c.yaml:3:3: log.bananas: must be given only once"},
        {"log: {}\nsync: {}\nlog: {}\n", "c.yaml:3:1: log: must be given only once"},
        {"config_version: 1\nconfig_version: 1\n",
         "c.yaml:2:1: config_version: must be given only once"},
        {"backend:\n  config: {a: 1, b: {c: 1, c: 2}}\n",
         "c.yaml:2:28: backend.config: must have each key only once"},
    };

    expect_errors(cases, ARRAY_SIZE(cases));
}

Test(config, what_is_not_yaml_is_refused_with_its_place)
{
    static const char *const cases[] = {
        "log: {level: info\n",
        "log:\n\tlevel: info\n",
        "log: *nobody\n",
        "log: {}\n---\nx: 1\n",
        "log: \"\xff\"\n",
        "a: b: c\n",
        "log: @x\n",
        "%YAML 3.0\n---\nx: 1\n",
        "log: &a {level: *a}\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cr_expect_eq(read_text(cases[i]), STATUS_INVALID, "row %zu", i);
        cr_expect_eq(strncmp(problem.message, "c.yaml:", 7), 0, "row %zu: %s", i, problem.message);
    }
}

Test(config, sizes_may_have_a_suffix)
{
    static const struct {
        const char *value;
        enum status status;
        uint64_t bytes;
    } cases[] = {
        {"4096", STATUS_OK, 4096},
        {"4K", STATUS_OK, 4096},
        {"3M", STATUS_OK, 3145728},
        {"256M", STATUS_OK, UINT64_C(256) << 20},
        {"257M", STATUS_INVALID, 0},
        {"1G", STATUS_INVALID, 0},
        {"18446744073709551615", STATUS_INVALID, 0},
        {"17179869184G", STATUS_INVALID, 0}, /* 2^64 */
        {"4095", STATUS_INVALID, 0},
        {"4k", STATUS_INVALID, 0},
        {"4KB", STATUS_INVALID, 0},
        {"4 K", STATUS_INVALID, 0},
        {"K", STATUS_INVALID, 0},
        {"0x2000", STATUS_INVALID, 0},
        {"010000", STATUS_INVALID, 0},
        {"+5000", STATUS_INVALID, 0},
        {"-5000", STATUS_INVALID, 0},
        {"5000.0", STATUS_INVALID, 0},
        {"5_000", STATUS_INVALID, 0},
        {"", STATUS_INVALID, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        config->ipc_max_message_bytes = 7;
        cr_expect_eq(config_set(config, "ipc.max_message_bytes", cases[i].value, &problem),
                     cases[i].status, "row %zu", i);
        cr_expect_eq(config->ipc_max_message_bytes,
                     cases[i].status == STATUS_OK ? cases[i].bytes : 7, "row %zu", i);
    }
}

Test(config, an_index_path_can_be_missing_empty_or_given)
{
    cr_assert_eq(read_text("config_version: 1\nindex: {}\n"), STATUS_OK);
    cr_expect_null(config->index_path);
    cr_assert_eq(read_text("config_version: 1\nindex:\n  path:\n"), STATUS_OK);
    cr_expect_null(config->index_path, "nothing behind the colon: not given");
    cr_assert_eq(read_text("config_version: 1\nindex:\n  path: \"\"\n"), STATUS_OK);
    cr_assert_not_null(config->index_path);
    cr_expect_str_eq(config->index_path, "");
    cr_assert_eq(read_text("config_version: 1\nindex:\n  path: idx\n"), STATUS_OK);
    cr_expect_str_eq(config->index_path, "idx");
}

Test(config, null_leaves_a_key_at_its_default)
{
    cr_assert_eq(read_text("config_version: 1\nsync: {readers: null, refreshers: ~}\nlog:\n"),
                 STATUS_OK);
    cr_expect_eq(config->sync_readers, 0);
    cr_expect_eq(config->sync_refreshers, 0);
    cr_expect_str_eq(text_string(&warnings), "");
}

Test(config, the_backends_mapping_becomes_json)
{
    static const char yaml[] = "config_version: 1\n"
                               "backend:\n"
                               "  name: noop\n"
                               "  config:\n"
                               "    text: plain words\n"
                               "    quoted: \"12\"\n"
                               "    word: yes\n"
                               "    integer: -12\n"
                               "    float: 2.5e3\n"
                               "    leading: 012\n"
                               "    truth: [true, false, null, ~]\n"
                               "    shared: &a {x: 1}\n"
                               "    again: *a\n"
                               "    block: |\n"
                               "      12\n";

    cr_assert_eq(read_text(yaml), STATUS_OK, "%s", problem.message);
    AUTO_FREE char *dump = json_dumps(config->backend_config, JSON_SORT_KEYS | JSON_COMPACT);
    cr_expect_str_eq(dump,
                     "{\"again\":{\"x\":1},\"block\":\"12\\n\",\"float\":2500.0,\"integer\":-12,"
                     "\"leading\":\"012\",\"quoted\":\"12\",\"shared\":{\"x\":1},"
                     "\"text\":\"plain words\",\"truth\":[true,false,null,null],\"word\":\"yes\"}");
}

Test(config, the_backends_mapping_is_bounded)
{
    static const struct yaml_case cases[] = {
        {"backend: {config: {a: 9223372036854775808}}\n",
         "c.yaml:1:23: backend.config: must be a number that fits 64 bits"},
        {"backend: {config: {a: 1e999}}\n",
         "c.yaml:1:23: backend.config: must be a number that fits 64 bits"},
        {"backend: {config: {? [x] : 1}}\n",
         "c.yaml:1:22: backend.config: must have texts as keys"},
        {"backend: {config: {a: !!int 1}}\n", "c.yaml:1:23: must be without YAML tags"},
        {"backend: {config: {a: \"x\\0y\"}}\n",
         "c.yaml:1:23: backend.config: must be without NUL characters"},
        {"backend: {config: &a {b: *a}}\n",
         "c.yaml:1:19: backend.config: must not be nested so deeply"},
        {"backend: {config: {a: &a [x,x,x,x,x,x,x,x,x,x], b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a], "
         "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b], d: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]}}\n",
         "c.yaml:1:35: backend.config: must have fewer values"},
    };

    expect_errors(cases, ARRAY_SIZE(cases));
}

Test(config, nesting_without_end_is_refused_at_once, .timeout = 20)
{
    AUTO_TEXT struct text yaml = {0};

    while (yaml.size < CONFIG_FILE_BYTES_MAX)
        text_append_char(&yaml, '[');
    cr_expect_eq(read_text(text_string(&yaml)), STATUS_INVALID);
    cr_expect_str_eq(problem.message, "c.yaml:1:21: must not be nested so deeply");
}

Test(config, access_rules_are_never_pretended)
{
    static const struct yaml_case fine[] = {
        {"config_version: 1\naccess:\n", ""},
        {"config_version: 1\naccess: {}\n", ""},
        {"config_version: 1\naccess: {enabled: false}\n", ""},
        {"config_version: 1\naccess: {enabled: false, rules: []}\n",
         "c.yaml:2:26: unknown key access.rules is ignored\n"},
    };
    static const struct yaml_case wrong[] = {
        {"access: {enabled: true}\n", "c.yaml:1:19: access.enabled: must be false in this version, "
                                      "which does not have it, not \"true\""},
        {"access: {rules: [a]}\n", "c.yaml:1:9: access: must be empty or say \"enabled: false\": "
                                   "this version does not enforce it"},
        {"access: {enabled: , rules: [a]}\n",
         "c.yaml:1:9: access: must be empty or say \"enabled: false\": this version does not "
         "enforce it"},
        {"access: yes\n", "c.yaml:1:9: access: must be a mapping of keys"},
    };

    expect_warnings(fine, ARRAY_SIZE(fine));
    expect_errors(wrong, ARRAY_SIZE(wrong));
}

Test(config, metrics_are_served_where_an_address_says)
{
    static const char *const fine[][2] = {
        {"metrics: {listen: 9464}\n", "9464"},
        {"metrics: {listen: \"127.0.0.1:9464\"}\n", "127.0.0.1:9464"},
        {"metrics: {listen: \"[::1]:9464\"}\n", "[::1]:9464"},
        {"metrics: {listen: 0.0.0.0:9464}\n", "0.0.0.0:9464"},
        {"metrics: {listen: \"\"}\n", ""},
        {"metrics: {}\n", ""},
    };
    static const struct yaml_case wrong[] = {
        {"metrics: {listen: \"localhost:9464\"}\n",
         "c.yaml:1:19: metrics.listen: must be PORT, IPV4:PORT or [IPV6]:PORT, or \"\", not "
         "\"localhost:9464\""},
        {"metrics: {listen: 99999}\n",
         "c.yaml:1:19: metrics.listen: must be PORT, IPV4:PORT or [IPV6]:PORT, or \"\", not "
         "\"99999\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
        cr_expect_eq(read_text(fine[i][0]), STATUS_OK, "%s", fine[i][0]);
        cr_expect_str_eq(config->metrics_listen, fine[i][1]);
    }
    expect_errors(wrong, ARRAY_SIZE(wrong));
}

Test(config, the_environment_overrides_the_file)
{
    const char *const environment[] = {
        "HOME=/",
        "MEMSYNC_VOLUME_PATH=/from/env",
        "MEMSYNC_INDEX_PATH=",
        "MEMSYNC_SYNC_READERS=3",
        "MEMSYNC_BACKEND_CONFIG={\"a\": [1]}",
        "MEMSYNC_ENDPOINT=ipc:///tmp/short",
        "MEMSYNC_PAUSE=kill:X",
        "MEMSYNC_USER=u",
        "MEMSYNC_AGENT=a",
        "MEMSYNC_SHARED=/x",
        NULL,
    };

    cr_assert_eq(read_text("config_version: 1\nvolume: {path: /from/file}\n"), STATUS_OK);
    cr_assert_eq(read_variables(environment), STATUS_OK, "%s", problem.message);
    cr_expect_str_eq(config->volume_path, "/from/env");
    cr_expect_str_eq(config->index_path, "");
    cr_expect_eq(config->sync_readers, 3);
    cr_expect_str_eq(config->ipc_endpoint, "ipc:///tmp/short");
    cr_expect_eq((int) json_array_size(json_object_get(config->backend_config, "a")), 1);
    cr_expect_str_eq(text_string(&warnings), "");
}

Test(config, the_long_name_of_the_endpoint_wins)
{
    const char *const environment[] = {
        "MEMSYNC_IPC_ENDPOINT=ipc:///tmp/long",
        "MEMSYNC_ENDPOINT=ipc:///tmp/short",
        NULL,
    };

    cr_assert_eq(read_variables(environment), STATUS_OK);
    cr_expect_str_eq(config->ipc_endpoint, "ipc:///tmp/long");
}

Test(config, unknown_variables_are_warned_about)
{
    const char *const environment[] = {
        "MEMSYNC_VOLUME_PAHT=/x", "MEMSYNC_BANANAS=1", "MEMSYNC_=1",
        "MEMSYNCD_READERS=1",     "MEMSYNC_NOVALUE",   NULL,
    };

    cr_assert_eq(read_variables(environment), STATUS_OK);
    cr_expect_str_eq(text_string(&warnings),
                     "environment: unknown variable MEMSYNC_VOLUME_PAHT is ignored; did you mean "
                     "MEMSYNC_VOLUME_PATH?\n"
                     "environment: unknown variable MEMSYNC_BANANAS is ignored\n"
                     "environment: unknown variable MEMSYNC_ is ignored\n");
}

Test(config, a_wrong_variable_is_an_error_that_names_it)
{
    static const struct {
        const char *variable;
        const char *message;
    } cases[] = {
        {"MEMSYNC_SYNC_READERS=many", "environment: MEMSYNC_SYNC_READERS: must be a whole number "
                                      "from 0 to 256, not \"many\""},
        {"MEMSYNC_SYNC_READERS=",
         "environment: MEMSYNC_SYNC_READERS: must be a whole number from 0 to 256, not \"\""},
        {"MEMSYNC_ENDPOINT=x", "environment: MEMSYNC_ENDPOINT: must be ipc:///PATH or "
                               "tcp://ADDRESS:PORT, not \"x\""},
        {"MEMSYNC_ACCESS_ENABLED=true",
         "environment: MEMSYNC_ACCESS_ENABLED: must be false in this "
         "version, which does not have it, not \"true\""},
        {"MEMSYNC_BACKEND_CONFIG=[]",
         "environment: MEMSYNC_BACKEND_CONFIG: must be a JSON object here"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *const environment[] = {cases[i].variable, NULL};
        cr_expect_eq(read_variables(environment), STATUS_INVALID, "row %zu", i);
        cr_expect_str_eq(problem.message, cases[i].message, "row %zu", i);
    }
}

Test(config, a_key_can_be_set_by_name)
{
    cr_expect_eq(config_set(config, "log.level", "debug", &problem), STATUS_OK);
    cr_expect_str_eq(config->log_level, "debug");
    cr_expect_eq(config_set(config, "log.level", "loud", &problem), STATUS_INVALID);
    cr_expect_str_eq(problem.message, "log.level: must be one of error, warning, notice, info, "
                                      "debug, not \"loud\"");
    cr_expect_str_eq(config->log_level, "debug", "kept");
    cr_expect_eq(config_set(config, "log.lev", "debug", &problem), STATUS_NOT_FOUND);
    cr_expect_eq(config_set(config, "log.levels", "debug", &problem), STATUS_NOT_FOUND);
}

Test(config, a_value_is_bounded)
{
    char path[4097];

    memset(path, 'x', sizeof path);
    path[0] = '/';
    path[4096] = '\0';
    cr_expect_eq(config_set(config, "volume.path", path, &problem), STATUS_INVALID);
    path[4095] = '\0';
    cr_expect_eq(config_set(config, "volume.path", path, &problem), STATUS_OK);
}

Test(config, settings_are_checked_against_each_other)
{
    static const struct {
        const char *key[2];
        const char *value[2];
        const char *message; /* NULL: fine */
    } cases[] = {
        {{"log.level"}, {"info"}, NULL},
        {{"sync.poll_interval_min_ms", "sync.poll_interval_max_ms"}, {"500", "500"}, NULL},
        {{"sync.poll_interval_min_ms", "sync.poll_interval_max_ms"},
         {"501", "500"},
         "sync.poll_interval_min_ms: must not be above sync.poll_interval_max_ms"},
        {{"ipc.timeout_ms", "ipc.timeout_max_ms"},
         {"501", "500"},
         "ipc.timeout_ms: must not be above ipc.timeout_max_ms"},
        {{"ipc.queue_per_client", "ipc.queue_total"},
         {"11", "10"},
         "ipc.queue_per_client: must not be above ipc.queue_total"},
        {{"ipc.endpoint", "ipc.events"},
         {"ipc:///tmp/x", "ipc:///tmp/x"},
         "ipc.events: must be another address than ipc.endpoint"},
        {{"volume.read_only"}, {"true"}, NULL},
        {{"volume.read_only", "index.path"}, {"true", "/srv/v2"}, NULL},
        {{"volume.read_only", "index.path"},
         {"true", ""},
         "index.path: must be outside of the volume when volume.read_only is true"},
        {{"volume.read_only", "index.path"},
         {"true", "idx"},
         "index.path: must be outside of the volume when volume.read_only is true"},
        {{"volume.read_only", "index.path"},
         {"true", "/srv/v/idx"},
         "index.path: must be outside of the volume when volume.read_only is true"},
    };

    cr_expect_eq(config_check(config, &problem), STATUS_INVALID);
    expect_contains(problem.message, "volume.path: must be given", "");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct config *one = NULL;
        cr_assert_eq(config_create(&one), STATUS_OK);
        cr_assert_eq(config_set(one, "volume.path", "/srv/v/", &problem), STATUS_OK);
        for (size_t k = 0; k < 2 && cases[i].key[k]; k++)
            cr_assert_eq(config_set(one, cases[i].key[k], cases[i].value[k], &problem), STATUS_OK);
        error_clear(&problem);
        cr_expect_eq(config_check(one, &problem), cases[i].message ? STATUS_INVALID : STATUS_OK,
                     "row %zu", i);
        cr_expect_str_eq(problem.message, (cases[i].message ? cases[i].message : ""), "row %zu", i);
        config_destroy(&one);
    }
}

static void slurp(const char *path, struct text *ret)
{
    char block[4096];
    size_t got = 0;
    FILE *file = fopen(path, "re");

    cr_assert(file != NULL, "%s is missing; run the tests from the top of the tree", path);
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        text_append(ret, block, got);
    (void) fclose(file);
}

Test(config, the_sample_is_the_shipped_file)
{
    AUTO_TEXT struct text sample = {0};
    AUTO_TEXT struct text shipped = {0};

    config_write_sample(&sample);
    slurp("systemd/memsyncd.yaml", &shipped);
    cr_expect_str_eq(text_string(&shipped), text_string(&sample));
}

Test(config, the_sample_says_the_defaults_and_names_every_key)
{
    AUTO_TEXT struct text sample = {0};
    AUTO_TEXT struct text before = {0};
    AUTO_TEXT struct text after = {0};
    const struct config_key *key;

    config_write_sample(&sample);
    cr_assert_eq(config_set(config, "volume.path", "/srv/memsync", &problem), STATUS_OK);
    config_write(&before, config);
    cr_assert_eq(read_text(text_string(&sample)), STATUS_OK, "%s", problem.message);
    cr_expect_str_eq(text_string(&warnings), "");
    config_write(&after, config);
    cr_expect_str_eq(text_string(&after), text_string(&before));
    cr_expect_eq(config_check(config, &problem), STATUS_OK);
    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        char variable[CONFIG_ENVIRONMENT_NAME_SIZE];
        config_key_environment(key, variable);
        expect_contains(text_string(&sample), variable, key->name);
    }
}

Test(config, the_documentation_names_every_key)
{
    AUTO_TEXT struct text page = {0};
    const struct config_key *key;

    slurp("docs/configuration.md", &page);
    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        char name[100];
        (void) snprintf(name, sizeof name, "`%s`", key->name);
        expect_contains(text_string(&page), name, "docs/configuration.md");
    }
}

Test(config, a_file_is_read_through_links_and_reports_what_is_wrong_with_it)
{
    char directory[] = "/tmp/memsync-config-XXXXXX";
    char path[64];
    char link[64];

    cr_assert_not_null(mkdtemp(directory));
    (void) snprintf(path, sizeof path, "%s/real.yaml", directory);
    (void) snprintf(link, sizeof link, "%s/link.yaml", directory);
    cr_expect_eq(config_read_file(config, path, &warnings, &errors, &problem), STATUS_NOT_FOUND);
    expect_contains(problem.message, path, "");
    cr_expect_neq(config_read_file(config, directory, &warnings, &errors, &problem), STATUS_OK);

    FILE *file = fopen(path, "we");
    cr_assert(file != NULL);
    (void) fputs("config_version: 1\nlog: {level: debug}\n", file);
    (void) fclose(file);
    cr_assert_eq(symlink(path, link), 0);
    cr_expect_eq(config_read_file(config, link, &warnings, &errors, &problem), STATUS_OK, "%s",
                 problem.message);
    cr_expect_str_eq(config->log_level, "debug");

    cr_assert_eq(truncate(path, (off_t) CONFIG_FILE_BYTES_MAX + 1), 0);
    cr_expect_eq(config_read_file(config, path, &warnings, &errors, &problem), STATUS_TOO_LARGE);
    (void) unlink(link);
    (void) unlink(path);
    (void) rmdir(directory);
}

Test(config, keys_of_a_section_stand_together_and_have_distinct_variables)
{
    const struct config_key *key;
    const struct config_key *other;

    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        char section[CONFIG_SECTION_NAME_SIZE];
        config_key_section(key, section);
        cr_expect(config_section_exists(section));
        cr_expect_eq(config_key_find(key->name, strlen(key->name)), key);
        for (size_t k = i + 1; (other = config_key_at(k)) != NULL; k++) {
            char mine[CONFIG_ENVIRONMENT_NAME_SIZE];
            char theirs[CONFIG_ENVIRONMENT_NAME_SIZE];
            config_key_environment(key, mine);
            config_key_environment(other, theirs);
            cr_expect_str_neq(mine, theirs);
            char next[CONFIG_SECTION_NAME_SIZE];
            config_key_section(config_key_at(i + 1), next);
            char far[CONFIG_SECTION_NAME_SIZE];
            config_key_section(other, far);
            if (strcmp(far, section) == 0)
                cr_expect_str_eq(next, section, "%s stands apart", other->name);
        }
    }
    cr_expect_not(config_section_exists("vol"));
}
