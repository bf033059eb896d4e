from tests.spark.conftest import classic, classic_session, connect_session, connect_url, lake  # noqa: F401
