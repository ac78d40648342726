"""What DynamoDB does, as tables of checks, each run against the embedded engine and against ministack.

The expectations are those of the developer guide and the API reference, and, where these are silent or wrong, of what
others measured on AWS. No check was run against AWS itself. Where ministack differs, `ministack_differs` says how:
those checks must fail there (strict), so that a better ministack makes itself known.
"""
