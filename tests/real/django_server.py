"""Django OAuth Toolkit, which is not ours, with one client and one user: PORT FOLDER.

The server says that whoever comes is logged in as this user; the toolkit's page asks for consent.
"""

import sys
from typing import Any
from wsgiref.simple_server import make_server

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.urls import include, path


def configure(folder: str) -> None:
    apps = ("auth", "contenttypes", "sessions")
    settings.configure(
        SECRET_KEY="x" * 50,
        ALLOWED_HOSTS=["127.0.0.1"],
        INSTALLED_APPS=[*(f"django.contrib.{app}" for app in apps), "oauth2_provider"],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.auth.middleware.RemoteUserMiddleware",
        ],
        AUTHENTICATION_BACKENDS=["django.contrib.auth.backends.RemoteUserBackend"],
        TEMPLATES=[
            {"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/db"}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        OAUTH2_PROVIDER={
            "SCOPES": {"read": "Read", "write": "Write"},
            "ALLOWED_REDIRECT_URI_SCHEMES": ["http"],
            "PKCE_REQUIRED": False,
        },
    )
    django.setup()
    settings.ROOT_URLCONF = (path("o/", include("oauth2_provider.urls")),)
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User  # noqa: PLC0415 - needs the settings
    from oauth2_provider.models import Application  # noqa: PLC0415

    Application.objects.create(
        client_id="gateway-cli", client_type="public", authorization_grant_type="implicit",
        user=User.objects.create_user("ada"), redirect_uris="http://127.0.0.1/callback",
    )  # fmt: skip


if __name__ == "__main__":
    configure(sys.argv[2])
    django_app = get_wsgi_application()

    def app(environ: dict[str, Any], start: Any) -> Any:
        return django_app({**environ, "REMOTE_USER": "ada"}, start)

    with make_server("127.0.0.1", int(sys.argv[1]), app) as server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        server.serve_forever()
