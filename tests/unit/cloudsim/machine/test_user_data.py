import gzip
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from anygpu.cloudsim.machine.user_data import ParsedUserData, parse_user_data

SCRIPT = "#!/bin/sh\necho hi\n"
CONFIG = """#cloud-config
ssh_authorized_keys: [ssh-ed25519 AAAA me]
users:
  - default
  - {name: you, ssh_authorized_keys: [ssh-ed25519 BBBB you]}
runcmd:
  - shutdown -h +60
  - [touch, a file]
"""


def test_a_script_is_run_unchanged() -> None:
    assert parse_user_data(SCRIPT.encode()) == ParsedUserData((SCRIPT,))


def test_a_gzipped_script_is_unpacked() -> None:
    assert parse_user_data(gzip.compress(SCRIPT.encode())) == ParsedUserData((SCRIPT,))


def test_text_that_is_neither_script_nor_config_is_ignored() -> None:
    assert parse_user_data(b"echo hi") == parse_user_data(b"") == ParsedUserData()


def test_cloud_config_gives_keys_and_commands() -> None:
    start = parse_user_data(CONFIG.encode())
    assert start.keys == ("ssh-ed25519 AAAA me", "ssh-ed25519 BBBB you")
    assert start.scripts == ("#!/bin/sh\nshutdown -h +60\ntouch 'a file'\n",)


def test_every_part_of_a_mime_message_is_used() -> None:
    message = MIMEMultipart()
    message.attach(MIMEText(CONFIG, "cloud-config"))
    message.attach(MIMEText(SCRIPT, "x-shellscript"))
    start = parse_user_data(message.as_bytes())
    assert len(start.scripts) == 2
    assert start.scripts[1] == SCRIPT
    assert len(start.keys) == 2
