"""Footers of Parquet files, changed as no writer at hand would write them."""

from packstone.rewrite.formats.parquet_thrift import BINARY, I32, read_struct, write_struct

ROW_GROUPS, CREATED_BY, COLUMNS, META_DATA, CODEC = 4, 6, 1, 3, 4


def edit_footer(path, change):
    """Let a function change the footer, a thrift struct, and write it back."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = read_struct(data[-8 - length : -8])
    change(footer)
    made = write_struct(dict(sorted(footer.items())))
    path.write_bytes(data[: -8 - length] + made + len(made).to_bytes(4, "little") + b"PAR1")


def set_created_by(path, name):
    """Name another writer; None for no name."""

    def change(footer):
        footer.pop(CREATED_BY, None)
        if name is not None:
            footer[CREATED_BY] = BINARY, name.encode()

    edit_footer(path, change)


def set_codec(path, number, *, last_group_only=False):
    """Name another codec, without compressing anything."""

    def change(footer):
        for group in footer[ROW_GROUPS][1].items[-1 if last_group_only else 0 :]:
            for chunk in group[COLUMNS][1].items:
                chunk[META_DATA][1][CODEC] = I32, number

    edit_footer(path, change)
