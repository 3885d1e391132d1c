"""The queries of the dashboard in ``deploy/grafana``, made ready for a database as Grafana makes them."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

GRAFANA = Path(__file__).resolve().parent.parent / "deploy" / "grafana"
_DAY = 86_400


def read_dashboard():
    """The dashboard as it is provisioned."""
    return json.loads((GRAFANA / "dashboards" / "packstone.json").read_text(encoding="utf-8"))


def expand(sql, server, *, since, until, table="'All'"):
    """Replace the macros that the dashboard uses by what Grafana's data source of this server makes of them."""
    sql = re.sub(r"\$__timeFilter\(([\w.]+)\)", lambda m: _time_filter(m[1], server, since, until), sql)
    sql = re.sub(r"\$__timeGroupAlias\(([\w.]+), '1d'\)", lambda m: _time_group(m[1], server), sql)
    sql = sql.replace("$table", table)
    assert "$" not in sql, sql
    return sql


def _time_filter(column, server, since, until):
    if server == "mariadb":
        return f"{column} BETWEEN FROM_UNIXTIME({int(since.timestamp())}) AND FROM_UNIXTIME({int(until.timestamp())})"
    # SQLite keeps times as text, which Grafana has no data source of its own for: the nearest that compares rightly.
    pattern = "%Y-%m-%d %H:%M:%S" if server == "sqlite" else "%Y-%m-%dT%H:%M:%SZ"
    first, last = (moment.astimezone(UTC).strftime(pattern) for moment in (since, until))
    return f"{column} BETWEEN '{first}' AND '{last}'"


def _time_group(column, server):
    if server == "mariadb":
        return f'UNIX_TIMESTAMP({column}) DIV {_DAY} * {_DAY} AS "time"'
    if server == "sqlite":
        return f"CAST(strftime('%s', {column}) AS INTEGER) / {_DAY} * {_DAY} AS \"time\""
    return f'floor(extract(epoch from {column})/{_DAY})*{_DAY} AS "time"'


def run_query(connection, sql):
    """Ask; the rows as dictionaries, times as datetimes, other numbers as floats."""
    from sqlalchemy import text

    # A colon before a word would be a parameter to SQLAlchemy; Grafana knows none.
    found = connection.execute(text(sql.replace(":", r"\:"))).mappings()
    return [{name: _plain(name, value) for name, value in row.items()} for row in found]


def _plain(name, value):
    if name == "time" and isinstance(value, str):  # SQLite
        return datetime.fromisoformat(value)
    if name == "time" and not isinstance(value, datetime):
        return datetime.fromtimestamp(float(value), UTC)
    return value if value is None or isinstance(value, str | datetime) else float(value)
