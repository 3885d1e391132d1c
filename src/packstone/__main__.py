"""``python -m packstone``: the same as the command ``packstone``."""

from packstone.cli.main import main

if __name__ == "__main__":
    main()
