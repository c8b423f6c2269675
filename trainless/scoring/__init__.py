"""Evaluating candidates: which network, on which batch, by which proxies, and where the scores are kept."""
