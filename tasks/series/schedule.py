"""List the days on which a release is due by its schedule; a snapshot is the day of a run, in UTC."""

import datetime
from collections.abc import Iterator

from tasks.errors import UsageError

ONE_SECOND = datetime.timedelta(seconds=1)


def repeats(schedule: str | None) -> bool:
    """Return whether a schedule names days at all: `@once` and no schedule do not."""
    return schedule not in (None, "@once")


def due_moments(schedule: str, since: datetime.date) -> Iterator[datetime.datetime]:
    """Yield the first moment of each day that is due, from `since` on, without end.

    One look per day: a schedule of every minute would otherwise take 1,440.
    """
    from croniter import CroniterError, croniter

    begin = _begin_of(since)
    while True:
        try:
            moment = croniter(schedule, begin - ONE_SECOND, datetime.datetime).get_next(datetime.datetime)
        except CroniterError:
            raise UsageError(
                f"the schedule '{schedule}' names no day",
                where="release.schedule",
                remedy="use a cron expression of five fields such as '0 3 1 * *', or a preset such as '@monthly'",
            ) from None
        yield moment
        begin = _begin_of(moment.date() + datetime.timedelta(days=1))


def _begin_of(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC)
