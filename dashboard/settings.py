"""Settings of the control plane. This file alone reads the environment (a `.env` file is read too)."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ  # type: ignore[import-untyped]
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from dashboard.access.team_groups import problem_of
from dashboard.site.environment import Environment, is_web_address, redis_url
from dashboard.site.places import BASE_DIR, KEY_LENGTH, kept_secret_key, private_file, private_folder
from dashboard.site.places import TEMPLATES as TEMPLATE_DIR
from dashboard.site.processes import FORMATS, LEVELS

STORES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file")
"""Object stores that usage can be written to, by the scheme of their URL."""
REDIS = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
MAIL = ("smtp", "smtp+tls", "smtp+ssl", "filemail")
"""The mail server, with STARTTLS or with TLS from the start; or a folder for mails that are not sent."""
if (BASE_DIR / ".env").is_file():
    environ.Env.read_env(BASE_DIR / ".env")
_env = Environment()

# Where things are
STATE_DIR = private_folder(_env.path("STATE_DIR", BASE_DIR / ".state"))
PAIRS_FILE = _env.path("PAIRS_FILE", BASE_DIR / "pairs.toml")
PRICES_FILE = _env.path("PRICES_FILE", BASE_DIR / "prices.json")
PRICES_REGION = _env.text("PRICES_REGION", "")
USAGE_DIR = _env.text("USAGE_DIR", str(STATE_DIR / "metering"))
if "://" in USAGE_DIR and not USAGE_DIR.startswith(tuple(f"{scheme}://" for scheme in STORES)):
    raise ImproperlyConfigured(
        f"USAGE_DIR is {USAGE_DIR.split('://')[0] + '://…'!r}: give a folder, or {'://… or '.join(STORES)}://…."
    )
_USAGE_URL = urlsplit(USAGE_DIR)
if ":" in _USAGE_URL.netloc and "@" not in _USAGE_URL.netloc and "@" in _USAGE_URL.path:  # it would be shown as a path
    raise ImproperlyConfigured("USAGE_DIR has a key with a / in it: write / as %2F and + as %2B in the URL.")
REDIS_URL = _env.url("REDIS_URL", "redis://127.0.0.1:6379/0", REDIS, redis_url)

# How the control plane behaves
UNDO_WINDOW_S = _env.whole("UNDO_WINDOW_S", 30, least=0, most=3600)
SAMPLE_INTERVAL_S = _env.whole("SAMPLE_INTERVAL_S", 30, least=1, most=3600)
DEMO = _env.flag("DEMO", False)
READINESS_INTERVAL_S = 10 if DEMO else 60
USAGE_FLUSH_S = 10 if DEMO else 30
CHARGES_INTERVAL_S = 180 if DEMO else 0
"""Computations of the running month beside the one of each night; 0: none."""
SIMULATED_UNTIL = _env.moment("SIMULATED_UNTIL")
API_REQUESTS_PER_MINUTE = _env.whole("API_REQUESTS_PER_MINUTE", 600, least=1, most=1_000_000)
METRICS_TOKEN = _env.text("METRICS_TOKEN", "")
LOG_FORMAT = _env.choice("LOG_FORMAT", "text", FORMATS)
LOG_LEVEL = _env.choice("LOG_LEVEL", "INFO", LEVELS)

# Alerts
CHANNELS_FILE = _env.path("CHANNELS_FILE", BASE_DIR / "channels.toml")
ALERT_ALLOWED_NETWORKS = _env.networks("ALERT_ALLOWED_NETWORKS", "127.0.0.0/8,::1/128" if DEMO else "")
PUBLIC_URL = _env.address("PUBLIC_URL", "", "https://HOST/, which people open")
globals().update(_env.url("EMAIL_URL", "smtp://localhost:25", MAIL, environ.Env.email_url_config))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = _env.text("EMAIL_FROM", "paired-namespaces@localhost")

# Security. HTTPS is expected as soon as anything but this machine may ask.
DEBUG = _env.flag("DEBUG", False)
LOOPBACK = {"localhost", "127.0.0.1", "[::1]", "testserver"}
ALLOWED_HOSTS = _env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
TRUSTED_PROXIES = [str(network) for network in _env.networks("TRUSTED_PROXIES", "")]
if any("/" in name for name in ALLOWED_HOSTS):
    raise ImproperlyConfigured(
        "ALLOWED_HOSTS has an address: give names of hosts, without https://, separated by commas."
    )
HTTPS = _env.flag("HTTPS", not LOOPBACK.issuperset(ALLOWED_HOSTS))
SECRET_KEY = _env.text("SECRET_KEY", "") or kept_secret_key(STATE_DIR)
if len(SECRET_KEY) < KEY_LENGTH:
    raise ImproperlyConfigured(
        f"SECRET_KEY is too short: give at least {KEY_LENGTH} random characters, or unset it to have one generated."
    )
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = SECURE_HSTS_PRELOAD = HTTPS
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
CSRF_TRUSTED_ORIGINS = _env.words("CSRF_TRUSTED_ORIGINS", "")
if not all(is_web_address(origin.replace("://*.", "://")) for origin in CSRF_TRUSTED_ORIGINS):
    raise ImproperlyConfigured("CSRF_TRUSTED_ORIGINS has addresses: give https://HOST, separated by commas.")
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "dashboard.site.error_pages.csrf_failure"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_HOURS = _env.whole("SESSION_HOURS", 12, least=1, most=24 * 30)
SESSION_IDLE_MINUTES = _env.whole("SESSION_IDLE_MINUTES", 120, least=0, most=24 * 60)
SESSION_COOKIE_AGE = SESSION_HOURS * 3600
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL, LOGIN_REDIRECT_URL, LOGOUT_REDIRECT_URL = "login", "overview", "login"

# Signing in: with a password of this control plane, through an OpenID provider, or both.
LOCAL_LOGIN = _env.flag("LOCAL_LOGIN", True)
OIDC_ISSUER = _env.text("OIDC_ISSUER", "")
OIDC_RP_CLIENT_ID = _env.text("OIDC_CLIENT_ID", "")
OIDC_RP_CLIENT_SECRET = _env.text("OIDC_CLIENT_SECRET", "")
OIDC_RP_SCOPES = _env.text("OIDC_SCOPES", "openid profile email")
OIDC_GROUPS_CLAIM = _env.text("OIDC_GROUPS_CLAIM", "groups")
OIDC_LETS_IN = {
    "viewer": _env.words("OIDC_VIEWERS", "viewer"),
    "operator": _env.words("OIDC_OPERATORS", "operator"),
    "administrator": _env.words("OIDC_ADMINISTRATORS", "administrator"),
}
OIDC_PAIR_GROUPS = _env.words("OIDC_PAIR_GROUPS", "")
if OIDC_ISSUER:
    if not is_web_address(OIDC_ISSUER) or not re.match(
        r"https://[^/]|http://(localhost|127\.0\.0\.1)(:\d+)?(/|\Z)", OIDC_ISSUER
    ):
        raise ImproperlyConfigured(
            "OIDC_ISSUER is not an address that can be trusted: give https://… exactly as the provider does."
        )
    if not OIDC_RP_CLIENT_ID or not OIDC_RP_CLIENT_SECRET:
        raise ImproperlyConfigured(
            "OIDC_ISSUER needs OIDC_CLIENT_ID, and OIDC_CLIENT_SECRET or OIDC_CLIENT_SECRET_FILE."
        )
    if problem := problem_of(OIDC_PAIR_GROUPS):
        raise ImproperlyConfigured(problem)
elif not LOCAL_LOGIN:
    raise ImproperlyConfigured("LOCAL_LOGIN=0 without OIDC_ISSUER would prevent everybody from signing in.")
AUTHENTICATION_BACKENDS = [
    *(["dashboard.access.visibility.GroupBackend"] if LOCAL_LOGIN else []),
    *(["dashboard.access.oidc.backend.OidcBackend"] if OIDC_ISSUER else []),
]
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        # Browsers ask this also of where a sign-out is sent on to.
        "form-action": [SELF, *(["/".join(OIDC_ISSUER.split("/")[:3])] if OIDC_ISSUER else [])],
        "frame-ancestors": [NONE],
    }
}

INSTALLED_APPS = [
    "dashboard.apps.DashboardConfig",
    "dashboard.apps.ControlPlaneAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "template_partials.apps.SimpleAppConfig",
    "csp",
]
MIDDLEWARE = [
    "dashboard.middleware.RequestIdMiddleware",
    "dashboard.middleware.ProbesMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "dashboard.middleware.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "dashboard.access.visibility.VisiblePairsMiddleware",
    "dashboard.access.sessions.SessionLimitsMiddleware",
    "dashboard.access.sessions.SignInFirstMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.middleware.MembersOnlyMiddleware",
    "dashboard.middleware.ControlPlaneErrorsMiddleware",
]
ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"
_LOADERS = ["django.template.loaders.filesystem.Loader", "django.template.loaders.app_directories.Loader"]
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [TEMPLATE_DIR],
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dashboard.context.page",
            ],
            "loaders": [
                (
                    "template_partials.loader.Loader",
                    _LOADERS if DEBUG else [("django.template.loaders.cached.Loader", _LOADERS)],
                )
            ],
            "builtins": ["template_partials.templatetags.partials", "dashboard.templatetags.dashboard"],
        },
    }
]

# Data
_database = _env.url(
    "DATABASE_URL",
    f"sqlite:///{STATE_DIR / 'control-plane.sqlite3'}",
    ("sqlite", "postgres", "postgresql"),
    environ.Env.db_url_config,
)
if _database["ENGINE"].endswith("sqlite3"):
    # Writers wait for each other instead of failing: the lock is taken when a transaction begins, not in its middle.
    _database["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA busy_timeout=20000; PRAGMA synchronous=FULL;",
    }
    if _database["NAME"] != ":memory:":
        private_file(Path(_database["NAME"]))
else:
    # Each can be replaced in the query of DATABASE_URL.
    _database["OPTIONS"] = {
        # The locks of a process that is frozen or cut off in a transaction block others for at most this long.
        "options": "-c idle_in_transaction_session_timeout=60s",
        # A host that is gone refuses nothing: without limits a page waits two minutes for it, and a worker with an open
        # connection up to two hours.
        "connect_timeout": 5,
        "tcp_user_timeout": 15_000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    } | _database.get("OPTIONS", {})
DATABASES = {"default": _database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Texts, times and files
USE_TZ, TIME_ZONE, LANGUAGE_CODE, USE_I18N = True, "UTC", "en", False
STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 60
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "dashboard.site.processes.formatter", "format": LOG_FORMAT}},
    "filters": {
        "without queries": {"()": "dashboard.site.processes.WithoutQueries"},
        "one line": {"()": "dashboard.site.processes.OneLine"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["one line"]}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "propagate": False, "filters": ["without queries"]},
        "urllib3": {"filters": ["without queries"]},
        "urllib3.connectionpool": {"filters": ["without queries"]},
        "azure": {"level": "WARNING"},  # log lines for every frame are not useful
        "authlib": {"level": "INFO"},  # below that it logs the code verifier of each sign-in
    },
}
