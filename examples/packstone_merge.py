"""The classic merge job: spark-submit packstone_merge.py FS PARTITION BLOCKSIZE [options of `packstone merge`].

For example: spark-submit --master yarn packstone_merge.py file:/// /mnt/lake/orders/dt=20190101 120M

It is `packstone merge` on the Spark that spark-submit provides: the same options, output and exit codes.
"""

import sys

from packstone.cli.main import main

if __name__ == "__main__":
    main(["merge", *sys.argv[1:]])
