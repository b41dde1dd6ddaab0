from tests.services.fixtures import benchmark, database_url, postgres_server, site, sqlite_template

__all__ = ["benchmark", "database_url", "postgres_server", "site", "sqlite_template"]
