"""What obstore raises, as the errors that the rest of Packstone knows: those of files."""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_REFUSED: Final = "The store refused; look at the AWS_ settings and at the rights of their key"
_NO_BUCKET: Final = "There is no such bucket; make it first"
_NOBODY_THERE: Final = re.compile(r"Error performing \w+ (https?://[^/\s]+).* error sending request")


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raise OSErrors with a number, one line of text and the path; the details of the client stay in the cause."""
    from obstore import exceptions as failed  # noqa: PLC0415 - an extra

    try:
        yield
    except FileNotFoundError as error:
        what = _NO_BUCKET if "NoSuchBucket" in str(error) else "No such object"
        raise FileNotFoundError(errno.ENOENT, what, path) from error
    except failed.AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, "Object exists", path) from error
    except (failed.PermissionDeniedError, failed.UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, _REFUSED, path) from error
    except failed.PreconditionError as error:
        raise OSError(errno.ESTALE, "The object changed while it was read", path) from error
    except failed.NotSupportedError as error:
        raise OSError(errno.ENOTSUP, "The store cannot do this", path) from error
    except ValueError as error:  # empty parts, dots and control characters in a key
        raise OSError(errno.EINVAL, "This client does not take such a name", path) from error
    except failed.BaseError as error:
        raise _other(str(error).partition("\n")[0], path) from error


def _other(line: str, path: str) -> OSError:
    """What a listing failed with: obstore knows no kinds of errors there."""
    if "status code: 404" in line:
        return FileNotFoundError(errno.ENOENT, _NO_BUCKET, path)
    if "status code: 403" in line or "status code: 401" in line:
        return PermissionError(errno.EACCES, _REFUSED, path)
    nobody = _NOBODY_THERE.search(line)
    if nobody:
        what = f"No S3 server answers at {nobody.group(1)}; look at AWS_ENDPOINT_URL and AWS_REGION, and at the network"
        return OSError(errno.EIO, what, path)
    return OSError(errno.EIO, line, path)
