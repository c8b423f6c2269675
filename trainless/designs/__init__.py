"""Designs: from data to a trained ensemble that says how sure it is, in one run folder."""
