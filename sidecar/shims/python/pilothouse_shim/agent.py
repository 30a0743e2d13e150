"""The interface that an agent implements, and the run that it gets for each turn."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .shim import Shim

Json = dict[str, Any]
Outcome = Literal["success", "partial", "abandoned", "max_turns"]


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of an agent. All are optional."""

    #: `checkpoint` is exact at any time, or `stop` waits until it is.
    pause: bool = False
    #: `run` continues exactly where `checkpoint` was taken.
    resume: bool = False
    #: A changed brief affects the running turn.
    hot_brief_update: bool = False
    #: `Run.usage` is called after each model call.
    usage: bool = False


@dataclass(frozen=True)
class Completion:
    """How a turn ended."""

    summary: str = ""
    outcome: Outcome = "success"
    reason: str | None = None


@dataclass(frozen=True)
class Approval:
    """The decision on a tool call."""

    approved: bool
    #: The arguments to call the tool with; the owner can change them.
    arguments: Json
    #: Why the call was not approved, for the agent.
    reason: str = ""
    #: Later calls of this tool need no approval.
    always: bool = False


@dataclass(frozen=True)
class Option:
    id: str
    label: str
    description: str = ""
    tradeoffs: str | None = None


@dataclass(frozen=True)
class Choice:
    """The owner's choice. Without an option, none of them was chosen for this reason."""

    option_id: str | None
    rationale: str


class Agent(ABC):
    """An agent of some SDK. One object lives as long as the process."""

    name: str = "agent"
    version: str = "0"
    capabilities: Capabilities = Capabilities()

    @abstractmethod
    async def run(self, run: Run) -> Completion | str:
        """Works on one turn, and returns its summary. It is cancelled by a pause, an interrupt or a stop."""

    def checkpoint(self) -> Json:
        """What `run` needs to continue, as JSON. Called whenever the agent waits, stops or has completed a turn."""
        return {}

    async def stop(self) -> None:
        """Called before a pause cancels `run`: may wait for a moment in which `checkpoint` is exact. It is cancelled after
        15 seconds at the latest. Then the pause is refused, and `run` continues."""


@dataclass
class Run:
    """One turn of the agent."""

    _shim: Shim
    #: The text of the turn, which the agent works on. `None` if it continues after a pause.
    input: str | None
    #: The role, instructions and settings of the agent (S2 `AgentBrief`).
    brief: Json
    #: The result of `Agent.checkpoint` of an earlier turn or process.
    checkpoint: Json | None
    _injected: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Reports words of the agent."""
        self._shim.emit({"type": "status", "message": text})

    def draft(self, text: str, kind: Literal["text", "thinking"] = "text") -> None:
        """Shows the next piece of a text while the model writes it. `say` reports the complete text, also of a draft."""
        self._shim.draft(text, kind)

    def discard_draft(self) -> None:
        """Call it before the model writes a text again, such as after a failed request."""
        self._shim.discard_draft()

    def emit(self, event: Json) -> None:
        """Reports any other event of S2, without its `agentId`."""
        self._shim.emit(event)

    def injected(self) -> list[str]:
        """Messages that arrived since the last call. The agent should get them before its next model call."""
        taken, self._injected[:] = list(self._injected), []
        return taken

    def usage(self, model: str, *, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> None:
        """Reports the tokens of one model call. `input_tokens` does not contain the cached ones."""
        payload = {
            "modelId": model,
            "inputTokens": input_tokens,
            "outputTokens": output_tokens,
            "cacheReadTokens": cached_tokens,
        }
        self._shim.raw("usage", payload)

    def tool(
        self,
        call_id: str,
        name: str,
        arguments: Json,
        phase: Literal["requested", "running", "completed", "failed"],
        output: Any = None,
    ) -> None:
        """Reports a phase of a tool call."""
        event = {
            "type": "tool_call",
            "toolCallId": call_id,
            "toolName": name,
            "phase": phase,
            "input": arguments,
            "approved": phase in ("running", "completed"),
        }
        if phase in ("completed", "failed"):
            event["output"] = output
        self._shim.emit(event)

    async def approve(self, call_id: str, tool: str, arguments: Json) -> Approval:
        """Asks whether a tool may be called. Call it before every tool call: the sidecar answers at once for calls that
        need no person."""
        if self._shim.is_always_approved(tool):
            return Approval(True, arguments)
        event = {
            "type": "decision",
            "subtype": "tool_approval",
            "decisionId": call_id,
            "toolName": tool,
            "toolArgs": arguments,
        }
        resolution = await self._shim.decide(call_id, event)
        kind = resolution.get("resolutionType")
        if kind not in ("approve", "modify"):
            return Approval(False, arguments, str(resolution.get("rationale") or "The call was not approved."))
        changed = resolution.get("modifiedArgs") if kind == "modify" else None
        always = bool(resolution.get("alwaysApprove"))
        if always:
            self._shim.always_approve(tool)
        return Approval(True, changed if isinstance(changed, dict) else arguments, always=always)

    async def decide(
        self,
        decision_id: str,
        title: str,
        summary: str,
        options: list[Option],
        *,
        recommended: str | None = None,
        severity: str = "medium",
        confidence: float = 0.5,
        blast_radius: str = "small",
    ) -> Choice:
        """Lets the owner choose between options."""
        event = {
            "type": "decision",
            "subtype": "option",
            "decisionId": decision_id,
            "title": title,
            "summary": summary,
            "severity": severity,
            "confidence": confidence,
            "blastRadius": blast_radius,
            "options": [
                {"id": it.id, "label": it.label, "description": it.description}
                | ({"tradeoffs": it.tradeoffs} if it.tradeoffs else {})
                for it in options
            ],
            "affectedArtifactIds": [],
            "requiresRationale": False,
        }
        if recommended:
            event["recommendedOptionId"] = recommended
        resolution = await self._shim.decide(decision_id, event)
        rationale = str(resolution.get("rationale") or "")
        if resolution.get("resolutionType") == "choose_option":
            return Choice(str(resolution.get("chosenOptionId")), rationale)
        return Choice(None, rationale)

    async def artifact(self, path: Path, *, artifact_id: str, kind: str = "other", status: str = "draft") -> str:
        """Uploads a file, and reports it as an artifact. Returns its address."""
        content = await asyncio.to_thread(path.read_bytes)
        uploaded = await asyncio.to_thread(self._shim.backend.upload, artifact_id, content)
        uri = str(uploaded["backendUri"])
        self._shim.emit(
            {
                "type": "artifact",
                "artifactId": artifact_id,
                "name": path.name,
                "kind": kind,
                "workstream": str(self.brief.get("workstream", "")),
                "status": status,
                "qualityScore": 0.5,
                "provenance": {"createdBy": self._shim.agent_id, "sourcePath": str(path)},
                "uri": uri,
                "sizeBytes": len(content),
            }
        )
        return uri
