"""The state of the protocol: spawn, pause, resume, kill, decisions and the log of events."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import sys
import time
import traceback
import urllib.request
import uuid
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .agent import Agent, Completion, Json, Run
from .server import Refused, Server

#: Events that are kept for replays (S2).
LOG = 5000
#: Events that wait for a connection; the oldest ones are dropped, and can be replayed (S2).
BUFFER = 1000
#: Characters of a draft that are sent; the sidecar shows no more.
DRAFT = 64 * 1024
#: Types of events that end the text that the agent is writing. A `status` is the complete text.
ENDS_DRAFT = frozenset({"status", "tool_call", "completion", "error"})
#: Seconds that an agent may take to reach a moment in which it can be paused, and the part of the request's limit.
STOP = 15.0
STOP_PART = 0.75


def _time_ordered_id() -> str:
    """A UUID of version 7."""
    value = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10))
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return str(uuid.UUID(int=value))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


def invalid_state(message: str) -> Refused:
    return Refused(409, {"code": "invalid_state", "message": message})


class Backend:
    """Client of the sidecar: uploads, and the renewal of the token."""

    def __init__(self, bootstrap: Json) -> None:
        self._url = str(bootstrap["backendUrl"])
        self._upload_url = str(bootstrap["artifactUploadEndpoint"])
        self._token = str(bootstrap["backendToken"])
        self._expires = str(bootstrap["tokenExpiresAt"])
        self._agent_id = str(bootstrap["agentId"])
        # A proxy must never see these requests.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def _post(self, url: str, body: bytes, headers: dict[str, str]) -> Json:
        headers = {"Authorization": f"Bearer {self._token}", **headers}
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")
        with self._opener.open(request, timeout=30) as response:
            answer: Json = json.load(response)
        return answer

    def upload(self, artifact_id: str, content: bytes) -> Json:
        headers = {
            "Content-Type": "application/octet-stream",
            "x-agent-id": self._agent_id,
            "x-artifact-id": artifact_id,
            "x-content-hash": hashlib.sha256(content).hexdigest(),
        }
        return self._post(self._upload_url, content, headers)

    def renew(self) -> None:
        body = json.dumps({"agentId": self._agent_id, "currentToken": self._token}).encode()
        answer = self._post(f"{self._url}/api/token/renew", body, {"Content-Type": "application/json"})
        self._token, self._expires = str(answer["backendToken"]), str(answer["tokenExpiresAt"])

    async def keep_token(self) -> None:
        """Renews the token after 80 % of its life, and tries again with growing pauses."""
        while True:
            expires = datetime.fromisoformat(self._expires.replace("Z", "+00:00"))
            left = (expires - datetime.now(timezone.utc)).total_seconds()
            await asyncio.sleep(max(left * 0.8, 1))
            pause = 1.0
            while True:
                try:
                    await asyncio.to_thread(self.renew)
                    break
                except OSError as error:
                    print(f"failed to renew the token: {error}", file=sys.stderr)
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 30)


@dataclass
class Draft:
    """The text that the agent is writing."""

    kind: str
    text: str
    #: Characters that were sent.
    sent: int = 0

    def message(self) -> str | None:
        """The text that was not sent yet. A new connection gets all of it."""
        piece = self.text[self.sent : DRAFT]
        if not piece:
            return None
        message = {"type": "draft", "kind": self.kind, "text": piece, "restart": self.sent == 0}
        self.sent += len(piece)
        return json.dumps(message)


class Shim:
    """Serves one agent."""

    def __init__(self, agent: Agent, bootstrap: Json) -> None:
        self._agent = agent
        self.agent_id = str(bootstrap["agentId"])
        self.token = str(bootstrap.get("requestToken", ""))
        self.backend = Backend(bootstrap)
        self._run_id = _time_ordered_id()
        self._session_id = self._run_id
        self._started = time.monotonic()
        self._sequence = 0
        self._log: deque[tuple[int, str]] = deque(maxlen=LOG)
        self._sent = 0
        self._unsent: deque[tuple[int, str]] = deque(maxlen=BUFFER)
        self._again: deque[str] = deque()
        self._accepts_drafts = bool(bootstrap.get("acceptsDrafts"))
        self._draft: Draft | None = None
        self._changed = asyncio.Event()
        self._status: str | None = None
        self._brief: Json = {}
        self._task: asyncio.Task[None] | None = None
        self._run: Run | None = None
        self._decisions: dict[str, asyncio.Future[Json]] = {}
        # Decisions of a paused agent, which asks again, and their resolutions.
        self._expected: dict[str, Json | None] = {}
        self._always: set[str] = set()

    # Events

    def emit(self, event: Json) -> None:
        """Appends an event to the stream."""
        if event.get("type") in ENDS_DRAFT:
            self._draft = None
        self._sequence += 1
        envelope = {
            "sourceEventId": _time_ordered_id(),
            "sourceSequence": self._sequence,
            "sourceOccurredAt": _now(),
            "runId": self._run_id,
            "event": {"agentId": self.agent_id, **event},
        }
        numbered = (self._sequence, json.dumps(envelope))
        self._log.append(numbered)
        self._unsent.append(numbered)
        self._changed.set()

    def raw(self, kind: str, payload: Json) -> None:
        event = {"type": "raw_provider", "providerName": self._agent.name, "eventType": kind, "payload": payload}
        self.emit(event)

    def draft(self, text: str, kind: str) -> None:
        """Adds a piece to the text that the agent is writing. A piece of another kind begins a new text."""
        if not self._accepts_drafts:
            return
        if self._draft is None or self._draft.kind != kind:
            self._draft = Draft(kind, "")
        if len(self._draft.text) < DRAFT:
            self._draft.text += text
            self._changed.set()

    def discard_draft(self) -> None:
        """The agent writes the text again."""
        self._draft = None

    def connected(self) -> None:
        """Called for each new connection of the event stream."""
        if self._draft is not None:
            self._draft.sent = 0

    async def next_message(self) -> str:
        """The next message for the event stream."""
        while True:
            if self._again:
                return self._again.popleft()
            if self._unsent:
                self._sent, message = self._unsent.popleft()
                return message
            # After the events that came before it: an event that ends the text removes it.
            draft = self._draft.message() if self._draft else None
            if draft is not None:
                return draft
            self._changed.clear()
            await self._changed.wait()

    def _keep_checkpoint(self) -> None:
        # The event itself is the last one before the state.
        state = self._state("checkpoint")
        state["lastSequence"] = self._sequence + 1
        self.raw("checkpoint", state)

    def _state(self, by: str) -> Json:
        pending = [*self._decisions, *(it for it in self._expected if it not in self._decisions)]
        state: Json = {
            "agentId": self.agent_id,
            "pluginName": self._agent.name,
            "sessionId": self._session_id,
            "checkpoint": {"sdk": self._agent.name, **self._agent.checkpoint()},
            "briefSnapshot": self._brief,
            "pendingDecisionIds": pending,
            "lastSequence": self._sequence,
            "serializedAt": _now(),
            "serializedBy": by,
        }
        state["estimatedSizeBytes"] = len(json.dumps(state))
        return state

    # Decisions

    def is_always_approved(self, tool: str) -> bool:
        return tool in self._always

    def always_approve(self, tool: str) -> None:
        self._always.add(tool)

    async def decide(self, decision_id: str, event: Json) -> Json:
        """Emits a decision, and waits for its resolution."""
        known = self._expected.pop(decision_id, None)
        if known is not None:
            return known
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._decisions[decision_id] = future
        self.emit(event)
        self._keep_checkpoint()
        self._status = "waiting_on_human"
        try:
            return await future
        finally:
            self._decisions.pop(decision_id, None)
            if self._status == "waiting_on_human" and not self._decisions:
                self._status = "running"

    # Endpoints

    def health(self) -> Json:
        usage: Json = {"cpuPercent": 0, "memoryMb": 0, "diskMb": 0, "collectedAt": _now()}
        with contextlib.suppress(ImportError, OSError):
            import resource

            usage["memoryMb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        can = self._agent.capabilities
        return {
            "status": "healthy",
            "agentStatus": self._status,
            "uptimeMs": int((time.monotonic() - self._started) * 1000),
            "resourceUsage": usage,
            "pendingEventBufferSize": len(self._unsent),
            "plugin": {
                "name": self._agent.name,
                "version": self._agent.version,
                "capabilities": {
                    "supportsPause": can.pause,
                    "supportsResume": can.resume,
                    "supportsKill": True,
                    "supportsHotBriefUpdate": can.hot_brief_update,
                    "reportsUsage": can.usage,
                },
            },
        }

    async def call(self, verb: str, body: Json) -> Json:
        """Handles a POST request."""
        handler = {
            "spawn": self._spawn,
            "pause": self._pause,
            "resume": self._resume,
            "kill": self._kill,
            "resolve": self._resolve,
            "inject-context": self._inject,
            "update-brief": self._update_brief,
            "replay": self._replay,
        }.get(verb)
        if handler is None:
            raise Refused(404, {"code": "capability_unsupported", "capability": verb})
        return await handler(body)

    def _is_at_work(self) -> bool:
        return self._task is not None and not self._task.done()

    def _handle(self) -> Json:
        return {
            "id": self.agent_id,
            "pluginName": self._agent.name,
            "status": self._status,
            "sessionId": self._session_id,
        }

    def _begin(self, text: str | None, checkpoint: Json | None) -> Json:
        self._status = "running"
        self._run = Run(self, text, self._brief, checkpoint)
        self._task = asyncio.create_task(self._work(self._run))
        return self._handle()

    async def _spawn(self, brief: Json) -> Json:
        if self._status is not None:
            raise invalid_state("an agent was spawned before")
        self._brief = brief
        return self._begin(str(brief.get("description", "")), None)

    async def _resume(self, state: Json) -> Json:
        if self._is_at_work():
            raise invalid_state("the agent is at work")
        self._brief = state.get("briefSnapshot") or self._brief
        self._session_id = str(state.get("sessionId") or self._session_id)
        text = state.get("input")
        pending = state.get("pendingDecisionIds") or []
        self._expected = {it: self._expected.get(it) for it in pending} if text is None else {}
        checkpoint = {name: value for name, value in (state.get("checkpoint") or {}).items() if name != "sdk"}
        return self._begin(text, checkpoint)

    async def _work(self, run: Run) -> None:
        try:
            done = await self._agent.run(run)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            traceback.print_exc()
            self._status = "error"
            self.emit(
                {
                    "type": "error",
                    "severity": "high",
                    "message": f"{type(error).__name__}: {error}",
                    "recoverable": False,
                    "category": "internal",
                }
            )
            return
        completion = done if isinstance(done, Completion) else Completion(summary=done)
        self._status = "completed"
        self._keep_checkpoint()
        event: Json = {
            "type": "completion",
            "summary": completion.summary,
            "artifactsProduced": [],
            "decisionsNeeded": [],
            "outcome": completion.outcome,
        }
        if completion.reason:
            event["reason"] = completion.reason
        self.emit(event)

    async def _end_work(self) -> None:
        if self._task is None:
            return
        # Resolutions that the agent has not asked for again since an earlier pause stay.
        self._expected |= dict.fromkeys(self._decisions)
        self._draft = None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None

    async def _pause(self, body: Json) -> Json:
        if not self._agent.capabilities.pause:
            raise Refused(501, {"code": "capability_unsupported", "capability": "supportsPause"})
        if not self._is_at_work():
            raise invalid_state("the agent is not at work")
        if not self._decisions:
            # A late response would find nobody, and the agent would stay paused.
            limit = min(STOP, STOP_PART * float(body.get("timeoutMs") or STOP * 2000) / 1000)
            try:
                await asyncio.wait_for(self._agent.stop(), limit)
            except asyncio.TimeoutError:
                message = f"the agent is within a model call or a tool for more than {limit:g} s"
                raise Refused(503, {"code": "provider_unavailable", "message": message, "retryable": True}) from None
        if not self._is_at_work():
            raise invalid_state("the turn has ended")
        await self._end_work()
        self._status = "paused"
        return self._state("pause")

    async def _kill(self, body: Json) -> Json:
        await self._end_work()
        self._status = "completed"
        response: Json = {"artifactsExtracted": 0, "cleanShutdown": True}
        if body.get("grace", True):
            response["state"] = self._state("kill_grace")
        return response

    async def _resolve(self, body: Json) -> Json:
        decision_id, resolution = str(body.get("decisionId")), body.get("resolution") or {}
        future = self._decisions.get(decision_id)
        if future is not None and not future.done():
            future.set_result(resolution)
        elif decision_id in self._expected:
            self._expected[decision_id] = resolution
        else:
            raise Refused(404, {"code": "decision_not_found", "decisionId": decision_id})
        return {}

    async def _inject(self, body: Json) -> Json:
        if self._run is None or not self._is_at_work():
            raise invalid_state("the agent is not at work")
        self._run._injected.append(str(body.get("content", "")))
        return {}

    async def _update_brief(self, body: Json) -> Json:
        # The agent reads its brief, so that it changes in place.
        self._brief.update(body.get("changes") or {})
        return {}

    async def _replay(self, body: Json) -> Json:
        first, last = int(body["fromSequence"]), body.get("toSequence")
        last = self._sent if last is None else int(last)
        again = [message for sequence, message in self._log if first <= sequence <= last]
        self._again.extend(again)
        self._changed.set()
        return {"replayed": len(again)}


async def serve(agent: Agent, port: int, bootstrap: Path) -> None:
    """Serves an agent until the process ends."""
    text = bootstrap.read_text()
    bootstrap.unlink()
    shim = Shim(agent, json.loads(text))
    renewal = asyncio.create_task(shim.backend.keep_token())
    try:
        await Server(shim).serve(port)
    finally:
        renewal.cancel()


def main(agent: Agent, arguments: list[str] | None = None) -> None:
    """The program of a shim: reads `--port` and `--bootstrap`, and serves the agent."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bootstrap", type=Path, required=True)
    given: Any = parser.parse_args(arguments)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(agent, given.port, given.bootstrap))
