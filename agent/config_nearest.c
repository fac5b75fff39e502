#include "agent/config_table.h"

#include <string.h>

/* Longer names are not worth a guess. */
#define NAME_MAX_BYTES 63

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many characters have to be put in, left out or replaced to make one name of the other. */
static size_t distance(const char *from, const char *to)
{
    size_t row[NAME_MAX_BYTES + 1];
    size_t length = strlen(to);

    if (strlen(from) > NAME_MAX_BYTES || length > NAME_MAX_BYTES)
        return SIZE_MAX;
    for (size_t i = 0; i <= length; i++)
        row[i] = i;
    for (size_t line = 1; from[line - 1]; line++) {
        size_t diagonal = row[0];
        row[0] = line;
        for (size_t i = 1; i <= length; i++) {
            size_t replaced = diagonal + (from[line - 1] != to[i - 1]);
            diagonal = row[i];
            row[i] = smaller(replaced, smaller(row[i], row[i - 1]) + 1);
        }
    }
    return row[length];
}

/* A guess that differs by more than this is noise. */
static size_t distance_max(const char *name)
{
    return 1 + strlen(name) / 4;
}

const struct config_key *config_key_nearest(const char *name)
{
    const char *dot = strchr(name, '.');
    const char *word = dot ? dot + 1 : name;
    const struct config_key *best = NULL;
    size_t best_distance = distance_max(word) + 1;
    const struct config_key *key;

    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        const char *key_word = config_key_word(key);
        size_t prefix = (size_t) (key_word - key->name);
        size_t here = distance(word, key_word);
        if (here < SIZE_MAX && (!dot || strncmp(name, key->name, prefix) != 0))
            here++; /* of two that fit alike, the one in the written section */
        if (here < best_distance) {
            best = key;
            best_distance = here;
        }
    }
    return best;
}

bool config_section_nearest(const char *name, char ret[CONFIG_SECTION_NAME_SIZE])
{
    size_t best_distance = distance_max(name) + 1;
    const struct config_key *key;

    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        char section[CONFIG_SECTION_NAME_SIZE];
        config_key_section(key, section);
        size_t here = distance(name, section);
        if (here < best_distance) {
            memcpy(ret, section, sizeof section);
            best_distance = here;
        }
    }
    return best_distance <= distance_max(name);
}
