#include "chaos/explorer/scenario.h"

#include <string.h>

#define UPDATE(fact, words)                                                                        \
    {                                                                                              \
        .kind = TEMP_UPDATE, .id = (fact), .text = (words)                                         \
    }
#define ADD(fact, words)                                                                           \
    {                                                                                              \
        .kind = TEMP_ADD, .id = (fact), .text = (words)                                            \
    }
#define DELETE(fact)                                                                               \
    {                                                                                              \
        .kind = TEMP_DELETE, .id = (fact)                                                          \
    }
#define SUMMARY(words)                                                                             \
    {                                                                                              \
        .kind = TEMP_SUMMARY, .text = (words)                                                      \
    }

/* clang-format off */
#define WRITE(label, where, ...) \
    {.kind = PART_WRITE, .name = label, .scope = where, .count = 1, .changes = {__VA_ARGS__}}
#define WRITE_TWO(label, where, ...) \
    {.kind = PART_WRITE, .name = label, .scope = where, .count = 2, .changes = {__VA_ARGS__}}
#define WRITE_AND_SEARCH(label, where, ...) \
    {.kind = PART_WRITE, .name = label, .scope = where, .count = 1, .changes = {__VA_ARGS__}, \
     .then_searches = true}
#define WRITE_OF_ALL(label, where, ...) \
    {.kind = PART_WRITE, .name = label, .scope = where, .count = 1, .changes = {__VA_ARGS__}, \
     .needs_facts = true}
#define WRITE_IN(number, label, where, ...) \
    {.kind = PART_WRITE, .name = label, .scope = where, .count = 1, .changes = {__VA_ARGS__}, \
     .agent = number}
#define SEARCH(label, where, times) \
    {.kind = PART_SEARCH, .name = label, .scope = where, .count = times}
#define SEARCH_IN(number, label, where, times) \
    {.kind = PART_SEARCH, .name = label, .scope = where, .count = times, .agent = number}
#define REFRESH(label, where) {.kind = PART_REFRESH, .name = label, .scope = where}
#define REFRESH_FULL(label, where) \
    {.kind = PART_REFRESH, .name = label, .scope = where, .wishes = REFRESH_WISH_FULL}
#define SECOND_LOOK(label, where) \
    {.kind = PART_REFRESH, .name = label, .scope = where, .wishes = REFRESH_WISH_SETTLE}
#define SERVE(label) {.kind = PART_SERVE, .name = label, .scope = "u/a"}
#define PEER(label, where, ...) \
    {.kind = PART_PEER, .name = label, .scope = where, .count = 1, .changes = {__VA_ARGS__}}
#define PEER_TWO(label, where, ...) \
    {.kind = PART_PEER, .name = label, .scope = where, .count = 2, .changes = {__VA_ARGS__}}
#define DYING_PEER(label, where, ...) \
    {.kind = PART_PEER, .name = label, .scope = where, .count = 2, .changes = {__VA_ARGS__}, \
     .is_mortal = true}
#define RECOVERING_PEER(label, where, first) \
    {.kind = PART_PEER, .name = label, .scope = where, .manifest_first = first}
#define RESTART(label, where, times) \
    {.kind = PART_RESTART, .name = label, .scope = where, .count = times}

const struct scenario scenarios[] = {
    {
        .name = "update-delete",
        .title = "an own update, a peer's delete of the same fact, a search",
        .parts = {WRITE_AND_SEARCH("worker", "u/a", UPDATE("f1", "note uno")),
                  PEER("peer", "u/a", DELETE("f1"))},
        .bound = 2,
    },
    {
        .name = "delete-refresh",
        .title = "an own delete and a refresh that may have read the fact before",
        .parts = {WRITE_AND_SEARCH("worker", "u/a", DELETE("f1")), REFRESH("refresh", "u/a"),
                  PEER("peer", "u/b", ADD("g2", "note bumble"))},
        .bound = 1,
    },
    {
        .name = "delete-full",
        .title = "an own delete and a complete re-read",
        .parts = {WRITE_AND_SEARCH("worker", "u/a", DELETE("f1")), REFRESH_FULL("refresh", "u/a")},
        .bound = 2,
    },
    {
        .name = "delete-second-look",
        .title = "an own delete and a second look at what seemed to be in step",
        .parts = {WRITE_AND_SEARCH("worker", "u/a", DELETE("f1")),
                  SECOND_LOOK("second look", "u/a"), PEER("peer", "u/a", ADD("f3", "note three"))},
        .bound = 1,
    },
    {
        .name = "two-writers",
        .title = "two own writes of one fact and a refresh",
        .parts = {WRITE("one", "u/a", UPDATE("f1", "note uno")),
                  WRITE("two", "u/a", UPDATE("f1", "note eins")), REFRESH_FULL("refresh", "u/a")},
        .bound = 1,
    },
    {
        .name = "write-summary",
        .title = "an own write, a peer's summary, a search",
        .parts = {WRITE("worker", "u/a", ADD("f3", "note three")),
                  PEER("peer", "u/a", SUMMARY("hums")), SEARCH("search", "u/a", 1)},
        .bound = 1,
    },
    {
        .name = "write-of-all",
        .title = "an own write that has to know all facts, while a search refreshes them",
        .parts = {WRITE_OF_ALL("worker", "u/a", ADD("f3", "note three")),
                  PEER("peer", "u/a", UPDATE("f1", "note uno")), SEARCH("search", "u/a", 1)},
        .bound = 1,
    },
    {
        .name = "peer-two-searches",
        .title = "a peer's commit of two facts, step by step, and two searches",
        .parts = {PEER_TWO("peer", "u/a", UPDATE("f1", "note uno"), DELETE("f2")),
                  SEARCH("search 1", "u/a", 2), SEARCH("search 2", "u/a", 1)},
        .bound = 1,
    },
    {
        .name = "dying-manifest-first",
        .title = "a peer that dies at any step, one that recovers manifest first, a refresh",
        .parts = {DYING_PEER("dying", "u/a", UPDATE("f1", "note uno"), ADD("f3", "note three")),
                  RECOVERING_PEER("recovering", "u/a", true), SEARCH("search", "u/a", 1)},
        .bound = 1,
    },
    {
        .name = "dying-facts-first",
        .title = "a peer that dies at any step, one that recovers facts first, a refresh",
        .parts = {DYING_PEER("dying", "u/a", DELETE("f1"), ADD("f3", "note three")),
                  RECOVERING_PEER("recovering", "u/a", false), REFRESH("refresh", "u/a")},
        .bound = 1,
    },
    {
        .name = "dying-writer",
        .title = "a peer that dies at any step, and an own write that has to recover",
        .parts = {DYING_PEER("dying", "u/a", UPDATE("f1", "note uno"), DELETE("f2")),
                  WRITE_AND_SEARCH("worker", "u/a", ADD("f4", "note four"))},
        .bound = 1,
    },
    {
        .name = "restart",
        .title = "an agent killed at any step of its write, another on its index, a peer",
        .parts = {WRITE_TWO("worker", "u/a", UPDATE("f1", "note uno"), ADD("f3", "note three")),
                  PEER("peer", "u/b", ADD("g2", "note bumble")),
                  RESTART("restart", "u/a", 1)},
        .mortal_agent = 1,
        .bound = 1,
    },
    {
        .name = "restart-refresh",
        .title = "an agent killed at any step of a refresh, another on its index",
        .parts = {PEER("peer", "u/a", UPDATE("f1", "note uno")), REFRESH("refresh", "u/a"),
                  RESTART("restart", "u/a", 1)},
        .mortal_agent = 1,
        .bound = 1,
    },
    {
        .name = "no-op",
        .title = "an own write that changes nothing, a peer's update of the same fact",
        .parts = {WRITE_AND_SEARCH("worker", "u/a", UPDATE("f1", "note one")),
                  PEER("peer", "u/a", UPDATE("f1", "note uno"))},
        .bound = 2,
    },
    {
        .name = "new-user",
        .title = "the first write of a new user and searches of it",
        .parts = {WRITE_AND_SEARCH("worker", "n/a", ADD("n1", "note new")),
                  SEARCH("search", "n/a", 2), SERVE("refresher")},
        .bound = 1,
    },
    {
        .name = "other-agent",
        .title = "an own write of one agent, refresh and search of another of the same user",
        .parts = {WRITE("worker", "u/a", UPDATE("f1", "note uno")), REFRESH("refresh", "u/b"),
                  SEARCH("search", "u/b", 2)},
        .bound = 1,
    },
    {
        .name = "two-agents",
        .title = "own writes through two agents (two nodes), and a search through the first",
        .parts = {WRITE("here", "u/a", UPDATE("f1", "note uno")),
                  WRITE_IN(1, "there", "u/a", ADD("f3", "note three")),
                  SEARCH("search", "u/a", 1)},
        .agents = 2,
        .bound = 1,
    },
    {
        .name = "no-lock",
        .title = "own writes through two agents on a volume where locks do nothing",
        .parts = {WRITE("here", "u/a", ADD("f3", "note three")),
                  WRITE_IN(1, "there", "u/a", ADD("f4", "note four"))},
        .agents = 2,
        .locks_do_nothing = true,
        .bound = 2,
    },
};
/* clang-format on */

const unsigned scenario_count = sizeof scenarios / sizeof scenarios[0];

const struct scenario *scenario_find(const char *name)
{
    for (unsigned i = 0; i < scenario_count; i++) {
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    }
    return NULL;
}
