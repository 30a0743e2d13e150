"""A shim for the OpenAI Agents SDK.

    python -m pilothouse_shim.openai_agents [--agent module:build]

`build` gets the brief, and returns an `agents.Agent`. Without it, the agent has the instructions of the brief and a
shell. Every function tool needs an approval, also those of agents that it hands over to. The state of a paused run is
the SDK's `RunState`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

import agents
from agents.run import CallModelData, ModelInputData

from . import tools
from .agent import Agent, Capabilities, Completion, Run
from .shim import main

Json = dict[str, Any]
Build = Callable[[Json], "agents.Agent[Any]"]

#: Events of the model's stream that have a piece of a text.
_DRAFTS: dict[str, Literal["text", "thinking"]] = {
    "response.output_text.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}


def default_agent(brief: Json) -> agents.Agent[Any]:
    model = brief.get("modelPreference")
    return agents.Agent(
        name="agent",
        instructions=brief.get("instructions") or None,
        tools=[agents.function_tool(tools.shell)],
        **({"model": model} if model else {}),
    )


class OpenAIAgent(Agent):
    name = "openai"
    version = "1"
    capabilities = Capabilities(pause=True, resume=True, usage=True)

    def __init__(self, build: Build = default_agent) -> None:
        self._build = build
        # The conversation before the current turn, and the state within it.
        self._items: list[Any] = []
        self._state: str | None = None
        self._result: agents.RunResultStreaming | None = None
        self._stopping = False
        # Whether the SDK ends its run before the turn is complete.
        self._is_cut_off = False
        self._at_rest = asyncio.Event()
        self._go_on = asyncio.Event()
        # Messages that were injected into the turn, with their place in the input.
        self._inserted: list[tuple[int, Json]] = []
        # Arguments that the owner changed, by the id of the call.
        self._changed: dict[str, str] = {}
        # The tool and the arguments of each call of the turn, for its result.
        self._calls: dict[str, tuple[str, Json]] = {}
        self._denied: set[str] = set()

    def checkpoint(self) -> Json:
        return {"runStateJson": self._state, "items": self._items, "inserted": self._inserted, "changed": self._changed}

    async def stop(self) -> None:
        """Waits for the end of the current model call and its tools."""
        self._stopping = True
        if self._result is None:
            return
        self._cut_off(self._result)
        try:
            await self._at_rest.wait()
        except asyncio.CancelledError:
            # It takes too long: the turn goes on.
            self._stopping = False
            self._go_on.set()
            raise

    def _cut_off(self, result: agents.RunResultStreaming) -> None:
        self._is_cut_off = True
        result.cancel(mode="after_turn")

    async def _rest(self) -> None:
        """If the agent is to stop, waits until the shim cancels the turn, or gives up to stop it."""
        if self._stopping:
            self._go_on.clear()
            self._at_rest.set()
            await self._go_on.wait()

    async def run(self, run: Run) -> Completion | str:
        self._stopping = False
        self._at_rest.clear()
        try:
            return await self._turn(run)
        finally:
            self._result = None
            self._at_rest.set()

    async def _turn(self, run: Run) -> Completion | str:
        if run.checkpoint:
            self._items = run.checkpoint.get("items") or []
            self._state = run.checkpoint.get("runStateJson")
            self._inserted = [(at, item) for at, item in run.checkpoint.get("inserted") or []]
            self._changed = run.checkpoint.get("changed") or {}
        agent = self._build(run.brief)
        self._govern(agent)
        source: Any
        if run.input is not None:
            self._state, self._inserted, self._changed = None, [], {}
            self._items = [*self._items, {"role": "user", "content": run.input}]
        if self._state is None:
            source = list(self._items)
        else:
            source = await agents.RunState.from_string(agent, self._state)
            await self._approve(run, source)
        while True:
            try:
                result = await self._stream(run, agent, source)
            except agents.MaxTurnsExceeded as error:
                return Completion(str(error), "max_turns")
            if result.interruptions:
                source = result.to_state()
                self._state = source.to_string()
                await self._rest()
                await self._approve(run, source)
            elif self._is_cut_off and result.final_output is None:
                source = result.to_state()
                self._state = source.to_string()
                await self._rest()
            else:
                self._items, self._state = self._with_inserted(result.to_input_list()), None
                self._inserted = []
                late = run.injected()
                if not late:
                    return str(result.final_output or "")
                self._items += [{"role": "user", "content": text} for text in late]
                source = list(self._items)

    async def _stream(self, run: Run, agent: agents.Agent[Any], source: Any) -> agents.RunResultStreaming:
        def with_injected(data: CallModelData[Any]) -> ModelInputData:
            given = data.model_data
            for text in run.injected():
                at = len(given.input) + len(self._inserted)
                self._inserted.append((at, {"role": "user", "content": text}))
            return ModelInputData(input=self._with_inserted(given.input), instructions=given.instructions)

        config = agents.RunConfig(call_model_input_filter=with_injected, tracing_disabled=True)
        limit = (run.brief.get("sessionPolicy") or {}).get("maxTurns") or 1000
        result = agents.Runner.run_streamed(agent, source, run_config=config, max_turns=limit)
        self._result, self._is_cut_off = result, False
        if self._stopping:
            self._cut_off(result)
        async for event in result.stream_events():
            self._report(run, event)
        return result

    def _report(self, run: Run, event: agents.StreamEvent) -> None:
        if event.type == "raw_response_event" and event.data.type in _DRAFTS:
            run.draft(str(getattr(event.data, "delta", "")), _DRAFTS[event.data.type])
        elif event.type == "raw_response_event" and event.data.type == "response.created":
            # Also of a request that is repeated.
            run.discard_draft()
        elif event.type == "raw_response_event" and event.data.type == "response.completed":
            response = event.data.response
            if response.usage is not None:
                cached = response.usage.input_tokens_details.cached_tokens or 0
                run.usage(
                    str(response.model),
                    input_tokens=response.usage.input_tokens - cached,
                    output_tokens=response.usage.output_tokens,
                    cached_tokens=cached,
                )
        elif event.type == "run_item_stream_event":
            item = event.item
            if isinstance(item, agents.MessageOutputItem):
                run.say(agents.ItemHelpers.text_message_output(item))
            elif isinstance(item, agents.ToolCallItem):
                call = _fields(item.raw_item)
                name, arguments = str(call.get("name")), _arguments(call.get("arguments"))
                self._calls[_call_id(call)] = (name, arguments)
                run.tool(_call_id(call), name, arguments, "requested")
            elif isinstance(item, agents.ToolCallOutputItem):
                call = _fields(item.raw_item)
                name, arguments = self._calls.pop(_call_id(call), ("tool", {}))
                phase: Literal["completed", "failed"]
                phase = "failed" if _call_id(call) in self._denied else "completed"
                run.tool(_call_id(call), name, arguments, phase, str(item.output))

    async def _approve(self, run: Run, state: agents.RunState[Any]) -> None:
        for item in state.get_interruptions():
            call = _fields(item.raw_item)
            name, arguments = str(item.tool_name), _arguments(call.get("arguments"))
            # In another process, the call was requested before.
            self._calls[_call_id(call)] = (name, arguments)
            approval = await run.approve(_call_id(call), name, arguments)
            if not approval.approved:
                self._denied.add(_call_id(call))
                state.reject(item, rejection_message=approval.reason)
                continue
            if approval.arguments != arguments:
                self._changed[_call_id(call)] = json.dumps(approval.arguments)
            state.approve(item, always_approve=approval.always)
        self._state = state.to_string()

    def _with_inserted(self, items: list[Any]) -> list[Any]:
        items = list(items)
        for at, item in self._inserted:
            items.insert(at, item)
        return items

    def _govern(self, agent: agents.Agent[Any], seen: tuple[agents.Agent[Any], ...] = ()) -> None:
        """Makes function tools ask for an approval, and take changed arguments."""
        if any(it is agent for it in seen):
            return
        for tool in agent.tools:
            if isinstance(tool, agents.FunctionTool) and not hasattr(tool.on_invoke_tool, "is_governed"):
                tool.needs_approval = True
                tool.on_invoke_tool = self._with_changed(tool.on_invoke_tool)
        for handoff in agent.handoffs:
            # A `Handoff` refers to its agent weakly.
            target = handoff if isinstance(handoff, agents.Agent) else handoff._agent_ref and handoff._agent_ref()
            if isinstance(target, agents.Agent):
                self._govern(target, (*seen, agent))

    def _with_changed(self, invoke: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def with_changed(context: Any, arguments: str) -> Any:
            return await invoke(context, self._changed.get(context.tool_call_id, arguments))

        # A tool of the module of `build` is governed once.
        with_changed.is_governed = True  # type: ignore[attr-defined]
        return with_changed


def _fields(item: Any) -> Json:
    return cast(Json, item if isinstance(item, dict) else item.model_dump())


def _call_id(call: Json) -> str:
    return str(call.get("call_id") or call.get("id"))


def _arguments(text: Any) -> Json:
    try:
        parsed = json.loads(text or "{}")
    except (TypeError, ValueError):
        return {"arguments": str(text)}
    return parsed if isinstance(parsed, dict) else {"arguments": parsed}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", metavar="MODULE:BUILD")
    own, rest = parser.parse_known_args()
    build = tools.load(own.agent)
    main(OpenAIAgent(cast(Build, build) if build else default_agent), rest)
