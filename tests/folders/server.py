"""A server with the API of the Hugging Face Hub, as far as its library uses it for repositories."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote

TOKEN = "hf_owner"


@dataclass
class Repository:
    """One repository: its commits, each all files of it, and its branches."""

    private: bool = False
    gated: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"0" * 40: {}})
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})

    def commit(self, revision: str) -> str:
        """The full name of a commit, by its branch or name; empty where there is none."""
        return self.branches.get(revision, revision if revision in self.commits else "")

    def add(self, revision: str, files: dict[str, bytes]) -> str:
        """A further commit of a branch."""
        whole = self.commits[self.commit(revision)] | files
        content = repr(sorted(whole.items())).encode()
        name = hashlib.sha1(content).hexdigest()
        self.commits[name] = whole
        self.branches[revision] = name
        return name


@dataclass
class Hub:
    """What the server holds.

    Args:
        repositories: by ``models/owner/name`` or ``datasets/owner/name``.
        objects: large files that were sent ahead of their commit, by SHA-256.
        breaks: how many commits are cut off before they are answered.
        requests: every method and path that was asked for.
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    breaks: int = 0
    requests: list[str] = field(default_factory=list)


@contextmanager
def hub_server() -> Iterator[Hub]:
    """The server, on a free port, as long as the block lasts."""
    hub = Hub()

    class Handler(_Handler):
        state = hub

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield hub
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def _answer(self, status: int, value: Any = None, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, {"error": code}, X_Error_Code=code, X_Error_Message=code)

    def _repository(self, name: str) -> Repository | None:
        """The repository, where whoever asks may see it; else it is refused."""
        found = self.state.repositories.get(name)
        mine = self.headers.get("authorization") == f"Bearer {TOKEN}"
        if found is None or (found.private and not mine):
            self._refuse(401, "RepoNotFound")
        elif found.gated and not mine:
            self._refuse(403, "GatedRepo")
        else:
            return found
        return None

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        self.state.requests.append(f"{self.command} {path}")
        if match := re.fullmatch(r"/api/(\w+s/[^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path):
            if (held := self._repository(match[1])) is None:
                return
            sha = held.commit(match[3] or "main")
            if not sha:
                self._refuse(404, "RevisionNotFound")
                return
            files = held.commits[sha]
            if match[2] == "tree":
                rows = [
                    {"type": "file", "path": name, "size": len(content), "oid": _oid(content)}
                    for name, content in files.items()
                ]
                self._answer(200, rows)
                return
            about = {"id": match[1].partition("/")[2], "sha": sha, "private": held.private}
            about["siblings"] = [{"rfilename": name} for name in files]
            self._answer(200, about)
        elif match := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            if (held := self._repository(f"{match[1] or 'models/'}{match[2]}")) is None:
                return
            sha = held.commit(match[3])
            if match[4] not in held.commits.get(sha, {}):
                self._refuse(404, "EntryNotFound" if sha else "RevisionNotFound")
                return
            content = held.commits[sha][match[4]]
            self._answer(200, content, X_Repo_Commit=sha, ETag=f'"{_oid(content)}"')
        else:
            self._refuse(404, f"no {path}")

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        self.state.objects[hashlib.sha256(content).hexdigest()] = content
        self._answer(200, {})

    def do_POST(self) -> None:
        self.state.requests.append(f"POST {self.path}")
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif self.headers.get("authorization") != f"Bearer {TOKEN}":
            self._refuse(401, "Invalid username or password.")
        elif self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('type') or 'model'}s/{asked['organization']}/{asked['name']}"
            known = name in self.state.repositories
            private = asked.get("private") or asked.get("visibility") == "private"
            self.state.repositories.setdefault(name, Repository(bool(private)))
            self._answer(409 if known else 200, {"url": f"{self.state.address}/{name}"})
        elif match := re.fullmatch(
            r"/(datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch", self.path
        ):
            objects = [
                one | {"actions": {"upload": {"href": f"{self.state.address}/lfs/{one['oid']}"}}}
                for one in json.loads(body)["objects"]
            ]
            self._answer(200, {"transfer": "basic", "objects": objects})
        elif match := re.fullmatch(
            r"/api/(\w+s/[^/]+/[^/]+)/(branch|preupload|commit)/([^/]+)", self.path
        ):
            if (held := self._repository(match[1])) is not None:
                self._change(match[1], held, match[2], match[3], body)
        else:
            self._refuse(404, f"no {self.path}")

    def _change(self, name: str, held: Repository, what: str, revision: str, body: bytes) -> None:
        if what == "branch":
            known = revision in held.branches
            held.branches.setdefault(revision, held.branches["main"])
            self._answer(409 if known else 200, {})
            return
        if not held.commit(revision):
            self._refuse(404, "RevisionNotFound")
            return
        if what == "preupload":
            files = [
                {
                    "path": one["path"],
                    "uploadMode": "lfs" if one["path"].endswith("safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for one in json.loads(body)["files"]
            ]
            self._answer(200, {"files": files})
            return
        if self.state.breaks:
            self.state.breaks -= 1
            self.close_connection = True
            return
        files = {}
        for line in body.splitlines():
            row = json.loads(line)
            value = row["value"]
            if row["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif row["key"] == "lfsFile":
                files[value["path"]] = self.state.objects[value["oid"]]
        sha = held.add(revision, files)
        url = f"{self.state.address}/{name.removeprefix('models/')}/commit/{sha}"
        self._answer(200, {"success": True, "commitUrl": url, "commitOid": sha, "hookOutput": ""})


def _oid(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()
