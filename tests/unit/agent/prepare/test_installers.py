"""Which variables configure installers, and what of their values is secret."""

from anygpu.agent.prepare.installers import installer_variables, url_credentials


def test_proxies_certificates_and_the_settings_of_pip_and_uv_configure_installers() -> None:
    passed = {
        "HTTPS_PROXY": "http://proxy:3128",
        "https_proxy": "http://proxy:3128",
        "no_proxy": "localhost",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "REQUESTS_CA_BUNDLE": "/etc/ca.pem",
        "PIP_INDEX_URL": "https://index/simple",
        "UV_DEFAULT_INDEX": "https://index/simple",
    }
    others = {"AWS_SECRET_ACCESS_KEY": "x", "SSL_KEY": "x", "MY_PROXY": "x", "PIPELINE": "x"}
    assert installer_variables({**passed, **others}) == passed


def test_variables_that_choose_the_target_environment_are_left_out() -> None:
    assert installer_variables({"PIP_TARGET": "/x", "PIP_USER": "1", "UV_SYSTEM_PYTHON": "1"}) == {}


def test_credentials_are_found_in_every_url() -> None:
    texts = [
        "https://me:word@a/simple http://token@b/simple",
        "--find-links=https://c/files",
        "torch @ https://d/e.whl",
    ]
    assert url_credentials(texts) == ["me:word", "token", "word"]
