"""Contract checks that are shipped: what the rest relies on, for anyone who adds to it."""

from trainless.testing.executors import check_executor
from trainless.testing.networks import check_network
from trainless.testing.proxies import check_proxy
from trainless.testing.searchers import check_searcher
from trainless.testing.spaces import check_space

__all__ = ["check_executor", "check_network", "check_proxy", "check_searcher", "check_space"]
