"""The history of runs in a SQL database: SQLite by default, MySQL, MariaDB and PostgreSQL by URL.

``packstone.history.store`` is the way in. Nothing is imported here: SQLAlchemy takes a noticeable part of
the half second that ``packstone --help`` may take.
"""
