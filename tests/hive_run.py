"""Another run on a Hive directory: it says who it is, has a heartbeat, and owns partitions."""

from packstone.runs.folder import Run
from packstone.tables.hive.commit import Claims
from packstone.tables.hive.recover import is_half_done


class HiveRun(Run):
    """A run that a test holds open."""

    def __init__(self, journal, *, command):
        super().__init__(
            journal.io,
            journal.layout.root,
            state=journal.layout.state,
            family="hive",
            command=command,
            is_half_done=lambda run: is_half_done(journal, run),
        )
        self._claims = Claims(journal, self)
        self.claim, self.check_owned = self._claims.claim, self._claims.check_owned

    def __exit__(self, *error):
        """Give everything back."""
        self._claims.release_all(unfinished=error[0] is not None)
        super().__exit__(*error)
