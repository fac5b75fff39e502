#include "agent/options.h"

#include "ipc/endpoint.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

/* Options without a short form have numbers beyond any character. */
enum option_id {
    OPTION_CONFIG = 256,
    OPTION_VOLUME,
    OPTION_INDEX,
    OPTION_ENDPOINT,
    OPTION_LOG_LEVEL,
    OPTION_CHECK_CONFIG,
    OPTION_PRINT_CONFIG,
    OPTION_PRINT_SAMPLE_CONFIG,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"volume", required_argument, NULL, OPTION_VOLUME},
    {"index", required_argument, NULL, OPTION_INDEX},
    {"endpoint", required_argument, NULL, OPTION_ENDPOINT},
    {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
    {"check-config", no_argument, NULL, OPTION_CHECK_CONFIG},
    {"print-config", no_argument, NULL, OPTION_PRINT_CONFIG},
    {"print-sample-config", no_argument, NULL, OPTION_PRINT_SAMPLE_CONFIG},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void take(struct options *options, int option)
{
    switch (option) {
    case OPTION_CONFIG:
        options->config_path = optarg;
        break;
    case OPTION_VOLUME:
        options->volume = optarg;
        break;
    case OPTION_INDEX:
        options->index = optarg;
        break;
    case OPTION_ENDPOINT:
        options->endpoint = optarg;
        break;
    case OPTION_LOG_LEVEL:
        options->log_level = optarg;
        break;
    case OPTION_CHECK_CONFIG:
        options->action = OPTIONS_CHECK_CONFIG;
        break;
    case OPTION_PRINT_CONFIG:
        options->action = OPTIONS_PRINT_CONFIG;
        break;
    case OPTION_PRINT_SAMPLE_CONFIG:
        options->action = OPTIONS_PRINT_SAMPLE_CONFIG;
        break;
    case 'V':
        options->action = OPTIONS_PRINT_VERSION;
        break;
    default:
        options->action = OPTIONS_PRINT_HELP;
        break;
    }
}

/* What getopt refused; it has stepped over the argument already, unless a group of short options
 * is under way. */
static enum status refuse(int option, char **argv, struct error *error)
{
    if (option == ':')
        return error_set(error, STATUS_INVALID, NULL, "option %s needs a value", argv[optind - 1]);
    if (optopt > 0 && optopt < OPTION_CONFIG && optopt != 'h' && optopt != 'V')
        return error_set(error, STATUS_INVALID, NULL, "unknown option -%c", optopt);
    if (optopt != 0)
        return error_set(error, STATUS_INVALID, NULL, "option %s takes no value", argv[optind - 1]);
    return error_set(error, STATUS_INVALID, NULL, "unknown or ambiguous option %s",
                     argv[optind - 1]);
}

static enum status read_file(const struct options *options, struct config *config,
                             struct text *warnings, struct text *errors, struct error *error)
{
    const char *path = options->config_path ? options->config_path : OPTIONS_CONFIG_PATH;
    enum status status = config_read_file(config, path, warnings, errors, error);

    if (status == STATUS_NOT_FOUND && !options->config_path) {
        error_clear(error);
        return STATUS_OK;
    }
    return status;
}

static enum status set_option(struct config *config, const char *option, const char *key,
                              const char *value, struct error *error)
{
    struct error problem;

    if (!value)
        return STATUS_OK;
    enum status status = config_set(config, key, value, &problem);
    if (status)
        return error_set(error, status, NULL, "option %s: %s", option, problem.message);
    return STATUS_OK;
}

static enum status set_volume(struct config *config, const char *path, struct error *error)
{
    AUTO_TEXT struct text absolute = {0};

    if (path && *path && *path != '/') {
        AUTO_FREE char *directory = getcwd(NULL, 0);
        if (!directory)
            return error_set_errno(error, errno, NULL, "option --volume: no working directory");
        text_append_format(&absolute, "%s/%s", directory, path);
        if (!text_ok(&absolute))
            return error_set(error, STATUS_NO_MEMORY, NULL, "option --volume: not enough memory");
        path = text_string(&absolute);
    }
    return set_option(config, "--volume", "volume.path", path, error);
}

static enum status set_options(const struct options *options, struct config *config,
                               struct error *error)
{
    enum status status = set_volume(config, options->volume, error);

    if (!status)
        status = set_option(config, "--index", "index.path", options->index, error);
    if (!status)
        status = set_option(config, "--endpoint", "ipc.endpoint", options->endpoint, error);
    if (!status)
        status = set_option(config, "--log-level", "log.level", options->log_level, error);
    return status;
}

/* What is wrong with a single value is wrong usage, whatever the file says. */
static enum status check_values(const struct options *options, struct error *error)
{
    struct config *config = NULL;
    struct error problem;
    enum status status = config_create(&config);

    if (status)
        return error_set(error, status, NULL, "not enough memory for the configuration");
    status = set_options(options, config, error);
    if (!status && options->endpoint && endpoint_check(options->endpoint, false, &problem))
        status = error_set(error, STATUS_INVALID, NULL, "option --endpoint: ipc.endpoint: %s",
                           problem.message);
    config_destroy(&config);
    return status;
}

enum status options_parse(int argc, char **argv, struct options *ret, struct error *error)
{
    struct options options = {.action = OPTIONS_RUN};
    int option = 0;

    optind = 0; /* start afresh, also behind an earlier parse that failed half-way */
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":hV", long_options, NULL)) != -1) {
        if (option == '?' || option == ':')
            return refuse(option, argv, error);
        take(&options, option);
    }
    if (optind < argc)
        return error_set(error, STATUS_INVALID, NULL, "unexpected argument %s", argv[optind]);
    if (options.config_path && !*options.config_path)
        return error_set(error, STATUS_INVALID, NULL, "option --config needs a file name");
    enum status status = check_values(&options, error);
    if (status == STATUS_OK)
        *ret = options;
    return status;
}

static enum status load_into(const struct options *options, char *const *environment,
                             struct config *config, struct text *warnings, struct text *errors,
                             struct error *error)
{
    enum status status = read_file(options, config, warnings, errors, error);

    if (!status)
        status = config_read_environment(config, environment, warnings, error);
    if (!status)
        status = set_options(options, config, error);
    if (!status)
        status = config_check(config, error);
    return status;
}

enum status options_load_config(const struct options *options, char *const *environment,
                                struct config **ret, struct text *warnings, struct text *errors,
                                struct error *error)
{
    struct config *config = NULL;
    enum status status = config_create(&config);

    if (status)
        return error_set(error, status, NULL, "not enough memory for the configuration");
    status = load_into(options, environment, config, warnings, errors, error);
    if (status) {
        if (errors->size == 0)
            text_append_format(errors, "%s\n", error->message);
        config_destroy(&config);
        return status;
    }
    *ret = config;
    return STATUS_OK;
}

void options_write_version(struct text *text)
{
    text_append_string(text, "memsyncd " MEMSYNC_VERSION "\n");
}

void options_write_help(struct text *text)
{
    text_append_string(
        text,
        "Usage: memsyncd [OPTION]...\n"
        "\n"
        "Keeps a search index of a shared volume of agent memories and serves it to the\n"
        "workers of this node.\n"
        "\n"
        "      --config FILE          read FILE instead of " OPTIONS_CONFIG_PATH "\n"
        "      --volume DIR           the volume's root (volume.path)\n"
        "      --index DIR            where the index lies (index.path)\n"
        "      --endpoint EP          where to listen, e.g. ipc:///run/memsync/memsyncd.sock\n"
        "      --log-level LEVEL      error, warning, notice, info or debug\n"
        "      --check-config         check the configuration and leave\n"
        "      --print-config         print the configuration in force and leave\n"
        "      --print-sample-config  print a commented configuration file and leave\n"
        "  -V, --version              print the version and leave\n"
        "  -h, --help                 print this text and leave\n"
        "\n"
        "The command line overrides the environment (MEMSYNC_VOLUME_PATH and so on), which\n"
        "overrides the file. SIGHUP reads the configuration again, SIGTERM ends the agent\n"
        "when the requests under way are answered, SIGUSR1 logs its state.\n"
        "\n"
        "Exit status: 0 done, 1 wrong configuration or failed start, 2 wrong usage.\n");
}
