#!/usr/bin/python3
"""Writes a sample volume: many users with facts in English, Chinese, and both mixed.

    make_volume.py DIRECTORY [--users 40] [--facts 50] [--agents 2] [--seed 1] [--jobs 1]

Files are written straight to their places, without fsync, lock and journal, so nobody may use the
volume meanwhile. Equal options give equal files. The user "mira" has a few facts that are always
the same (MIRA); every tenth user has an id that must be turned into a directory name. Every third
user has further agents beside the default one, each with a part of the facts.

Prints what was written as one JSON object.
"""

import argparse
import datetime
import hashlib
import json
import multiprocessing
import os
import random
import re
import sys
import time

DEFAULT_AGENT = "__default__"
OTHER_AGENTS = ("coder", "travel-planner", "cook", "accountant", "tutor", "gardener", "trainer")
FIRST_DAY = datetime.datetime(2026, 1, 5, 8, 0, 0)

MIRA = (
    ("fact_tea", "preference", "Drinks green tea without sugar and never coffee after lunch."),
    ("fact_meeting", "context", "The planning meeting is on Tuesdays at ten in room Birch."),
    ("fact_deploy", "constraint", "Never deploys on Fridays; releases go out on Monday mornings."),
    ("fact_parking", "context", "Parks the bicycle behind the old brewery."),
    ("fact_goal", "goal", "Wants to run the harbour half marathon in under two hours."),
    ("fact_zh_food", "preference", "喜欢吃四川火锅，但是不能吃花生。"),
    ("fact_zh_trip", "goal", "计划明年春天带父母去杭州旅行，想住在西湖附近。"),
    ("fact_mixed", "decision", "数据库决定用 PostgreSQL，缓存层以后再考虑 Redis。"),
    ("fact_fix", "correction", "The staging server is called heron, not egret."),
)

WORDS = {
    "tool": "PostgreSQL SQLite Redis Grafana Ansible Terraform Kafka nginx pandas Blender Figma "
            "Emacs Inkscape LaTeX Godot FreeCAD".split(),
    "task": ["invoices", "release notes", "data imports", "customer mail", "unit tests", "slides",
             "the quarterly report", "log analysis", "photo sorting", "lesson plans"],
    "place": "Oslo Hangzhou Lisbon Chengdu Tallinn Kyoto Bergen Suzhou Porto Graz Xiamen "
             "Galway".split(),
    "thing": ["the garden shed", "an old sailing boat", "the kitchen shelf", "a wool jumper",
              "the espresso machine", "a cargo bike", "the family archive", "a bird box"],
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "food": ["rye bread", "lentil soup", "plum cake", "pickled cabbage", "rice porridge", "figs",
             "goat cheese", "mushroom dumplings"],
    "zh_place": "杭州 成都 厦门 苏州 大理 青岛 西安 桂林 哈尔滨 泉州".split(),
    "zh_food": "火锅 小笼包 担担面 清蒸鱼 豆腐脑 绿茶 桂花糕 烤鸭 酸梅汤 馄饨".split(),
    "zh_task": "周报 代码评审 数据清洗 合同整理 课程备课 发票核对 会议记录 需求文档".split(),
    "zh_thing": "自行车 相机 阳台花园 旧书架 毛衣 小提琴 望远镜 咖啡机".split(),
    "zh_day": "星期一 星期二 星期三 星期四 星期五 周末".split(),
}

TEMPLATES = {
    "preference": (
        "Prefers {tool} for {task}.", "Likes {food} for breakfast on {day}.",
        "Wants short answers when the topic is {task}.", "喜欢在{zh_day}吃{zh_food}。",
        "做{zh_task}的时候更愿意用表格，不喜欢长段文字。", "写{zh_task}时首选 {tool}。",
    ),
    "context": (
        "Works on {task} every {day} with {tool}.", "Lived in {place} for {number} years.",
        "Keeps {thing} in {place}.", "现在住在{zh_place}，每周{number}次去健身房。",
        "团队在{zh_place}，{zh_day}开例会。", "正在把{zh_task}迁移到 {tool}，还剩 {number} 个模块。",
    ),
    "correction": (
        "The server runs {tool}, not {tool2}.", "The trip goes to {place}, not to {place2}.",
        "上次说错了：{zh_task}是{zh_day}交，不是月底。", "{zh_thing}是借来的，不是自己的。",
        "监控用的是 {tool}，不是 {tool2}。",
    ),
    "goal": (
        "Wants to repair {thing} before {day}.", "Plans a journey from {place} to {place2}.",
        "Wants to finish {task} within {number} days.", "想学会做{zh_food}。",
        "打算今年去{zh_place}住{number}个月。", "希望三个月内用 {tool} 做完{zh_task}。",
    ),
    "behavior": (
        "Answers mail only on {day}.", "Checks {task} twice before sending.",
        "每到{zh_day}就整理{zh_thing}。", "习惯先写{zh_task}再开始编码。",
    ),
    "identity": (
        "Was born in {place} and speaks {number} languages.",
        "Teaches {task} at an evening school.",
        "是{zh_place}人，做{zh_task}已经{number}年。",
    ),
    "constraint": (
        "Has no time on {day} after {number} o'clock.", "Cannot eat {food}.",
        "Must not use {tool} for {task}.", "对{zh_food}过敏。", "{zh_day}不能安排会议。",
    ),
    "decision": (
        "Chose {tool} over {tool2} for {task}.", "Sold {thing} and bought another one in {place}.",
        "决定把{zh_thing}送给朋友。", "{zh_task}改用 {tool}，从{zh_day}开始。",
    ),
}

SUMMARIES = ("Builds tools for {task}.", "Moves house to {place} this year.", "主要负责{zh_task}。", "")


def bucket_name(user):
    if re.fullmatch(r"[A-Za-z0-9_-]+", user):
        return user
    digest = hashlib.sha256(user.encode()).hexdigest()[:16]
    return re.sub(r"[^A-Za-z0-9_-]", "-", user) + "-" + digest


def fill(template, rng):
    """Puts words into a template; a name with 2 at its end is another word of the same list."""
    chosen = {"number": rng.randrange(2, 20)}
    for name, words in WORDS.items():
        chosen[name], chosen[name + "2"] = rng.sample(words, 2)
    return template.format(**chosen)


def make_text(rng):
    category = rng.choice(tuple(TEMPLATES))
    text = fill(rng.choice(TEMPLATES[category]), rng)
    if rng.random() < 0.2:
        text += "\n\n" + fill(rng.choice(TEMPLATES[rng.choice(tuple(TEMPLATES))]), rng)
    return category, text


def render_fact(fact_id, user, agent, category, text, confidence, moment):
    """A fact as the peers write it. All values are words, or quoted."""
    date = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    title = text.split("\n", 1)[0][:160]
    return (f"---\nid: {fact_id}\ncategory: {category}\nconfidence: {confidence}\n"
            f"createdAt: '{date}'\nsource:\n  type: manual\n  threadId: null\nschemaVersion: 2\n"
            f"status: active\ntopics: []\nconsolidatedFrom: []\nupdatedAt: '{date}'\nrevision: 1\n"
            f"user_id: {user}\nagent_name: {agent}\n---\n\n# {title}\n\n{text}\n")


def render_manifest(revision, summary, moment):
    date = moment.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    empty = {"summary": "", "updatedAt": ""}
    work = {"summary": summary, "updatedAt": date if summary else ""}
    return json.dumps({
        "version": "2.0", "revision": revision, "lastUpdated": date,
        "user": {"workContext": work, "personalContext": empty, "topOfMind": empty},
        "history": {"recentMonths": empty, "earlierContext": empty, "longTermBackground": empty},
    }, ensure_ascii=False, indent=2)


def write_file(path, text):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def user_ids(count):
    """mira first, then made-up ones."""
    ids = ["mira"]
    for number in range(1, count):
        ids.append(f"user{number:05d}@example.org" if number % 10 == 0 else f"user{number:05d}")
    return ids[:count]


def agents_of(number, agents_max):
    more = (number % 3 == 1) * max(0, agents_max - 1)
    return (DEFAULT_AGENT,) + OTHER_AGENTS[:more]


def write_facts(bucket, user, agent, facts):
    top = f"{bucket}/agents/{agent}/facts"
    os.makedirs(top)
    shards = set()
    for fact in facts:
        shard = hashlib.sha256(fact[0].encode()).hexdigest()[:2]
        if shard not in shards:
            os.mkdir(f"{top}/{shard}")
            shards.add(shard)
        fact_id, category, text, confidence, moment = fact
        write_file(f"{top}/{shard}/{fact_id}.md",
                   render_fact(fact_id, user, agent, category, text, confidence, moment))


def write_user(job):
    """Writes one user; the number of its scopes and facts."""
    root, user, number, fact_count, agents_max, seed = job
    rng = random.Random(f"{seed} {user}")
    bucket = f"{root}/users/{bucket_name(user)}"
    os.makedirs(bucket)
    agents = agents_of(number, agents_max)
    lists = {agent: [] for agent in agents}
    moment = FIRST_DAY + datetime.timedelta(minutes=rng.randrange(100000))
    if user == "mira":
        lists[DEFAULT_AGENT] += [(fact_id, category, text, 0.9, moment)
                                 for fact_id, category, text in MIRA]
    for made in range(sum(map(len, lists.values())), fact_count):
        moment += datetime.timedelta(minutes=rng.randrange(1, 5000))
        category, text = make_text(rng)
        confidence = rng.choice((0.5, 0.6, 0.7, 0.8, 0.9, 1.0))
        lists[agents[made % len(agents)]].append(
            (f"fact_{made:04x}{rng.randrange(1 << 32):08x}", category, text, confidence, moment))
    for agent, facts in lists.items():
        if facts:
            write_facts(bucket, user, agent, facts)
    summary = fill(rng.choice(SUMMARIES), rng)
    write_file(f"{bucket}/memory.json", render_manifest(1 + fact_count // 4, summary, moment))
    return sum(1 for facts in lists.values() if facts), sum(map(len, lists.values()))


def make_volume(root, users=40, facts=50, agents=2, seed=1, jobs=1):
    """Writes the volume into `root`, which may exist but must hold no users."""
    if not 1 <= agents <= 1 + len(OTHER_AGENTS):
        raise ValueError(f"1 to {1 + len(OTHER_AGENTS)} agents")
    started = time.monotonic()
    os.makedirs(f"{root}/users")
    work = [(root, user, number, facts, agents, seed)
            for number, user in enumerate(user_ids(users))]
    if jobs > 1:
        with multiprocessing.Pool(jobs) as pool:
            written = pool.map(write_user, work, chunksize=16)
    else:
        written = list(map(write_user, work))
    return {"users": users, "scopes": sum(scopes for scopes, _ in written),
            "facts": sum(count for _, count in written),
            "seconds": round(time.monotonic() - started, 2)}


def main():
    parser = argparse.ArgumentParser(description="write a sample volume")
    parser.add_argument("directory")
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--facts", type=int, default=50, help="of each user")
    parser.add_argument("--agents", type=int, default=2, help="of every third user")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    try:
        print(json.dumps(make_volume(options.directory, options.users, options.facts,
                                     options.agents, options.seed, options.jobs)))
    except (OSError, ValueError) as fault:
        print(f"make_volume: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
