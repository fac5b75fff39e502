/* agent/config_table.h - the table of keys, and how a text becomes a key's value.
 *
 * Only for the config_*.c files and their tests; everybody else uses agent/config.h. A key is
 * described once, here: parser, range, default, environment name, sample file and messages all come
 * from its row.
 */
#ifndef MEMSYNC_AGENT_CONFIG_TABLE_H
#define MEMSYNC_AGENT_CONFIG_TABLE_H

#include "agent/config.h"

enum config_kind {
    CONFIG_STRING,   /* any text that is not empty */
    CONFIG_CHOICE,   /* one of the words in `choices` */
    CONFIG_FILENAME, /* one component, no slash */
    CONFIG_ABSOLUTE, /* an absolute path */
    CONFIG_PATH,     /* a path of any form, or "" */
    CONFIG_ENDPOINT, /* ipc://PATH or tcp://ADDRESS:PORT */
    CONFIG_EVENTS,   /* an endpoint, "off" or "" */
    CONFIG_LISTEN,   /* where to listen for HTTP, or "" */
    CONFIG_MODE,     /* octal permissions, kept as text */
    CONFIG_BOOL,
    CONFIG_NUMBER,
    CONFIG_MS,     /* a number of milliseconds */
    CONFIG_BYTES,  /* a number of bytes, or with the suffix K, M or G */
    CONFIG_OBJECT, /* a free mapping, kept as JSON */
    CONFIG_ABSENT, /* something that this version lacks: only its default is accepted */
};

struct config_key {
    const char *name; /* section.key */
    enum config_kind kind;
    size_t offset;        /* of the member in struct config; CONFIG_ABSENT has none */
    uint64_t min, max;    /* numbers only */
    const char *standard; /* the default as text; NULL: not given */
    const char *choices;  /* words divided by '|' */
    const char *example;  /* what the sample file shows when there is no default */
    const char *help;     /* for the sample file; lines divided by '\n' */
};

#define CONFIG_ENVIRONMENT_NAME_SIZE 64
#define CONFIG_SECTION_NAME_SIZE 16

/* The row of index `i`, NULL past the last; rows of one section stand together. */
const struct config_key *config_key_at(size_t i);

/* The row of a dotted name of `length` bytes, NULL when there is none. */
const struct config_key *config_key_find(const char *name, size_t length);

/* The known key that a mistyped one probably means, NULL when none is near. A key of the section
 * that was written is preferred to the same word elsewhere. */
const struct config_key *config_key_nearest(const char *name);

/* The section that a mistyped name probably means; false when none is near. */
bool config_section_nearest(const char *name, char ret[CONFIG_SECTION_NAME_SIZE]);

/* Writes the part of the name before the dot. */
void config_key_section(const struct config_key *key, char ret[CONFIG_SECTION_NAME_SIZE]);

/* The part of the name behind the dot. */
const char *config_key_word(const struct config_key *key);

/* True for volume, index, sync, ... */
bool config_section_exists(const char *name);

/* Writes e.g. MEMSYNC_VOLUME_PATH. */
void config_key_environment(const struct config_key *key, char ret[CONFIG_ENVIRONMENT_NAME_SIZE]);

/* Appends what the key accepts, e.g. "a whole number from 1 to 64". */
void config_key_describe(const struct config_key *key, struct text *text);

/* Parses `value` into the key's member. The message of `error` begins with "must be" and does not
 * name the key; the member keeps its value on failure. */
MUST_CHECK enum status config_key_set(const struct config_key *key, struct config *config,
                                      const char *value, struct error *error);

/* Appends the value in force as text, "not given" when there is none. */
void config_key_write(const struct config_key *key, const struct config *config, struct text *text);

/* Puts a JSON object into a CONFIG_OBJECT key; takes the reference. */
void config_key_set_object(const struct config_key *key, struct config *config, json_t *object);

/* Frees what the member holds. */
void config_key_release(const struct config_key *key, struct config *config);

#endif
