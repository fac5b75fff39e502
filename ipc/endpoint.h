/* ipc/endpoint.h - where an agent listens: checks, permissions, one agent per endpoint.
 *
 * libzmq unlinks whatever lies at an ipc path and binds there, so a lock file beside the socket
 * (PATH.lock, held with flock from before the bind until the process ends) decides who may.
 */
#ifndef MEMSYNC_IPC_ENDPOINT_H
#define MEMSYNC_IPC_ENDPOINT_H

#include "core/status.h"

struct endpoint; /* a claimed endpoint */

/* Checks the form: ipc:// with a path of at most 107 bytes (or an abstract @name), tcp:// with
 * loopback or (with `curve`) any address. STATUS_INVALID with a message that tells length and
 * limit. */
MUST_CHECK enum status endpoint_check(const char *endpoint, bool curve, struct error *error);

/* Claims it: the directory must exist (made when it is the last part missing and `make_directory`),
 * no regular file may lie there, a dead socket is removed. STATUS_BUSY: "already running,
 * pid N, serves ipc://PATH". */
MUST_CHECK enum status endpoint_claim(const char *endpoint, bool make_directory,
                                      struct endpoint **ret, struct error *error);

/* STATUS_INVALID: there is no such group. */
MUST_CHECK enum status endpoint_check_group(const char *group, struct error *error);

/* After the bind: sets the socket's mode and group (`group` NULL: leave it). */
MUST_CHECK enum status endpoint_set_access(struct endpoint *endpoint, unsigned mode,
                                           const char *group, struct error *error);

/* Removes the socket and the claim. */
void endpoint_release(struct endpoint **endpoint);

#endif
