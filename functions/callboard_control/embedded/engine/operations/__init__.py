"""DynamoDB's operations, one file a group. Each takes the engine's core and a request and returns the answer's body."""
