#!/usr/bin/python3
"""Shows what memsyncd does, on a sample volume in a temporary directory. `make demo` runs it.

Everything that is said here is checked as well: exit 0 when all of it was so, else 1 and the
agent's log.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SUPPORT = os.path.join(os.path.dirname(HERE), "support")
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, SUPPORT]

import agent as agents  # noqa: E402  (the path above comes first)
import make_volume  # noqa: E402

USER = "mira"


class NotSo(Exception):
    """Something was not as the demo says."""


def heading(text):
    print(f"\n== {text}")


def tell(text):
    print("\n" + textwrap.fill(text, 88), flush=True)


def number(value):
    return f"{value:,}"


class Demo:
    def __init__(self, build, directory):
        self.volume = os.path.join(directory, "volume")
        self.memsync = agents.binary("memsync", build)
        self.agent = agents.Agent(agents.binary("memsyncd", build), self.volume)
        self.written = None

    # -- the command line --

    def run(self, *arguments, expected=(0,)):
        """Runs memsync as a person would, and shows it."""
        print(f"\n  $ memsync {shlex.join(arguments)}")
        env = dict(os.environ, MEMSYNC_ENDPOINT=self.agent.endpoint)
        env.pop("MEMSYNC_USER", None)
        done = subprocess.run([self.memsync, *arguments], env=env, text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(textwrap.indent(done.stdout.expandtabs(4).rstrip() or "(nothing)", "    "))
        if done.returncode not in expected:
            raise NotSo(f"memsync left with {done.returncode}")
        return done.stdout

    def search(self, query, fact_id, *options, category=None):
        """Shows a search and makes sure that it finds a fact."""
        if category:
            options += ("-c", category)
        self.run("search", "-u", USER, "-k", "3", *options, query)
        found = self.find(query, category=category)
        if fact_id not in [result["fact"]["id"] for result in found["results"]]:
            raise NotSo(f"the search for {query!r} did not find {fact_id}")
        if category and any(result["fact"]["category"] != category for result in found["results"]):
            raise NotSo(f"the search for {query!r} found other categories than {category}")
        return found

    def find(self, query, category=None):
        params = {"category": category} if category else {}
        return self.agent.rpc("search", user_id=USER, query=query, top_k=3, **params)

    def peer(self, *arguments):
        """Another program changes the volume behind the agent's back."""
        shown = " ".join(shlex.quote(argument) for argument in arguments)
        print(f"\n  $ peer.py VOLUME commit --user {USER} {shown}", flush=True)
        subprocess.run([sys.executable, os.path.join(SUPPORT, "peer.py"), self.volume, "commit",
                        "--user", USER, *arguments], check=True, stdout=subprocess.DEVNULL)

    # -- the acts --

    def write_volume(self):
        heading("1. A shared volume")
        self.written = make_volume.make_volume(self.volume)
        tell(f"The volume holds what assistants remember about {self.written['users']} people: "
             f"{number(self.written['facts'])} facts, each a Markdown file, in "
             f"{self.written['scopes']} scopes. A scope is one person and one assistant. Any "
             f"program that knows the format may write here, on this computer or on another one.")

    def start_agent(self):
        heading("2. The agent starts and indexes it")
        started = time.monotonic()
        self.agent.start()
        ready_s = time.monotonic() - started
        wanted = (self.written["scopes"], self.written["facts"])

        def is_indexed():
            index = self.agent.rpc("status")["index"]
            return (index["scopes"], index["facts"]) == wanted

        self.agent.wait_until(is_indexed, 60, "indexing the whole volume")
        took_s = time.monotonic() - started
        status = self.agent.rpc("status")
        tell(f"It answered after {ready_s * 1000:.0f} ms and had everything in its index after "
             f"{took_s * 1000:.0f} ms: {number(status['index']['facts'])} facts in "
             f"{status['index']['scopes']} scopes of {self.written['users']} users, that is "
             f"{number(int(wanted[1] / took_s))} facts a second. The index is a file on this "
             f"computer's own disk, and can be thrown away: the volume is what counts.")

    def search_all(self):
        heading("3. Searching")
        tell(f"{USER} is one of them. A search looks at one person's facts only. In English:")
        found = self.search("green tea", "fact_tea")
        tell("In Chinese, where no blanks stand between the words:")
        self.search("杭州旅行", "fact_zh_trip")
        tell("Only what was decided, in a text that mixes both:")
        self.search("数据库 PostgreSQL", "fact_mixed", category="decision")
        tell(f"The first one took {found['took_us']} microseconds inside the agent, and it had "
             f"compared its index with the volume before it answered "
             f"(\"{found['scopes'][0]['state']}\").")

    def change_fact(self):
        heading("4. Another program changes a fact")
        if self.find("Aurora")["results"]:
            raise NotSo("a room called Aurora is known already")
        tell("Nobody tells the agent. A separate process takes the person's lock, writes journal, "
             "fact and manifest as the volume format says, and goes away:")
        self.peer("--update", "fact_meeting",
                  "The planning meeting is on Thursdays at two in room Aurora.")
        tell("The very next search has it:")
        self.search("meeting Aurora", "fact_meeting")

    def delete_fact(self):
        heading("5. Another program deletes a fact")
        tell("It is still there:")
        self.search("bicycle brewery", "fact_parking")
        self.peer("--delete", "fact_parking")
        tell("And it is gone (memsync leaves with 1 when it finds nothing):")
        self.run("search", "-u", USER, "-k", "3", "brewery", expected=(1,))
        if self.find("brewery")["results"]:
            raise NotSo("the deleted fact is still found")

    def show_status(self):
        heading("6. How the agent is doing")
        tell("For people; programs ask for JSON:")
        self.run("status")
        if self.agent.rpc("verify", user_id=USER)["ok"] is not True:
            raise NotSo("index and volume differ")
        tell("A last check compared the index with the volume, fact by fact: they agree.")
        if self.agent.stop() != 0:
            raise NotSo("the agent did not leave in good order")

    def play(self):
        self.write_volume()
        self.start_agent()
        self.search_all()
        self.change_fact()
        self.delete_fact()
        self.show_status()


def main():
    parser = argparse.ArgumentParser(description="show what memsyncd does")
    parser.add_argument("--build", default="build/plain", help="where memsyncd and memsync are")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memsync-demo-") as directory:
        demo = Demo(options.build, directory)
        try:
            demo.play()
        except (NotSo, agents.AgentFailed, agents.RpcError, OSError, TimeoutError,
                subprocess.SubprocessError) as fault:
            print(f"\ndemo: {fault}\n\nThe agent's log:\n{demo.agent.log_tail(60)}",
                  file=sys.stderr)
            return 1
        finally:
            demo.agent.close()
    print("\nThat was all. Nothing is left behind.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
