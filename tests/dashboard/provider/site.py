"""An OpenID provider for tests, in a process of its own: django-oauth-toolkit with people and their groups.

    python tests/dashboard/provider/site.py PORT FOLDER CLIENT_ID CLIENT_SECRET CALLBACK HOME

Prints `ready` once it answers. People: alice (platform-ops), bob (platform-viewers), mallory (guests), each with the
password PASSWORD. A file FOLDER/groups-of-NAME changes the groups of a person.
"""

import os
import sys
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

PASSWORD = "a-password-at-the-provider"
GROUPS = {"alice": ["platform-ops"], "bob": ["platform-viewers"], "mallory": ["guests"]}
SCOPES = {"sub": "openid", "preferred_username": "profile", "groups": "profile", "email": "email"}


def new_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


def configure(folder: Path, port: str) -> None:
    from django.conf import settings

    settings.configure(
        SECRET_KEY="the-provider-of-a-test-" + "x" * 32,
        ALLOWED_HOSTS=["127.0.0.1"],
        DEBUG_PROPAGATE_EXCEPTIONS=True,  # to stderr, where a failing test shows them
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            "oauth2_provider",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        SESSION_COOKIE_NAME="provider",  # cookies know no ports
        ROOT_URLCONF="__main__",
        LOGIN_URL="/login/",
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "DIRS": [Path(__file__).parent / "templates"],
                "APP_DIRS": True,
                "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
            }
        ],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": folder / "provider.sqlite3",
                "OPTIONS": {"init_command": "PRAGMA synchronous=OFF"},  # a slow disk must not delay answers
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        MIGRATION_MODULES=dict.fromkeys(("auth", "contenttypes", "sessions", "oauth2_provider")),  # tables at once
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        USE_TZ=True,
        OAUTH2_PROVIDER={
            "OIDC_ENABLED": True,
            "OIDC_ISS_ENDPOINT": f"http://127.0.0.1:{port}/o",
            "OIDC_RSA_PRIVATE_KEY": new_key(),
            "OIDC_RP_INITIATED_LOGOUT_ENABLED": True,
            "OIDC_RP_INITIATED_LOGOUT_ALWAYS_PROMPT": False,
            "OIDC_RP_INITIATED_LOGOUT_STRICT_REDIRECT_URIS": True,
            "SCOPES": {"openid": "who you are", "profile": "your name", "email": "your address"},
            "PKCE_REQUIRED": True,
            "OAUTH2_VALIDATOR_CLASS": "__main__.Claims",
        },
    )


def prepare(client: str, secret: str, callback: str, home: str) -> None:
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from oauth2_provider.models import Application

    call_command("migrate", run_syncdb=True, verbosity=0)
    for name in GROUPS:
        User.objects.create_user(name, password=PASSWORD, email="shared@example.com")
    Application.objects.create(
        name="control plane",
        client_id=client,
        client_secret=secret,
        client_type=Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
        redirect_uris=callback,
        post_logout_redirect_uris=home,
        algorithm=Application.RS256_ALGORITHM,
        skip_authorization=True,
    )


class Server(ThreadingMixIn, WSGIServer):
    """Browsers open connections ahead of need: one must not keep the others waiting."""

    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def main(port: str, place: str, *client: str) -> None:
    import django

    folder = Path(place)
    configure(folder, port)
    django.setup()
    from django.contrib.auth.views import LoginView
    from django.core.wsgi import get_wsgi_application
    from django.urls import include, path
    from oauth2_provider.oauth2_validators import OAuth2Validator

    class Claims(OAuth2Validator):  # type: ignore[misc]
        oidc_claim_scope = SCOPES

        def validate_silent_authorization(self, request):
            return True

        def validate_silent_login(self, request):
            return True  # the view has looked before

        def get_additional_claims(self, request):
            name, changed = request.user.username, folder / f"groups-of-{request.user.username}"
            groups = changed.read_text().split() if changed.exists() else GROUPS[name]
            reported = "operator" if name == "alice" else name  # a name that is somebody else's at the control plane
            return {"preferred_username": reported, "groups": groups, "email": request.user.email}

    module = sys.modules["__main__"]
    module.Claims = Claims  # type: ignore[attr-defined]
    module.urlpatterns = [  # type: ignore[attr-defined]
        path("login/", LoginView.as_view(template_name="login.html")),
        path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
    ]
    prepare(*client)
    with make_server("127.0.0.1", int(port), get_wsgi_application(), Server, Quiet) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    os.environ.setdefault("OAUTHLIB_INSECURE_TRANSPORT", "1")  # the loopback interface of one machine
    main(*sys.argv[1:])
