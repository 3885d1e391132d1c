"""Read and write the bytes of file formats: footers, containers, pages, codecs."""
