# zookeeper.py: locks and a barrier of ZooKeeper, through kazoo and its recipes.
#
#   zookeeper.py PORT cycle COUNT                       locks and unlocks, again and again
#   zookeeper.py PORT turns WHO COUNT HOLD_S PAUSE_S    holds the lock so often, for so long, with a pause after it
#   zookeeper.py PORT hold SESSION_S                    says that it holds the lock, and keeps it until it is killed
#   zookeeper.py PORT barrier WHO COUNT NAME            waits for COUNT processes; the last one holds back until they wait
#
# Instants are in boot-time seconds.
import json
import os
import statistics
import sys
import time

from kazoo.client import KazooClient

WARM_UP = 50
LOOK_S, CALM_S = 0.5, 1  # of the last one at the barrier
SESSION_S = 30


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def say(figures):
    os.write(1, (json.dumps(figures, separators=(",", ":")) + "\n").encode())


def cycle(client, count):
    lock = client.Lock("/bench", "me")

    def once():
        lock.acquire()
        lock.release()

    for _ in range(WARM_UP):
        once()
    each, cpu, began = [], time.process_time(), now()
    for _ in range(int(count)):
        at = now()
        once()
        each.append((now() - at) * 1e3)
    say({"cycles": len(each), "median_ms": statistics.median(each), "worst_ms": max(each),
         "cpu_ms": (time.process_time() - cpu) * 1e3, "wall_ms": (now() - began) * 1e3})


def turns(client, who, count, hold_s, pause_s):
    lock = client.Lock("/bench", who)
    for _ in range(int(count)):
        asked = now()
        lock.acquire()
        locked = now()
        time.sleep(float(hold_s))
        unlocking = now()
        lock.release()
        say({"who": int(who), "asked": asked, "locked": locked, "unlocking": unlocking})
        time.sleep(float(pause_s))


def hold(client):
    client.Lock("/bench", "me").acquire()
    say({"holds": True})
    while True:
        time.sleep(60)


def barrier(client, who, count, name):
    count = int(count)
    gate = client.DoubleBarrier("/" + name, count)
    if int(who) == count - 1:
        client.ensure_path("/" + name)
        while len(client.get_children("/" + name)) < count - 1:
            time.sleep(LOOK_S)
        time.sleep(CALM_S)
    called = now()
    gate.enter()
    passed = now()
    time.sleep(CALM_S)  # the others need not share the processor with printing and ending
    say({"called": called, "passed": passed})


def main():
    port, what, *rest = sys.argv[1:]
    session = float(rest.pop()) if what == "hold" else SESSION_S
    client = KazooClient(hosts="127.0.0.1:" + port, timeout=session)
    client.start(timeout=60)
    {"cycle": cycle, "turns": turns, "hold": hold, "barrier": barrier}[what](client, *rest)
    client.stop()


main()
