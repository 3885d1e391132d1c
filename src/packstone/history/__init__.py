"""The history of runs in a SQL database: SQLite by default, MySQL, MariaDB and PostgreSQL by URL.

Start with ``packstone.history.store``. Nothing is imported here, because importing SQLAlchemy takes a noticeable part
of the half second that ``packstone --help`` may take.
"""
