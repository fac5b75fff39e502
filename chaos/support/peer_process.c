#include "chaos/support/peer_process.h"

#include "tests/support/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define PYTHON "/usr/bin/python3"
#define PROGRAM "tests/support/peer.py"

struct peer_process {
    pid_t pid;
    FILE *requests;
    FILE *answers;
    char *root; /* told with the next request; NULL: it knows */
};

extern char **environ;

static void spawn(struct peer_process *peer, int input, int output)
{
    char program[] = PROGRAM;
    char python[] = PYTHON;
    char nowhere[] = "/nonexistent";
    char serve[] = "serve";
    char *const arguments[] = {python, program, nowhere, serve, NULL};
    posix_spawn_file_actions_t actions;

    if (posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) != 0)
        test_die("no memory for a peer");
    errno = posix_spawn(&peer->pid, PYTHON, &actions, NULL, arguments, environ);
    if (errno != 0)
        test_die("cannot start %s", PYTHON);
    (void) posix_spawn_file_actions_destroy(&actions);
}

struct peer_process *peer_process_start(void)
{
    struct peer_process *peer = calloc(1, sizeof *peer);
    int requests[2];
    int answers[2];

    if (!peer || pipe2(requests, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0)
        test_die("cannot make a peer's pipes");
    spawn(peer, requests[0], answers[1]);
    (void) close(requests[0]);
    (void) close(answers[1]);
    (void) signal(SIGPIPE, SIG_IGN); /* a peer that has died shows by its missing answer */
    peer->requests = fdopen(requests[1], "w");
    peer->answers = fdopen(answers[0], "r");
    if (!peer->requests || !peer->answers)
        test_die("cannot talk to the peer");
    return peer;
}

void peer_process_stop(struct peer_process **peer_address)
{
    struct peer_process *peer = TAKE_PTR(*peer_address);
    int status;

    if (!peer)
        return;
    (void) fclose(peer->requests); /* the end of its input ends it */
    (void) fclose(peer->answers);
    (void) waitpid(peer->pid, &status, 0);
    free(peer->root);
    free(peer);
}

void peer_process_move(struct peer_process *peer, const char *root)
{
    free(peer->root);
    peer->root = strdup(root);
    if (!peer->root)
        test_die("no memory for a path");
}

json_t *peer_process_do(struct peer_process *peer, json_t *request)
{
    AUTO_FREE char *line = NULL;
    size_t size = 0;

    if (peer->root && json_object_set_new(request, "volume", json_string(peer->root)) != 0)
        test_die("no memory for a request");
    free(TAKE_PTR(peer->root));
    AUTO_FREE char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    if (!text || fprintf(peer->requests, "%s\n", text) < 0 || fflush(peer->requests) != 0)
        test_die("the peer does not listen");
    if (getline(&line, &size, peer->answers) <= 0)
        test_die("the peer does not answer to %s", text);
    json_t *answer = json_loads(line, 0, NULL);
    if (!json_is_true(json_object_get(answer, "ok")))
        test_die("the peer refuses %s: %s", text, line);
    return answer;
}

json_t *peer_process_facts(struct peer_process *peer, const char *user, const char *agent)
{
    AUTO_JSON json_t *answer = peer_process_do(peer, json_pack("{s:s, s:s, s:s}", "do", "facts",
                                                               "user", user, "agent", agent));

    return json_incref(json_object_get(answer, "facts"));
}
