"""DynamoDB's expression language: `lexer` → `parser` → `syntax` trees, bound to a request by `scope`, then evaluated by
`conditions`, `updates` and `projections`.
"""
