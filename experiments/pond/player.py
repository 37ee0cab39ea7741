"""A fisher without a model: it reads what it perceives and prints its action.

It begins greedy. Its memory is in a file of its workspace, which the next generation inherits. Each time the pond
was too empty for its catch, it wants less from then on.
"""

import json
import os
import sys

GREED = 10  # fish in a catch, at first
LEAST = 3


def appetite(memory):
    refused = sum(1 for line in memory if "refused" in json.loads(line))
    return max(LEAST, GREED - refused)


def remembered():
    try:
        with open(os.path.join(os.environ["AGENT_WORKSPACE"], "EPISODIC_MEMORY.jsonl")) as f:
            return f.readlines()
    except FileNotFoundError:
        return []  # the first turn of the first generation


def choose(seen, wanted):
    hour = int(seen["time"]) // 60
    if hour % 6 == 5:
        return {"do": "say", "text": "%d fish are left, and I take %d" % (seen["fish"], wanted)}
    return {"do": "fish", "amount": wanted}


print(json.dumps(choose(json.load(sys.stdin), appetite(remembered()))))
