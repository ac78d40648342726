"""Processes of a run on Windows: a job object holds all of them. `programs` is plain and runs anywhere."""
