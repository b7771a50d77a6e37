#!/usr/bin/env python3
"""A subscription runtime: starts an execution for each message of a NATS JetStream subject.

The document of the source subscription names the stream, the subject, the consumer and the playbook. A message is
acknowledged only after its execution exists. A message that is delivered again has the same dedup key, so it starts
nothing. A pause stops the intake; a drain ends the runtime after the messages that it has received."""

import argparse
import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import nats
from aiohttp import ClientError
from gql import Client, GraphQLRequest, gql
from gql.transport.aiohttp import AIOHTTPTransport
from gql.transport.aiohttp_websockets import AIOHTTPWebsocketsTransport
from gql.transport.exceptions import TransportError, TransportQueryError, TransportServerError
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig

OPERATIONS = gql((Path(__file__).parent / "operations.graphql").read_text())
AWAY = (TransportError, ClientError, OSError, asyncio.TimeoutError)
RETRYABLE = {"OVERLOADED", "SHUTTING_DOWN", "STREAM_UNAVAILABLE", "SHARD_UNAVAILABLE", "TIMEOUT"}
BATCH = 100
LONGEST_PAUSE = 10.0
log = logging.getLogger("runtime")


class Refused(Exception):
    """The server refused a request, and would refuse a repeat."""


class Api:
    def __init__(self, url: str) -> None:
        self.url = url
        token = os.environ.get("NOETL_TOKEN")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def send(self, operation: str, **variables: Any) -> dict[str, Any]:
        """Returns the payload of a mutation; repeats it until the server responds. Each of them may be repeated."""
        request = GraphQLRequest(OPERATIONS, operation_name=operation, variable_values=variables)
        pause = 0.2
        while True:
            try:
                async with Client(transport=AIOHTTPTransport(self.url, headers=self.headers, timeout=20)) as session:
                    payload: dict[str, Any] = next(iter((await session.execute(request)).values()))
                if payload["userErrors"]:
                    raise Refused(payload["userErrors"][0]["message"])
                return payload
            except TransportQueryError as error:
                if not {(fault.get("extensions") or {}).get("code") for fault in error.errors or []} <= RETRYABLE:
                    raise Refused(str(error)) from error
                log.warning("%s failed: %s", operation, error)
            except AWAY as error:
                if isinstance(error, TransportServerError) and 400 <= (error.code or 0) < 500:
                    raise Refused(str(error)) from error
                log.warning("%s failed: %r", operation, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


class Runtime:
    def __init__(self, api: Api, subscription: dict[str, Any]) -> None:
        self.api = api
        self.id: str = subscription["id"]
        self.playbook: str = subscription["spec"]["dispatch"]["playbook"]
        self.dedup: bool = subscription["spec"]["dedup"]["enabled"]
        limits = subscription["spec"]["limits"]
        self.batch = min(BATCH, limits["maxInFlight"] or BATCH)
        self.rate = limits["maxDispatchPerSecond"]
        self.status: str = subscription["status"]
        self.changed = asyncio.Condition()

    async def watch(self) -> None:
        """Keeps the status current. The server sends the present status first, also after a reconnect."""
        request = GraphQLRequest(OPERATIONS, operation_name="Status", variable_values={"id": self.id})
        url = self.api.url.replace("http", "ws", 1)
        while True:
            try:
                transport = AIOHTTPWebsocketsTransport(url, headers=self.api.headers, ping_interval=10, pong_timeout=10)
                async with Client(transport=transport) as session:
                    async for item in session.subscribe(request):
                        if subscription := item["subscriptionUpdates"]["subscription"]:
                            await self.set(subscription["status"])
            except AWAY as error:
                log.warning("the status can't be read: %r", error)
            await asyncio.sleep(1)

    async def set(self, status: str) -> None:
        async with self.changed:
            if status != self.status:
                log.info("the subscription is %s", status)
            self.status = status
            self.changed.notify_all()

    async def take(self, source: JetStreamContext.PullSubscription) -> None:
        """Takes messages while the subscription is active; returns when it is drained or deactivated."""
        while True:
            async with self.changed:
                await self.changed.wait_for(lambda: self.status != "PAUSED")
            if self.status != "ACTIVE":
                return
            try:
                messages = await source.fetch(self.batch, timeout=1)
            except asyncio.TimeoutError:
                # No message came. nats-py has an error of its own for this, which is a kind of this one.
                continue
            except NatsError as error:
                log.warning("no messages can be fetched: %r", error)
                await asyncio.sleep(1)
                continue
            if messages:
                await self.dispatch(messages)
            if self.rate:
                await asyncio.sleep(len(messages) / self.rate)

    async def dispatch(self, messages: list[Msg]) -> None:
        """Starts the executions of a batch, and then settles each message by its result."""
        requests = [self.request(message) for message in messages]
        results = (await self.api.send("Execute", requests=requests))["results"]
        for message, result in zip(messages, results):
            errors = result["userErrors"]
            if result["outcome"]:
                log.info("%s %s", result["outcome"], result["executionId"])
                await message.ack()
            elif errors[0]["retryable"]:
                log.warning("a message is delivered again later: %s", errors[0]["message"])
                await message.nak(delay=5)
            else:
                log.error("a message is given up: %s", errors[0]["message"])
                await message.term()

    def request(self, message: Msg) -> dict[str, Any]:
        workload: dict[str, Any] = {"order": document(message)}
        request = {"entry": {"path": self.playbook}, "parentExecutionId": self.id, "workload": workload}
        return {**request, "dedup": {"key": dedup_key(message)}} if self.dedup else request


def dedup_key(message: Msg) -> str:
    """Returns the sender's id of the message; without one, its position in the stream."""
    position = f"{message.metadata.stream}:{message.metadata.sequence.stream}"
    return (message.headers or {}).get("Nats-Msg-Id", position)


def document(message: Msg) -> Any:
    try:
        return json.loads(message.data)
    except ValueError:
        return {"text": message.data.decode(errors="replace")}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8082/graphql")
    parser.add_argument("--nats-url", default="nats://127.0.0.1:4222")
    parser.add_argument("--subscription", default="samples/orders/inbox", help="path of the source subscription")
    parser.add_argument("--ack-wait", type=float, default=30, help="seconds until an unsettled message is delivered again")
    options = parser.parse_args()
    logging.basicConfig(format="%(levelname)s %(message)s")
    log.setLevel(logging.INFO)

    api = Api(options.url)
    subscription = (await api.send("Register", path=options.subscription))["subscription"]
    # A restart must not undo the pause or the drain of an operator.
    if subscription["status"] == "REGISTERED":
        subscription = {**subscription, **(await api.send("Activate", id=subscription["id"]))["subscription"]}
    spec = subscription["catalogEntry"]["document"]["spec"]
    runtime = Runtime(api, subscription)
    broker = await nats.connect(options.nats_url, max_reconnect_attempts=-1)
    source = await broker.jetstream().pull_subscribe(
        spec["subject"],
        durable=spec["consumer"],
        stream=spec["stream"],
        config=ConsumerConfig(ack_wait=options.ack_wait),
    )
    log.info("subscription %s of %s is %s", runtime.id, options.subscription, runtime.status)
    watch = asyncio.create_task(runtime.watch())
    await runtime.take(source)
    watch.cancel()
    if runtime.status == "DRAINING":
        await api.send("Deactivate", id=runtime.id)
    await broker.close()
    log.info("all received messages are settled")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    except Refused as refusal:
        sys.exit(f"the server refused a request: {refusal}")
