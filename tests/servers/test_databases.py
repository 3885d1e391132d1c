"""The database servers that other tests use."""

import sqlalchemy


def test_each_database_is_fresh_and_takes_unicode(database_server):
    """Two databases of one server know nothing of each other, and text of any script comes back as it was."""
    urls = (database_server.fresh(), database_server.fresh())
    for url in urls:
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("create table words (word varchar(20))"))
            connection.execute(sqlalchemy.text("insert into words values ('Grüße 表 🪨')"))
            found = connection.execute(sqlalchemy.text("select word from words")).scalars().all()
        assert found == ["Grüße 表 🪨"]
