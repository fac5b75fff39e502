#!/usr/bin/python3
"""docs/operations.md against the sources: its table of log events is complete and not out of date."""

import glob
import os
import re
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TOLD = ("error", "warning", "notice")


def logged():
    """The events of the agent's sources: name to the levels with which it is logged."""
    events = {}
    for part in ("agent", "backends", "core", "ipc"):
        for path in glob.glob(os.path.join(ROOT, part, "**", "*.c"), recursive=True):
            with open(path, encoding="utf-8") as file:
                calls = re.findall(r"\blog_(error|warning|notice|info|debug)\(([^,]+),", file.read())
            for level, argument in calls:
                for name in re.findall(r'"([a-z_.]+)"', argument):
                    events.setdefault(name, set()).add(level)
    return events


def table():
    """The rows of the table: name of an event to the row."""
    with open(os.path.join(ROOT, "docs", "operations.md"), encoding="utf-8") as file:
        section = file.read().split("\n## Logs\n")[1].split("\n## ")[0]
    rows = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            for name in re.findall(r"`([a-z_.]+)`", line.split("|")[1]):
                if name in rows:
                    raise AssertionError(f"{name} is in the table twice")
                rows[name] = line
    return rows


class Events(unittest.TestCase):
    def test_the_sources_were_understood(self):
        events = logged()
        self.assertGreater(len(events), 40)
        self.assertEqual(events["fact.foreign"], {"warning"})

    def test_every_event_of_note_is_in_the_table(self):
        missing = [name for name, levels in logged().items()
                   if levels & set(TOLD) and name not in table()]
        self.assertEqual(sorted(missing), [])

    def test_the_table_names_nothing_else(self):
        self.assertEqual(sorted(set(table()) - set(logged())), [])

    def test_the_levels_are_told(self):
        for name, row in table().items():
            for level in logged()[name] & set(TOLD):
                with self.subTest(event=name):
                    self.assertIn(level, row)


if __name__ == "__main__":
    unittest.main()
