"""Bird song with flax: settings are a Python file that is named on the command line."""

import mlc_birdsong_loop
from absl import app, flags
from ml_collections import config_flags

FLAGS = flags.FLAGS
flags.DEFINE_string("workdir", None, "Where checkpoints go.")
config_flags.DEFINE_config_file("config", None, "The settings.")


def main(_):
    mlc_birdsong_loop.fit(FLAGS.config, FLAGS.workdir)


if __name__ == "__main__":
    app.run(main)
