"""The errors a person sees: what is wrong, where, and what to do about it.

No message may carry a source user id: messages travel into logs and the Airflow UI.
"""


class MurmurError(Exception):
    """An error with a place and a remedy; `exit_code` is what `murmur` returns for it."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what, where, remedy)  # all three, so that it survives pickling between processes

    def __reduce__(self) -> tuple:
        return (_rebuild, (type(self), self.what, self.where, self.remedy))

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"  where: {self.where}")
        if self.remedy:
            parts.append(f"  to do: {self.remedy}")
        return "\n".join(parts)


def _rebuild(kind: type[MurmurError], what: str, where: str, remedy: str) -> MurmurError:
    return kind(what, where=where, remedy=remedy)


class UsageError(MurmurError):
    """The configuration, the command or the input cannot be used as it is."""

    exit_code = 2


class Refused(MurmurError):
    """The release cannot be proved safe (or would be worthless), so it is not published."""

    exit_code = 3
