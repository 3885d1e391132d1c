"""The hazards that HDFS itself puts in the way, met on a real NameNode; ``docs/hazards.md`` names them all."""

import pytest
from hdfs_cluster import HdfsCluster
from hdfs_lake import HdfsLake

from packstone.storage.store_checks import why_no_move
from packstone.storage.stores import open_store


@pytest.fixture
def hdfs_lake(hdfs, use_hdfs):
    """A table on HDFS: Parquet and text, six files each."""
    return HdfsLake(hdfs, f"{use_hdfs}/orders")


def kept_like(cluster, path):
    """Owner, group, mode, replication and ACL of a file, as Hadoop's own client prints them."""
    client = cluster.client()
    found, acl = client.get_file_info(path), client.get_acl_status(path)
    entries = sorted((each.type, each.name, each.permissions) for each in acl.entries)
    return found.owner, found.group, oct(found.permission), found.replication, entries


def make_alike(cluster, path, *, acl):
    """Give a file an owner, a group, a mode, a replication and an ACL that nobody has by default."""
    from hdfs_native import AclEntry

    client = cluster.client()
    client.set_owner(path, "ann", "analysts")
    client.set_permission(path, 0o640)
    client.set_replication(path, 2)
    if acl:
        entries = [("user", None, "rw-"), ("user", acl, "r--"), ("group", None, "r--"), ("mask", None, "r--")]
        client.set_acl(
            path, [AclEntry(kind, "access", may, name) for kind, name, may in [*entries, ("other", None, "---")]]
        )


def test_hazard_22_owner_and_acl_on_hdfs(hdfs, hdfs_lake, packstone):
    """Outputs get owner, group, mode and ACL of their inputs; inputs that differ in the ACL are never mixed."""
    folder = f"{hdfs_lake.inside}/f=parquet"
    for number, name in enumerate(hdfs_lake.names("f=parquet")):
        make_alike(hdfs, f"{folder}/{name}", acl="joe" if number < 3 else "jane")
    wanted = sorted({str(kept_like(hdfs, f"{folder}/{name}")) for name in hdfs_lake.names("f=parquet")})
    done = packstone("compact", f"{hdfs_lake.address}/f=parquet", "--set", "min-files=2", "--format", "json")
    assert (done.code, done.json["files_after"]) == (0, 2), done
    assert sorted(str(kept_like(hdfs, f"{folder}/{name}")) for name in hdfs_lake.names("f=parquet")) == wanted
    assert len(wanted) == 2
    hdfs_lake.check_rows()


def test_a_default_acl_of_the_folder_above_opens_nothing_on_hdfs(hdfs, hdfs_lake, packstone):
    """What is kept beside a table has no entry that the folder above hands down and the table does not have."""
    from hdfs_native import AclEntry

    client, above = hdfs.client(), hdfs_lake.inside.rpartition("/")[0]
    entries = [("user", None, "rwx"), ("user", "joe", "r-x"), ("group", None, "r-x"), ("mask", None, "r-x")]
    default = [AclEntry(kind, "default", may, name) for kind, name, may in [*entries, ("other", None, "---")]]
    client.modify_acl_entries(above, default)
    try:
        done = packstone("compact", f"{hdfs_lake.address}/f=parquet", "--set", "min-files=2", "--format", "json")
        assert done.code == 0, done
        state = f"{above}/.packstone/{hdfs_lake.inside.rpartition('/')[2]}"
        assert client.get_acl_status(f"{above}/.packstone").entries
        assert [client.get_acl_status(path).entries for path in (state, f"{state}/backup", f"{state}/runs")] == [[]] * 3
    finally:
        client.remove_acl(above)


def test_hazard_23_replication(hdfs, hdfs_lake, packstone):
    """Outputs have the replication of their inputs; inputs of different replications are never mixed."""
    folder, client = f"{hdfs_lake.inside}/f=text", hdfs.client()
    for number, name in enumerate(hdfs_lake.names("f=text")):
        client.set_replication(f"{folder}/{name}", 3 if number % 2 else 2)
    done = packstone("compact", f"{hdfs_lake.address}/f=text", "--set", "min-files=2", "--format", "json")
    assert (done.code, done.json["files_after"]) == (0, 2), done
    found = [client.get_file_info(f"{folder}/{name}").replication for name in hdfs_lake.names("f=text")]
    assert sorted(found) == [2, 3]
    hdfs_lake.check_rows()


@pytest.mark.soak
def test_hazard_23_storage_policies(hdfs, hdfs_lake, packstone):
    """A published output has the storage policy of its partition's folder, as Hadoop's own tool says, and its rows."""
    tool = ("org.apache.hadoop.hdfs.tools.StoragePolicyAdmin", "-fs", hdfs.direct_url)
    folder = f"{hdfs_lake.inside}/f=text"
    hdfs.java(*tool, "-setStoragePolicy", "-path", folder, "-policy", "WARM")
    done = packstone("compact", hdfs_lake.address, "--format", "json")
    assert (done.code, done.json["files_after"]) == (0, 2), done
    (merged,) = hdfs_lake.names("f=text")
    assert "BlockStoragePolicy{WARM:" in hdfs.java(*tool, "-getStoragePolicy", "-path", f"{folder}/{merged}")
    (other,) = hdfs_lake.names("f=parquet")
    said = hdfs.java(*tool, "-getStoragePolicy", "-path", f"{hdfs_lake.inside}/f=parquet/{other}")
    assert "is unspecified" in said
    hdfs_lake.check_rows()


def test_hazard_24_quotas_on_hdfs(hdfs, hdfs_lake, packstone):
    """A space quota without room for staging refuses before anything is written, and ``health`` names it."""
    parent = hdfs_lake.inside.rpartition("/")[0]
    hdfs.admin("-setSpaceQuota", "64m", parent)  # room for records, not for a block of data
    done = packstone("compact", hdfs_lake.address, "--format", "json")
    assert done.code == 3, done
    assert "are free in" in done.skipped("f=text")
    assert hdfs_lake.content() == hdfs_lake.before
    (found,) = packstone("health", hdfs_lake.address, "--format", "json").json["hazards"]
    assert found["hazard"] == "hdfs-quota"
    assert found["evidence"].endswith("a file takes a block of 128.0 MB while it is written")


def test_hazard_25_snapshots(hdfs, hdfs_lake, packstone):
    """``health`` names snapshots that keep merged files alive; a merge leaves them as they are, with all rows."""
    parent = hdfs_lake.inside.rpartition("/")[0]
    hdfs.admin("-allowSnapshot", parent)
    hdfs.shell("-createSnapshot", parent, "s1")
    (found,) = packstone("health", hdfs_lake.address, "--format", "json").json["hazards"]
    assert (found["hazard"], found["evidence"].partition(" keep ")[0]) == (
        "hdfs-snapshots",
        f"1 snapshots of {hdfs.url}{parent}",
    )
    assert packstone("compact", hdfs_lake.address, "--format", "json").json["status"] == "committed"
    hdfs_lake.check_rows()
    kept = f"{parent}/.snapshot/s1/orders/f=text"
    contents = [hdfs.get(each.path) for each in hdfs.client().list_status(kept)]
    assert sorted(int(line) for content in contents for line in content.splitlines()) == hdfs_lake.ids


@pytest.mark.soak
@pytest.mark.hdfs
def test_hazard_20_encryption_zones(tmp_path, packstone, monkeypatch):
    """A partition that is an encryption zone of its own is left alone with the reason, and the others are merged."""
    keys = f"jceks://file@{tmp_path}/keys.jceks"
    cluster = HdfsCluster(tmp_path / "hdfs", **{"hadoop.security.key.provider.path": keys})
    cluster.java("org.apache.hadoop.crypto.key.KeyShell", "create", "k1", "-size", "128", "-provider", keys)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.conf))
    try:
        cluster.start()
        lake = HdfsLake(cluster, f"{cluster.url}/db/orders")
        zone = f"{lake.inside}/f=zone"
        cluster.client().mkdirs(zone)
        provider = f"hadoop.security.key.provider.path={keys}"
        admin = ("org.apache.hadoop.hdfs.tools.CryptoAdmin", "-fs", cluster.direct_url, "-D", provider)
        cluster.java(*admin, "-createZone", "-keyName", "k1", "-path", zone)
        for number in range(6):
            (tmp_path / f"part-{number}.csv").write_bytes(b"%d\n" % number)
        cluster.shell("-D", provider, "-put", *(str(tmp_path / f"part-{number}.csv") for number in range(6)), zone)
        done = packstone("compact", lake.address, "--format", "json")
        assert done.json["status"] in ("partial", "committed"), done
        skipped = {skip["what"]: skip["why"] for skip in done.json["skipped"] if skip["kind"] == "unreadable"}
        assert sorted(skipped) == [f"f=zone/part-{number}.csv" for number in range(6)], done
        assert all("encryption zone" in why for why in skipped.values())
        io = open_store(lake.address)
        assert "encryption zone" in why_no_move(io, f"{lake.address}/f=text", f"{cluster.url}{zone}")
        assert "encryption zone" in why_no_move(io, f"{cluster.url}{zone}", f"{cluster.url}/db/.packstone")
        assert why_no_move(io, f"{lake.address}/f=text", f"{cluster.url}/db/.packstone") is None
        lake.check_rows()
        printed = cluster.shell("-D", provider, "-cat", f"{zone}/part-*").splitlines()
        assert [line for line in printed if line.isdigit()] == [str(number) for number in range(6)]
    finally:
        cluster.stop()
