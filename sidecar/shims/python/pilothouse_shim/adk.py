"""A shim for the Agent Development Kit of Google.

    python -m pilothouse_shim.adk [--agent module:build]

`build` gets the brief, and returns a `google.adk.agents.BaseAgent`. Without it, the agent has the instructions of the
brief and a shell. Every tool call needs an approval. The checkpoint is the session: a turn that was cut off begins again
after its last event.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, cast

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import App
from google.adk.events import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.genai import types

from . import tools
from .agent import Agent, Capabilities, Completion, Run
from .shim import main

Json = dict[str, Any]
Build = Callable[[Json], BaseAgent]
_APP = "pilothouse"
_USER = "owner"


def default_agent(brief: Json) -> BaseAgent:
    model = brief.get("modelPreference") or "gemini-2.5-flash"
    return LlmAgent(name="agent", model=model, instruction=brief.get("instructions") or "", tools=[tools.shell])


class _Governor(BasePlugin):
    """Asks before each tool call, injects messages before each model call, and reports."""

    def __init__(self, run: Run) -> None:
        super().__init__(name="pilothouse")
        self._run = run
        # Messages that were injected into the turn, with their place in the contents.
        self._inserted: list[tuple[int, types.Content]] = []

    async def before_tool_callback(self, *, tool: Any, tool_args: Json, tool_context: Any) -> Json | None:
        call = str(tool_context.function_call_id)
        self._run.tool(call, tool.name, dict(tool_args), "requested")
        approval = await self._run.approve(call, tool.name, dict(tool_args))
        if not approval.approved:
            self._run.tool(call, tool.name, dict(tool_args), "failed", approval.reason)
            return {"error": approval.reason}
        if approval.arguments != tool_args:
            tool_args.clear()
            tool_args.update(approval.arguments)
        self._run.tool(call, tool.name, dict(tool_args), "running")
        return None

    async def after_tool_callback(self, *, tool: Any, tool_args: Json, tool_context: Any, result: Any) -> None:
        output = result.get("result", result) if isinstance(result, dict) else result
        self._run.tool(str(tool_context.function_call_id), tool.name, dict(tool_args), "completed", str(output))

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Json, tool_context: Any, error: Exception
    ) -> Json | None:
        self._run.tool(str(tool_context.function_call_id), tool.name, dict(tool_args), "failed", str(error))
        return {"error": str(error)}

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        for text in self._run.injected():
            at = len(llm_request.contents) + len(self._inserted)
            self._inserted.append((at, types.Content(role="user", parts=[types.Part(text=text)])))
        for at, content in self._inserted:
            llm_request.contents.insert(at, content)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        used = llm_response.usage_metadata
        if used is not None and not llm_response.partial:
            cached = used.cached_content_token_count or 0
            self._run.usage(
                str(llm_response.model_version or self._run.brief.get("modelPreference") or ""),
                input_tokens=(used.prompt_token_count or 0) - cached,
                output_tokens=(used.candidates_token_count or 0) + (used.thoughts_token_count or 0),
                cached_tokens=cached,
            )


class AdkAgent(Agent):
    name = "gemini"
    version = "1"
    capabilities = Capabilities(usage=True)

    def __init__(self, build: Build = default_agent) -> None:
        self._build = build
        self._events: list[Json] = []

    def checkpoint(self) -> Json:
        return {"stateSnapshot": {"events": self._events}}

    async def run(self, run: Run) -> Completion | str:
        if run.checkpoint:
            self._events = (run.checkpoint.get("stateSnapshot") or {}).get("events") or []
        app = App(name=_APP, root_agent=self._build(run.brief), plugins=[_Governor(run)])
        async with InMemoryRunner(app=app) as runner:
            session = await runner.session_service.create_session(app_name=_APP, user_id=_USER)
            for event in _answered(self._events):
                await runner.session_service.append_event(session, Event.model_validate(event))
            text = run.input or "Go on with your task."
            last = ""
            while True:
                last = await self._turn(runner, session.id, run, text) or last
                late = run.injected()
                if not late:
                    return last
                text = "\n\n".join(late)

    async def _turn(self, runner: InMemoryRunner, session_id: str, run: Run, text: str) -> str:
        last = ""
        self._events.append(_dumped(Event(author="user", content=_content(text))))
        async for event in runner.run_async(user_id=_USER, session_id=session_id, new_message=_content(text)):
            if event.partial:
                continue
            self._events.append(_dumped(event))
            if event.error_code:
                raise RuntimeError(f"{event.error_code}: {event.error_message}")
            parts = event.content.parts if event.content and event.content.parts else []
            words = "".join(part.text for part in parts if part.text and not part.thought)
            if words.strip():
                run.say(words)
                last = words
        return last


def _content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def _dumped(event: Event) -> Json:
    return cast(Json, event.model_dump(mode="json", by_alias=True, exclude_none=True))


def _answered(events: list[Json]) -> list[Json]:
    """The events up to the last one without a call whose response is missing, which models refuse."""
    waiting: set[str] = set()
    complete = 0
    for at, event in enumerate(events):
        for part in (event.get("content") or {}).get("parts") or []:
            if "functionCall" in part:
                waiting.add(str(part["functionCall"].get("id")))
            if "functionResponse" in part:
                waiting.discard(str(part["functionResponse"].get("id")))
        if not waiting:
            complete = at + 1
    return events[:complete]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", metavar="MODULE:BUILD")
    own, rest = parser.parse_known_args()
    build = tools.load(own.agent)
    main(AdkAgent(cast(Build, build) if build else default_agent), rest)
