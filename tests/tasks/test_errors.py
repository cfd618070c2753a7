"""Test how errors are recognised and reported."""

import errno
import shutil

import pytest

from tasks.errors import DiskFull, is_full, room_in


@pytest.mark.parametrize(
    ("problem", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (OSError(errno.EFBIG, "File too large"), True),
        (OSError("80000 requested and 4064 written"), True),
        (shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'")]), True),
        (DiskFull("no space left"), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (OSError("damaged"), False),
        (ValueError("No space left on device"), False),
    ],
)
def test_full_disk_is_recognised_in_all_forms(problem, full):
    assert is_full(problem) is full


def test_full_disk_error_has_place_and_remedy(tmp_path):
    with pytest.raises(DiskFull) as error, room_in(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device", "somebody's name")
    assert (
        str(error.value) == f"no space left\n  where: {tmp_path}\n  to do: free some space, then run it again"
    )
    with pytest.raises(OSError, match="Input"), room_in(tmp_path):
        raise OSError(errno.EIO, "Input/output error")
    with pytest.raises(DiskFull, match="working files"), room_in(tmp_path, scratch=True):
        raise OSError(errno.EIO, "Input/output error")
