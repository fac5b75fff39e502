"""How the cost of a search grows: with the users of the volume, with the facts of a scope, with the workers.

Each is a chart besides (--charts). Users have few facts here, so that the largest volume has a million;
what a search costs is that of its own scope anyway, which is what the first chart is to show.
"""

from charts import Axis, Panel, Series
from harness import is_settled, median_of, wait_until

FACTS_OF_EACH = 10
BUILT_WITHIN_S = 3600


def points(results, *keys):
    """(size, median) of each size's results."""
    return [(size, median_of(found, *keys)) for size, found in results.items()]


def latency_series(name, results, measurement, colour):
    return [Series(f"{name}, p50", points(results, measurement, "p50_us"), colour=colour),
            Series(f"{name}, p99", points(results, measurement, "p99_us"), dashed=True, colour=colour)]


def search_inside(bench, volume, requests):
    return [bench.tool("inside", volume, bench.index(volume), requests, bench.seconds)
            for _ in range(bench.runs)]


def search_through_socket(bench, volume, requests):
    with bench.agent(volume, index=bench.index(volume)) as agent:
        wait_until(lambda: is_settled(agent), BUILT_WITHIN_S, 0.05)
        return [bench.tool("trips", "calls", agent.endpoint, requests, 1, bench.seconds)
                for _ in range(bench.runs)]


def measure_sizes(bench, sizes, what):
    """Searches on volumes of these sizes, a list of (size, users, facts), without and with the socket."""
    inside, socket = {}, {}
    for size, users, facts in sizes:
        volume, requests = bench.volume(users, facts), bench.requests(users)
        inside[size] = search_inside(bench, volume, requests)
        socket[size] = search_through_socket(bench, volume, requests)
        for name, found, measurement in (("in the agent", inside[size], "search"),
                                         ("through the socket", socket[size], "trip")):
            bench.add("scaling", f"search {name}, {size:,} {what}",
                      median_of(found, measurement, "p50_us"), "us",
                      median_of(found, measurement, "p99_us"))
    return latency_series("in the agent", inside, "search", 0) + \
        latency_series("through the socket", socket, "trip", 1)


def measure_users(bench):
    users = (1, 100) if bench.quick else (1, 10, 100, 1000, 10000, 100000)
    series = measure_sizes(bench, [(count, count, FACTS_OF_EACH) for count in users], "users")
    bench.chart("users", "A search costs the same however many users there are", [
        Panel(f"one client, {FACTS_OF_EACH} facts a user, users at random",
              Axis("users of the volume", log=True), Axis("microseconds", log=True), series)])


def measure_facts(bench):
    facts = (100, 1000) if bench.quick else (100, 1000, 10000, 100000)
    series = measure_sizes(bench, [(count, 1, count) for count in facts], "facts")
    bench.chart("facts", "A search costs what its own scope is big", [
        Panel("one client, one user, three words", Axis("facts of the scope", log=True),
              Axis("microseconds", log=True), series)])


def measure_workers(bench):
    users, workers = (bench.many, (1, 4)) if bench.quick else (bench.many, (1, 2, 4, 8, 16))
    volume, requests = bench.volume(users, 100), bench.requests(users)
    calls, echoes = {}, {}
    with bench.agent(volume, index=bench.index(volume)) as agent:
        wait_until(lambda: is_settled(agent), BUILT_WITHIN_S, 0.05)
        for count in workers:
            calls[count], echoes[count] = [], []
            for _ in range(bench.runs):
                calls[count].append(bench.tool("trips", "calls", agent.endpoint, requests, count,
                                               bench.seconds))
                echoes[count].append(bench.tool("trips", "echo", 120,
                                                calls[count][-1]["reply_bytes"], count, bench.seconds))
            bench.add("scaling", f"search through the socket, {count} workers",
                      median_of(calls[count], "trip", "p50_us"), "us",
                      median_of(calls[count], "trip", "p99_us"))
            bench.add("scaling", f"all searches, {count} workers (floor: no search in it)",
                      median_of(calls[count], "per_second"), "req/s",
                      floor=median_of(echoes[count], "per_second"))
    draw_workers(bench, users, calls, echoes)


def draw_workers(bench, users, calls, echoes):
    x = Axis("workers that search without a pause", log=True)
    bench.chart("workers", "How many workers one agent serves", [
        Panel(f"how long a search takes; {users:,} users with 100 facts", x,
              Axis("microseconds", log=True), latency_series("search", calls, "trip", 0)),
        Panel("how many are answered", x, Axis("a second"), [
            Series("searches", points(calls, "per_second")),
            Series("a socket that answers at once", points(echoes, "per_second"), colour=4)])])


def measure_scaling(bench):
    measure_users(bench)
    measure_facts(bench)
    measure_workers(bench)
