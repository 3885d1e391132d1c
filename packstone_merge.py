"""The classic job: ``spark-submit packstone_merge.py FS PARTITION BLOCKSIZE``; options of ``packstone merge``."""

import sys

from packstone.cli.main import run

if __name__ == "__main__":
    sys.exit(run(["merge", *sys.argv[1:]]))
