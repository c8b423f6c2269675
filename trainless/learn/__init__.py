"""Training, ensembles and honest uncertainty: what is done with the few architectures that a search ends with."""
