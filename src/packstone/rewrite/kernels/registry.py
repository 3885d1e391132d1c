"""Which kernel merges which format; a new format is a module and a row here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from packstone.errors import UnfaithfulError
from packstone.model.file_format import FileFormat
from packstone.rewrite.block_files import avro_blocks, rc_file, sequence_file
from packstone.rewrite.codecs.text_codec import TextCodec, format_of
from packstone.rewrite.kernels import orc_kernel, parquet_kernel, text_kernel
from packstone.rewrite.kernels.block_kernel import BlockKernel
from packstone.rewrite.kernels.compressed_text_kernel import CompressedTextKernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.rewrite.kernels.merge_kernel import MergeKernel
    from packstone.storage.fileio import FileIO

KERNELS: Final[Mapping[str, MergeKernel]] = {
    FileFormat.PARQUET: parquet_kernel,
    FileFormat.TEXT: text_kernel,
    FileFormat.ORC: orc_kernel,
    **{format_of(codec): CompressedTextKernel(codec) for codec in TextCodec},
    FileFormat.AVRO: BlockKernel(blocks=avro_blocks),
    FileFormat.SEQUENCE_FILE: BlockKernel(blocks=sequence_file),
    FileFormat.RC_FILE: BlockKernel(blocks=rc_file),
}


def kernel_of(file_format: str) -> MergeKernel:
    """The kernel that merges files of a format; UnfaithfulError if this version has none."""
    kernel = KERNELS.get(file_format)
    if kernel is None:
        raise UnfaithfulError(f"{file_format} files are not merged by this version")
    return kernel


def read_through(io: FileIO, path: str, file_format: str) -> None:
    """Decode a whole file."""
    kernel_of(file_format).read_through(io, path)
