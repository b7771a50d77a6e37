#!/usr/bin/env python3
"""A worker: runs the executions of a pool, and follows all events live.

worker.py send KEY   starts an execution, unless one was started with the same key
worker.py work       runs executions and writes every event to the journal, until it is stopped"""

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

from aiohttp import ClientError
from gql.transport.exceptions import TransportError

from api import Api, Refused, log, stop_if_permanent
from journal import Journal

ENDED = {"COMPLETED", "FAILED", "CANCELLED"}
POLL_SECONDS = 5.0


class Worker:
    def __init__(self, api: Api, options: argparse.Namespace) -> None:
        self.api = api
        self.options = options
        self.wake = asyncio.Event()

    async def work(self) -> None:
        """Claims entries of the pool and runs their executions. A started execution wakes it; the poll finds the
        entries whose wake-up was lost and those whose lease expired."""
        claim = {
            "select": {"filter": {"pools": [self.options.pool]}},
            "claimant": f"worker-python-{os.getpid()}",
            "limit": 10,
            "leaseSeconds": self.options.lease_seconds,
        }
        while True:
            self.wake.clear()
            claims = (await self.api.send("Claim", input=claim))["claims"]
            await asyncio.gather(*(self.handle(entry) for entry in claims))
            if not claims:
                try:
                    await asyncio.wait_for(self.wake.wait(), min(POLL_SECONDS, self.options.lease_seconds))
                except asyncio.TimeoutError:
                    pass

    async def handle(self, entry: dict[str, Any]) -> None:
        """Runs the execution of a claimed entry, and settles the entry."""
        lease = {"entryId": entry["entryId"], "lease": entry["lease"]}
        try:
            await self.run(entry, lease)
        except Refused as refusal:
            # The lease was lost, or the execution can't continue. If the lease was lost, the next call is refused too.
            log.error("entry %s: %s", entry["entryId"], refusal)
            try:
                await self.api.send("Failed", input={"failures": [{**lease, "error": str(refusal)}]})
            except Refused as stale:
                log.warning("entry %s: %s", entry["entryId"], stale)

    async def run(self, entry: dict[str, Any], lease: dict[str, str]) -> None:
        """Runs the steps that are not done yet, in the order of the document. The last report also completes the
        execution and settles the entry."""
        # Read by itself: an execution that can't be read fails its own entry, and not those that were claimed with it.
        execution = await self.api.send("Run", id=entry["executionId"])
        if not execution:
            raise Refused("the execution does not exist")
        done = {step["name"] for step in execution["steps"]["nodes"] if step["status"] in ("COMPLETED", "SKIPPED")}
        workflow = (execution["catalogEntry"] or {}).get("workflow") or {"steps": []}
        left = [step["name"] for step in workflow["steps"] if step["name"] not in done]
        # Three events for each step, and one for the end. A later cancellation has a larger id, so it stays.
        ids = iter((await self.api.send("ReserveIds", count=3 * len(left) + 1))["eventIds"])
        status, settled = execution["status"], False
        # The execution can be cancelled at any time. If the lease is lost, another worker continues it.
        while status not in ENDED and not settled:
            events = await self.step(left.pop(0), execution["workload"]) if left else []
            settled = not left
            if settled:
                events.append({"type": "playbook.completed", "status": "COMPLETED"})
            named = [{"eventId": next(ids), "executionId": execution["id"], **event} for event in events]
            status = await self.report(named, lease, settled)
        if settled:
            log.info("execution %s is %s", execution["id"], status)
        else:
            await self.api.send("Delivered", input={"claims": [lease]})

    async def step(self, name: str, workload: Any) -> list[dict[str, Any]]:
        """Does the work of a step, and returns its events. A real worker calls the step's tool."""
        await asyncio.sleep(self.options.step_seconds)
        meta = {"command_id": f"{name}:1", "attempt": 1}
        result = {"data": {"step": name, "fields": len(workload or {})}}
        return [
            {"type": "step.enter", "nodeName": name, "status": "ENTERED"},
            {"type": "call.done", "nodeName": name, "status": "COMPLETED", "meta": meta, "result": result},
            {"type": "command.completed", "nodeName": name, "status": "success", "meta": meta},
        ]

    async def report(self, events: list[dict[str, Any]], lease: dict[str, str], settle: bool) -> str:
        """Stores events of an execution, unless another worker has claimed its entry, and settles the entry or renews
        its lease. Returns the status of the execution. A repeat has the same ids, so no event is stored twice."""
        seconds = self.options.lease_seconds
        payload = await self.api.send("Report", events=events, claim=lease, settle=settle, leaseSeconds=seconds)
        if not payload["executions"]:
            raise Refused("the execution does not exist")
        return str(payload["executions"][0]["status"])

    async def follow(self, journal: Journal) -> None:
        """Writes every event to the journal. Continues after the last stored one when the connection returns."""
        while True:
            start = {"after": journal.cursor} if journal.cursor else {"beginning": True}
            try:
                async for item in self.api.follow(start):
                    if item["__typename"] == "StreamGap":
                        log.error("shard %s has a gap: %s", item["shard"], item["reason"])
                    if "cursor" in item and journal.add(item):
                        if item.get("event", {}).get("type") == "playbook_started":
                            self.wake.set()
                log.warning("the live stream ended")
            except (TransportError, ClientError, OSError, asyncio.TimeoutError) as error:
                stop_if_permanent(error)
                log.warning("the live stream broke: %r", error)
            await asyncio.sleep(0.5)


async def send(api: Api, key: str) -> None:
    dedup = {"key": key, "windowSeconds": 3600}
    request = {"entry": {"path": "samples/orders/process"}, "workload": {"order": {"id": key}}, "dedup": dedup}
    result = await api.send("Execute", input=request)
    print(result["outcome"], result["executionId"], flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8082/graphql")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("send").add_argument("key")
    work = commands.add_parser("work")
    work.add_argument("--pool", default="shared")
    work.add_argument("--journal", type=Path, default=Path("journal.jsonl"))
    work.add_argument("--lease-seconds", type=int, default=30)
    work.add_argument("--step-seconds", type=float, default=0.1)
    options = parser.parse_args()

    logging.basicConfig(format="%(levelname)s %(message)s")
    log.setLevel(logging.INFO)
    api = Api(options.url)
    if options.command == "send":
        await send(api, options.key)
    else:
        worker = Worker(api, options)
        await asyncio.gather(worker.work(), worker.follow(Journal(options.journal)))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    except Refused as refusal:
        sys.exit(f"the server refused a request: {refusal}")
