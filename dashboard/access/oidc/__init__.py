"""Signing in through an OpenID provider; off unless OIDC_ISSUER is set (docs/security.md)."""
