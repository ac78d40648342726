"""The `callboard` command line: a file a verb, loaded when it is called."""
