"""Starts MiniStack with what makes it answer as fast as it can, and judge as AWS does.

Two waits of its Lambda runtime cost every call about 90 ms: answers of its runtime API stand in the socket until the
next acknowledgement, and it waits for a line of log that may never come.

It keeps 100 connections waiting: fewer than come while it stands still for seconds, which it does on a busy machine. Its
clients are refused then, one after the other.

Where it evaluates policies, `aws:PrincipalArn` is that of the session when a role was assumed; AWS has that of the role.
"""

import socketserver

socketserver.StreamRequestHandler.disable_nagle_algorithm = True

from ministack.core import lambda_runtime  # noqa: E402

for worker in vars(lambda_runtime).values():
    drain = getattr(worker, "__dict__", {}).get("_drain_stderr_bounded")
    if drain is not None:
        # first_line_wait, idle_confirm, hard_cap; in seconds
        drain.__defaults__ = (0.002, 0.001, 0.050)

from ministack.core import iam_evaluator  # noqa: E402

resolve = iam_evaluator._resolve_condition_key


def resolve_condition_key(key, ctx):
    """The value of a condition key: for `aws:PrincipalArn` of a session, the ARN of its role."""
    value = resolve(key, ctx)
    if key.lower() == "aws:principalarn" and value and ":assumed-role/" in value:
        _, partition, _, _, account, session = value.split(":", 5)
        return f"arn:{partition}:iam::{account}:role/{session.split('/')[1]}"
    return value


iam_evaluator._resolve_condition_key = resolve_condition_key

from hypercorn.config import Config  # noqa: E402

Config.backlog = 4096

from ministack.app import main  # noqa: E402

main()
