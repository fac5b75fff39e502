#!/usr/bin/python3
"""Checks that includes point down, by the floors of the tree, and that each library has one home.

Every file is looked at directly: when nobody includes upwards, nobody reaches upwards through
others either. Prints FILE:LINE: finding and ends with 1 when there is any. Run from the top of the
tree, or give its path.
"""
import os
import re
import sys

GROUND, FORMATS, DECISIONS, OUTSIDE, SNAPSHOT, ENGINE = range(6)
FLOOR_NAMES = ("ground", "formats", "decisions", "outside", "snapshot", "engine")

# The first words of the names of core's files; the longest that fits counts.
CORE_FLOORS = {
    GROUND: "compiler status log clock text array pause_point mutant reader_pool thread_kind thread_join condition "
            "volume_stuck volume_errors histogram",
    # What lies in files and messages, and what is said about it: no state, no I/O.
    FORMATS: "scope signature seen_entry fact manifest journal query analyzer json yaml iso_time "
             "content_key capacity side_data change_set exposition",
    # What to do next: a mutex at the most, no I/O.
    DECISIONS: "freshness racy refresh_plan refresh_cause refresh_table refresh_report install_queue "
               "scope_notes own_writes usage_log draft watch_poll watch_table watch_hash "
               "build_progress",
    # The volume, the index, the kernel's events. These families do not know each other.
    OUTSIDE: "volume legacy index watch",
    # A bucket and a scope as they are on the volume now, read whole or not at all.
    SNAPSHOT: "fact_walk volume_snapshot bucket_owner errands",
    ENGINE: "store refresher refresh_crew reading searcher bucket_check bucket_errand keeper "
            "writer write_session write_source "
            "write_trial search_tally "
            "migration",
}

# On the floor "outside": who reads the volume through the volume's own functions.
OUTSIDE_KNOWS = {"watch": {"volume"}, "legacy": {"volume"}}

# What each folder may include from the others; core is looked at by floors besides.
FOLDERS = {
    "core": {"core"},
    "backends": {"core", "backends"},
    "ipc": {"core", "ipc"},
    "agent": {"core", "backends", "ipc", "agent"},
    "tests": {"core", "backends", "ipc", "agent", "tests", "chaos"},
    "chaos": {"core", "backends", "ipc", "agent", "tests", "chaos"},
}

# A client is linked without core, so it may use only what needs no object file.
CLIENT_MAY = {"ipc/memsync.h", "ipc/socket_descriptor.h", "core/compiler.h"}

# Library headers and the files (by the beginning of their paths) that may include them.
LIBRARY_HOMES = {
    "sqlite3.h": ("core/index", "ipc/cli/doctor"),
    "yaml.h": ("core/yaml_", "agent/config"),
    "zmq.h": ("ipc/", "agent/agent"),
    "unicode/": ("core/analyzer", "core/content_key"),
    "xxhash.h": ("core/signature",),
    "sodium.h": ("core/scope", "core/legacy", "core/yaml_"),
    "sys/inotify.h": ("core/watch_inotify", "core/watch_follow", "ipc/cli/doctor"),
    "systemd/": ("agent/service",),
    "microhttpd.h": ("agent/http_server",),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def core_module(path):
    """(floor, module) of a file in core; (None, None) when the table lacks it."""
    stem = os.path.splitext(os.path.basename(path))[0]
    best = (None, None)
    for floor, names in CORE_FLOORS.items():
        for name in names.split():
            fits = stem == name or stem.startswith(name + "_")
            if fits and (best[1] is None or len(name) > len(best[1])):
                best = (floor, name)
    return best


def is_client(path):
    return path.startswith("ipc/cli/") or os.path.basename(path).startswith("client")


def check_library(path, header):
    for prefix, homes in LIBRARY_HOMES.items():
        matches = header == prefix or (prefix.endswith("/") and header.startswith(prefix))
        if matches and not path.startswith(("tests/", "chaos/")) and not path.startswith(homes):
            return f"<{header}> belongs into {', '.join(homes)} only"
    return None


def check_core(path, header):
    floor, module = core_module(path)
    other_floor, other = core_module(header)
    if floor is None or other_floor is None:
        return None  # told once, for the file itself
    if other_floor > floor:
        return (f"{path} ({FLOOR_NAMES[floor]}) must not include {header} "
                f"({FLOOR_NAMES[other_floor]}): includes point down")
    if floor == other_floor == OUTSIDE and module != other and \
            other not in OUTSIDE_KNOWS.get(module, ()):
        return f"{module} and {other} both stand outside and must not know each other"
    return None


def check_own(root, path, header):
    if not os.path.isfile(os.path.join(root, header)):
        return f'there is no {header}; headers are included by their path from the top'
    folder, other = path.split("/")[0], header.split("/")[0]
    if other not in FOLDERS.get(folder, FOLDERS["tests"]):
        return f"{folder}/ must not include from {other}/"
    if is_client(path):
        own = header.startswith("ipc/cli/") if path.startswith("ipc/cli/") \
            else os.path.basename(header).startswith("client")
        if header not in CLIENT_MAY and not own:
            return f"a client is linked without core: {header} is not for it"
    elif header.startswith("ipc/cli/") and folder in ("core", "ipc", "agent", "backends"):
        return "the command line's headers are its own"
    if folder == "core" and other == "core":
        return check_core(path, header)
    return None


def check_file(root, path):
    findings = []
    if path.startswith("core/") and core_module(path)[0] is None:
        findings.append((1, "not in the floor table of tests/lint/check_includes.py"))
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            if match:
                check = check_own(root, path, match[2]) if match[1] == '"' \
                    else check_library(path, match[2])
                if check:
                    findings.append((number, check))
    return findings


def sources(root):
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(place, name), root)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    paths = sorted(sources(root))
    if not paths:
        sys.exit(f"{root}: no sources here")
    count = 0
    for path in paths:
        for line, finding in check_file(root, path):
            print(f"{path}:{line}: {finding}")
            count += 1
    print(f"check_includes: {len(paths)} files, {count} findings")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
