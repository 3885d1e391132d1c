"""A table of small files on HDFS, in any format, written and read by a client and readers that are not ours."""

from format_files import FORMATS


class HdfsLake:
    """A table with a partition for each format, of as many files with ten rows each."""

    def __init__(self, cluster, address, *, formats=("parquet", "text"), files=6):
        self.cluster, self.address, self.formats = cluster, address, formats
        self.inside = address.removeprefix(cluster.url)
        self.ids = list(range(files * 10))
        for name in formats:
            ending, write, _ = FORMATS[name]
            for number in range(files):
                content = write(self.ids[number * 10 : number * 10 + 10])
                cluster.put(f"{self.inside}/f={name}/part-{number}.{ending}", content)
        self.before = self.content()

    def names(self, folder):
        """The names in a folder."""
        found = self.cluster.client().list_status(f"{self.inside}/{folder}")
        return sorted(each.path.rpartition("/")[2] for each in found)

    def content(self):
        """The bytes of all files of the partitions by their names."""
        return {
            f"{name}/{file}": self.cluster.get(f"{self.inside}/f={name}/{file}")
            for name in self.formats
            for file in self.names(f"f={name}")
        }

    def rows(self):
        """The ids of all rows by format, duplicates too."""
        found = {name: [] for name in self.formats}
        for path, data in self.content().items():
            name = path.partition("/")[0]
            found[name] += FORMATS[name][2](data)
        return {name: sorted(ids) for name, ids in found.items()}

    def check_rows(self, where=""):
        """Every row is there once."""
        assert self.rows() == dict.fromkeys(self.formats, self.ids), where

    def staged(self):
        """What is left in the staging folders."""
        parent, _, name = self.inside.rpartition("/")
        client, at = self.cluster.client(), f"{parent}/.packstone/{name}/staging"
        try:
            return [each.path for each in client.list_status(at, recursive=True) if not each.isdir]
        except FileNotFoundError:
            return []
