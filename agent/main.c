/* agent/main.c - memsyncd: options, configuration, signals, exit codes. */
#include "agent/agent.h"
#include "agent/options.h"
#include "agent/service.h"
#include "core/clock.h"
#include "core/pause_point.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define DRAIN_MS 9000 /* SIGTERM is answered within 10 s */
#define STATUS_LINE_MS 1000
#define STATUS_LINE_SHARE 100 /* of the time that it takes */

static void print(const struct text *text)
{
    (void) fputs(text_string(text), stdout);
}

static void tell_errors(struct text *errors)
{
    char *rest = NULL;

    for (char *line = errors->bytes ? strtok_r(errors->bytes, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        (void) fprintf(stderr, "memsyncd: %s\n", line);
}

static void log_warnings(struct text *warnings)
{
    char *rest = NULL;

    for (char *line = warnings->bytes ? strtok_r(warnings->bytes, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        log_warning("config", "what=%s", LOG_VALUE(line));
}

static enum options_exit print_and_end(const struct options *options)
{
    AUTO_TEXT struct text text = {0};

    switch (options->action) {
    case OPTIONS_PRINT_HELP:
        options_write_help(&text);
        break;
    case OPTIONS_PRINT_VERSION:
        options_write_version(&text);
        break;
    default:
        config_write_sample(&text);
        break;
    }
    print(&text);
    return text_ok(&text) ? OPTIONS_EXIT_OK : OPTIONS_EXIT_FAILURE;
}

/* SIGHUP: what does not parse leaves the old configuration in force. */
static void reload(struct agent *agent, const struct options *options)
{
    AUTO_TEXT struct text warnings = {0};
    AUTO_TEXT struct text errors = {0};
    struct config *config = NULL;
    struct error error = {0};

    service_reloading();
    enum status status = options_load_config(options, environ, &config, &warnings, &errors, &error);
    log_warnings(&warnings);
    if (status != STATUS_OK)
        log_error("config.reload", "reason=%s what=\"the configuration stays as it was\"",
                  LOG_VALUE(error.message));
    else
        agent_reload(agent, config);
    config_destroy(&config);
    service_ready("reloaded");
}

/* Counting what many users have takes a while, so the line is renewed as often as it takes at most
 * a hundredth of the time. */
static void tell_supervisor(struct agent *agent, uint64_t *due_ns)
{
    AUTO_TEXT struct text line = {0};
    uint64_t begun_ns = clock_monotonic_ns();

    if (begun_ns < *due_ns || !service_is_supervised())
        return;
    agent_status_line(agent, &line);
    service_status(text_string(&line));
    uint64_t ended_ns = clock_monotonic_ns();
    *due_ns = ended_ns + (ended_ns - begun_ns) * STATUS_LINE_SHARE;
}

/* Returns when the agent should end; false when it ended by itself. */
static bool run(struct agent *agent, const struct options *options)
{
    uint64_t line_due_ns = 0;

    for (;;) {
        int signal_number = service_next_signal(STATUS_LINE_MS);
        if (agent_has_ended(agent))
            return false;
        switch (signal_number) {
        case 0:
            agent_oversee(agent);
            tell_supervisor(agent, &line_due_ns);
            break;
        case SIGHUP:
            reload(agent, options);
            break;
        case SIGUSR1:
        case SIGUSR2:
            agent_log_state(agent);
            break;
        default:
            log_notice("agent.stopping", "signal=%s",
                       sigabbrev_np(signal_number) ? sigabbrev_np(signal_number) : "?");
            return true;
        }
    }
}

static enum options_exit serve(const struct options *options, const struct config *config)
{
    struct agent *agent = NULL;
    struct error error = {0};

    enum status status = service_block_signals(&error);
    if (status == STATUS_OK)
        status = agent_start(config, &agent, &error);
    if (status != STATUS_OK) {
        log_error("agent.start", "kind=%s reason=%s", status_name(status),
                  LOG_VALUE(error.message));
        return OPTIONS_EXIT_FAILURE;
    }
    log_notice("agent.ready", "version=%s volume=%s endpoint=%s", MEMSYNC_VERSION,
               LOG_VALUE(config->volume_path), LOG_VALUE(config->ipc_endpoint));
    service_ready("serving");
    bool wanted = run(agent, options);
    service_stopping();
    if (!agent_stop(&agent, DRAIN_MS)) {
        log_error("agent.stopped", "what=\"a request hangs in a call that does not return\"");
        _exit(wanted ? OPTIONS_EXIT_OK : OPTIONS_EXIT_FAILURE);
    }
    log_notice("agent.stopped", "clean=%s", wanted ? "true" : "false");
    return wanted ? OPTIONS_EXIT_OK : OPTIONS_EXIT_FAILURE;
}

static enum options_exit check(const struct config *config)
{
    struct error error = {0};

    if (agent_check(config, &error) != STATUS_OK) {
        (void) fprintf(stderr, "memsyncd: %s\n", error.message);
        return OPTIONS_EXIT_FAILURE;
    }
    (void) printf("the configuration is fine\n");
    return OPTIONS_EXIT_OK;
}

static enum options_exit load_and_run(const struct options *options)
{
    AUTO_TEXT struct text warnings = {0};
    AUTO_TEXT struct text errors = {0};
    AUTO_TEXT struct text output = {0};
    struct config *config = NULL;
    struct error error = {0};
    enum log_level level;
    enum options_exit code = OPTIONS_EXIT_OK;

    enum status status = options_load_config(options, environ, &config, &warnings, &errors, &error);
    if (status != STATUS_OK) {
        log_warnings(&warnings);
        tell_errors(&errors);
        config_destroy(&config);
        return OPTIONS_EXIT_FAILURE;
    }
    if (log_level_from_name(config->log_level, &level))
        log_set_level(level);
    log_warnings(&warnings);
    if (options->action == OPTIONS_RUN) {
        code = serve(options, config);
    } else if (options->action == OPTIONS_PRINT_CONFIG) {
        config_write(&output, config);
        print(&output);
    } else {
        code = check(config);
    }
    config_destroy(&config);
    return code;
}

int main(int argc, char **argv)
{
    struct options options;
    struct error error = {0};

    log_set_journal_prefix(service_stderr_is_journal());
    pause_configure_from_environment();
    if (options_parse(argc, argv, &options, &error) != STATUS_OK) {
        (void) fprintf(stderr, "memsyncd: %s\nTry 'memsyncd --help'.\n", error.message);
        return OPTIONS_EXIT_USAGE;
    }
    switch (options.action) {
    case OPTIONS_PRINT_HELP:
    case OPTIONS_PRINT_VERSION:
    case OPTIONS_PRINT_SAMPLE_CONFIG:
        return (int) print_and_end(&options);
    default:
        return (int) load_and_run(&options);
    }
}
