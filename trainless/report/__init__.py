"""The report of a run: pictures, charts and tables on one page."""
