"""The registry names kernels as text: each name is that of a kernel, which loads the code of its own format only."""

import inspect
import json
import subprocess
import sys

import pytest

from packstone.errors import UnfaithfulError
from packstone.model.files import FileFormat
from packstone.rewrite.small_files.merge_unit import KERNELS, MergeKernel, kernel_of
from packstone.tables.hive.file_facts import MERGED_FORMATS

OPERATIONS = [name for name, _ in inspect.getmembers(MergeKernel, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("file_format", KERNELS)
def test_a_name_stands_for_a_kernel(file_format):
    """Each row of the table can be imported, and takes the arguments that the protocol names."""
    kernel = kernel_of(file_format)
    for name in OPERATIONS:
        wanted = [*inspect.signature(getattr(MergeKernel, name)).parameters][1:]
        assert [*inspect.signature(getattr(kernel, name)).parameters] == wanted


def test_each_format_that_is_planned_has_a_kernel():
    """What a plan may pick can be merged; the name of compressed text as such is replaced by that of its codec."""
    assert MERGED_FORMATS.keys() - {FileFormat.COMPRESSED} == KERNELS.keys()


def test_a_format_without_a_kernel_is_left_alone():
    """An unknown name is an answer for the user, not a failed import."""
    with pytest.raises(UnfaithfulError, match="not merged by this version"):
        kernel_of("lance")


@pytest.mark.parametrize(
    ("file_format", "unwanted"),
    [("parquet", ["orc", "text", "codecs", "block_files"]), ("text", ["orc", "parquet", "codecs", "block_files"])],
)
def test_a_kernel_loads_no_other_format(file_format, unwanted):
    """Whoever merges files of one format does not load the code of the others."""
    program = """
import json, sys
from packstone.rewrite.small_files.merge_unit import kernel_of
kernel_of(sys.argv[1])
print(json.dumps([name for name in sys.modules if name.startswith("packstone.rewrite.")]))
"""
    done = subprocess.run([sys.executable, "-c", program, file_format], capture_output=True, text=True, check=True)
    folders = {name.split(".")[2] for name in json.loads(done.stdout)}
    assert not folders & set(unwanted)
