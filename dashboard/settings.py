"""Settings of the control plane. This file alone reads the environment (a `.env` file beside manage.py is read too)."""

from pathlib import Path
from typing import Any

import environ  # type: ignore[import-untyped]
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from dashboard.environment import Environment
from dashboard.secret_key import kept_secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
if (BASE_DIR / ".env").is_file():
    environ.Env.read_env(BASE_DIR / ".env")
_env = Environment()

# Where things are
STATE_DIR = _env.path("STATE_DIR", BASE_DIR / ".state")
PAIRS_FILE = _env.path("PAIRS_FILE", BASE_DIR / "pairs.toml")
PRICES_FILE = _env.path("PRICES_FILE", BASE_DIR / "prices.json")
USAGE_DIR = _env.text("USAGE_DIR", str(STATE_DIR / "metering"))
REDIS_URL = _env.url("REDIS_URL", "redis://127.0.0.1:6379/0", ("redis", "rediss", "unix"))

# How the control plane behaves
UNDO_WINDOW_S = _env.whole("UNDO_WINDOW_S", 30, least=0, most=3600)
SAMPLE_INTERVAL_S = _env.whole("SAMPLE_INTERVAL_S", 30, least=1, most=3600)
USAGE_FLUSH_S = _env.whole("USAGE_FLUSH_S", 30, least=1, most=45)
CHARGES_INTERVAL_S = _env.whole("CHARGES_INTERVAL_S", 0, least=0, most=86_400)
DEMO = _env.flag("DEMO", False)
METRICS_TOKEN = _env.text("METRICS_TOKEN", "")

# Security. HTTPS is expected as soon as anything but this machine may ask.
DEBUG = _env.flag("DEBUG", False)
LOOPBACK = {"localhost", "127.0.0.1", "[::1]", "testserver"}
ALLOWED_HOSTS = _env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
HTTPS = _env.flag("HTTPS", not LOOPBACK.issuperset(ALLOWED_HOSTS))
SECRET_KEY = _env.text("SECRET_KEY", "") or kept_secret_key(STATE_DIR)
if len(SECRET_KEY) < 32:
    raise ImproperlyConfigured("SECRET_KEY is too short: give at least 32 random characters, or none to have one made.")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = SECURE_HSTS_PRELOAD = HTTPS
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
CSRF_TRUSTED_ORIGINS = _env.words("CSRF_TRUSTED_ORIGINS", "")
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "dashboard.views.errors.csrf_failure"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
AUTHENTICATION_BACKENDS = ["dashboard.backends.GroupBackend"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL, LOGIN_REDIRECT_URL, LOGOUT_REDIRECT_URL = "login", "overview", "login"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
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
    "django.middleware.security.SecurityMiddleware",
    "dashboard.middleware.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.middleware.MembersOnlyMiddleware",
    "dashboard.middleware.ControlPlaneErrorsMiddleware",
]
ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"
WSGI_APPLICATION = "dashboard.wsgi.application"
_LOADERS = ["django.template.loaders.filesystem.Loader", "django.template.loaders.app_directories.Loader"]
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
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
try:
    _database = environ.Env.db_url_config(
        _env.url(
            "DATABASE_URL", f"sqlite:///{STATE_DIR / 'control-plane.sqlite3'}", ("sqlite", "postgres", "postgresql")
        )
    )
except ValueError:
    raise ImproperlyConfigured(
        "DATABASE_URL cannot be read: give sqlite:///FILE or postgres://USER:PASSWORD@HOST/NAME."
    ) from None
if _database["ENGINE"].endswith("sqlite3"):
    # Writers wait for each other instead of failing: the lock is taken when a transaction begins, not in its middle.
    _database["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA busy_timeout=20000; PRAGMA synchronous=FULL;",
    }
    if _database["NAME"] != ":memory:":
        Path(_database["NAME"]).parent.mkdir(parents=True, exist_ok=True)
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
    "formatters": {"line": {"()": "dashboard.logs.formatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": _env.text("LOG_LEVEL", "INFO").upper()},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "propagate": False},
        "azure": {"level": "WARNING"},  # lines for every frame tell nobody anything
    },
}
