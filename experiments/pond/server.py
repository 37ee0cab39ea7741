"""A world for agents, with Python's standard library alone.

Agents fish in one pond. The fish grow at each tick if some are left, so the agents do well only
together. The file shows all that segno asks of a world in another language; docs/worlds.md explains it.
"""

import hashlib
import hmac
import json
import os
import random
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FORMAT = "pond/1"
TICK = 60
CAPACITY = 100
MANUAL = """# Pond

All agents fish in one pond. After each tick the fish that are left grow by about a quarter, to at
most 100. Send your session in the header X-Session with each request.

- GET /observe: what you see
- POST /act {"do": "fish", "amount": 3}: take 1 to 10 fish
- POST /act {"do": "say", "text": "..."}: all agents read it
"""
with open(__file__, "rb") as f:
    CONTENT_HASH = hashlib.sha256(f.read()).hexdigest()


class Refused(Exception):
    """An answer other than 200. The state is as before."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class World:
    """The whole state. Every method holds the lock, so each change and each document is one moment."""

    def __init__(self, seed):
        self.lock = threading.Lock()
        self.random = random.Random(seed)
        self.seq = 0
        self.time = 0
        self.fish = 60
        self.agents = []  # {"session", "name", "caught"} in the order of joining
        self.chat = []  # {"time", "from", "text"}

    def join(self, session, name):
        with self.lock:
            if not session or not is_text(name, 64):
                raise Refused(400, "a session and a name of 1 to 64 characters are needed")
            for agent in self.agents:
                if agent["session"] == session and agent["name"] == name:
                    return  # the same agent again is no event
                if agent["session"] == session or agent["name"] == name:
                    raise Refused(409, "the session or the name belongs to another agent")
            self.agents.append({"session": session, "name": name, "caught": 0})
            self.seq += 1

    def agent(self, session):
        for agent in self.agents:
            if agent["session"] == session:
                return agent
        raise Refused(404, "the session has not joined")

    def observe(self, session):
        with self.lock:
            return self.view(self.agent(session))

    def view(self, agent):
        return {
            "time": self.time,
            "you": {"name": agent["name"], "caught": agent["caught"]},
            "fish": self.fish,
            "others": [{"name": a["name"], "caught": a["caught"]} for a in self.agents if a is not agent],
            "chat": self.chat[-10:],
        }

    def act(self, session, action):
        with self.lock:
            agent = self.agent(session)
            if not isinstance(action, dict):
                raise Refused(400, "an action is an object")
            verb, keys = action.get("do"), set(action)
            if verb == "fish" and keys == {"do", "amount"}:
                amount = action["amount"]
                if type(amount) is not int or not 1 <= amount <= 10:
                    raise Refused(400, "amount is 1 to 10")
                if amount > self.fish:
                    raise Refused(422, "there are not so many fish")
                self.fish -= amount
                agent["caught"] += amount
            elif verb == "say" and keys == {"do", "text"}:
                text = action["text"]
                if not is_text(text, 500):
                    raise Refused(400, "text has 1 to 500 characters")
                self.chat.append({"time": self.time, "from": agent["name"], "text": text})
            else:
                raise Refused(400, "unknown action")
            self.seq += 1
            return self.view(agent)

    def advance(self, seconds):
        with self.lock:
            if type(seconds) not in (int, float) or seconds <= 0 or seconds % TICK or seconds > 1_000_000 * TICK:
                raise Refused(400, "seconds is a positive multiple of %d" % TICK)
            for _ in range(int(seconds) // TICK):
                self.time += TICK
                if self.fish:
                    self.fish = min(CAPACITY, self.fish + self.fish // 4 + self.random.randrange(3))
                self.seq += 1

    def document(self):
        with self.lock:
            version, state, gauss = self.random.getstate()
            return encode({
                "format": FORMAT, "content_hash": CONTENT_HASH, "time": self.time, "seq": self.seq,
                "rng": [version, list(state), gauss], "fish": self.fish, "agents": self.agents, "chat": self.chat,
                "outcomes": {"caught": sum(a["caught"] for a in self.agents), "fish": self.fish},
            })

    @classmethod
    def resume(cls, data):
        """Read a document. Every document but one that document() wrote raises an error."""
        doc = json.loads(data)
        body = {key: value for key, value in doc.items() if key != "sum"}
        if encode(body) != data:
            raise ValueError("the document is damaged")
        if doc["format"] != FORMAT or doc["content_hash"] != CONTENT_HASH:
            raise ValueError("the document is of another format or another version of this world")
        world = cls(0)
        version, state, gauss = doc["rng"]
        world.random.setstate((version, tuple(state), gauss))
        world.seq, world.time, world.fish = doc["seq"], doc["time"], doc["fish"]
        world.agents, world.chat = doc["agents"], doc["chat"]
        return world


def is_text(value, most):
    """JSON can have half a character, "\\ud800", which no document in UTF-8 can have."""
    if not isinstance(value, str) or not 1 <= len(value) <= most:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def encode(body):
    """Return the one text of a document, with a sum over all other members."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({**body, "sum": digest}, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one segment: TCP delays a second one by 40 ms
    world = None

    def log_message(self, *args):
        pass

    def answer(self, status, body, kind="application/json"):
        self.send_response_only(status)  # without the header Date: agents see the time of the world only
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_request(self):
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal() or int(length) > 1 << 20:
            raise Refused(413, "the request is too large")
        data = self.rfile.read(int(length))
        session = self.headers.get("X-Session", "")
        route = (self.command, self.path)
        if route == ("GET", "/api.md"):
            return MANUAL.encode(), "text/markdown"
        if route == ("GET", "/observe"):
            return self.world.observe(session), None
        if route == ("GET", "/snapshot"):
            self.check_operator()
            return self.world.document(), None
        if self.command != "POST":
            raise Refused(404, "unknown path")
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            raise Refused(400, "the body is not JSON") from None
        if self.path == "/act":
            return self.world.act(session, body), None
        if not isinstance(body, dict):
            raise Refused(400, "the body is not an object")
        if self.path == "/join":
            return self.world.join(session, body.get("name")) or {}, None
        if self.path == "/advance":
            self.check_operator()
            return self.world.advance(body.get("seconds")) or {}, None
        raise Refused(404, "unknown path")

    def check_operator(self):
        token = os.environ.get("WORLD_OPERATOR_TOKEN", "")
        if not hmac.compare_digest(self.headers.get("X-Operator-Token", "").encode(), token.encode()):
            raise Refused(401, "the operator's token is needed")

    def do_GET(self):
        try:
            body, kind = self.handle_request()
            status = 200
        except Refused as refused:
            body, kind, status = {"error": str(refused)}, None, refused.status
        if not isinstance(body, bytes):
            body = json.dumps(body, sort_keys=True).encode()  # a restored dict has another order of keys
        self.answer(status, body, kind or "application/json")

    do_POST = do_GET


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self):
        # A world that begins again gets its old port, although connections to it ended just now.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)  # the inherited method asks DNS for the host's name
        self.server_name, self.server_port = self.server_address


def main():
    path = os.environ.get("WORLD_RESUME_PATH")
    if path:
        try:
            with open(path, "rb") as f:
                Handler.world = World.resume(f.read())
        except Exception as err:  # a resume is strict: never a fresh world instead
            sys.exit("cannot resume: %s" % err)
    else:
        Handler.world = World(int(os.environ.get("WORLD_SEED", "1")))
    Server((os.environ["WORLD_HOST"], int(os.environ["WORLD_PORT"])), Handler).serve_forever()


main()
