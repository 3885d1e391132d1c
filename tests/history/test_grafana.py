"""The dashboard of ``deploy/grafana``: every query on real databases with the records of real runs, and its types."""

import os
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from grafana_queries import GRAFANA, expand, read_dashboard, run_query
from grafana_types import check_types
from sqlalchemy import create_engine, text

RAW = {panel["title"]: panel["targets"][0]["rawSql"] for panel in read_dashboard()["panels"]}


@pytest.fixture(params=["sqlite", "mariadb", "postgres"])
def kind(request, tmp_path, quiet_env, monkeypatch):
    """Each kind of database, with an empty history in it for the runs to come."""
    url = f"sqlite:///{tmp_path}/runs.db" if request.param == "sqlite" else None
    monkeypatch.setenv("PACKSTONE_HISTORY", url or request.getfixturevalue(request.param).fresh())
    return request.param


@pytest.fixture
def runs(kind, packstone, lake):
    """What four runs said: two that merged, one that did a part, one that was refused."""
    lake.parquet("dt=1")
    lake.parquet("dt=2", files=9)
    said = [packstone("compact", lake.table / "dt=1", "--format", "json").json]
    said.append(packstone("compact", lake.table, "--format", "json").json)
    (lake.parquet("dt=3") / "part-broken.parquet").write_bytes(b"PAR1 no footer")
    said.append(packstone("compact", lake.table, "--format", "json").json)
    (lake.parquet("dt=4") / "_temporary").mkdir()
    said.append(packstone("compact", lake.table / "dt=4", "--format", "json").json)
    assert [one["status"] for one in said] == ["committed", "committed", "partial", "refused"]
    return said


def session_settings(kind):
    """How a session begins: in another zone than UTC, as servers have it, then with what the data source sets."""
    if kind == "sqlite":
        return ()
    (source,) = yaml.safe_load((GRAFANA / "datasources" / f"{kind}.yaml").read_text())["datasources"]
    zone = source["jsonData"].get("timezone")
    return ("SET time_zone = '+08:00'", f"SET time_zone = '{zone}'") if zone else ("SET TIME ZONE 'Asia/Shanghai'",)


@pytest.fixture
def ask(kind, runs):
    """Ask a panel's query over the last hour, as Grafana would through the data source that is provisioned."""
    engine = create_engine(os.environ["PACKSTONE_HISTORY"])

    def answer(title, **choices):
        now = datetime.now(UTC)
        times = {"since": now - timedelta(hours=1), "until": now + timedelta(hours=1)} | choices
        with engine.connect() as connection:
            for statement in session_settings(kind):
                connection.execute(text(statement))
            return run_query(connection, expand(RAW[title], kind, **times))

    yield answer
    engine.dispose()


def over_days(rows):
    """Add up rows of days; the test may run over midnight."""
    assert all(row["time"] == row["time"].replace(hour=0, minute=0, second=0, microsecond=0) for row in rows)
    return {name: sum(row[name] for row in rows) for name in rows[0] if name != "time"}


def test_every_panel_shows_what_the_runs_said(ask, runs, lake):
    """The sums, the days, the partitions, the failures and the backlog are those of the runs' own output."""
    units = [unit for one in runs for unit in one["units"]]
    files = {"files_before": sum(len(u["inputs"]) for u in units), "files_after": len(units)}
    saved = sum(unit["bytes_before"] - unit["bytes_after"] for unit in units)
    reads = [pytest.approx(sum(u[f"read_seconds_{when}"] for u in units), abs=1e-3) for when in ("before", "after")]
    assert ask("Files") == [files]
    assert over_days(ask("Files before and after")) == files
    assert ask("Bytes saved") == [{"bytes_saved": saved}]
    assert over_days(ask("Bytes saved a day")) == {"bytes_saved": saved}
    ((before, after),) = [list(row.values()) for row in ask("Read time")]
    assert [before, after] == reads
    assert list(over_days(ask("Read time before and after")).values()) == reads
    assert ask("Failures") == [{"failures": 1}]
    ended = {(row["metric"], row["runs"]) for row in ask("Runs by how they ended")}
    assert ended == {("committed", 2), ("partial", 1), ("refused", 1)}
    newest = ask("Failures, newest first")
    assert [(row["status"], row["table_path"]) for row in newest] == [
        ("refused", str(lake.table / "dt=4")),
        ("partial", str(lake.table)),
    ]
    assert datetime.now(UTC) - newest[0]["time"].replace(tzinfo=UTC) < timedelta(minutes=10)
    assert all(row["message"] for row in newest)


def test_partitions_and_backlog(ask, runs, lake):
    """Each partition has its read times, the one that gained most first; the backlog is of each table's newest run."""
    rows = ask("Read time before and after, by partition")
    assert {(row["table_path"], row["partition_name"]) for row in rows} == {
        (str(lake.table / "dt=1"), "dt=1"),
        (str(lake.table), "dt=2"),
        (str(lake.table), "dt=3"),
    }
    gains = [row["read_seconds_before"] - row["read_seconds_after"] for row in rows]
    assert gains == sorted(gains, reverse=True)
    for row in rows:
        assert row["times_faster"] == pytest.approx(row["read_seconds_before"] / row["read_seconds_after"])
    backlog = ask("Backlog: what the newest run of each table left")
    assert {(row["table_path"], row["kind"], row["left_alone"]) for row in backlog} == {
        (str(lake.table), "unreadable", 1),
        (str(lake.table / "dt=4"), "refused", 1),
    }
    assert all(row["for_example"] for row in backlog)


def test_range_and_table_narrow_every_panel(ask, lake):
    """Another range shows nothing, and a chosen table only its own runs, on every panel."""
    early = {"since": datetime(2020, 1, 1, tzinfo=UTC), "until": datetime(2020, 1, 2, tzinfo=UTC)}
    for title in RAW:
        rows = ask(title, **early)
        assert rows == [] or (len(rows) == 1 and not any(rows[0].values())), title
    only = f"'{lake.table / 'dt=1'}'"
    assert ask("Files", table=only) == [{"files_before": 6, "files_after": 1}]
    assert ask("Failures, newest first", table=only) == []
    assert len(ask("Read time before and after, by partition", table=only)) == 1


@pytest.mark.deploy
def test_dashboard_is_of_grafanas_types(tmp_path):
    """The compiler finds nothing wrong with the dashboard, its variable, its panels, their options and fields."""
    assert check_types(read_dashboard(), tmp_path) == ""


@pytest.mark.deploy
def test_grafanas_types_find_mistakes(tmp_path):
    """The check can fail: each of these mistakes is found where it is made."""
    dashboard = read_dashboard()
    stat, other, _, failures, series = dashboard["panels"][:5]
    dashboard["graphTooltip"] = "shared"
    dashboard["templating"]["list"][0]["refresh"] = "often"
    stat["options"]["colorMode"] = "values"
    other["gridPoz"] = other.pop("gridPos")
    failures["fieldConfig"]["defaults"]["thresholds"]["mode"] = "abs"
    series["fieldConfig"]["defaults"]["custom"]["drawStyle"] = "dots"
    found = check_types(dashboard, tmp_path).splitlines()
    for line, wrong in zip(found, ["Cursor", "Refresh", '"values"', "gridPoz", '"abs"', '"dots"'], strict=True):
        assert wrong in line


def test_dashboard_hangs_together():
    """Every panel asks the provisioned data source, has its own id and place, and the provider points to a folder."""
    dashboard = read_dashboard()
    sources = [yaml.safe_load(path.read_text()) for path in sorted((GRAFANA / "datasources").glob("*.yaml"))]
    uids = {one["uid"] for source in sources for one in source["datasources"]}
    assert [source["datasources"][0]["type"] for source in sources] == ["mysql", "grafana-postgresql-datasource"]
    asked = [panel["datasource"] for panel in dashboard["panels"]]
    asked += [target["datasource"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [variable["datasource"] for variable in dashboard["templating"]["list"]]
    assert {one["uid"] for one in asked} == uids
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) == len(RAW)
    taken = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells
    provider = yaml.safe_load((GRAFANA / "dashboards" / "packstone.yaml").read_text())["providers"][0]
    assert (provider["type"], provider["options"]["path"].startswith("/")) == ("file", True)


def test_variable_lists_the_tables(runs, lake):
    """The choice of tables is a query too."""
    (variable,) = read_dashboard()["templating"]["list"]
    engine = create_engine(os.environ["PACKSTONE_HISTORY"])
    with engine.connect() as connection:
        rows = run_query(connection, variable["query"])
    engine.dispose()
    assert [row["table_path"] for row in rows] == [str(lake.table), str(lake.table / "dt=1"), str(lake.table / "dt=4")]
