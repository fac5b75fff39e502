#!/usr/bin/python3
"""`make install` and `make uninstall`: the files, their modes, and that each is of use."""

import glob
import os
import re
import shutil
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from peer import add
from process import COUNTS_LINES, FLAVOUR, IS_SANITIZED, ROOT, ProcessCase, skip

PROGRAM = r"""
#include <memsync.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    memsync_client *client = NULL;
    char *reply = NULL;

    if (argc != 2 || memsync_open(argv[1], &client) != MEMSYNC_OK)
        return 2;
    int code = memsync_call(client, "search", "{\"user_id\": \"u1\", \"query\": \"amber\"}", 5000,
                            &reply);
    printf("%s %s\n", memsync_code_name(code), reply ? reply : memsync_last_error());
    memsync_free(reply);
    memsync_close(&client);
    return code == MEMSYNC_OK ? 0 : 1;
}
"""

COMPLETE = r"""
set -u
source "$0"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9 COMP_LINE="$*" COMPREPLY=()
COMP_POINT=${#COMP_LINE}
function_name=$(complete -p "$1" | sed 's/.*-F \([^ ]*\).*/\1/')
"$function_name" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""

EXPECTED = {
    "usr/sbin/memsyncd": 0o755, "usr/bin/memsync": 0o755, "usr/include/memsync.h": 0o644,
    "usr/lib/libmemsync.a": 0o644, "usr/lib/libmemsync.so.0.1.0": 0o755,
    "usr/lib/libmemsync.so.1": None, "usr/lib/libmemsync.so": None,
    "usr/lib/pkgconfig/libmemsync.pc": 0o644,
    "usr/lib/systemd/system/memsyncd.service": 0o644,
    "usr/lib/systemd/system/memsyncd@.service": 0o644,
    "usr/lib/sysusers.d/memsyncd.conf": 0o644, "usr/lib/tmpfiles.d/memsyncd.conf": 0o644,
    "usr/share/bash-completion/completions/memsync": 0o644,
    "usr/share/bash-completion/completions/memsyncd": 0o644,
    "usr/share/man/man1/memsync.1": 0o644, "usr/share/man/man5/memsyncd.yaml.5": 0o644,
    "usr/share/man/man8/memsyncd.8": 0o644, "etc/memsyncd/memsyncd.yaml": 0o644,
}


def make(target, destination, *variables):
    return subprocess.run(
        ["make", "--no-print-directory", "-C", ROOT, target, f"FLAVOUR={FLAVOUR}",
         f"DESTDIR={destination}", "PREFIX=/usr", *variables],
        env={name: value for name, value in os.environ.items()
             if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300)


def files_below(top):
    return {os.path.relpath(os.path.join(path, name), top)
            for path, _, names in os.walk(top) for name in names}


class Installed(ProcessCase):
    def setUp(self):
        super().setUp()
        if IS_SANITIZED:
            skip("a sanitizer's library does not load into a program built without it")
        self.root = os.path.join(self.directory, "root")
        done = make("install", self.root)
        self.assertEqual(done.returncode, 0, done.stdout)

    def path(self, name):
        return os.path.join(self.root, name)

    def test_the_files_are_there_with_their_modes_and_nothing_else(self):
        found = files_below(self.root)
        documents = {name for name in found if name.startswith("usr/share/doc/memsyncd/")}
        self.assertEqual(found - documents, set(EXPECTED))
        for name, mode in EXPECTED.items():
            with self.subTest(name=name):
                self.assertEqual(os.path.islink(self.path(name)), mode is None)
                if mode is not None:
                    self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), mode)
        base = {os.path.basename(name) for name in documents}
        self.assertLessEqual({"README.md", "LICENSE", "protocol.md", "configuration.md", "grafana.json",
                              "alerts.yaml"}, base)
        for name in documents:
            self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), 0o644)

    def test_no_installed_text_names_the_build_or_the_destination(self):
        for name in sorted(files_below(self.root)):
            if name.startswith(("usr/lib/libmemsync.", "usr/sbin/", "usr/bin/")):
                continue
            with open(self.path(name), encoding="utf-8") as file:
                text = file.read()
            with self.subTest(name=name):
                self.assertNotIn(ROOT, text)
                self.assertNotIn(self.root, text)
                self.assertNotRegex(text, r"@[A-Z]+@")

    def test_relative_links_of_the_installed_documents_lead_somewhere(self):
        top = self.path("usr/share/doc/memsyncd")
        for name in sorted(glob.glob(top + "/**/*.md", recursive=True)):
            with open(name, encoding="utf-8") as file:
                links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read())
            for link in links:
                with self.subTest(document=os.path.relpath(name, top), link=link):
                    self.assertTrue(os.path.exists(os.path.join(os.path.dirname(name), link)))

    def test_a_c_program_builds_with_the_pkg_config_file_and_searches(self):
        self.peer.commit("u1", changes=[add("fact_1", "amber for the library")])
        agent = self.agent()
        source, program = os.path.join(self.directory, "a.c"), os.path.join(self.directory, "a")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        env = {**os.environ, "PKG_CONFIG_PATH": self.path("usr/lib/pkgconfig"),
               "PKG_CONFIG_SYSROOT_DIR": self.root, "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1",
               "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1"}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libmemsync"], env=env,
                               text=True, capture_output=True, check=False)
        self.assertEqual((flags.returncode, flags.stderr), (0, ""))
        built = subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-std=c17", source, "-o",
                                program, *flags.stdout.split()],
                               text=True, capture_output=True, check=False)
        self.assertEqual((built.returncode, built.stderr), (0, ""))
        ran = subprocess.run([program, agent.endpoint], text=True, capture_output=True, check=False,
                             env={**os.environ, "LD_LIBRARY_PATH": self.path("usr/lib")},
                             timeout=30)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("amber for the library", ran.stdout)
        needed = subprocess.run(["objdump", "-p", program], text=True, capture_output=True,
                                check=True).stdout
        self.assertIn("NEEDED               libmemsync.so.1", needed)

    def test_the_library_shows_its_own_names_only(self):
        if COUNTS_LINES:
            skip("what counts lines has names of its own")
        shown = subprocess.run(["nm", "-D", "--defined-only", self.path("usr/lib/libmemsync.so")],
                               text=True, capture_output=True, check=True).stdout
        names = {line.split()[-1] for line in shown.splitlines()}
        self.assertTrue(names)
        self.assertEqual({name for name in names if not name.startswith("memsync_")}, set())

    def test_the_header_stands_alone_in_c_and_in_cpp(self):
        for compiler, standard in (("gcc", "c99"), ("g++", "c++17")):
            if not shutil.which(compiler):
                continue
            with self.subTest(compiler=compiler):
                done = subprocess.run(
                    [compiler, f"-std={standard}", "-x", "c" if compiler == "gcc" else "c++",
                     "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
                     self.path("usr/include/memsync.h")],
                    text=True, capture_output=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_installed_programs_run(self):
        for program in ("usr/sbin/memsyncd", "usr/bin/memsync"):
            done = subprocess.run([self.path(program), "--version"], text=True, capture_output=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("0.1.0", done.stdout)

    def test_the_installed_configuration_is_the_sample_and_is_valid(self):
        installed = self.path("etc/memsyncd/memsyncd.yaml")
        sample = self.run_agent("--print-sample-config").stdout
        with open(installed, encoding="utf-8") as file:
            self.assertEqual(file.read(), sample)
        done = self.run_agent("--config", installed, "--check-config", "--volume", self.volume,
                              "--endpoint", f"ipc://{self.directory}/s")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_manual_pages_render(self):
        for page in ("man1/memsync.1", "man5/memsyncd.yaml.5", "man8/memsyncd.8"):
            with self.subTest(page=page):
                done = subprocess.run(["mandoc", "-Tutf8", "-Wwarning,stop",
                                       self.path("usr/share/man/" + page)],
                                      text=True, capture_output=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                plain = re.sub(r".\x08", "", done.stdout)
                for title in ("NAME", "DESCRIPTION", "SEE ALSO"):
                    self.assertIn("\n" + title + "\n", plain)

    def test_the_units_name_the_installed_program(self):
        for unit in ("memsyncd.service", "memsyncd@.service"):
            with open(self.path("usr/lib/systemd/system/" + unit), encoding="utf-8") as file:
                text = file.read()
            self.assertIn("ExecStart=/usr/sbin/memsyncd ", text)

    def test_bash_completes(self):
        for command, words, expected in (
                ("memsync", ["memsync", "sea"], "search"),
                ("memsync", ["memsync", "--ti"], "--timeout"),
                ("memsyncd", ["memsyncd", "--check"], "--check-config")):
            with self.subTest(words=words):
                completion = self.path("usr/share/bash-completion/completions/" + command)
                done = subprocess.run(["bash", "--norc", "-c", COMPLETE, completion, *words],
                                      text=True, capture_output=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(expected, [line.strip() for line in done.stdout.splitlines()])

    def test_a_changed_configuration_survives_another_install(self):
        path = self.path("etc/memsyncd/memsyncd.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("config_version: 1\n")
        self.assertEqual(make("install", self.root).returncode, 0)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "config_version: 1\n")

    def test_uninstall_leaves_the_configuration_and_nothing_else(self):
        done = make("uninstall", self.root)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(files_below(self.root), {"etc/memsyncd/memsyncd.yaml"})

    def test_uninstall_leaves_the_files_of_others(self):
        others = ("usr/lib/libmemsync-other.so", "usr/share/doc/other/README.md",
                  "etc/memsyncd/second.yaml")
        for name in others:
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write("other")
        self.assertEqual(make("uninstall", self.root).returncode, 0)
        self.assertEqual(files_below(self.root), {"etc/memsyncd/memsyncd.yaml", *others})


if __name__ == "__main__":
    unittest.main()
