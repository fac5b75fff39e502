/* doctor.c - runs the checks, keeps their findings, cleans up. */
#include "ipc/cli/doctor.h"

#include "ipc/cli/commands.h"
#include "ipc/cli/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#define OWN_DIRECTORY ".memsyncd"
#define PROBE_TRIES 10
#define INDENT 20 /* of messages, on a terminal */
#define INDENT_NARROW 2
#define WIDTH_NARROW 60

static const char *const level_names[] = {
    [LEVEL_OK] = "ok", [LEVEL_INFO] = "info", [LEVEL_WARNING] = "warning", [LEVEL_ERROR] = "error"};

/* The probe directory and what was made for it. */
struct probe {
    int own_fd;    /* .memsyncd */
    bool made_own; /* it was not there before */
    char name[60]; /* inside it; "" when there is none */
    int probe_fd;
};

void doctor_find(struct doctor *doctor, enum level level, const char *check, const char *cure,
                 const char *format, ...)
{
    char message[PATH_MAX + 400];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    json_t *text = json_string(message);
    json_t *finding =
        json_pack("{s:s, s:s, s:o, s:s*}", "level", level_names[level], "check", check, "message",
                  text ? text : json_string("(not UTF-8)"), "cure", cure);
    (void) json_array_append_new(doctor->findings, finding);
    if (level > doctor->worst)
        doctor->worst = level;
}

static void complain_about_writing(struct doctor *doctor, const char *what)
{
    if (errno == EROFS)
        doctor_find(doctor, LEVEL_WARNING, "write",
                    "mount it read-write if this node is to write or to recover commits",
                    "the volume is mounted read-only: searches work, writes and recovery do not");
    else if (errno == EACCES || errno == EPERM)
        doctor_find(doctor, LEVEL_ERROR, "write",
                    "run the agent as the volume's owner, or in a group that may write to it",
                    "cannot make %s: uid %u has no permission", what, (unsigned) geteuid());
    else
        doctor_find(doctor, LEVEL_ERROR, "write", "look at the file server's side",
                    "cannot make %s: %s", what, strerror(errno));
}

static bool open_own_directory(struct doctor *doctor, struct probe *probe)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

    probe->made_own = mkdirat(doctor->volume_fd, OWN_DIRECTORY, 0770) == 0;
    if (probe->made_own || errno == EEXIST)
        probe->own_fd = openat(doctor->volume_fd, OWN_DIRECTORY, flags);
    if (probe->own_fd < 0)
        complain_about_writing(doctor, OWN_DIRECTORY);
    return probe->own_fd >= 0;
}

static bool make_probe_directory(struct doctor *doctor, struct probe *probe)
{
    for (int i = 0; i < PROBE_TRIES; i++) {
        (void) snprintf(probe->name, sizeof probe->name, "doctor-%d-%d", (int) getpid(), i);
        if (mkdirat(probe->own_fd, probe->name, 0700) == 0) {
            probe->probe_fd =
                openat(probe->own_fd, probe->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (probe->probe_fd >= 0)
                return true;
            break;
        }
        if (errno != EEXIST) {
            probe->name[0] = '\0';
            break;
        }
    }
    complain_about_writing(doctor, "a directory in " OWN_DIRECTORY);
    return false;
}

static void remove_probe(const struct doctor *doctor, struct probe *probe)
{
    static const char *const names[] = {PROBE_FIRST, PROBE_SECOND, PROBE_LINK,
                                        PROBE_CASE,  PROBE_LOCK,   PROBE_EVENT};

    if (probe->probe_fd >= 0) {
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            (void) unlinkat(probe->probe_fd, names[i], 0);
        (void) close(probe->probe_fd);
    }
    if (probe->own_fd >= 0) {
        if (probe->name[0] && unlinkat(probe->own_fd, probe->name, AT_REMOVEDIR) < 0)
            complain(NULL, "cannot remove %s/%s/%s: %s", doctor->volume, OWN_DIRECTORY, probe->name,
                     strerror(errno));
        (void) close(probe->own_fd);
    }
    if (probe->made_own) /* fails where an agent has begun to use it */
        (void) unlinkat(doctor->volume_fd, OWN_DIRECTORY, AT_REMOVEDIR);
}

static void run_checks(struct doctor *doctor)
{
    static void (*const checks[])(struct doctor *) = {
        doctor_check_mount, doctor_check_space, doctor_check_owner,    doctor_check_writing,
        doctor_check_times, doctor_check_locks, doctor_check_watching, doctor_check_index,
    };
    struct probe probe = {.own_fd = -1, .probe_fd = -1};

    if (open_own_directory(doctor, &probe) && make_probe_directory(doctor, &probe))
        doctor->probe_fd = probe.probe_fd;
    for (size_t i = 0; i < ARRAY_SIZE(checks) && !stop_signal(); i++)
        checks[i](doctor);
    remove_probe(doctor, &probe);
}

static enum style style_of(const char *level)
{
    static const enum style styles[] = {[LEVEL_OK] = STYLE_GOOD,
                                        [LEVEL_INFO] = STYLE_KEY,
                                        [LEVEL_WARNING] = STYLE_WARNING,
                                        [LEVEL_ERROR] = STYLE_BAD};

    for (size_t i = 0; i < ARRAY_SIZE(styles); i++) {
        if (strcmp(level, level_names[i]) == 0)
            return styles[i];
    }
    return STYLE_PLAIN;
}

static char *harmless(const json_t *value)
{
    return screen_line(json_is_string(value) ? json_string_value(value) : "",
                       json_string_length(value), true);
}

static void print_finding(const struct screen *screen, const json_t *finding)
{
    const char *level = json_string_value(json_object_get(finding, "level"));
    const char *check = json_string_value(json_object_get(finding, "check"));
    AUTO_FREE char *message = harmless(json_object_get(finding, "message"));
    AUTO_FREE char *cure = harmless(json_object_get(finding, "cure"));

    if (!screen->is_terminal) {
        (void) printf("%s\t%s\t%s\t%s\n", level, check, message ? message : "", cure ? cure : "");
        return;
    }
    bool is_narrow = screen->width < WIDTH_NARROW;
    size_t indent = is_narrow ? INDENT_NARROW : INDENT;
    (void) printf(is_narrow ? "%s%s%s %s\n  " : "%s%-8s%s %-10s ",
                  screen_style(screen, style_of(level)), level, screen_end(screen), check);
    screen_wrap(stdout, message ? message : "", indent, screen->width);
    if (!cure || !*cure)
        return;
    (void) printf("%*s%s", (int) indent, "", screen_style(screen, STYLE_FAINT));
    screen_wrap(stdout, cure, indent, screen->width);
    (void) fputs(screen_end(screen), stdout);
}

static void print_findings(const struct cli *cli, const struct doctor *doctor)
{
    if (cli->options.given & OPTION_JSON) {
        json_t *path = json_string(doctor->volume_path);
        AUTO_JSON json_t *report =
            json_pack("{s:o, s:O, s:s}", "volume", path ? path : json_string("(not UTF-8)"),
                      "findings", doctor->findings, "worst", level_names[doctor->worst]);
        AUTO_FREE char *text = json_dumps(report, JSON_COMPACT);
        (void) puts(text ? text : "{}");
        return;
    }
    for (size_t i = 0; i < json_array_size(doctor->findings); i++)
        print_finding(&cli->screen, json_array_get(doctor->findings, i));
}

/* Whatever cannot be opened is the one finding. */
static void find_unopened(struct doctor *doctor, int error)
{
    const char *cure = "give the directory that holds, or will hold, users/ and memory.json";

    if (error == EACCES || error == EPERM)
        cure = "run this as the agent's user, or let it read and enter the directory";
    else if (error == ENOENT)
        cure = "mount the volume, or make the directory";
    (void) snprintf(doctor->volume_path, sizeof doctor->volume_path, "%s", doctor->volume);
    doctor_find(doctor, LEVEL_ERROR, "volume", cure, "cannot open \"%s\": %s", doctor->volume,
                strerror(error));
}

enum exit_code run_doctor(struct cli *cli)
{
    char *const *words = cli->options.arguments;
    AUTO_JSON json_t *findings = json_array();
    struct doctor doctor = {.volume = words[1], .probe_fd = -1, .findings = findings};

    doctor.index = cli->options.argument_count > 2 ? words[2] : NULL;
    AUTO_CLOSE int volume_fd = open(doctor.volume, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    doctor.volume_fd = volume_fd;
    if (volume_fd < 0 || !realpath(doctor.volume, doctor.volume_path))
        find_unopened(&doctor, errno);
    else
        run_checks(&doctor);
    if (!stop_signal())
        print_findings(cli, &doctor);
    return doctor.worst == LEVEL_ERROR ? EXIT_NOTHING : EXIT_DONE;
}
