"""A fisher without a model: it reads what it perceives and prints its action.

It takes what NOTES.md in its workspace tells, or 10 fish without one, and keeps to that for its whole life. When the pond
was too empty for a catch, it writes into NOTES.md that those after it take less. Only they read it.
"""

import json
import os
import re
import sys

GREED = 10  # fish in a catch, without notes
LEAST = 2
WORKSPACE = os.environ["AGENT_WORKSPACE"]


def read(name):
    try:
        with open(os.path.join(WORKSPACE, name), encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def life(now):
    """Return what this fisher remembers of its own life. The file begins with the lives of its ancestors."""
    own = []
    for line in reversed(read("EPISODIC_MEMORY.jsonl").splitlines()):
        turn = json.loads(line)
        if turn["time"] >= now:
            break
        own.insert(0, turn)
        now = turn["time"]
    return own


def share(own):
    """Return how many fish it takes: as many as in its first catch, for which it asked the notes."""
    if own:
        return own[0]["action"]["amount"]
    told = re.search(r"Take at most ([0-9]+) fish", read("NOTES.md"))
    return int(told.group(1)) if told else GREED


def teach(wanted):
    with open(os.path.join(WORKSPACE, "NOTES.md"), "w", encoding="utf-8") as f:
        f.write("Take at most %d fish at a time. We took %d, and the pond ran empty.\n" % (max(LEAST, wanted - 2), wanted))


def choose(seen):
    own = life(seen["time"])
    wanted = share(own)
    if any("refused" in turn for turn in own):
        teach(wanted)
    if int(seen["time"]) // 60 % 6 == 5:
        return {"do": "say", "text": "%d fish are left, and I take %d" % (seen["fish"], wanted)}
    return {"do": "fish", "amount": wanted}


print(json.dumps(choose(json.load(sys.stdin))))
