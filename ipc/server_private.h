/* ipc/server_private.h - what the server's files share; nobody else includes it.
 *
 *   server.c          life and loop of the serving thread
 *   server_request.c  one message: read, answer or queue
 *   server_skim.c     what a large message says about itself, without reading it
 *   server_frames.c   the ROUTER socket: envelopes in and out, identity of peers
 *   server_monitor.c  connections that came and went
 *   server_queue.c    waiting, running and finished jobs; whose turn it is; deadlines
 *   server_thread.c   request threads
 *
 * One lock, queue.lock; a leaf (but for those of core/volume_stuck): no handler, file or socket is
 * called under it. Fields marked
 * "serving thread" are touched by server_run()'s caller alone, "set once" before threads start.
 */
#ifndef MEMSYNC_IPC_SERVER_PRIVATE_H
#define MEMSYNC_IPC_SERVER_PRIVATE_H

#include "core/volume_stuck.h"
#include "ipc/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

#define ENVELOPE_FRAMES_MAX 16
#define ENVELOPE_BYTES_MAX 4096
#define SERVER_THREADS_MAX 64
#define CLIENT_SLOTS 1024

/* Larger frames are read by request threads: a tree of 4 MiB takes half a second to build. */
#define SERVER_INLINE_BYTES_MAX 16384

/* All frames before the last one, returned as they came; the first is the routing id. */
struct envelope {
    zmq_msg_t frames[ENVELOPE_FRAMES_MAX];
    unsigned count;
};

/* WAITING  -> RUNNING  queue_take()    a request thread
 * RUNNING  -> DONE     queue_finish()  the same thread; the reply waits for the serving thread
 * WAITING or RUNNING, `answered` set: queue_expire(), queue_abandon(): a reply went out (or nobody
 * is there to hear it); what the handler still brings is dropped.
 */
struct job {
    struct job *next;     /* in its client's queue, or in a list that was handed out */
    struct job *all_next; /* every waiting or running job */
    struct job *all_previous;
    struct client *client;
    struct envelope envelope; /* serving thread */
    struct request request;   /* set once; of a large frame only what skim_request() tells */
    zmq_msg_t body;           /* of a large frame, else empty; for the thread that runs it */
    size_t size;              /* bytes of the frame it came in */
    struct server_peer peer;  /* set once */
    int connection;           /* the connection's descriptor, -1 unknown; set once */
    uint64_t deadline_ns;     /* the server answers by itself; set once */
    uint64_t handler_deadline_ns;
    bool running;
    bool answered;
    bool lost; /* running, and its thread is not counted on: answered without it, or it hangs */
    struct volume_stuck_seat *seat; /* while running: the calls of its thread; NULL: not known */
    unsigned references;            /* who still uses it: its owner, and an answer under way */
    struct text reply;              /* set by its thread before DONE, and so is: */
    int code;                       /* the error code in it, or 0 */
};

/* A peer with a job that waits or runs; it exists no longer than that. */
struct client {
    struct client *hash_next;
    struct client *ring_next; /* the circle of those with waiting jobs */
    struct client *ring_previous;
    struct job *first;
    struct job **last;
    unsigned waiting;
    unsigned running; /* on threads that are counted on */
    unsigned lost;    /* and on others, not answered yet */
    size_t waiting_bytes;
    size_t id_size;
    unsigned char id[256]; /* the routing id: at most 255 bytes */
};

struct queue_limits {
    unsigned per_client;
    unsigned total;
    size_t bytes_per_client;
    size_t bytes_total;
    unsigned running_per_client;
};

/* All fields by `lock`, but the counters. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* a job can be taken, `quit`, or a thread has left */
    struct queue_limits limits; /* set once */
    struct client *slots[CLIENT_SLOTS];
    struct client *ring; /* whose turn it is */
    struct job *all;
    struct job *done;
    struct job **done_last;
    size_t waiting_bytes;
    bool quit;
    unsigned threads_wanted; /* set once; those that are lost come on top */
    unsigned threads_alive;
    unsigned threads_leaving;  /* of those: were told to end */
    uint64_t next_deadline_ns; /* serving thread: no deadline is earlier */
    _Atomic uint64_t waiting, clients, late;
    _Atomic uint64_t outstanding; /* waiting, running, and done until queue_take_done() */
    _Atomic unsigned lost;        /* jobs that are */
};

/* The limits are copied. Clearing frees the jobs in it too; no thread may use it any more. */
enum status queue_init(struct queue *queue, const struct queue_limits *limits);
void queue_clear(struct queue *queue);

/* Takes the job over, or STATUS_BUSY or STATUS_NO_MEMORY: then it stays the caller's. */
MUST_CHECK enum status queue_put(struct queue *queue, struct job *job, struct error *error);

/* Waits for the next job whose client's turn it is; NULL: the thread should end, since it is time
 * to quit or there are too many now that lost ones are back. `seat` as in the job. */
struct job *queue_take(struct queue *queue, struct volume_stuck_seat *seat);

/* Counts those as lost whose threads hang in a call to the volume, long before their deadline. */
void queue_lose_hanging(struct queue *queue);

/* The job has its reply. True when the serving thread must be woken. */
bool queue_finish(struct queue *queue, struct job *job);

/* The finished jobs, oldest first; the caller sends and releases them. */
struct job *queue_take_done(struct queue *queue);

/* Those past their deadline (or all, at the end of a drain): marked answered. The caller answers
 * and releases each. */
struct job *queue_expire(struct queue *queue, uint64_t now_ns, bool all);

/* Forgets what a connection asked for. `id` NULL: every client of that connection; else only what
 * this client asked for through other connections. */
void queue_abandon(struct queue *queue, int connection, zmq_msg_t *id);

/* From now on queue_take() gives NULL; whoever waits in it wakes. */
void queue_quit(struct queue *queue);

/* With one reference; NULL: no memory. */
struct job *job_create(void);
/* Frees it when nobody else uses it. */
void job_release(struct queue *queue, struct job *job);
/* Frees one that was never queued. */
void job_free(struct job *job);

enum frames_result { FRAMES_NONE, FRAMES_MESSAGE, FRAMES_MALFORMED };

/* Reads one message: the envelope into `job`, its last frame into `body` (initialised by the
 * caller). MALFORMED: the envelope is beyond the limits, and what is left of it suffices for an
 * answer. */
enum frames_result frames_receive(void *router, bool is_ipc, struct job *job, zmq_msg_t *body);

/* Sends the envelope and `reply`; takes both. False when they could not be delivered. */
bool frames_send(void *router, struct envelope *envelope, struct text *reply);

/* True when the peer chose its routing id itself (libzmq's own begin with a NUL). */
bool frames_id_is_chosen(zmq_msg_t *id);

/* "localhost:UID:GID:PID", as libzmq writes it for ipc; anything else is unknown. */
struct server_peer frames_parse_peer(const char *address);

struct worker {
    struct server *server;
    pthread_t thread;            /* detached */
    bool alive;                  /* by queue.lock */
    unsigned number;             /* 1..n */
    _Atomic uint64_t started_ns; /* has had a job since then; 0: idle */
};

struct live_counters {
    _Atomic uint64_t requests, errors, timeouts, busy, malformed, inline_replies, queued,
        undelivered, connections, disconnects;
};

struct server {
    struct server_options options; /* set once */
    struct server_handler handler; /* set once */
    bool is_ipc;                   /* set once */
    void *router;                  /* serving thread */
    void *monitor;                 /* serving thread */
    bool monitor_has_more;         /* serving thread */
    int wake_fd;                   /* set once; written by anybody who has news */
    _Atomic unsigned drain_ms;
    atomic_bool stopping;
    uint64_t drain_deadline_ns; /* serving thread */
    uint64_t hanging_due_ns;    /* serving thread: when it looks again for threads that hang */
    struct text result;         /* serving thread: scratch of inline requests */
    struct queue queue;
    struct worker workers[SERVER_THREADS_MAX + SERVER_THREADS_SPARE];
    struct live_counters counters;
    bool orphaned; /* threads that are stuck at the end outlive the server; by queue.lock */
};

/* Reads and answers (or queues) one message; false when there is none. */
bool request_serve_one(struct server *server);

/* Counts a reply that goes out with this code. */
void request_count_reply(struct server *server, int code);

/* Sends the reply to where the job came from; takes both envelope and text. */
void request_send(struct server *server, struct job *job, struct text *reply);

/* Answers a job that the handler did not (or not yet) answer. */
void request_answer(struct server *server, struct job *job, enum status status,
                    const char *message);

/* On a request thread: reads the frame where that was put off, calls the handler, and writes the
 * job's reply and code. */
void request_run(struct server *server, struct job *job, unsigned thread);

/* Fills the id, and of params timeout_ms, user_id and agent_name (names written with escapes are
 * not recognised), in one pass that costs little. What the frame does not tell, or what is wrong,
 * is missing: whoever reads the frame judges. `ret` always needs request_clear(). */
void skim_request(const char *bytes, size_t size, struct request *ret);

/* Wakes the serving thread: there is something to send, or to end. Any thread. */
void server_wake(const struct server *server);

/* Starts the request threads. Not OK: some may run already; threads_stop() ends those. */
MUST_CHECK enum status threads_start(struct server *server, struct error *error);
/* Tells them to end and waits a moment; returns how many are stuck. */
unsigned threads_stop(struct server *server);
/* Serving thread: starts one where one is lost; cheap when none is. */
void threads_replace_lost(struct server *server);
void server_free(struct server *server);

/* Has libzmq report connections that come and go. */
MUST_CHECK enum status monitor_open(struct server *server, struct error *error);
/* Takes what happened to connections since the last call; `monitor_has_more` tells when there may
 * be more of it than is taken at once. */
void monitor_read(struct server *server);

#endif
