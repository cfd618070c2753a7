"""Write log lines as JSON objects, one a line, where MURMUR_LOG=json asks for them: log collectors read those.

A line break or a control character in a message is escaped by JSON, so no text can forge a further line.
"""

import datetime
import json
import logging
import os

from tasks.errors import printable

VARIABLE = "MURMUR_LOG"


class JsonLines(logging.Formatter):
    """Format a record as one JSON object: time, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. A traceback is left out unless MURMUR_TRACEBACK is set: its text may be private."""
        line = {
            "time": datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            if os.environ.get("MURMUR_TRACEBACK"):
                line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


class PlainLines(logging.Formatter):
    """Format a record for people, with what a terminal would obey and line breaks escaped: no text forges a line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without its traceback."""
        return printable(super().formatMessage(record))


def chosen_formatter(plain: str) -> logging.Formatter:
    """Return the formatter that the environment asks for; `plain` is the format of lines for people."""
    return JsonLines() if os.environ.get(VARIABLE) == "json" else PlainLines(plain)
