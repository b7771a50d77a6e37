"""Journal of the received events: a file with one JSON line for each item.

Each line has the item and its cursor, so one write stores both, and no crash can separate them. The cursor of the last
line is the position from which the stream continues."""

import json
import os
from collections import deque
from pathlib import Path
from typing import Any

REMEMBERED = 1000


class Journal:
    def __init__(self, path: Path) -> None:
        path.touch()
        text = path.read_bytes()
        # A crash in the middle of a write leaves a line without its end. The event is delivered again.
        whole = text.rfind(b"\n") + 1
        os.truncate(path, whole)
        items = [json.loads(line) for line in text[:whole].splitlines()[-REMEMBERED:]]
        self.cursor: str | None = items[-1]["cursor"] if items else None
        self.seen = deque((key(item) for item in items), maxlen=REMEMBERED)
        self.file = path.open("a")

    def add(self, item: dict[str, Any]) -> bool:
        """Stores an item with its cursor. Returns false if it is a repetition: an event without its large fields has an
        earlier cursor, so events after it can be delivered again."""
        if "event" in item and key(item) in self.seen:
            return False
        self.file.write(json.dumps(item) + "\n")
        self.file.flush()
        self.seen.append(key(item))
        self.cursor = item["cursor"]
        return True


def key(item: dict[str, Any]) -> tuple[str, str]:
    event = item.get("event") or {}
    return event.get("executionId", ""), event.get("eventId", "")
