#include "core/index_rank.h"

#include "core/array.h"
#include "core/index_private.h"

#include <math.h>
#include <sqlite3.h>
#include <string.h>

/* Measured best on the labelled sets: only texts longer than twice the usual are marked down. */
#define K1 0.9
#define B 0.75

#define LENGTH_EXACT 32u
#define LENGTH_STEPS 16u
#define LENGTH_MAX ((1u << 19) - 1)

struct match {
    uint32_t phrase;
    uint32_t frequency;
};

struct row {
    int64_t rowid;
    size_t first; /* of its matches */
};

struct rank_collector {
    const struct query *query;
    size_t phrase_count;
    double *document_frequency; /* by phrase */
    bool counted;               /* document_frequency was asked for, not added up */
    struct row *rows;
    size_t row_count, row_capacity;
    struct match *matches;
    size_t match_count, match_capacity;
    struct rank_candidate *candidates;
};

unsigned length_quantise(size_t words)
{
    unsigned length = words > LENGTH_MAX ? LENGTH_MAX : (unsigned) words;

    if (length < LENGTH_EXACT)
        return length;
    unsigned octave = 31u - (unsigned) __builtin_clz(length); /* 5 for 32 to 63 */
    return LENGTH_EXACT + (octave - 5) * LENGTH_STEPS + ((length >> (octave - 4)) & 15u);
}

unsigned length_restore(unsigned quantised)
{
    if (quantised < LENGTH_EXACT)
        return quantised;
    unsigned octave = (quantised - LENGTH_EXACT) / LENGTH_STEPS + 5;
    unsigned step = (quantised - LENGTH_EXACT) % LENGTH_STEPS;
    return (LENGTH_STEPS + step) << (octave - 4);
}

enum status rank_collector_create(const struct query *query, struct rank_collector **ret)
{
    struct rank_collector *collector = calloc(1, sizeof *collector);

    if (!collector)
        return STATUS_NO_MEMORY;
    collector->query = query;
    collector->phrase_count = query_phrase_count(query);
    collector->document_frequency =
        calloc(collector->phrase_count + 1, sizeof *collector->document_frequency);
    if (!collector->document_frequency) {
        rank_collector_destroy(&collector);
        return STATUS_NO_MEMORY;
    }
    *ret = collector;
    return STATUS_OK;
}

void rank_collector_destroy(struct rank_collector **collector)
{
    if (!*collector)
        return;
    free((*collector)->document_frequency);
    free((*collector)->rows);
    free((*collector)->matches);
    free((*collector)->candidates);
    free(*collector);
    *collector = NULL;
}

/* ---- inside SQLite ---- */

static int count_row(const Fts5ExtensionApi *api UNUSED, Fts5Context *context UNUSED, void *count)
{
    *(double *) count += 1.0;
    return SQLITE_OK;
}

/* The rows of an OR tell how many rows have each phrase; those of an AND or NOT do not. */
static int count_phrases(struct rank_collector *collector, const Fts5ExtensionApi *api,
                         Fts5Context *context)
{
    int result = SQLITE_OK;

    collector->counted = true;
    for (size_t i = 0; i < collector->phrase_count && result == SQLITE_OK; i++)
        result = api->xQueryPhrase(context, (int) i, &collector->document_frequency[i], count_row);
    return result;
}

static int phrase_frequency(const Fts5ExtensionApi *api, Fts5Context *context, int phrase,
                            uint32_t *ret)
{
    Fts5PhraseIter iterator;
    int column, offset;
    uint32_t frequency = 0;
    int result = api->xPhraseFirst(context, phrase, &iterator, &column, &offset);

    if (result != SQLITE_OK)
        return result;
    for (; column >= 0; api->xPhraseNext(context, &iterator, &column, &offset))
        frequency++;
    *ret = frequency;
    return SQLITE_OK;
}

static int collect_row(struct rank_collector *collector, const Fts5ExtensionApi *api,
                       Fts5Context *context)
{
    if (!array_make_room(&collector->rows, collector->row_count, &collector->row_capacity,
                         sizeof *collector->rows))
        return SQLITE_NOMEM;
    collector->rows[collector->row_count++] = (struct row){
        .rowid = api->xRowid(context),
        .first = collector->match_count,
    };

    for (size_t i = 0; i < collector->phrase_count; i++) {
        uint32_t frequency = 0;
        int result = phrase_frequency(api, context, (int) i, &frequency);
        if (result != SQLITE_OK)
            return result;
        if (frequency == 0)
            continue;
        if (!array_make_room(&collector->matches, collector->match_count,
                             &collector->match_capacity, sizeof *collector->matches))
            return SQLITE_NOMEM;
        collector->matches[collector->match_count++] =
            (struct match){.phrase = (uint32_t) i, .frequency = frequency};
        if (!collector->counted)
            collector->document_frequency[i] += 1.0;
    }
    return SQLITE_OK;
}

static void collect(const Fts5ExtensionApi *api, Fts5Context *context, sqlite3_context *reply,
                    int count, sqlite3_value **values)
{
    struct rank_collector *collector =
        count == 1 ? sqlite3_value_pointer(values[0], RANK_POINTER) : NULL;
    int result = SQLITE_OK;

    if (!collector || api->xPhraseCount(context) != (int) collector->phrase_count) {
        sqlite3_result_error_code(reply, SQLITE_MISUSE);
        return;
    }
    if (collector->row_count == 0 && strcmp(query_strategy(collector->query), "advanced") == 0)
        result = count_phrases(collector, api, context);
    if (result == SQLITE_OK)
        result = collect_row(collector, api, context);
    if (result != SQLITE_OK)
        sqlite3_result_error_code(reply, result);
}

int index_rank_register(sqlite3 *db)
{
    fts5_api *api = NULL;
    int result = index_fts5_api(db, &api);

    if (result != SQLITE_OK)
        return result;
    return api->xCreateFunction(api, RANK_FUNCTION, NULL, collect, NULL);
}

/* ---- scores ---- */

/* A phrase's weight in every row: what the query says, times how rare it is. */
static void weigh_phrases(struct rank_collector *collector, uint64_t facts)
{
    for (size_t i = 0; i < collector->phrase_count; i++) {
        double seen = collector->document_frequency[i];
        double all = (double) facts > seen ? (double) facts : seen;
        double rarity = log(1.0 + (all - seen + 0.5) / (seen + 0.5));

        collector->document_frequency[i] = query_phrase_weight(collector->query, i) * rarity;
    }
}

static double length_factor(int64_t rowid, unsigned median)
{
    double usual = 2.0 * (median ? median : 1);
    double length = length_restore(INDEX_ROWID_LENGTH(rowid));

    return K1 * (1.0 - B + B * (length > usual ? length / usual : 1.0));
}

/* False for a row that optional phrases alone have found. */
static bool score_row(const struct rank_collector *collector, size_t index, unsigned median,
                      struct rank_candidate *ret)
{
    const struct row *row = &collector->rows[index];
    size_t end = index + 1 < collector->row_count ? collector->rows[index + 1].first
                                                  : collector->match_count;
    double factor = length_factor(row->rowid, median);
    double relevance = 0;
    bool found = false;

    for (size_t i = row->first; i < end; i++) {
        const struct match *match = &collector->matches[i];
        double frequency = match->frequency;

        found = found || !query_phrase_is_optional(collector->query, match->phrase);
        relevance += collector->document_frequency[match->phrase] * frequency * (K1 + 1.0) /
                     (frequency + factor);
    }
    *ret = (struct rank_candidate){.rowid = row->rowid, .relevance = relevance};
    return found;
}

enum status rank_collector_score(struct rank_collector *collector,
                                 const struct rank_statistics *statistics,
                                 struct rank_candidate **ret, size_t *ret_count)
{
    size_t count = 0;

    free(collector->candidates);
    collector->candidates = calloc(collector->row_count + 1, sizeof *collector->candidates);
    if (!collector->candidates)
        return STATUS_NO_MEMORY;
    weigh_phrases(collector, statistics->facts);
    for (size_t i = 0; i < collector->row_count; i++)
        count += score_row(collector, i, statistics->median_length, &collector->candidates[count]);
    *ret = collector->candidates;
    *ret_count = count;
    return STATUS_OK;
}
